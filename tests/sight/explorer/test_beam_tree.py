"""The search that is told is the one that was made: compared with a beam written out over whole texts."""

import pytest
import torch
from sight.explorer.trained import WORDS, describer, recurrent, translator

from regard.data.batches import END, PAD, START, Pairs, Sequences
from regard.runs.answering import Translator
from regard.sight.explorer.axis_labels import spelled
from regard.sight.explorer.beam_tree import FELL, Followed
from regard.sight.explorer.example import Branch, Change
from regard.sight.explorer.runs import example_of_run

SOURCE = "two three one five"
SIZE = 3


def likely(loaded: Translator, written: tuple[int, ...]) -> torch.Tensor:
    """log p of every next token, by reading all that is written anew, in float64."""
    source = Sequences.of([[*WORDS.encode(SOURCE), END]])
    with torch.no_grad():
        logits = loaded.model.logits(Pairs(source, Sequences.of([[*written, END]])))[0, len(written)]
    found = torch.log_softmax(logits.double(), -1)
    found[[PAD, START]] = -torch.inf
    return found


def written_out(loaded: Translator, steps: int) -> list[list[tuple[tuple[int, ...], float, str]]]:
    """Every step of a beam: each continuation of each text, the best first, and what becomes of it."""
    living: dict[tuple[int, ...], float] = {(): 0.0}
    told = []
    for _ in range(steps):
        everything = [
            ((*text, token), before + each)
            for text, before in living.items()
            for token, each in enumerate(likely(loaded, text).tolist())
            if each > -torch.inf
        ]
        ranked = sorted(everything, key=lambda each: -each[1])
        kept, fell = ranked[:SIZE], ranked[SIZE : SIZE + FELL]
        told.append(
            [(text, total, "ended" if text[-1] == END else "lives") for text, total in kept]
            + [(text, total, "fell") for text, total in fell]
        )
        living = {text: total for text, total in kept if text[-1] != END}
    return told


def text_of(tokens: tuple[int, ...]) -> str:
    return WORDS.decode([token for token in tokens if token != END])


def test_each_step_tells_what_it_kept_and_what_fell_out() -> None:
    loaded = translator(beam=SIZE)
    example = example_of_run(loaded, SOURCE)
    assert example.search is not None
    wanted = written_out(loaded, len(example.search))
    for found, expected in zip(example.search, wanted, strict=True):
        assert [(branch.text, branch.fate) for branch in found] == [
            (text_of(tokens), fate) for tokens, _, fate in expected
        ]
        assert [branch.token for branch in found] == [spelled(WORDS, tokens)[-1] for tokens, _, _ in expected]
        totals = [total for _, total, _ in expected]
        assert [branch.logprob for branch in found] == pytest.approx(totals, abs=1e-4)


def test_a_branch_knows_the_texts_it_leads_to_and_how_long_it_lasted() -> None:
    loaded = translator(beam=SIZE)
    example = example_of_run(loaded, SOURCE)
    assert example.search is not None
    finals = [one.text for one in loaded.hypotheses([SOURCE], count=SIZE)[0]]
    for number, step in enumerate(example.search):
        for branch in step:
            begun = [
                place
                for place, final in enumerate(finals)
                if (
                    final == branch.text
                    if branch.fate == "ended"
                    else f"{final} ".startswith(f"{branch.text} ")
                )
            ]
            if branch.fate != "fell" and branch.token != "</s>":
                assert list(branch.leads) == begun
            kept = [
                later
                for later, others in enumerate(example.search)
                if later >= number and any(_goes_on(branch, other) for other in others)
            ]
            assert branch.until == (number if branch.fate != "lives" else max(kept))


def _goes_on(branch: Branch, other: Branch) -> bool:
    return other.fate != "fell" and f"{other.text} ".startswith(f"{branch.text} ")


def test_following_changes_no_answer() -> None:
    loaded = translator(beam=SIZE)
    followed = Translator(Followed(loaded.model, SIZE), {"source": WORDS}, loaded.decoding)
    assert followed.hypotheses([SOURCE], count=SIZE) == loaded.hypotheses([SOURCE], count=SIZE)


def test_a_changed_model_is_followed_in_its_own_search() -> None:
    loaded = translator(beam=SIZE)
    example = example_of_run(loaded, SOURCE)
    change = Change(kind="forbid", layer="decoder.0.cross", queries=(0,), keys=(0, 1, 2))
    assert example.subject is not None
    touched = example.subject.look({}, [change])
    assert touched.search is not None
    assert example.search is not None
    assert touched.search[0][0].logprob != pytest.approx(example.search[0][0].logprob, abs=1e-6)


def test_without_a_beam_there_is_no_search_to_tell() -> None:
    assert example_of_run(recurrent(), SOURCE).search is None
    assert example_of_run(translator(), SOURCE, target="two").search is None
    told = example_of_run(translator(beam=2), SOURCE).manifest(0)["answer"]["search"]
    assert set(told[0][0]) == {"text", "token", "logprob", "fate", "leads", "until"}


def test_of_a_picture_the_search_is_told_too() -> None:
    search = example_of_run(describer(), torch.rand(1, 8, 12)).search
    assert search is not None
    assert sum(branch.fate != "fell" for branch in search[0]) == 2
