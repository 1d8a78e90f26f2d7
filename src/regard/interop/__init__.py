"""Other people's attention: their modules over ours, their weights in and out."""
