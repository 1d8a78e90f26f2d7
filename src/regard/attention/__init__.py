"""Attention: calls, scores, masks, biases, the written-out equation and the fast way to compute it."""
