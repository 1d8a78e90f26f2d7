"""Data: what models are fed with. Knows no model."""
