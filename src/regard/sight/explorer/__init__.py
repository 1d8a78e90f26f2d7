"""The explorer: attention in a browser, served from this process or as one file."""
