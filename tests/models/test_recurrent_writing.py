"""What writes recurrently: where it begins, and names of weights that saved runs have."""

import pytest
import torch

from regard.models.captioner import RecurrentCaptioner
from regard.models.layout import Encoded
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator

SMALL = RecurrentConfig(
    source_vocabulary=17, target_vocabulary=19, width=6, embedding_width=5, dropout=0.0, attention="additive"
)


@pytest.mark.parametrize("kind", [RecurrentTranslator, RecurrentCaptioner])
def test_nobody_writes_in_a_way_of_its_own(kind: type) -> None:
    assert {name for name, part in vars(kind).items() if callable(part) and not name.startswith("__")} == {
        "start"
    }


def test_it_begins_over_a_bridge() -> None:
    model = RecurrentTranslator(SMALL).double()
    last, memory = torch.randn(3, 1, 2, 6).double(), Encoded.full(torch.randn(3, 4, 6).double())
    state = model.begin(last, memory)
    assert model.bridges is not None
    mapped = model.bridges[0](last.flatten(1))
    torch.testing.assert_close(state.hidden[:, 0, 0], mapped[:, :6].tanh())
    torch.testing.assert_close(state.hidden[:, 0, 1], mapped[:, 6:])
    assert state.memory is not None
    assert state.memory.lengths.tolist() == [4, 4, 4]


def test_the_names_of_weights_are_those_of_saved_runs() -> None:
    def cell(name: str, *ways: str) -> list[str]:
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [f"{name}.stack.{kind}_l0{way}" for way in ways for kind in kinds]

    assert list(RecurrentTranslator(SMALL).state_dict()) == [
        "source_embedding.table",
        "target_embedding.table",
        *cell("encoder", "", "_reverse"),
        *cell("decoder", ""),
        "bridges.0.weight",
        "bridges.0.bias",
        "attention.score.query_weight",
        "attention.score.key_weight",
        "attention.score.vector",
        "joint.weight",
        "output.weight",
        "output.bias",
    ]
