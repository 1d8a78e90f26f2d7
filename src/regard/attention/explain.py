"""What `attend` will do with a call, in words."""

from dataclasses import dataclass

import torch

from regard.attention.call import Call
from regard.attention.choose import Choice, choose
from regard.attention.kernels.torch_kernels import block_of, torch_instead
from regard.data.given import instance


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The kernel chosen for a call and the reasons; printing it is what it is for."""

    choice: Choice
    lines: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "\n".join([self.choice.kernel, *(f"  {name:<8}{text}" for name, text in self.lines)])


def explain(call: Call, *, value_width: int | None = None, dropout: float = 0.0) -> Explanation:
    """Which kernel `attend` runs for this call, in which form it gets the mask, and why. `print(explain(call))`."""
    instance("call", call, Call, "give a Call, Call(query, key, mask)")
    reach = call.reach()
    choice = choose(call, reach, dropout=dropout)
    batch = call.query.shape[:-2]
    lines = []
    if choice.kernel == "varlen":
        by = "C" if call.query.is_cpu else "Triton"
        lines.append(("kernel", f"one for variable lengths ({by}): every query over its range of the keys"))
    elif choice.kernel == "rows":
        lines.append(("kernel", "every packed sequence in a row of its own, and then as for any padded call"))
        lines.append(("why", f"not the kernel for variable lengths: {choice.ruled_out}"))
    elif choice.kernel == "fused":
        learned = call.bias is not None and call.bias.learned
        backend = (
            "its memory-efficient kernel, which gives the bias a gradient"
            if learned
            else _backend(call, dropout)
        )
        lines.append(("kernel", f"torch's scaled_dot_product_attention; {backend}"))
        if choice.ruled_out is not None:
            lines.append(("why", f"not the kernel for variable lengths: {choice.ruled_out}"))
    elif reach is not None and choice.kernel == "blocks":
        low, high = (int(limit or 0) for limit in reach.bounded)
        size = block_of(low, high)
        told = (
            f"{size} queries at a time over {size + high - low} keys around them; {_backend(call, dropout)}"
        )
        lines.append(("kernel", told))
    elif choice.kernel == "small queries":
        torch_because = torch_instead(call.query, dropout)
        by = "small queries (C)" if torch_because is None else f"small queries (torch): {torch_because}"
        lines.append(("kernel", by))
        lines.append(("why", choice.ruled_out or ""))
    elif choice.kernel == "decode":
        lines.append(("kernel", "a few queries over a static cache, in one Triton kernel"))
    elif choice.kernel == "fused additive":
        lines.append(("kernel", f"scores, softmax and values in one Triton kernel; {_tangents(call)}"))
    else:
        size = batch.numel() * call.extent.queries * call.extent.keys * call.query.element_size()
        lines.append(("kernel", f"the weights are held in memory, {_bytes(size)} at a time"))
        lines.append(("why", choice.ruled_out or ""))
    lines.append(("score", _score(call)))
    lines.append(("mask", _mask(call, choice)))
    if call.bias is not None:
        lines.append(("bias", f"{type(call.bias).__name__}, added after the scale"))
    if call.groups > 1:
        lines.append(("heads", f"{batch[-1]} of the query over {call.key.shape[-3]} of the key"))
    if choice.kernel == "fused" and value_width is not None:
        lines += _widths(call, value_width)
    if choice.kernel == "varlen" and reach is not None:
        lines.append(("rows", "unseen keys are never read; a query that sees nothing gets zeros"))
    elif reach is not None and (reach.looking() is not None or reach.seen() is not None):
        lines.append(
            (
                "rows",
                "keys that no query may look at are zeroed first; a query that may look at nothing gets zeros",
            )
        )
    return Explanation(choice=choice, lines=tuple(lines))


def _backend(call: Call, dropout: float) -> str:
    if call.query.device.type == "cpu":
        return "its unfused form, because of dropout" if dropout else "its flash kernel for the CPU"
    return "torch picks among its cuDNN, flash and memory-efficient kernels"


def _tangents(call: Call) -> str:
    if call.query.dtype == torch.float32:
        return "each tanh to float32"
    return "two tanh from one reciprocal, in float32"


def _score(call: Call) -> str:
    name, width = type(call.score).__name__, call.query.shape[-1]
    return f"{name}, times {call.score.factor(width) * call.scale:.4g}"


def _mask(call: Call, choice: Choice) -> str:
    if call.mask is None and choice.mask == "nothing":
        return "none"
    told = {
        "nothing": "nothing to tell the kernel",
        "causal flag": "the causal flag",
        "band": "a band",
        "matrix": "a matrix",
        "band and matrix": "a band and a matrix",
        "ranges": "where each query's keys begin and end",
        "lengths": "the length of each row",
        "lengths and band": "the length of each row and a band",
    }
    extent = call.extent
    return f"{call.mask!r} over {extent.queries} × {extent.keys} → {told[choice.mask]}"


def _widths(call: Call, value_width: int) -> list[tuple[str, str]]:
    key_width = call.score.map_key(call.key[..., :0, :]).shape[-1]
    if key_width == value_width:
        return []
    narrow, wide = ("value", key_width) if value_width < key_width else ("query and key", value_width)
    return [("widths", f"key {key_width}, value {value_width}: {narrow} filled up with zeros to {wide}")]


def _bytes(size: int) -> str:
    unit = next((unit for unit in (2**30, 2**20, 2**10) if size >= unit), 1)
    return f"{size / unit:.3g} {({2**30: 'GB', 2**20: 'MB', 2**10: 'KB'}).get(unit, 'bytes')}"
