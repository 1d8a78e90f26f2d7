"""Side by side with others, and what each kind of layer costs: measured on the machine at hand."""

import os

# The profiler that counts memory is chatty. torch reads these once, when it is loaded.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
