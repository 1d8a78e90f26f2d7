"""What was seen, in a file: safetensors, with the masks, biases and scores of the calls described beside their tensors."""

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from regard.attention import masks as m
from regard.attention.biases import ALiBi, Bias, RelativeBuckets, TensorBias
from regard.attention.call import Call
from regard.attention.masks import Mask
from regard.attention.reach import Extent
from regard.attention.scores import Additive, Bilinear, Cosine, Dot, LowRank, ScaledDot, Score
from regard.data.file_access import write_atomically
from regard.data.given import parse_json
from regard.errors import RegardError
from regard.runs.checkpoints import load_tensors, read_header
from regard.sight.evidence import rectangle
from regard.sight.layer import Layer

_FORMAT = "regard seen 1"
_SCORES: dict[str, Callable[[], Score]] = {
    "Dot": Dot,
    "ScaledDot": ScaledDot,
    "Cosine": Cosine,
    "Bilinear": lambda: Bilinear(1, 1),
    "LowRank": lambda: LowRank(1, 1, rank=1),
    "Additive": lambda: Additive(1, 1, hidden=1),
}
Put = Callable[[Tensor], str]
Get = Callable[[str], Tensor]


def save_layers(layers: list[Layer], path: str | PathLike[str]) -> None:
    """Write the calls. A mask or bias that has no description of its own is written as its matrix."""
    tensors: dict[str, Tensor] = {}

    def put(tensor: Tensor) -> str:
        name = f"{len(tensors)}"
        tensors[name] = tensor.detach().cpu().contiguous().clone()
        return name

    described = []
    for layer in layers:
        call = layer.intact()
        described.append(
            {
                "name": layer.name,
                "query": put(call.query),
                "key": put(call.key),
                "mask": None if call.mask is None else _describe_mask(call.mask, call.extent, put),
                "bias": None if call.bias is None else _describe_bias(call.bias, call, put),
                "score": _describe_score(call.score, put),
                "scale": call.scale,
            }
        )
    write_atomically(path, save(tensors, {"format": _FORMAT, "layers": json.dumps(described)}))


def load_layers(path: str | PathLike[str]) -> list[Layer]:
    """Read the calls that `save_layers` wrote. Everything in the file is checked before it is used."""
    if not Path(path).exists():
        raise RegardError(f"{path} is not there")
    try:
        about = read_header(path).about
    except RegardError as error:
        raise RegardError(f"{path} cannot be read as what was seen of a model: {error}") from None
    if about.get("format") != _FORMAT:
        raise RegardError(f"{path} holds tensors, but not what was seen of a model: save it with seen.save")
    try:
        described = parse_json(about.get("layers", ""), "the list of its calls")
        if not isinstance(described, list):
            raise RegardError(f"its calls are a {type(described).__name__}, not a list")
        tensors = load_tensors(path)  # each once, however often calls name it
        return [Layer.of(_text(each["name"]), _call(each, tensors.__getitem__)) for each in described]
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        known = isinstance(error, RegardError)
        said = str(error) if known else " ".join(f"{type(error).__name__} {error}".split())
        raise RegardError(f"{path} cannot be read as what was seen of a model: {said[:300]}") from None


def _call(described: dict[str, Any], get: Get) -> Call:
    query, key, scale = get(described["query"]), get(described["key"]), described["scale"]
    if not (query.is_floating_point() and key.is_floating_point()):
        raise RegardError(f"a query of {query.dtype} and a key of {key.dtype}: both are floats")
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise RegardError(f"scale={scale!r} is no number")
    heads = query.shape[-3] if query.ndim > 2 else 1
    call = Call(
        query,
        key,
        None if described["mask"] is None else _make_mask(described["mask"], get),
        None if described["bias"] is None else _make_bias(described["bias"], get, heads),
        _make_score(described["score"], get),
        scale,
    )
    queries, keys = call.extent.queries, call.extent.keys
    if queries and keys:  # computing the corners of the weights finds parts that do not belong together
        rectangle(call, torch.tensor(sorted({0, queries - 1})), torch.tensor(sorted({0, keys - 1})))
    return call


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise RegardError(f"{value!r} is no name")
    return value


def _describe_mask(mask: Mask, extent: Extent, put: Put) -> dict[str, Any]:
    def count(number: Any) -> Any:
        return {"tensor": put(number)} if isinstance(number, Tensor) else number

    match mask:
        case m._Causal():
            return {"causal": mask.offset}
        case m._Window():
            return {"window": [mask.size, mask.offset]}
        case m._Lengths() if mask.word == "prefix":
            return {"prefix": count(mask.keys)}
        case m._Lengths():
            paired = [count(mask.keys)] if mask.paired else [count(mask.keys), count(mask.queries)]
            return {"lengths": paired, "padded": mask.padded}
        case m._Documents():
            return {"documents": [put(mask.keys), put(mask.queries)]}
        case m._And():
            return {"and": [_describe_mask(mask.a, extent, put), _describe_mask(mask.b, extent, put)]}
        case m._Or():
            return {"or": [_describe_mask(mask.a, extent, put), _describe_mask(mask.b, extent, put)]}
        case m._Not():
            return {"not": _describe_mask(mask.mask, extent, put)}
    return {"keep": put(mask.dense(extent.queries, extent.keys, device=extent.device))}


def _make_mask(described: dict[str, Any], get: Get) -> Mask:
    def count(number: Any) -> Any:
        return get(number["tensor"]) if isinstance(number, dict) else number

    match described:
        case {"causal": offset}:
            return m.causal(offset=offset)
        case {"window": [size, offset]}:
            return m.window(size, offset=offset)
        case {"lengths": [both], "padded": padded}:
            return m.lengths(count(both), padded=padded)
        case {"lengths": [keys, queries], "padded": padded}:
            return m.lengths(keys=count(keys), queries=count(queries), padded=padded)
        case {"prefix": number}:
            return m.prefix(count(number))
        case {"documents": [keys, queries]}:
            return m.documents(get(keys), queries=get(queries))
        case {"and": [a, b]}:
            return _make_mask(a, get) & _make_mask(b, get)
        case {"or": [a, b]}:
            return _make_mask(a, get) | _make_mask(b, get)
        case {"not": inner}:
            return ~_make_mask(inner, get)
        case {"keep": name}:
            return m.keep(get(name))
    raise RegardError(f"a mask described as {described} is not known to this version")


def _describe_bias(bias: Bias, call: Call, put: Put) -> dict[str, Any]:
    if isinstance(bias, ALiBi):
        return {"alibi": bias.heads}
    if isinstance(bias, RelativeBuckets):
        return {"buckets": put(bias.table), "far": bias.far, "two_way": bias.two_way}
    matrix = bias.tensor if isinstance(bias, TensorBias) else call.biases()
    return {"tensor": put(matrix)}  # type: ignore[arg-type]


def _make_bias(described: dict[str, Any], get: Get, heads: int) -> Bias:
    if "alibi" in described:
        if described["alibi"] != heads:
            raise RegardError(f"ALiBi for {described['alibi']} heads, where there are {heads}")
        return ALiBi(heads)
    if "buckets" not in described:
        return TensorBias(get(described["tensor"]))
    table = get(described["buckets"])
    if table.ndim != 2 or not table.is_floating_point() or type(described["far"]) is not int:
        raise RegardError(
            f"buckets of shape {list(table.shape)} up to {described['far']!r}: a table is wanted"
        )
    made = RelativeBuckets(
        table.shape[1], buckets=table.shape[0], far=described["far"], two_way=described["two_way"]
    )
    made.table = nn.Parameter(table, requires_grad=False)
    return made


def _describe_score(score: Score, put: Put) -> dict[str, Any]:
    name = type(score).__name__
    if name not in _SCORES:
        raise RegardError(f"a score of your own, {name}, cannot be saved: save its evidence instead")
    return {"name": name, "weights": {key: put(weight) for key, weight in score.named_parameters()}}


def _make_score(described: dict[str, Any], get: Get) -> Score:
    score = _SCORES[described["name"]]()
    own = dict(score.named_parameters())
    for key, name in described["weights"].items():
        weight = get(name)
        if key not in own or not weight.is_floating_point():
            raise RegardError(
                f"a {described['name']} score with {key}: it has {', '.join(own) or 'no weights'}"
            )
        setattr(score, key, nn.Parameter(weight, requires_grad=False))
    return score
