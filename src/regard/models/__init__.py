"""Models: each file holds a frozen config and the model it describes."""
