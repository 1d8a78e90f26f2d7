"""A run folder, loaded: something that translates, writes, classifies, captions, transcribes or counts."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.data.given import instance
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.layers.lowering import lower
from regard.models.captioner import Captioner, RecurrentCaptioner
from regard.models.classifier import Classifier
from regard.models.convolution import Convolution, ConvolutionConfig
from regard.models.counter import Counter, CounterConfig
from regard.models.fusion import Fusion, FusionConfig
from regard.models.hearing import Hearing
from regard.models.language import LanguageModel
from regard.models.recurrent import RecurrentTranslator
from regard.models.seeing import PictureConfig
from regard.models.transcriber import Transcriber
from regard.models.transformer import Transformer
from regard.models.vision import Vision
from regard.runs.building import build_model
from regard.runs.chosen import chosen
from regard.runs.fitting import check_fit
from regard.runs.folder import RunFolder
from regard.runs.inputs import PairReader, PictureReader, SoundReader, TextReader
from regard.runs.reading import build
from regard.runs.recipe import ModelConfig
from regard.runs.settings import Decoding, TextData
from regard.runs.sorter import Sorter
from regard.runs.teller import Describer, Scribe
from regard.runs.translator import Translator
from regard.runs.writer import Writer


@dataclass(frozen=True, kw_only=True)
class _Described:
    model: ModelConfig


def load(
    run: str | os.PathLike[str],
    *,
    device: str | torch.device | None = None,
    precision: str | None = None,
    compile: bool = False,
    accept_changes: bool = False,
) -> Any:
    """The model of a run with its tokenizers: `.translate([…])`, `.generate([…])`, `.classify([…])`, `.caption([…])`,
    `.transcribe([…])`, `.score(…)`, whichever it can. Without a device, a GPU where there is one.

    Of a checkpoint, "runs/x/checkpoints/step-500", it is the model as it was then; of a run that is not finished, the
    one of its best checkpoint, with a warning that says so.

    With a precision (float32, bf16 or int8 on the CPU; float32, fp16 or bf16 on a GPU) it answers quicker and can no
    longer be trained; without one it is as it was trained. `compile` has a C compiler make kernels for the CPU.

    Weights and tokenizers that are not those that training wrote are refused, unless you accept changes.
    """
    instance("run", run, (str, os.PathLike), "give the folder of a run")
    source = chosen(run, accept_changes=accept_changes)
    folder = source.run
    config = folder.load_config()
    described = {key: value for key, value in config.items() if key not in ("model_type", "id2label")}
    wanted = build(_Described, {"model": described}, where=str(folder.config)).model
    check_fit(wanted, source.header(), weights=source.path, described=folder.config)
    model = build_model(wanted)
    model.load_state_dict(source.weights())
    place = chosen_device("cpu" if device is None and precision == "int8" else device)
    model = model.to(place).eval()
    if precision is not None:
        if place.type != "cpu" and precision in ("fp16", "bf16") and not _reads_words(model):
            raise RegardError(
                f"precision={precision!r} on a GPU is for models that read words; {folder.path} reads something else"
            )
        model = lower(model, precision, compile=compile)
    elif compile:
        raise RegardError("compile without a precision: give float32, bf16 or int8 too")
    recipe, tokenizers = folder.load_recipe(), folder.load_tokenizers()
    decoding = decoding_of(folder, recipe.decoding)
    labels = folder.load_labels() or []
    _check_words(folder, wanted, tokenizers)
    _check_labels(folder, wanted, labels)
    match model:
        case Counter():
            return model
        case LanguageModel():
            lines = isinstance(recipe.data, TextData) and recipe.data.unit == "lines"
            return Writer(model, tokenizers, decoding, lines=lines)
        case Classifier():
            return Sorter(model, TextReader(tokenizers["source"]), labels)
        case Vision() | Convolution():
            return Sorter(model, _pictures(model.config), labels)
        case Hearing():
            return Sorter(model, SoundReader(model.config), labels)
        case Fusion():
            return Sorter(model, PairReader(_pictures(model.config), SoundReader(model.config)), labels)
        case Captioner() | RecurrentCaptioner():
            return Describer(model, _pictures(model.config), tokenizers["source"], decoding)
        case Transcriber():
            return Scribe(model, SoundReader(model.config), tokenizers["source"], decoding)
        case _:
            return Translator(model, tokenizers, decoding)


def _check_words(folder: RunFolder, config: ModelConfig, tokenizers: Mapping[str, Tokenizer]) -> None:
    """Refuse tokenizers whose tokens the model has no vectors for."""
    sides = {"vocabulary": "source", "source_vocabulary": "source", "target_vocabulary": "target"}
    for name, side in sides.items():
        size = getattr(config, name, 0)
        if not size or isinstance(config, CounterConfig | FusionConfig):  # these read no texts
            continue
        tokenizer = tokenizers.get(side, tokenizers.get("source"))
        if tokenizer is None:
            raise RegardError(f"{folder.path} has no {folder.tokenizer_path('source').name}")
        if tokenizer.size > size:
            raise RegardError(
                f"{folder.config} has {name}={size}, and its tokenizer {tokenizer.size} tokens: they belong to two runs"
            )


def _check_labels(folder: RunFolder, config: ModelConfig, labels: Sequence[str]) -> None:
    """Refuse names of classes that the model does not have."""
    if hasattr(config, "classes") and not isinstance(config, CounterConfig) and len(labels) != config.classes:
        raise RegardError(f"{folder.config} has classes={config.classes}, and id2label names {len(labels)}")


def _reads_words(model: object) -> bool:
    return isinstance(model, Transformer | RecurrentTranslator | LanguageModel | Classifier)


def _pictures(config: PictureConfig | ConvolutionConfig) -> PictureReader:
    return PictureReader(config.image_size, config.channels)


def chosen_device(device: str | torch.device | None) -> torch.device:
    """The device asked for, if there is one like it; without a wish, a GPU before the CPU."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise RegardError(f"device {device}: say cpu, cuda or cuda:1") from None
    if chosen.type == "cuda" and (
        not torch.cuda.is_available() or (chosen.index or 0) >= torch.cuda.device_count()
    ):
        raise RegardError(f"device {device}: torch sees {torch.cuda.device_count()} GPUs here")
    return chosen


def decoding_of(folder: RunFolder, default: Decoding) -> Decoding:
    """How the run wants to be asked: generation_config.json, where somebody may have changed it by hand."""
    given = folder.load_generation()
    names = {"num_beams": "beam", "length_penalty": "penalty", "max_new_tokens": "tokens"}
    known = {names.get(key, key): value for key, value in given.items()}
    fields = {key: value for key, value in known.items() if key in Decoding.__dataclass_fields__}
    checked = build(Decoding, fields, where=str(folder.generation))
    return replace(default, **{name: getattr(checked, name) for name in fields})
