"""Decoding: greedy, beam and sampling, written once over start, step and pick."""
