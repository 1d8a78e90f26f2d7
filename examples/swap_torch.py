"""A torch Transformer, its weights moved into ours and back: the same answers, and no NaN.

The third source is nothing but padding.
"""

import torch

from regard.interop import torch as drop_in

torch.manual_seed(0)
theirs = torch.nn.Transformer(32, 4, 2, 2, 64, batch_first=True).eval()
ours = drop_in.Transformer(32, 4, 2, 2, 64, batch_first=True).eval()
ours.load_state_dict(theirs.state_dict())
theirs.load_state_dict(ours.state_dict())

source, target = torch.randn(3, 7, 32), torch.randn(3, 5, 32)
causal = ours.generate_square_subsequent_mask(5)
apart = (ours(source, target, tgt_mask=causal) - theirs(source, target, tgt_mask=causal)).abs().max().item()
print("the same to 1e-5:", apart < 1e-5)

hidden = torch.arange(7) >= torch.tensor([7, 4, 0])[:, None]  # torch's polarity: True is hidden
attention = theirs.encoder.layers[0].self_attn, ours.encoder.layers[0].self_attn
for name, module in zip(("torch", "regard"), attention, strict=True):
    answer, weights = module(source, source, source, key_padding_mask=hidden)
    blind = "NaN" if weights[2].isnan().any() else f"{weights[2].sum().item():g}"
    print(f"{name:<7} weights of a sequence of padding sum to {blind}")
