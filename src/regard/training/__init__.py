"""Training: the loop, its schedules, its checkpoints, and several processes."""
