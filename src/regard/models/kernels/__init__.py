"""Triton kernels around models."""
