"""Ways to compute attention: `fused` on torch's kernels, `written` with the weights in memory."""
