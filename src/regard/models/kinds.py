"""All kinds of models that come with the library. A kind of your own is given beside them: `load(run, kinds=[KIND])`."""

from regard.models import (
    captioner,
    classifier,
    convolutional,
    counter,
    fusion,
    hearing,
    language,
    recurrent,
    transcriber,
    transformer,
    vision,
)
from regard.models.kind import Kind

KINDS: tuple[Kind, ...] = (
    transformer.KIND,
    recurrent.KIND,
    language.KIND,
    classifier.KIND,
    counter.KIND,
    vision.KIND,
    convolutional.KIND,
    captioner.KIND,
    captioner.RECURRENT_KIND,
    hearing.KIND,
    transcriber.KIND,
    fusion.KIND,
)
