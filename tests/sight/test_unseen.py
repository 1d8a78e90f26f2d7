"""A model that was not seen to attend gets a warning, which names the reason."""

import importlib.util
import re
from functools import partial
from typing import Any

import pytest
import torch
from sight.peers import hugging_face
from torch import Tensor, nn
from torch.nn import functional as F

from regard import MultiHeadAttention
from regard.errors import RegardError, RegardWarning
from regard.sight.watch import watch

sdpa = F.scaled_dot_product_attention
needs_transformers = pytest.mark.skipif(not hugging_face(), reason="needs transformers")


def flex_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Stands for torch's, which takes seconds to be compiled."""
    return torch.softmax(query @ key.mT, -1) @ value


class Global(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return sdpa(x, x, x)


class Attribute(nn.Module):
    def __init__(self, attend: Any) -> None:
        super().__init__()
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x, x, x)


class Default(nn.Module):
    def forward(self, x: Tensor, attend: Any = F.scaled_dot_product_attention) -> Tensor:
        return attend(x, x, x)


def enclosed() -> nn.Module:
    held = F.scaled_dot_product_attention

    class Closure(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return held(x, x, x)

    return Closure()


class Flex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return flex_attention(x, x, x)


class Einsum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        weights = torch.einsum("...qd,...kd->...qk", x, x).softmax(-1)
        return torch.einsum("...qk,...kd->...qd", weights, x)


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.softmax = nn.Softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        return self.softmax(x @ x.mT) @ x


def warned(model: nn.Module, *inputs: Tensor, **options: Any) -> str:
    """What is said when a model has run; it is one line."""
    with pytest.warns(RegardWarning) as heard, torch.no_grad(), watch(model, **options) as seen:
        model(*inputs)
    assert len(seen) == 0
    assert len(heard) == 1
    said = str(heard[0].message)
    assert "\n" not in said
    assert said.startswith(f"no attention call of {type(model).__name__} was seen: ")
    return said


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Global, r"Global calls torch's scaled_dot_product_attention as (\w+\.)*test_unseen\.sdpa"),
        (lambda: Attribute(sdpa), "as Attribute.attend, which was taken before watching began"),
        (lambda: Attribute(partial(sdpa, is_causal=True)), "as Attribute.attend, which was taken before"),
        (Default, "as attend, which was taken before watching began"),
        (enclosed, "as held, which was taken before watching began"),
        (Flex, "Flex attends by flex_attention, which is not watched"),
        (lambda: nn.Sequential(nn.Identity(), Einsum()), r"1 \(Einsum\) writes attention out with a softmax"),
        (Products, r"Products \(Products\) writes attention out with a softmax"),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1)), "did not run inside `with watch"),
    ],
)
def test_the_reason_is_named(make: Any, reason: str) -> None:
    x = torch.randn(1, 2, 5, 4)
    assert re.search(reason, warned(make(), x))


def test_a_model_that_runs_outside_is_told_so() -> None:
    model = MultiHeadAttention(8, 2)
    with pytest.warns(RegardWarning, match="it did not run inside"), watch(model):
        pass


def test_modules_that_attended_but_were_not_chosen_are_named() -> None:
    model = nn.Sequential(nn.Linear(8, 8), MultiHeadAttention(8, 2))
    said = warned(model, torch.randn(1, 5, 8), layers=["0"])
    assert said.endswith("layers chose 0, which made none, but these did: 1")


def test_nothing_is_said_of_an_error_in_the_model(recwarn: pytest.WarningsRecorder) -> None:
    with (
        pytest.raises(RegardError, match="width 9, and 8 is wanted"),
        watch(MultiHeadAttention(8, 2)) as seen,
    ):
        seen.model(torch.randn(1, 5, 9))
    assert not [each for each in recwarn if each.category is RegardWarning]


@needs_transformers
def test_the_eager_form_of_hugging_face_is_named_and_sdpa_changes_it() -> None:
    peer = hugging_face()["HF BERT"]()
    model, tokens = peer.model, torch.randint(3, 50, (1, 9))
    model.set_attn_implementation("eager")
    said = warned(model, tokens)
    assert said.endswith(
        "BertModel has attn_implementation='eager', which writes attention out; "
        "model.set_attn_implementation('sdpa') changes that"
    )
    inside = nn.Sequential(model)  # a model of somebody's own around it
    assert "BertModel has attn_implementation='eager'" in warned(inside, tokens)
    model.set_attn_implementation("sdpa")
    with watch(model) as seen, torch.no_grad():
        model(tokens)
    assert len(seen) == 2


@needs_transformers
@pytest.mark.parametrize("family", ["DebertaV2", "Bloom"])
def test_families_without_another_form_are_told_apart(family: str) -> None:
    import transformers

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    sizes |= {"n_layer": 1, "n_head": 4, "vocab_size": 50}
    model = getattr(transformers, f"{family}Model")(getattr(transformers, f"{family}Config")(**sizes)).eval()
    said = warned(model, torch.randint(3, 50, (1, 9)))
    assert said.endswith(
        f"transformers has no 'sdpa' form of {family}Model: what attention it has is written out"
    )


@pytest.mark.skipif(importlib.util.find_spec("x_transformers") is None, reason="needs x-transformers")
def test_the_default_of_x_transformers_is_named() -> None:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=1, heads=4, attn_dim_head=8)
    model = TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers)
    assert (
        "is x-transformers' default, which writes attention out; make its layers with attn_flash=True"
        in warned(model, torch.randint(0, 50, (2, 9)))
    )
