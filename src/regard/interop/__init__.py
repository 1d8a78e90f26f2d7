"""Other libraries: `torch` has drop-ins for torch.nn; weights go to and from Marian, and to CTranslate2."""

from regard.interop import torch
from regard.interop.ctranslate2 import save_ctranslate2
from regard.interop.marian import load_marian, save_marian

__all__ = ["load_marian", "save_ctranslate2", "save_marian", "torch"]
