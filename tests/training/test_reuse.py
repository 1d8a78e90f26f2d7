"""A classifier that begins with the encoder of another run, by one option."""

import pytest
import torch
from runs.small import TRAINING, classification, numbers, trained, write_table
from typer.testing import CliRunner

from regard import RegardError
from regard.cli import app
from regard.runs.folder import RunFolder
from regard.runs.recipe import changed
from regard.training.reuse import reusing


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return trained(numbers(), tmp_path_factory.mktemp("reuse") / "translator")


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path)


def still(table, run, *changes):
    """A classifier of the table that begins with a run and is not moved by training: its learning rate is 0."""
    plain = classification(
        table, model={"kind": "classifier", "width": 24, "heads": 3, "positions": "learned"}
    )
    return changed(
        plain, [*reusing(plain, run), "training.learning_rate=0", "training.weight_decay=0", *changes]
    )


def test_embedding_encoder_norm_and_tokenizer_are_those_of_the_translator(translator, table, tmp_path):
    run = RunFolder.existing(trained(still(table, translator), tmp_path / "run"))
    mine, theirs = run.load_weights(), RunFolder.existing(translator).load_weights()
    names = {"embedding.": "source_embedding.", "encoder.": "encoder.", "norm.": "encoder_norm."}
    for here, there in names.items():
        found = [name for name in mine if name.startswith(here)]
        assert found
        for name in found:
            assert torch.equal(mine[name], theirs[there + name.removeprefix(here)])
    assert (run.path / "tokenizer.json").read_bytes() == (translator / "tokenizer.json").read_bytes()


def test_settings_of_the_blocks_are_the_run_s_and_dropout_is_the_recipe_s(translator, table):
    recipe = still(table, translator, "model.dropout=0.3", "init.freeze=true")
    config = RunFolder.existing(translator).load_config()
    for name in ("width", "heads", "depth", "hidden_width", "positions", "norm", "feedforward"):
        assert getattr(recipe.model, name) == config[name]
    assert recipe.model.dropout == 0.3
    assert recipe.init.freeze


def test_a_classifier_lends_to_a_classifier_of_other_classes(table, tmp_path):
    first = trained(classification(table), tmp_path / "first")
    other = tmp_path / "other.tsv"
    other.write_text(table.read_text() + "".join(f"ae{n}bc\tmixed\n" for n in range(20)))
    second = RunFolder.existing(trained(still(other, first), tmp_path / "second"))
    assert second.load_labels() == ["consonants", "mixed", "vowels"]
    mine, earlier = second.load_weights(), RunFolder.existing(first).load_weights()
    taken = [each for each in mine if each.startswith(("embedding.", "encoder.", "norm."))]
    assert all(torch.equal(mine[each], earlier[each]) for each in taken)
    assert len(taken) > 5
    assert second.load_recipe().init.parts == ("embedding", "encoder", "norm")


def test_with_the_norm_after_each_block_there_is_none_to_take(table, tmp_path):
    model = {"kind": "transformer", "decoder_depth": 1, "width": 16, "heads": 2, "depth": 1, "norm": "after"}
    run = trained(numbers(model=model), tmp_path / "after")
    assert still(table, run).init.parts == ("source_embedding", "encoder")
    trained(still(table, run), tmp_path / "run")


def test_it_is_one_option_of_train(translator, table, tmp_path):
    sets = [
        f"data.train={table}",
        "data.held_out=0.2",
        *(f"training.{name}={value}" for name, value in TRAINING.items()),
    ]
    asked = ["train", "classify", "--from", str(translator), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*asked, *(part for each in sets for part in ("--set", each))])
    assert done.exit_code == 0, done.output
    assert "source_embedding as embedding, encoder, encoder_norm as norm" in done.output
    assert "the tokenizer is that of" in done.output


def test_what_cannot_be_reused_is_refused_in_one_line(translator, table, tmp_path):
    with pytest.raises(RegardError, match=r"with model\.kind transformer: it is for a classifier of texts"):
        reusing(numbers(), translator)
    recurrent = {"kind": "recurrent", "width": 16, "embedding_width": 8}
    run = trained(numbers(model=recurrent), tmp_path / "recurrent")
    with pytest.raises(
        RegardError, match=r"model\.kind is recurrent, whose encoder a classifier cannot take over"
    ):
        reusing(classification(table), run)
    with pytest.raises(RegardError, match="gone"):
        reusing(classification(table), tmp_path / "gone")
    with pytest.raises(RegardError, match=r"is \[\d+, 8\] here and \[\d+, 16\] in"):
        trained(still(table, translator, "model.width=8"), tmp_path / "narrow")
