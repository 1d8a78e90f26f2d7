"""Whether Triton is installed, and whether its interpreter is on: checked here alone, without importing Triton."""

import importlib.util
import os

# Constants, so that torch.compile finds them when it traces the choice of a kernel. Triton reads its variable once too,
# when a kernel is defined.
TRITON_INSTALLED = importlib.util.find_spec("triton") is not None
TRITON_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # kernels run on a CPU, slowly: for tests
