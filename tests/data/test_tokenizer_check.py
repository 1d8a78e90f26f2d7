"""A tokenizer.json is read when it is made like those of regard, and refused with a line otherwise."""

import json

import pytest

from regard import RegardError
from regard.data.tokenizer import Tokenizer

LINES = ["one two three", "twenty-one"]


def told(kind: str) -> dict:
    return json.loads(Tokenizer.train(LINES, kind=kind, size=270).to_json())


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_what_training_writes_is_read(kind) -> None:
    ours = Tokenizer.train(LINES, kind=kind, size=270)
    again = Tokenizer.of_json(ours.to_json())
    assert (again.kind, again.size) == (kind, ours.size)
    assert again.encode("one twenty") == ours.encode("one twenty")


def test_a_version_that_leaves_unsaid_what_is_off_is_read() -> None:
    given = told("bpe")
    for key in ("ignore_merges", "byte_fallback", "fuse_unk"):
        del given["model"][key]
    del given["normalizer"]
    given["model"]["merges"] = [" ".join(pair) for pair in given["model"]["merges"]]
    assert Tokenizer.of_json(json.dumps(given)).size == 270


CHANGES = {
    "padding": ("padding", {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None,
                            "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}),
    "truncation": ("truncation", {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}),
    "a normaliser": ("normalizer", {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10_000}),
    "a slow pattern": ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated",
                                        "invert": False}),
    "no splitting": ("pre_tokenizer", None),
    "a post-processor": ("post_processor", {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False,
                                            "use_regex": True}),
    "a decoder": ("decoder", {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}),
    "more tokens": ("added_tokens", [{"id": 4, "content": "x", "single_word": False, "lstrip": False,
                                     "rstrip": False, "normalized": True, "special": False}]),
    "another part": ("surprise", {"a": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_what_a_run_has_no_use_for_is_refused_by_name(kind, name) -> None:
    part, value = CHANGES[name]
    with pytest.raises(RegardError, match=rf"x: .*{part}.* is not as in the tokenizers") as refused:
        Tokenizer.of_json(json.dumps({**told(kind), part: value}), "x")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"dropout": 0.5}, r"model\.dropout"),
        ({"continuing_subword_prefix": "##"}, r"model\.continuing_subword_prefix"),
        ({"byte_fallback": True}, r"model\.byte_fallback"),
        ({"type": "Unigram"}, r"model\.type"),
        ({"vocab": {}}, "no vocab"),
        ({"vocab": ["<pad>"]}, "no vocab"),
        ({"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": 10**9}}, "not numbered from 0"),
        ({"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": 3}}, "not numbered from 0"),
        ({"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": -4}}, "not numbered from 0"),
        ({"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": "4"}}, "not numbered from 0"),
        ({"vocab": {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}}, "token 0 is '<s>', not '<pad>'"),
        ({"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "漢": 4}, "merges": []}, "letters of bytes"),
        ({"merges": [["a", "nobody"]]}, "not a tokenizer.json"),
        ({"merges": 5}, "not a tokenizer.json"),
    ],
)
def test_models_that_are_not_ours_are_refused(changes, what) -> None:
    given = told("bpe")
    with pytest.raises(RegardError, match=what) as refused:
        Tokenizer.of_json(json.dumps({**given, "model": {**given["model"], **changes}}), "x")
    assert "\n" not in str(refused.value)


def test_a_panic_of_the_library_is_a_line(monkeypatch) -> None:
    class Panic(BaseException):
        pass

    class Library:
        @staticmethod
        def from_str(text: str) -> None:
            raise Panic("called `Option::unwrap()` on a `None` value")

    text = Tokenizer.of_json(json.dumps(told("word"))).to_json()
    monkeypatch.setattr("tokenizers.Tokenizer", Library)
    with pytest.raises(RegardError, match=r"not a tokenizer\.json \(called `Option::unwrap"):
        Tokenizer.of_json(text, "x")
