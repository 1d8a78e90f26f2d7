"""What the CPU that tests run on can do."""

import pytest
import torch

from regard.attention.kernels.native import kernels

BF16 = bool(torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported())
NO_BF16 = "this CPU does not multiply 16-bit numbers"
needs_bf16 = pytest.mark.skipif(not BF16, reason=NO_BF16)

_kernels = kernels()
VARLEN_IN_C = _kernels is not None and _kernels.multiplies_float32
needs_varlen_in_c = pytest.mark.skipif(
    f"not {VARLEN_IN_C} or config.getoption('--device') != 'cpu'",
    reason="the C kernel for variable lengths is not built, needs AVX2, and is for the CPU",
)
