"""The drop-in under torch.compile and torch.export. In a process of its own: without the check of shapes."""

import subprocess
import sys

import pytest

SCRIPT = """
import torch
from regard.interop import torch as ours

torch.manual_seed(0)
x, mask = torch.randn(2, 5, 8), ours.Transformer.generate_square_subsequent_mask(5)
padding = torch.tensor([[False] * 5, [False, False, True, True, True]])
attention = ours.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True)
model = ours.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True)

compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
for masks in ({}, {"attn_mask": mask}, {"attn_mask": mask, "is_causal": True}, {"key_padding_mask": padding}):
    for need_weights in (True, False):
        torch.testing.assert_close(
            compiled(x, x, x, **masks, need_weights=need_weights), attention(x, x, x, **masks, need_weights=need_weights)
        )
masks = {"tgt_mask": mask, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
torch.testing.assert_close(compiled(x, x, **masks), model(x, x, **masks))
exported = torch.export.export(model, (x, x), masks).module()
torch.testing.assert_close(exported(x, x, **masks), model(x, x, **masks))
"""


@pytest.mark.slow
def test_attention_and_transformer_compile_as_one_graph_and_export():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
