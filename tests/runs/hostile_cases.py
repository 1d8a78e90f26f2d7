"""The hostile files, by what they are hostile to. Every one is refused in one line; `info` tells what it can."""

import gzip
import json
import struct
from typing import Any

import torch
from runs.hostile_folders import (
    Change,
    Hostile,
    checkpoint,
    edited,
    fifo,
    holds,
    in_recipe,
    link,
    png,
    replaced,
    seen,
    seen_about,
    sparse,
    wav,
    weights,
    with_header,
    zipped,
)  # fmt: skip

FILES = ("config.json", "model.safetensors", "recipe.yaml", "tokenizer.json", "generation_config.json")
DEEP_JSON = "[" * 100_000
BOMB = "a: &a [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1 or ''}, *a{n - 1 or ''}]\n" for n in range(1, 40))
MERGES = "a: &a {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [*a{n - 1 or ''}, *a{n - 1 or ''}]}}\n" for n in range(1, 40)
)


def _files() -> list[tuple[str, str, Change]]:
    """Things in place of files, for every file of a run."""
    made: list[tuple[str, str, Change]] = []
    for name in FILES:
        made += [
            (f"{name} is a pipe", "load", fifo(name)),
            (f"{name} is /dev/zero", "load", link(name, "/dev/zero")),
            (f"{name} is a link out of the folder", "load", link(name, "/etc/passwd")),
            (f"{name} is a link to itself", "load", link(name, name)),
            (f"{name} is a folder", "load", replaced(name, lambda path: path.mkdir())),
            (f"{name} is a terabyte of nothing", "load", replaced(name, sparse(1 << 40))),
            (f"{name} is empty", "load", holds(name, b"")),
            (f"{name} is noise", "load", holds(name, bytes(range(256)) * 40)),
        ]
    for name in ("config.json", "tokenizer.json", "generation_config.json"):
        made += [
            (f"{name} is deep", "load", holds(name, DEEP_JSON)),
            (f"{name} is deep and closed", "load", holds(name, "[" * 900 + "]" * 900)),
            (f"{name} is a list", "load", holds(name, "[]")),
            (f"{name} is null", "load", holds(name, "null")),
            (f"{name} has many values", "load", holds(name, "[" + "[]," * 300_000 + "[]]")),
            (f"{name} has a key twice", "load", holds(name, '{"model": {}, "model": {}}')),
            (f"{name} has half a character", "load", holds(name, '{"model": "\\ud800"}')),
        ]
    return made


def _configs() -> list[tuple[str, str, Change]]:
    changes: dict[str, dict[str, Any]] = {
        "a billion blocks": {"depth": 10**9},
        "a billion blocks of the decoder": {"decoder_depth": 10**9},
        "a thousand blocks": {"depth": 1000},
        "a width of a million": {"width": 1 << 20, "heads": 2},
        "a width beyond 64 bits": {"width": 10**30},
        "a width below none": {"width": -8},
        "no width": {"width": 0},
        "an inner width of a billion": {"hidden_width": 10**9},
        "a vocabulary of a billion": {"source_vocabulary": 10**9, "target_vocabulary": 10**9},
        "heads of nobody": {"heads": 10**9},
        "less key heads": {"kv_heads": -1},
        "a number as text": {"depth": "1"},
        "a truth as a number": {"depth": True},
        "a list as a number": {"depth": [1]},
        "a word nobody knows": {"positions": "x" * 100_000},
        "a setting nobody knows": {"x" * 1000: 1},
        "a kind nobody knows": {"kind": "virus"},
        "a kind that is a list": {"kind": ["transformer"]},
        "another kind": {"kind": "language", "vocabulary": 280},
        "dropout that is no number": {"dropout": float("nan")},
        "learned positions without end": {"positions": "learned", "longest": 10**12},
        "labels of a translator's": {"id2label": [1, 2]},
    }
    made = [
        (f"a config with {name}", "load", edited("config.json", **each)) for name, each in changes.items()
    ]
    sounds: dict[str, dict[str, Any]] = {
        "a window without end": {"window": 10**9, "hop": 1},
        "bands without end": {"bands": 10**9},
        "a million strides": {"frame_strides": [1] * 100_000},
    }
    for name, each in sounds.items():
        config = {
            "model_type": "regard-hearing",
            "kind": "hearing",
            "width": 8,
            "heads": 2,
            "depth": 1,
            **each,
        }
        made.append((f"a hearing model with {name}", "load", holds("config.json", json.dumps(config))))
    units = {"kind": "convolution", "units": 10**9, "image_size": [8, 8]}
    made.append(("a convolution with a billion units", "load", holds("config.json", json.dumps(units))))
    return made


def _weights() -> list[tuple[str, str, Change]]:
    huge = {"a": {"dtype": "F32", "shape": [1 << 36], "data_offsets": [0, 1 << 38]}}
    odd = {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}
    wrap = {"a": {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 0]}}
    many = {f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(50_000)}
    return [
        ("weights of 256 GiB of nothing", "load", with_header(json.dumps(huge).encode(), size=1 << 38)),
        ("weights of a shape below none", "load", with_header(json.dumps(odd).encode(), size=4)),
        ("weights of a shape that wraps", "load", with_header(json.dumps(wrap).encode(), size=0)),
        ("weights of 50,000 empty tensors", "load", with_header(json.dumps(many).encode(), size=0)),
        ("weights with a header without end", "load", with_header(b"{}", length=2**63)),
        ("weights with a header of 100 MB", "load", with_header(b" " * 100_000_000)),
        ("weights with a deep header", "load", with_header(b'{"a":' * 50_000 + b"1" + b"}" * 50_000)),
        ("weights with a header that is a list", "load", with_header(b"[]")),
        ("weights with a name twice", "load", with_header(b'{"a":{},"a":{}}')),
        ("weights with a dtype nobody knows", "load", with_header(
            b'{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}', size=1)),
        ("weights without tensors", "load", weights(lambda kept: {})),
        ("weights with a tensor too many", "load", weights(lambda kept: {**kept, "more": torch.ones(3)})),
        ("weights with a tensor too few", "load", weights(lambda kept: dict([*kept.items()][1:]))),
        ("weights of other shapes", "load", weights(lambda kept: {k: v.new_zeros(3, 5) for k, v in kept.items()})),
        ("weights that are whole numbers", "load", weights(lambda kept: {k: v.long() for k, v in kept.items()})),
        ("weights that are truths", "load", weights(lambda kept: {k: v.bool() for k, v in kept.items()})),
    ]  # fmt: skip


def _generation() -> list[tuple[str, str, Change]]:
    changes: dict[str, dict[str, Any]] = {
        "a beam of a billion": {"num_beams": 10**9},
        "no beam": {"num_beams": 0},
        "a beam beyond 64 bits": {"num_beams": 10**40},
        "texts without end": {"max_new_tokens": 10**12},
        "answers without end": {"longest": 1e300, "extra": 10**18},
        "sources without end": {"most": 10**18},
        "a penalty that overflows": {"length_penalty": 1e308},
        "a temperature that is no number": {"temperature": float("nan")},
        "a temperature without end": {"temperature": float("inf")},
        "a share of two": {"top_p": 2.0},
        "a top k below none": {"top_k": -1},
        "a beam in words": {"num_beams": "many"},
    }
    return [
        (f"generation with {name}", "load", edited("generation_config.json", **each))
        for name, each in changes.items()
    ]


def _recipes() -> list[tuple[str, str, Change]]:
    texts = {
        "aliases that double": BOMB,
        "merges that double": MERGES,
        "a deep list": "[" * 20_000,
        "deep keys": "? " * 20_000,
        "a megabyte of text": "about: " + "x" * (1 << 20),
        "a key twice": "seed: 1\nseed: 2\n",
        "a name of Python": "a: !!python/name:os.system",
        "a call of Python": "!!python/object/apply:os.system ['true']",
        "5,000 digits": "seed: " + "9" * 5000,
        "20,000 digits of 16": "seed: 0x" + "f" * 20_000,
        "bytes": "about: !!binary aGVsbG8=",
        "two documents": "a: 1\n---\nb: 2\n",
        "half a character": 'about: "\\ud800"',
        "a NUL": "about: \x00",
    }  # fmt: skip
    made = [(f"a recipe of {name}", "recipe", holds("recipe.yaml", text)) for name, text in texts.items()]
    for name, old, new in (
        ("a seed below none", "seed: 1", "seed: -1"),
        ("a seed that is no number", "seed: 1", "seed: .nan"),
        ("a rate without end", "rate: 0.001", "rate: .inf"),
        ("betas of one", "- 0.9\n", "- 1.0\n"),
        ("betas that are no numbers", "- 0.9\n", "- .nan\n"),
        ("tokens without end", "size: 8000", "size: 99999999999"),
        ("steps without end", "steps: 4", "steps: 99999999999999"),
        ("samples without end", "train: 60", "train: 99999999999999"),
        ("a preset that is a list", "  kind: transformer", "  preset: [tiny]\n  kind: transformer"),
    ):
        made.append((f"a recipe with {name}", "recipe", in_recipe(old, new)))
    return made


def _tokenizers() -> list[tuple[str, str, Change]]:
    file = "tokenizer.json"
    slow = {"type": "Split", "pattern": {"Regex": "(a|a)*$"}, "behavior": "Isolated", "invert": False}
    padding = {"strategy": {"Fixed": 10**8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "<pad>"}  # fmt: skip
    replace = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1_000_000}
    specials = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3}
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]]}
    return [
        ("a tokenizer that pads to 10⁸", "tokenizer", edited(file, padding=padding)),
        ("a tokenizer that cuts", "tokenizer", edited(file, truncation={
            "direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0})),
        ("a tokenizer with dropout", "tokenizer", edited(file, model__dropout=0.5)),
        ("a tokenizer with dropout of two", "tokenizer", edited(file, model__dropout=2.0)),
        ("a tokenizer that makes a text larger", "tokenizer", edited(file, normalizer=replace)),
        ("a tokenizer with a slow pattern", "tokenizer", edited(file, pre_tokenizer=slow)),
        ("a tokenizer with a broken pattern", "tokenizer", edited(file, pre_tokenizer={**slow, "pattern": {"Regex": "("}})),
        ("a tokenizer with a slow decoder", "tokenizer", edited(file, decoder={
            "type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""})),
        ("a tokenizer with a template", "tokenizer", edited(file, post_processor={
            "type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}})),
        ("a tokenizer of another kind", "tokenizer", edited(file, model=unigram)),
        ("a tokenizer without a model", "tokenizer", edited(file, model=None)),
        ("a tokenizer with holes", "tokenizer", edited(file, model__vocab={**specials, "a": 2**31})),
        ("a tokenizer with a number twice", "tokenizer", edited(file, model__vocab={**specials, "a": 3})),
        ("a tokenizer with a number below none", "tokenizer", edited(file, model__vocab={**specials, "a": -1})),
        ("a tokenizer with letters that are no bytes", "tokenizer", edited(
            file, model__vocab={**specials, "漢": 4}, model__merges=[])),
        ("a tokenizer that merges strangers", "tokenizer", edited(file, model__merges=[["zz", "yy"]])),
        ("a tokenizer that merges three", "tokenizer", edited(file, model__merges=[["a", "b", "c"]])),
        ("a tokenizer with other special tokens", "tokenizer", edited(file, model__vocab={"a": 0, "b": 1, "c": 2, "d": 3})),
        ("a tokenizer with more added tokens", "tokenizer", edited(file, added_tokens=[{
            "id": 2**31, "content": "x", "single_word": False, "lstrip": False, "rstrip": False, "normalized": True,
            "special": False}])),
        ("a tokenizer of more tokens than the model", "load", edited(
            file, model__vocab={**specials, **{chr(33 + n % 90) * (n // 90 + 1): n + 4 for n in range(500)}},
            model__merges=[])),
        ("a tokenizer of 40 MB", "tokenizer", holds(file, " " * 40_000_000 + "{}")),
        ("a tokenizer that is gone", "load", lambda path: (path / file).unlink()),
    ]  # fmt: skip


def _checkpoints() -> list[tuple[str, str, Change]]:
    def drop(prefix: str) -> Change:
        def change(tensors: dict[str, Any], told: dict[str, Any]) -> None:
            for name in [name for name in tensors if name.startswith(prefix)]:
                del tensors[name]

        return checkpoint(change)

    def remake(prefix: str, make: Any) -> Change:
        def change(tensors: dict[str, Any], told: dict[str, Any]) -> None:
            for name in [name for name in tensors if name.startswith(prefix)][:1]:
                tensors[name] = make(tensors[name])

        return checkpoint(change)

    def say(**changes: Any) -> Change:
        return checkpoint(lambda tensors, told: told.update(changes))

    return [
        ("a checkpoint without weights", "resume", drop("weights/")),
        ("a checkpoint without one weight", "resume", drop("weights/encoder.0")),
        ("a checkpoint without random numbers", "resume", drop("random/")),
        ("a checkpoint without a moment", "resume", drop("optimiser/exp_avg_sq")),
        ("a checkpoint of another weight's shape", "resume", remake("weights/", lambda t: t.new_zeros(7, 3))),
        ("a checkpoint of other moments", "resume", remake("optimiser/exp_avg/", lambda t: t.new_zeros(7, 3))),
        ("a checkpoint of whole moments", "resume", remake("optimiser/exp_avg/", lambda t: t.long())),
        ("a checkpoint of many steps", "resume", remake("optimiser/step/", lambda t: t.new_zeros(3))),
        ("a checkpoint of few random numbers", "resume", remake("random/cpu", lambda t: t[:100].clone())),
        ("a checkpoint of fractions for random numbers", "resume", remake("random/cpu", lambda t: t.float())),
        ("a checkpoint of bad random numbers", "resume", remake("random/cpu", lambda t: torch.full_like(t, 255))),
        ("a checkpoint with a moment nobody knows", "resume", checkpoint(
            lambda tensors, told: tensors.update({"optimiser/momentum/encoder_norm.weight": torch.ones(8)}))),
        ("a checkpoint of a weight nobody knows", "resume", checkpoint(
            lambda tensors, told: tensors.update({"optimiser/exp_avg/nobody": torch.ones(8)}))),
        ("a checkpoint that says nothing", "resume", checkpoint(lambda *_: None, about={})),
        ("a checkpoint that says null", "resume", say(step=None)),
        ("a checkpoint of steps in words", "resume", say(step="many")),
        ("a checkpoint of a step below none", "resume", say(step=-1)),
        ("a checkpoint of half a step", "resume", say(step=1.5)),
        ("a checkpoint of metrics in a list", "resume", say(metrics=[1])),
        ("a checkpoint of metrics in words", "resume", say(best={"loss": "low"})),
        ("a checkpoint of an epoch that is a truth", "resume", say(epoch=True)),
    ]  # fmt: skip


def _seen() -> list[tuple[str, str, Change]]:
    dots = {"name": "ScaledDot", "weights": {}}
    changes: dict[str, dict[str, Any]] = {
        "no query": {"query": "9"},
        "a query that is a number": {"query": 0},
        "a query that is a list": {"query": []},
        "whole queries": {"query": "2"},
        "a name that is a list": {"name": []},
        "a scale in words": {"scale": "x"},
        "no scale": {"scale": None},
        "a scale that is a list": {"scale": [1]},
        "a mask that is a list": {"mask": []},
        "a mask nobody knows": {"mask": {"wall": 1}},
        "a window in words": {"mask": {"window": ["a", None]}},
        "a window below none": {"mask": {"window": [-1, 0]}},
        "a window of three": {"mask": {"window": [1, 2, 3]}},
        "an offset in words": {"mask": {"causal": "a"}},
        "causal without an offset over other keys": {"mask": {"causal": None}},
        "lengths of nobody": {"mask": {"lengths": [{"tensor": "9"}], "padded": "right"}},
        "lengths padded nowhere": {"mask": {"lengths": [3], "padded": "up"}},
        "lengths in words": {"mask": {"lengths": ["a"], "padded": "right"}},
        "documents of other lengths": {"mask": {"documents": ["2", "2"]}},
        "a matrix that is no mask": {"mask": {"keep": "0"}},
        "half a mask": {"mask": {"and": [{"causal": 0}]}},
        "not a list": {"mask": {"not": [1]}},
        "masks inside each other": {"mask": json.loads('{"not":' * 80 + '{"causal":0}' + "}" * 80)},
        "a bias that is a list": {"bias": []},
        "a bias of nobody": {"bias": {"tensor": "9"}},
        "a bias of another shape": {"bias": {"tensor": "0"}},
        "ALiBi of a billion heads": {"bias": {"alibi": 10**9}},
        "ALiBi in words": {"bias": {"alibi": "a"}},
        "buckets in a row": {"bias": {"buckets": "2", "far": 128, "two_way": True}},
        "buckets in words": {"bias": {"buckets": "3", "far": "x", "two_way": True}},
        "buckets without far": {"bias": {"buckets": "3"}},
        "a score nobody knows": {"score": {"name": "Magic", "weights": {}}},
        "a score that is a list": {"score": []},
        "a score whose forward is a tensor": {"score": {**dots, "weights": {"forward": "0"}}},
        "a score without weights": {"score": {"name": "Bilinear"}},
        "a score of other widths": {"score": {"name": "Bilinear", "weights": {"weight": "0"}}},
        "a score of whole numbers": {"score": {"name": "Bilinear", "weights": {"weight": "2"}}},
    }
    table = {"3": torch.randn(8, 2)}
    made = [(f"what was seen with {name}", "seen", seen(table, **each)) for name, each in changes.items()]
    return [
        *made,
        ("what was seen of keys in another type", "seen", seen({"1": torch.randn(1, 2, 5, 4).half()})),
        ("what was seen of keys of other widths", "seen", seen({"1": torch.randn(1, 2, 5, 3)})),
        ("what was seen of keys of other batches", "seen", seen({"1": torch.randn(3, 2, 5, 4)})),
        ("what was seen of one axis", "seen", seen({"0": torch.randn(3), "1": torch.randn(3)})),
        ("what was seen that is no list", "seen", seen_about(layers="{}")),
        ("what was seen that is a number", "seen", seen_about(layers="7")),
        ("what was seen that is a list of numbers", "seen", seen_about(layers="[7]")),
        ("what was seen that is deep", "seen", seen_about(layers=DEEP_JSON)),
        ("what was seen of another format", "seen", seen_about(format="regard seen 9")),
        ("what was seen is a pipe", "seen", fifo("seen.safetensors")),
        ("what was seen is noise", "seen", holds("seen.safetensors", bytes(range(256)))),
    ]  # fmt: skip


def _media() -> list[tuple[str, str, Change]]:
    said = struct.pack(">4BIII", 0, 0, 8, 3, 1 << 16, 1 << 8, 1 << 7)
    return [
        ("a sound of 1 sample a second", "sound", holds("sound.wav", wav(rate=1, data=bytes(4096)))),
        ("a sound of no rate", "sound", holds("sound.wav", wav(rate=0))),
        ("a sound of 4 GHz", "sound", holds("sound.wav", wav(rate=2**32 - 1))),
        ("a sound of no channels", "sound", holds("sound.wav", wav(channels=0))),
        ("a sound of 65,535 channels", "sound", holds("sound.wav", wav(channels=65535))),
        ("a sound that promises 4 GB", "sound", holds("sound.wav", wav(size=2**32 - 1))),
        ("a sound of 7 bits", "sound", holds("sound.wav", wav(bits=7))),
        ("a sound that is no numbers", "sound", holds("sound.wav", wav(bits=32, kind=3, data=b"\0\0\xc0\x7f" * 9))),
        ("a sound without an end", "sound", replaced("sound.wav", sparse(1 << 40))),
        ("a sound that is a pipe", "sound", fifo("sound.wav")),
        ("a picture of 2³¹ pixels a side", "picture", holds("picture.png", png(2**31 - 1, 2**31 - 1))),
        ("a picture of 49 million blank pixels", "picture", holds("picture.png", lambda: png(7000, 7000, data=bytes(7001 * 7000)))),
        ("a picture of no pixels", "picture", holds("picture.png", png(0, 0))),
        ("a picture of 16 bits", "picture", holds("picture.png", png(2, 2, depth=16, data=bytes(10)))),
        ("a picture that ends early", "picture", holds("picture.png", png(2000, 2000, data=b"x"))),
        ("a picture that is a header", "picture", holds("picture.png", b"\x89PNG\r\n\x1a\n")),
        ("IDX packed to 2 GiB of zeros", "idx", holds("images.idx", lambda: gzip.compress(said + bytes(1 << 26)) * 8)),
        ("IDX that promises 4 GiB", "idx", holds("images.idx", struct.pack(">4BI", 0, 0, 8, 1, 2**32 - 1) + b"x")),
        ("IDX of eight axes without end", "idx", holds("images.idx", struct.pack(">4B8I", 0, 0, 8, 8, *[2**32 - 1] * 8))),
        ("IDX of fractions", "idx", holds("images.idx", struct.pack(">4BI", 0, 0, 13, 1, 1) + bytes(4))),
        ("lines packed without end", "lines", holds("text.txt", lambda: gzip.compress((b"a" * 99 + b"\n") * (1 << 20)))),
        ("a line packed without end", "lines", holds("text.txt", lambda: gzip.compress(b"a" * (80 << 20)))),
        ("lines from a pipe", "lines", fifo("text.txt")),
        ("lines from /dev/zero", "lines", link("text.txt", "/dev/zero")),
        ("an archive of zeros", "spoken", zipped({f"{n}_a_0.wav": wav(data=bytes(16 << 20)) for n in range(6)})),
        ("an archive of one without end", "spoken", zipped({"0_a_0.wav": bytes(70 << 20)})),
        ("an archive that is noise", "spoken", holds("spoken.zip", b"PK\x03\x04" + bytes(99))),
    ]  # fmt: skip


def _told() -> list[tuple[str, str, Change]]:
    """What `info` survives."""
    files = ("config.json", "model.safetensors", "recipe.yaml", "tokenizer.json", "metrics.json", "log.jsonl")
    made = [(f"info where {name} is noise", "info", holds(name, bytes(range(256)) * 9)) for name in files]
    made += [(f"info where {name} is a list", "info", holds(name, b"[[1], null, {}]")) for name in files]
    made += [
        (f"info where {name} is a link out", "info", link(name, "/dev/zero"))
        for name in files
        if name != "recipe.yaml"
    ]
    metrics = '[{"name": "bleu", "value": "high"}]'
    return [
        *made,
        ("info of metrics in words", "info", holds("metrics.json", metrics)),
        ("info of a log that is a pipe", "info", fifo("log.jsonl")),
        ("info of a log of 1 TB", "info", replaced("log.jsonl", sparse(1 << 40))),
        ("info of a log of odd entries", "info", holds("log.jsonl", '7\n{"step": "x"}\n{"event": "evaluation"}\n{"a": ' + "[" * 9999)),
        ("info of weights of 256 GiB", "info", with_header(
            b'{"a":{"dtype":"F32","shape":[68719476736],"data_offsets":[0,274877906944]}}', size=1 << 38)),
    ]  # fmt: skip


CASES = [
    Hostile(*each)
    for made in (
        _files,
        _configs,
        _weights,
        _generation,
        _recipes,
        _tokenizers,
        _checkpoints,
        _seen,
        _media,
        _told,
    )
    for each in made()
]
