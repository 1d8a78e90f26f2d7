"""How things are measured here: as `regard bench` does, in `regard.bench.measuring`."""

from regard.bench.measuring import Run, calm_run, machine, measure, once, peak_megabytes, spread

__all__ = ["Run", "calm_run", "machine", "measure", "once", "peak_megabytes", "spread"]
