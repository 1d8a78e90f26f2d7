"""What a run is good for: its verbs, on the command line and in Python, by the kind of its model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Use:
    """How a model is asked."""

    verbs: tuple[str, ...]  # of the command line; the first is what it is for
    given: str  # what it is asked with, as typed
    python: str  # the same from Python
    task: str  # as hubs of models call it


_CLASSIFY = ("classify",)
_TRANSLATES = Use(("translate", "score"), '"{text}"', '.translate(["{text}"])', "translation")
_LOOKS = Use(_CLASSIFY, "picture.png", '.classify(["picture.png"])', "image-classification")
_CAPTIONS = Use(("caption", "score"), "picture.png", '.caption(["picture.png"])', "image-to-text")
_USES = {
    "transformer": _TRANSLATES,
    "recurrent": _TRANSLATES,
    "language": Use(("generate", "score"), '"{text}"', '.generate(["{text}"])', "text-generation"),
    "classifier": Use(_CLASSIFY, '"{text}"', '.classify(["{text}"])', "text-classification"),
    "vision": _LOOKS,
    "convolution": _LOOKS,
    "captioner": _CAPTIONS,
    "recurrent-captioner": _CAPTIONS,
    "hearing": Use(_CLASSIFY, "recording.wav", '.classify(["recording.wav"])', "audio-classification"),
    "transcriber": Use(
        ("transcribe", "score"),
        "recording.wav",
        '.transcribe(["recording.wav"])',
        "automatic-speech-recognition",
    ),
    "fusion": Use(
        _CLASSIFY, "picture.png recording.wav", '.classify([("picture.png", "recording.wav")])', "other"
    ),
    "counter": Use((), "", ".predict(…)", "other"),
}


def use_of(kind: str) -> Use:
    """How a model of this kind is asked."""
    return _USES[kind]
