"""Side by side with others, and what each kind of layer costs: measured on the machine at hand."""

import os

os.environ.setdefault(
    "KINETO_LOG_LEVEL", "6"
)  # the profiler that counts memory is chatty, and torch reads this once
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
