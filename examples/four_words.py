"""Four words, in NumPy and in regard: softmax of q·k/√d, then the weighted values.

The example every introduction begins with, written twice. Both give the same numbers.
"""

import numpy as np
import torch

import regard

words = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
random = np.random.default_rng(42)
w_q, w_k, w_v = (random.integers(3, size=(3, 3)).astype(float) for _ in range(3))
query, key, value = words @ w_q, words @ w_k, words @ w_v

# In NumPy.
scores = query @ key.T / np.sqrt(key.shape[1])
weights = np.exp(scores - scores.max(axis=1, keepdims=True))
weights /= weights.sum(axis=1, keepdims=True)
answers = weights @ value

# In regard.
q, k, v = (torch.from_numpy(part) for part in (query, key, value))
print("weights\n", regard.weigh(q, k).numpy().round(3))
print("answers\n", regard.attend(q, k, v).numpy().round(3))

apart = max(
    np.abs(regard.weigh(q, k).numpy() - weights).max(), np.abs(regard.attend(q, k, v).numpy() - answers).max()
)
print("the same to 1e-12:", bool(apart < 1e-12))
