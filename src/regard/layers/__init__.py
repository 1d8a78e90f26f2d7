"""What goes around attention: positions, embeddings, feed-forward maps, residuals, blocks, pooling."""
