"""Evidence on a GPU: Triton kernels that compute the scores a tile at a time and keep only the evidence."""
