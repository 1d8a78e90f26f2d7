"""Our modules under torch.compile and torch.export. In a process of their own: without the check of shapes."""

import subprocess
import sys
from pathlib import Path

import pytest

MODEL = """
import torch
from torch import nn
from functools import partial
from regard import *
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.blocks import FeedForward, SwiGLU
from regard.layers.pooling import AttentionPooling
from regard.layers.blocks import Residual, after
from regard.layers.rotary import Rotary

class Model(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.encoder = EncoderBlock(attention, SwiGLU(16, 32), partial(Residual, 16, norm=nn.RMSNorm))
        self.decoder = DecoderBlock(
            MultiHeadAttention(16, 4), MultiHeadAttention(16, 4), FeedForward(16, 20), partial(Residual, 16, placement=after)
        )
        self.pool = AttentionPooling(MultiHeadAttention(16, 2), queries=3)

    def forward(self, x, n):
        memory = self.encoder(x, mask=(causal() | window(2)) & lengths(n))
        y = self.decoder(x, memory, mask=causal() & lengths(n), memory_mask=lengths(keys=n))
        return self.pool(y, mask=lengths(keys=n))

torch.manual_seed(0)
attentions = {
    "plain": lambda: MultiHeadAttention(16, 4),
    "additive": lambda: MultiHeadAttention(16, 4, score=Additive(4, 4, hidden=5, heads=4)),
    "rotary": lambda: MultiHeadAttention(16, 4, sizes=HeadSizes(kv_heads=2, value_width=3), rotary=Rotary(4)),
    "alibi": lambda: MultiHeadAttention(16, 4, bias=ALiBi(4), score=Cosine(0.1, learned=True)),
    "buckets": lambda: MultiHeadAttention(16, 4, bias=RelativeBuckets(4), score=Bilinear(4, 4, heads=4)),
}
models = {name: Model(make()).eval() for name, make in attentions.items()}
x, n = torch.randn(3, 7, 16), torch.tensor([7, 3, 0])

def results(model, run):
    output = run(x, n)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return output, *torch.autograd.grad(output.square().sum(), weights)

def compare(model, run):
    for mine, other in zip(results(model, run), results(model, model), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-4)
"""

COMPILE = """
for name, model in models.items():
    torch._dynamo.reset()
    compare(model, torch.compile(model, fullgraph=True, backend="aot_eager"))
    print(name)
"""

INDUCTOR = """
compare(models["rotary"], torch.compile(models["rotary"], fullgraph=True))
print("rotary")
"""

EXPORT = """
import io
for name, model in models.items():
    shapes = ({0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("length", min=2)}, {0: torch.export.Dim("batch", min=2)})
    exported = torch.export.export(model, (x, n), dynamic_shapes=shapes)
    x2, n2 = torch.randn(5, 9, 16), torch.tensor([9, 2, 3, 4, 0])
    torch.testing.assert_close(exported.module()(x2, n2), model(x2, n2))
    print(name)
"""

WATCHED = """
from torch.nn import functional as F

class Plain(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)

def run(watched, other, *inputs):  # the graph of another model does not break
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager")
    plain = compiled(*inputs)
    with watch(watched) as seen:
        assert torch.equal(compiled(*inputs), plain)
        assert not seen
        watched(*inputs)
    assert seen

run(Plain(), Plain(), torch.randn(1, 2, 5, 4))
run(models["plain"], models["rotary"], x, n)
print("other")

@torch.compile(backend="aot_eager")
def attend_compiled(x):
    return F.scaled_dot_product_attention(x, x, x)

class Calling(nn.Module):  # a compiled function that a watched module calls is reported
    def forward(self, x):
        return attend_compiled(x)

model, x = Calling(), torch.randn(1, 2, 5, 4)
model(x)
with watch(model) as seen:
    model(x)
assert [layer.reason for layer in seen] == ["Calling is being compiled, and what runs inside a graph cannot be watched"]
print("own")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "names"),
    [
        pytest.param(COMPILE, "plain additive rotary alibi buckets", id="compile"),
        pytest.param(INDUCTOR, "rotary", id="inductor"),
        pytest.param(EXPORT, "plain additive rotary alibi buckets", id="export"),
        pytest.param(WATCHED, "other own", id="compiled while a model is watched"),
    ],
)
def test_our_modules_can_be(code: str, names: str, tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(MODEL + code)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == names.split()
