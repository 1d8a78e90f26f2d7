"""Runs: recipes, run folders, and what they load into."""
