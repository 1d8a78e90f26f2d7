"""Evidence on a GPU: kernels that make the scores a tile at a time and keep only what was asked. They need Triton."""
