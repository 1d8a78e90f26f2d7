"""What watching reports is what the model did."""

import pytest
import torch
from sight.peers import every_peer, hugging_face
from torch import nn
from torch.nn import functional as F

from regard import Bilinear, MultiHeadAttention, RegardError, causal, keep, weigh
from regard.attention.packed_mask import packed
from regard.errors import RegardWarning
from regard.layers import EncoderBlock, FeedForward, Residual
from regard.sight.watch import watch

close = {"rtol": 0, "atol": 2e-6}


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("padded", [False, True])
def test_torchs_own_weights_are_found_on_every_path(mode: str, padded: bool) -> None:
    model = nn.MultiheadAttention(16, 4, batch_first=True).train(mode == "train")
    x = torch.randn(2, 7, 16)
    options = {"key_padding_mask": torch.arange(7) >= torch.tensor([[7], [4]])} if padded else {}
    expected = model(x, x, x, average_attn_weights=False, **options)[1]
    for need_weights in (True, False):
        for gradients in (True, False):
            with watch(model) as seen, torch.set_grad_enabled(gradients):
                model(x, x, x, need_weights=need_weights, **options)
            torch.testing.assert_close(seen[0].weights(), expected.detach(), **close)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_the_fused_encoder_is_seen_as_the_plain_one_is(norm_first: bool, nested: bool) -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested and not norm_first).eval()
    x, padding = torch.randn(2, 7, 16), torch.arange(7) >= torch.tensor([[7], [4]])
    with torch.no_grad(), watch(model) as fused:
        model(x, src_key_padding_mask=padding)
    with watch(model) as plain:  # with gradients torch takes its plain path
        model(x, src_key_padding_mask=padding)
    for quick, slow in zip(fused, plain, strict=True):
        real = (~padding)[:, None, :, None]
        torch.testing.assert_close(quick.weights() * real, slow.weights() * real, **close)


@pytest.mark.parametrize("name", [name for name in hugging_face() if name not in ("HF Whisper", "HF ViT")])
def test_hugging_face_attention_is_what_its_eager_form_returns(name: str) -> None:
    peer = hugging_face()[name]()
    with watch(peer.model) as seen:
        peer.run()
    peer.model.set_attn_implementation("eager")
    outputs = {}

    def keep_output(module, args, kwargs, output):  # type: ignore[no-untyped-def]
        outputs.update(output)

    handle = peer.model.register_forward_hook(keep_output, with_kwargs=True)
    with torch.no_grad():
        peer.run(output_attentions=True)
    handle.remove()
    kinds = ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions")
    returned = [weights for kind in kinds for weights in outputs.get(kind) or ()]
    if not returned:
        pytest.skip("this version of transformers returns no weights for this model")
    assert len(returned) == len(seen)
    for layer in seen:
        errors = [
            (layer.weights() - theirs).abs().max().item()
            for theirs in returned
            if theirs.shape == layer.shape
        ]
        assert min(errors) < 1e-5


def test_calls_have_names_and_can_be_chosen() -> None:
    model = nn.Sequential(
        *(EncoderBlock(MultiHeadAttention(8, 2), FeedForward(8, 8), lambda: Residual(8)) for _ in "ab")
    )
    x = torch.randn(3, 5, 8)
    with watch(model) as seen:
        model(x)
    assert seen.names == ["0.attention", "1.attention"]
    assert seen["1.attention"] is seen[1] is seen.layers[-1]
    expected = weigh(model[0].attention.call(model[0].around_attention.norm(x)))
    torch.testing.assert_close(seen[0].weights(), expected, **close)
    with watch(model, layers=["1.attention"], heads=1, batch=[2, 0]) as some:
        model(x)
    assert some.names == ["1.attention"]
    torch.testing.assert_close(some[0].weights(), seen[1].weights()[[2, 0]][:, [1]], **close)
    torch.testing.assert_close(
        seen[1].weights(queries=[4, 1], keys=slice(1, 3), heads=0, batch=-1),
        seen[1].weights()[2:, :1, [4, 1], 1:3],
        **close,
    )


@pytest.mark.parametrize("name", [name for name in every_peer() if name.startswith("regard")])
def test_every_score_can_be_cut_by_head(name: str) -> None:
    peer = every_peer()[name]()
    with watch(peer.model) as seen:
        peer.run()
    for layer in seen:
        torch.testing.assert_close(layer.select(heads=[3, 1]).weights(), layer.weights()[:, [3, 1]], **close)
        torch.testing.assert_close(
            layer.select(batch=1, heads=2).received(), layer.received()[1:, 2:3], **close
        )


def test_evidence_can_be_all_that_is_kept() -> None:
    model, x = MultiHeadAttention(8, 2), torch.randn(3, 5, 8)
    with watch(model) as calls:
        model(x)
    with watch(model, keep="evidence", ask=["entropy", ("top", 2), ("map", 3, 2)]) as seen:
        model(x)
    assert seen[0].call is None
    torch.testing.assert_close(seen[0].entropy(), calls[0].entropy())
    torch.testing.assert_close(seen[0].top(2), calls[0].top(2))
    torch.testing.assert_close(seen[0].map(3, 2), calls[0].map(3, 2))
    with pytest.raises(RegardError, match="keep='evidence', which kept entropy, map, received, top"):
        seen[0].weights()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keep": "cals"}, r"watch\(keep='cals'\): keep 'calls' or 'evidence'"),
        ({"ask": ["colour"]}, r"ask='colour': ask for 'entropy', 'received'"),
        ({"ask": ["colour"], "keep": "evidence"}, "ask='colour'"),
        ({"ask": [("top", 0)]}, r"ask=\('top', 0\)"),
        ({"ask": [("map", 3)]}, r"ask=\('map', 3\)"),
        ({"ask": "entropy"}, r"give a list of questions, \['entropy'\]"),
        ({"layers": ["atention"]}, r"no module 'atention': did you mean 0\.attention"),
        ({"layers": "1.atention"}, r"no module '1\.atention': did you mean 1\.attention"),
        ({"layers": ["attention", "cross"]}, "no module 'cross'"),
        ({"layers": []}, r"layers=\[\] names no module"),
        (
            {"layers": lambda name: "cross" in name},
            r"layers=<lambda> chooses none of the \d+ modules: Sequential, 0,",
        ),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_a_mistake_is_refused_before_the_model_runs(options: dict, said: str) -> None:
    model = nn.Sequential(
        *(EncoderBlock(MultiHeadAttention(8, 2), FeedForward(8, 8), lambda: Residual(8)) for _ in "ab")
    )
    with pytest.raises(RegardError, match=said), watch(model, **options):
        raise AssertionError("it ran")
    with pytest.raises(RegardError, match=r"model=None: give the model, a torch\.nn\.Module"), watch(None):
        pass


def test_what_was_overwritten_is_refused() -> None:
    class Overwriting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = F.scaled_dot_product_attention(x, x.clone(), x)
            x.add_(1.0)
            return out

    model, x = Overwriting(), torch.randn(1, 2, 5, 4)
    with watch(model) as seen:
        model(x)
    with pytest.raises(RegardError, match="the query that Overwriting attended with was overwritten"):
        _ = seen[0].entropy()
    with watch(model, keep="evidence") as early:
        model(x)
    assert early[0].entropy().shape == (1, 2, 5)


def test_compiled_models_are_refused_by_name() -> None:
    model = nn.Sequential(nn.Linear(8, 8), MultiHeadAttention(8, 2))
    compiled = torch.compile(model, backend="eager")
    with pytest.raises(RegardError, match="OptimizedModule is compiled"), watch(compiled):
        pass
    model[1].compile(backend="eager")
    with pytest.raises(RegardError, match="1 is compiled"), watch(model):
        pass


def test_only_the_watched_model_is_seen() -> None:
    model, other, x = MultiHeadAttention(8, 2), MultiHeadAttention(8, 2), torch.randn(1, 5, 8)
    original = F.scaled_dot_product_attention
    with watch(model) as seen, watch(other) as both:
        other(x)
        F.scaled_dot_product_attention(x, x, x)
        model(x, mask=causal())
        other(x)
    assert (len(seen), len(both)) == (1, 2)
    assert F.scaled_dot_product_attention is original
    with pytest.raises(RegardError, match=r"attended 2 times.*seen\.calls\('MultiHeadAttention'\)"):
        _ = both["MultiHeadAttention"]


def test_an_error_in_the_model_leaves_nothing_behind() -> None:
    model, original = MultiHeadAttention(8, 2), F.scaled_dot_product_attention
    with pytest.raises(RegardError, match="width 9, and 8 is wanted"), watch(model):
        model(torch.randn(1, 5, 9))
    assert F.scaled_dot_product_attention is original
    with pytest.warns(RegardWarning, match="did not run inside"), watch(model) as seen:
        pass
    with pytest.raises(RegardError, match="no attention call was seen"):
        _ = seen["attention"]
    with pytest.raises(RegardError, match="no attention call was seen, so there is no head to drop"):
        seen.matters(lambda: 0.0)
    with watch(model) as seen:
        model(torch.randn(1, 5, 8))
    with pytest.raises(
        RegardError, match="'atention' is none of the modules that attended: MultiHeadAttention"
    ):
        _ = seen["atention"]
    with pytest.raises(RegardError, match=r"seen\[4\], but 1 calls"):
        _ = seen[4]
    with pytest.raises(RegardError, match="head 2, but there are only 2"):
        seen[0].weights(heads=2)


def test_a_head_can_be_chosen_twice() -> None:
    model, x = MultiHeadAttention(8, 2), torch.randn(1, 5, 8)
    with watch(model) as seen:
        model(x)
    twice = seen[0].select(heads=[0, 0])
    assert torch.equal(twice.weights(), seen[0].weights()[:, [0, 0]])


def test_weights_of_a_score_and_masks_that_change_are_noticed() -> None:
    model, x, kept = (
        MultiHeadAttention(8, 2, score=Bilinear(4, 4, heads=2)),
        torch.randn(1, 5, 8),
        torch.ones(5, 5).bool(),
    )
    with watch(model) as seen:
        model(x, mask=keep(kept))
    kept[0, 1] = False
    with pytest.raises(RegardError, match="the mask that MultiHeadAttention attended with was overwritten"):
        _ = seen[0].entropy()
    with watch(model) as seen:
        model(x)
    with torch.no_grad():
        model.score.weight.add_(1.0)
    with pytest.raises(RegardError, match="the score that MultiHeadAttention attended with was overwritten"):
        _ = seen[0].entropy()


def test_a_mask_whose_parts_hold_each_other_is_watched_and_its_changes_are_noticed() -> None:
    lengths = torch.tensor([3, 4])
    mask = packed(lengths)
    packs = mask.packs  # type: ignore[attr-defined]
    packs.readied()  # as on a GPU: what was packed then knows itself as those who ask
    assert packs.turned is packs
    model, x = MultiHeadAttention(8, 2), torch.randn(1, 7, 8)
    with watch(model) as seen:
        model(x, mask=mask)
    owners = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    expected = weigh(model.call(x, mask=keep(owners[:, None] == owners)))
    torch.testing.assert_close(seen[0].weights(), expected.detach(), **close)
    lengths.copy_(torch.tensor([4, 3]))
    with pytest.raises(RegardError, match="the mask that MultiHeadAttention attended with was overwritten"):
        _ = seen[0].entropy()


def test_a_mode_that_makes_torch_call_twice_is_seen_once() -> None:
    model, x = nn.MultiheadAttention(16, 4, batch_first=True), torch.randn(2, 7, 16)
    plain = F.scaled_dot_product_attention
    with torch.device("cpu"), watch(model) as seen:  # a mode
        model(x, x, x)
        model(x, x, x, need_weights=False)
        plain(x, x, x)
    assert len(seen) == 2
