"""Why a watched model was not seen to attend: the reason that can be found from outside, in one line."""

import dis
import inspect
import sys
from collections.abc import Iterator, Sequence, Set
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from torch import nn
from torch.nn import functional as F

_PRODUCTS = {"matmul", "bmm", "baddbmm", "einsum"}


def why_unseen(model: nn.Module | None, wanted: Set[str], attended: Sequence[str]) -> str:
    """That no call was seen, and why. `attended` are modules that made calls but were not among those wanted."""
    opening = f"no attention call of {type(model).__name__} was seen"
    if attended:
        chosen = ", ".join(sorted(wanted)[:3]) + (" …" if len(wanted) > 3 else "")
        others = ", ".join(attended[:6]) + (" …" if len(attended) > 6 else "")
        return f"{opening}: layers chose {chosen}, which made none, but these did: {others}"
    modules = (
        []
        if model is None
        else [(name or type(model).__name__, each) for name, each in model.named_modules()]
    )
    for look in (_aliased, _hugging_face, _x_transformers, _other_kernel, _written_out):
        for name, module in modules:
            reason = look(name, module)
            if reason:
                return f"{opening}: {reason}"
    return (
        f"{opening}: it did not run inside `with watch(...)`, replayed a CUDA graph, or attends in a way that is not watched "
        "(docs/watching.md)"
    )


def _aliased(name: str, module: nn.Module) -> str:
    """Torch's function under another name: only its own name is replaced while a model is watched."""
    original = inspect.unwrap(F.scaled_dot_product_attention)
    held = [(f"{name}.{key}", value) for key, value in vars(module).items()]
    for function in _functions(type(module)):
        home = sys.modules.get(function.__module__)
        used = {each for code in _codes(function.__code__) for each in code.co_names}
        held += [(f"{home.__name__}.{key}", vars(home).get(key)) for key in sorted(used) if home is not None]
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        held += [(key, _content(cell)) for key, cell in cells]
        defaults = inspect.signature(function).parameters.values()
        held += [(parameter.name, parameter.default) for parameter in defaults]
    for where, value in held:
        if (value.func if isinstance(value, partial) else value) is original:
            return (
                f"{name} calls torch's scaled_dot_product_attention as {where}, which was taken before watching began; "
                "call it as F.scaled_dot_product_attention"
            )
    return ""


def _hugging_face(name: str, module: nn.Module) -> str:
    """Which form of attention a model of transformers takes, and whether it has another."""
    form = getattr(getattr(module, "config", None), "_attn_implementation", None)
    if form in (None, "sdpa") or not hasattr(module, "set_attn_implementation"):
        return ""
    kind = type(module).__name__
    if getattr(module, "_supports_sdpa", False):
        what = "writes attention out" if form == "eager" else "is not torch's scaled_dot_product_attention"
        return f"{kind} has attn_implementation={form!r}, which {what}; model.set_attn_implementation('sdpa') changes that"
    return f"transformers has no 'sdpa' form of {kind}: what attention it has is written out"


def _x_transformers(name: str, module: nn.Module) -> str:
    """Its default is einsum and softmax."""
    if type(module).__module__.startswith("x_transformers") and getattr(module, "flash", None) is False:
        return f"{name} is x-transformers' default, which writes attention out; make its layers with attn_flash=True"
    return ""


def _other_kernel(name: str, module: nn.Module) -> str:
    """Attention functions that are not torch's scaled_dot_product_attention."""
    used = {each for code in _code_of(module) for each in code.co_names}
    for function in sorted(used):
        if function == "flex_attention" or function.startswith("flash_attn_"):
            return f"{name} attends by {function}, which is not watched; F.scaled_dot_product_attention is"
    return ""


def _written_out(name: str, module: nn.Module) -> str:
    """A softmax beside products of matrices: attention by hand, most likely."""
    codes = _code_of(module)
    used = {each for code in codes for each in code.co_names}
    if "softmax" in used and (used & _PRODUCTS or any(map(_multiplies, codes))):
        return (
            f"{name} ({type(module).__name__}) writes attention out with a softmax; "
            "F.scaled_dot_product_attention or regard.attend would be seen"
        )
    return ""


def _functions(kind: type) -> Iterator[FunctionType]:
    """The methods that a user's class defines or inherits, without those of torch."""
    for one in kind.__mro__:
        if one is not object and not one.__module__.startswith("torch."):
            yield from (inspect.unwrap(each) for each in vars(one).values() if inspect.isfunction(each))


def _code_of(module: nn.Module) -> list[CodeType]:
    return [code for function in _functions(type(module)) for code in _codes(function.__code__)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _multiplies(code: CodeType) -> bool:
    return any(each.opname == "BINARY_OP" and each.argrepr == "@" for each in dis.get_instructions(code))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing in it yet
        return None
