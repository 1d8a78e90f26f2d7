"""What the CPU that tests run on can do."""

import pytest
import torch

BF16 = bool(torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())
NO_BF16 = "this CPU does not multiply 16-bit numbers"
needs_bf16 = pytest.mark.skipif(not BF16, reason=NO_BF16)
