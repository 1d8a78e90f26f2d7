"""An exported file holds everything: read back as the page reads it, it gives the weights."""

import base64
import gzip
import html.parser
import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from sight.explorer.small import seen_of
from sight.explorer.unpacked import unpack
from sight.explorer.written import hidden_to_allowed, weights

from regard.attention.biases import ALiBi
from regard.attention.call import Call
from regard.attention.masks import Mask, causal, keep, lengths, window
from regard.errors import RegardError
from regard.sight.explorer import export as export_module
from regard.sight.explorer.export import embedded, exported
from regard.sight.explorer.watched import example_of

MASKS: dict[str, Mask | None] = {
    "none": None,
    "causal": causal(),
    "padded": causal() & lengths(torch.tensor([33])),
    "window": window(5),
    "some": keep(torch.rand(1, 41, 41, generator=torch.Generator().manual_seed(1)) < 0.4),
    "some heads": keep(torch.rand(1, 4, 41, 41, generator=torch.Generator().manual_seed(1)) < 0.4),
}


def call_of(mask: Mask | None, width: int = 8, keys: int = 4) -> Call:
    return Call(torch.randn(1, 4, 41, width), torch.randn(1, keys, 41, width), mask)


def open_pairs(header: dict[str, Any], arrays: dict[str, np.ndarray], heads: int = 4) -> np.ndarray:
    """Who may look at whom, by the words of the protocol."""
    row, column = np.arange(41)[:, None], np.arange(41)
    low, high = header["band"]
    found = np.ones((heads, 41, 41), dtype=bool)
    found &= True if low is None else column - row >= low
    found &= True if high is None else column - row <= high
    if "queries" in arrays:
        found &= arrays["queries"][:, :, None] == 1
    if "keys" in arrays:
        found &= arrays["keys"][:, None, :] == 1
    if "hidden" in arrays:
        bits = np.unpackbits(arrays["hidden"], axis=-1)[..., :41]
        found &= bits == 0
    return found


def computed(header: dict[str, Any], arrays: dict[str, np.ndarray], kind: str) -> np.ndarray:
    """The weights as the page gets them."""
    if kind == "maps":
        return (arrays["weights"] / 255.0) ** 2
    group = len(arrays["q"]) // len(arrays["k"])
    scores = arrays["q"] @ arrays["k"].repeat(group, 0).transpose(0, 2, 1)
    with np.errstate(invalid="ignore"):
        found = np.exp(scores - arrays["lse"][..., None])
    return np.where(open_pairs(header, arrays) & np.isfinite(arrays["lse"])[..., None], found, 0.0)


@pytest.mark.parametrize("kind", ["qk", "maps"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_both_forms_give_the_weights(mask: Mask | None, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = call_of(mask, width=2 if kind == "qk" else 128)  # narrow vectors are small, wide ones are not
    form = embedded(call, cross=False)
    assert form.kind == kind
    header, arrays = unpack(gzip.decompress(form.data))
    exact = weights(call)[0].numpy()
    tolerance = 2e-3 if kind == "qk" else 1 / 255
    np.testing.assert_allclose(computed(header, arrays, kind), exact, atol=tolerance)
    wanted = np.ones_like(exact, dtype=bool) if mask is None else hidden_to_allowed(call)[0].numpy()
    np.testing.assert_array_equal(open_pairs(header, arrays), wanted)


def test_keys_that_heads_share_are_written_once() -> None:
    form = embedded(call_of(causal(), width=2, keys=2), cross=False)
    _, arrays = unpack(gzip.decompress(form.data))
    assert len(arrays["k"]) == 2


def test_summaries_and_measures_come_along() -> None:
    call = call_of(causal())
    header, arrays = unpack(gzip.decompress(embedded(call, cross=False).data))
    w = weights(call)[0]
    np.testing.assert_allclose(arrays["entropies"], -torch.xlogy(w, w).sum(-1), atol=3e-3)
    np.testing.assert_allclose(arrays["received"], w.sum(1), rtol=1e-4)
    assert header["measures"] == ["entropy", "distance", "sink", "previous", "peak"]
    np.testing.assert_allclose(arrays["entropy"], -torch.xlogy(w, w).sum(-1).mean(-1), rtol=1e-4)
    np.testing.assert_allclose(arrays["sink"], w[:, :, 0].mean(-1), rtol=1e-4)


def test_what_a_page_cannot_compute_becomes_maps_and_says_so() -> None:
    call = Call(torch.randn(1, 4, 41, 2), torch.randn(1, 4, 41, 2), causal(), ALiBi(4))
    form = embedded(call, cross=False)
    assert form.kind == "maps"
    assert "bias" in form.why


def test_too_much_for_a_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_module, "_MAX_PAIRS", 1000)
    call = Call(torch.randn(1, 4, 41, 2), torch.randn(1, 4, 41, 2), causal(), ALiBi(4))
    with pytest.raises(RegardError, match=r"too much for a file: .* seen.show"):
        embedded(call, cross=False)


class Scripts(html.parser.HTMLParser):
    """The scripts of a page by their ids, as a browser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.policies: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.inside = (told.get("id") or "page") if tag == "script" else ""
        if told.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(told["content"] or "")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.found[self.inside] = self.found.get(self.inside, "") + data

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\u2028",
    "‮",
    "\x00",
    "'\"&amp;",
    "{@html x}",
]


def test_a_file_holds_the_manifest_and_a_pack_for_every_layer() -> None:
    tokens = [*HOSTILE, "a", "b"]
    page = Scripts(exported([example_of(seen_of(len(tokens), batch=2), tokens)], title="t</title>"))
    manifest = json.loads(page.found["regard-data"])["manifest"]
    assert manifest["mode"] == "exported"
    assert manifest["title"] == "t</title>"
    example = manifest["exhibits"][0]
    assert example["sides"][0]["tokens"][1] == tokens
    assert example["can"] == {"touch": False, "input": [], "importance": False}
    names = {name for name in page.found if name.startswith("pack:")}
    assert names == {f"pack:layer/0/{layer}/{entry}" for layer in range(2) for entry in range(2)}
    for name in names:
        header, _ = unpack(gzip.decompress(base64.b64decode(page.found[name])))
        assert header["band"] == [None, 0]
    assert all(form["kind"] in ("qk", "maps") for layer in example["layers"] for form in layer["form"])


def test_a_file_forbids_itself_everything_but_its_own_script() -> None:
    (policy,) = Scripts(exported([example_of(seen_of(4))])).policies
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy


def test_nothing_of_a_file_comes_from_elsewhere() -> None:
    page = exported([example_of(seen_of(4))])
    for word in ("https://", "http://", "//cdn", "@import"):
        outside = [page[at : at + 60] for at in range(len(page)) if page.startswith(word, at)]
        assert all("www.w3.org" in each for each in outside), outside  # names of formats, never fetched


def test_a_picture_comes_along() -> None:
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    page = Scripts(exported([example_of(seen_of(7), image=pixels, grid=(2, 3))]))
    _, arrays = unpack(gzip.decompress(base64.b64decode(page.found["pack:media/0/0/0"])))
    np.testing.assert_array_equal(arrays["pixels"], pixels)


@pytest.mark.parametrize("kind", ["qk", "maps"])
def test_a_file_says_which_queries_give_no_number(kind: str) -> None:
    call = call_of(causal(), width=64 if kind == "maps" else 2)
    call.query[0, 2, 9, 1] = torch.nan
    form = embedded(call, cross=False)
    assert form.kind == kind
    _, arrays = unpack(gzip.decompress(form.data))
    assert np.argwhere(np.isposinf(arrays["lse"])).tolist() == [[2, 9]]
    assert np.argwhere(np.isposinf(arrays["entropies"])).tolist() == [[2, 9]]
    assert np.argwhere(np.isposinf(arrays["received"])).tolist() == [[2, key] for key in range(10)]


def test_half_a_character_in_a_token_is_written() -> None:
    tokens = ["\ud83d", *"abcdefgh"]
    page = exported([example_of(seen_of(9), tokens)])
    page.encode()
    held = re.search(r'id="regard-data">(.*?)</script>', page, re.DOTALL)
    assert held
    assert json.loads(held[1])["manifest"]["exhibits"][0]["sides"][0]["tokens"][0] == tokens
