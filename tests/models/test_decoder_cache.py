"""The KV cache of a causal stack: what is read step by step is what is read at once."""

import ast
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import END, START, KeyValueCache, RegardError, Sequences, beam, greedy, sample

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_language_model.py"
PROMPTS = [[START, 5, 6, 7, 8], [START], [START, 9, 5]]


@pytest.fixture
def model() -> Any:
    torch.manual_seed(3)
    return runpy.run_path(str(EXAMPLE))["SharedBlock"](13).double().eval()


def test_a_model_of_ones_own_needs_at_most_three_imports_of_the_library() -> None:
    modules = []
    for node in ast.walk(ast.parse(EXAMPLE.read_text())):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules.append(str(node.module))
    assert sum(module.split(".")[0] == "regard" for module in modules) <= 3


def test_steps_through_the_cache_give_the_logits_of_the_whole_text(model: Any) -> None:
    written = torch.tensor([[5, 6, 7], [8, 9, 10], [11, 12, 4]])
    cache = model.start(Sequences.of(PROMPTS))
    steps = []
    tokens = cache.first
    for following in written.T:
        logits, cache = model.step(tokens, cache)
        steps.append(logits)
        tokens = following
    for row, prompt in enumerate(PROMPTS):
        whole = model.logits(Sequences.of([[*prompt, *written[row].tolist()]]))[0]
        found = torch.stack([step[row] for step in steps])
        torch.testing.assert_close(found, whole[len(prompt) - 1 : -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("prompts", [PROMPTS, [prompt[:1] * 2 for prompt in PROMPTS]], ids=["padded", "even"])
def test_several_columns_at_once_give_what_one_after_another_gives(
    model: Any, prompts: list[list[int]]
) -> None:
    written = torch.tensor([[5, 6, 7, 4], [8, 9, 10, 4], [11, 12, 4, 5]])
    cache = model.start(Sequences.of(prompts))
    tokens = torch.cat([cache.first[:, None], written], -1)
    parts = []
    for some in tokens.split([1, 3, 1], dim=1):
        x, cache = cache.through([model.block] * model.depth, model.embedding(some))
        parts.append(x)
    found = model.output(torch.cat(parts, 1))
    for row, prompt in enumerate(prompts):
        whole = model.logits(Sequences.of([[*prompt, *written[row].tolist()]]))[0]
        torch.testing.assert_close(found[row], whole[len(prompt) - 1 :], rtol=0, atol=1e-12)


def test_rows_are_picked_and_continue_as_they_would_alone(model: Any) -> None:
    cache = model.start(Sequences.of(PROMPTS))
    picked = cache.pick(torch.tensor([2, 0, 2]))
    assert picked.rows == 3
    logits, _ = model.step(picked.first, picked)
    for row, prompt in enumerate([PROMPTS[2], PROMPTS[0], PROMPTS[2]]):
        torch.testing.assert_close(
            logits[row], model.logits(Sequences.of([prompt]))[0, -1], rtol=0, atol=1e-12
        )


def test_the_searches_find_what_the_whole_text_says(model: Any) -> None:
    for prompt, text in zip(PROMPTS, greedy(model, Sequences.of(PROMPTS), limits=6), strict=True):
        so_far = list(prompt)
        for token in [*text.tokens, *([END] if text.finished else [])]:
            logits = model.logits(Sequences.of([so_far]))[0, -1].clone()
            logits[:2] = -torch.inf  # PAD and START are never chosen
            assert token == int(logits.argmax())
            so_far.append(token)
    drawn, again = (sample(model, Sequences.of(PROMPTS), limits=6, seed=2) for _ in range(2))
    assert [text.tokens for text in drawn] == [text.tokens for text in again]
    assert all(best[0].ranking >= best[1].ranking for best in beam(model, Sequences.of(PROMPTS), size=3, limits=6, count=2))  # fmt: skip


def test_a_cache_is_used_once(model: Any) -> None:
    cache = model.start(Sequences.of(PROMPTS))
    model.step(cache.first, cache)
    with pytest.raises(RegardError, match="stepped from before"):
        model.step(cache.first, cache)
    with pytest.raises(RegardError, match="stepped from before"):
        cache.pick(torch.tensor([0]))


def test_a_prompt_needs_a_token() -> None:
    with pytest.raises(RegardError, match="at least one, such as START"):
        KeyValueCache.of(Sequences.of([[START], []]), depth=2)
    tokens, cache = KeyValueCache.of(Sequences.of([[START, 5, 6], [START]]), depth=2)
    assert tokens.tolist() == [[START, 5], [START, START]]
    assert cache.first.tolist() == [6, START]
    assert cache.offset().tolist() == [0, -2]  # type: ignore[union-attr]
