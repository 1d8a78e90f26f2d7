"""From soft to hard attention: as the temperature falls, the mixture becomes the value of the single best key."""

import torch

import regard

query = torch.tensor([[1.0, 0.0]])
key = torch.tensor([[0.9, 0.1], [0.7, 0.7], [-0.5, 0.2]])
value = torch.tensor([[1.0], [2.0], [3.0]])

print("temperature  weights                answer")
for temperature in (10.0, 1.0, 0.1, 0.01):
    call = regard.Call(query, key, score=regard.Dot(), scale=1 / temperature)
    weights = " ".join(f"{weight:.3f}" for weight in regard.weigh(call)[0].tolist())
    print(f"{temperature:<12g} {weights}    {regard.attend(call, value).item():.4f}")
print(f"lookup                              {regard.lookup(call, value).item():.4f}")
