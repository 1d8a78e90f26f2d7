"""Pictures of attention: as PNG, as SVG, in the terminal and in a notebook."""
