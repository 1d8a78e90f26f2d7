"""Kernels of decoding."""
