"""Sight: pictures of attention."""
