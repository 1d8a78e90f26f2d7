"""What a translator looked at, in words."""

import math

import pytest
import torch
from torch import Tensor

from regard import RegardError
from regard.data.batches import END, START, UNKNOWN
from regard.data.tokenizer import Tokenizer
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.transformer import Transformer, TransformerConfig
from regard.runs.answering import Translator
from regard.sight.pictures.heatmap import Heatmap
from regard.sight.translation_picture import decoder_looks, looks_of, merged, picture_of, words_of

TEXT = ["the old house by the sea", "the house", "an old sea"]


def tokenizer(kind: str = "bpe") -> Tokenizer:
    return Tokenizer.train(TEXT, kind=kind, size=265 if kind == "bpe" else 60)


def transformer(**options: object) -> Translator:
    own = tokenizer()
    sizes = {
        "source_vocabulary": own.size,
        "target_vocabulary": own.size,
        "width": 12,
        "heads": 3,
        "hidden_width": 8,
    }
    model = Transformer(TransformerConfig(**sizes, depth=1, decoder_depth=2, **options))
    return Translator(model.eval(), {"source": own})


def recurrent(**options: object) -> Translator:
    own = tokenizer()
    sizes = {"source_vocabulary": own.size, "target_vocabulary": own.size, "width": 8, "embedding_width": 5}
    return Translator(RecurrentTranslator(RecurrentConfig(**sizes, **options)).eval(), {"source": own})


def spans(own: Tokenizer, text: str) -> tuple[list[int], list[int]]:
    """The tokens of a text and the word each belongs to, found by spelling the text word after word."""
    tokens, words = [], []
    for number, word in enumerate(text.split()):
        pieces = own.encode(word if number == 0 else " " + word)
        tokens += pieces
        words += [number] * len(pieces)
    assert tokens == own.encode(text)
    return tokens, words


def by_hand(weights: Tensor, rows: list[int], columns: list[int]) -> Tensor:
    """Loops instead of products."""
    found = torch.zeros(max(rows) + 1, max(columns) + 1, dtype=torch.float64)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            found[row, column] += weights[i, j] / rows.count(row)
    return found


def test_pieces_are_summed_over_the_source_and_averaged_over_the_target() -> None:
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.0, 1.0, 0.0]], dtype=torch.float64)
    found = merged(weights, [0, 0, 1], [0, 1, 1])
    torch.testing.assert_close(found, torch.tensor([[0.3, 0.7], [0.0, 1.0]], dtype=torch.float64))


@pytest.mark.parametrize("layer", [0, 1])
def test_the_picture_of_a_transformer_is_the_softmax_of_its_own_maps_in_float64(layer: int) -> None:
    translator, source, target = transformer(), "the old house", "sea house by"
    drawn = looks_of(translator, source, target, layer=layer)
    model, own = translator.model.double(), translator.source
    (asked, columns), (answer, rows) = spans(own, source), spans(own, target)
    cross = model.decoder[layer].cross
    inputs: list[Tensor] = []
    cross.register_forward_hook(lambda module, given, output: inputs.extend(given[:2]))
    with torch.no_grad():
        model.logits(translator.pairs([source], [target]))
        query, memory = inputs[0][0], inputs[1][0]
        packed, bias = cross.input.all.weight, cross.input.all.bias
        q = (query @ packed[:12].T + bias[:12]).reshape(len(answer) + 1, 3, 4)
        k = (memory @ packed[12:24].T + bias[12:24]).reshape(len(asked) + 1, 3, 4)
        weights = torch.stack([torch.softmax(q[:, h] @ k[:, h].T / math.sqrt(4), -1) for h in range(3)]).mean(
            0
        )
    expected = by_hand(weights, rows, columns)
    torch.testing.assert_close(drawn.weights, expected, rtol=0, atol=1e-6)
    assert (drawn.source, drawn.target) == (("the", "old", "house"), ("sea", "house", "by"))
    assert drawn.note == f"cross-attention of decoder.{layer}, mean of 3 heads"


@pytest.mark.parametrize("wiring", ["output-context", "recurrent-context"])
def test_the_picture_of_a_recurrent_model_is_the_softmax_of_its_states_in_float64(wiring: str) -> None:
    translator, source, target = recurrent(wiring=wiring, attention="dot"), "the old house", "sea house by"
    drawn = looks_of(translator, source, target)
    model, own = translator.model.double(), translator.source
    (asked, columns), (answer, rows) = spans(own, source), spans(own, target)
    pair = translator.pairs([source], [target])
    with torch.no_grad():
        states, _ = model.encoder.read(model.source_embedding(pair.source.tokens), pair.source.lengths)
        state, looks = model.start(pair.source), []
        for token in [START, *answer]:
            before = state.top[0, 0]
            _, state = model.step(torch.tensor([token]), state)
            asking = before if wiring == "recurrent-context" else state.top[0, 0]
            looks.append(torch.softmax(states[0] @ asking, -1))
    torch.testing.assert_close(drawn.weights, by_hand(torch.stack(looks), rows, columns), rtol=0, atol=1e-6)
    assert drawn.note == "attention of the decoder"
    assert len(asked) + 1 == states.shape[1]


def test_without_a_choice_the_sharpest_layer_is_drawn() -> None:
    translator = transformer()
    with torch.no_grad():
        sharp = translator.model.decoder[1].cross.input.all
        sharp.weight[:24] *= 6
    picture = picture_of(translator, "the old house", "sea house by")
    assert picture.note == "cross-attention of decoder.1, mean of 3 heads, the sharpest"
    assert (
        picture.weights.max() > looks_of(translator, "the old house", "sea house by", layer=0).weights.max()
    )


def test_heads_are_chosen_by_number() -> None:
    translator = transformer()
    one, two = (looks_of(translator, "the sea", "the sea", layer=0, heads=h) for h in (0, 2))
    both = looks_of(translator, "the sea", "the sea", layer=0, heads=[0, 2])
    torch.testing.assert_close(both.weights, (one.weights + two.weights) / 2)
    assert one.note == "cross-attention of decoder.0, head 0"
    assert both.note == "cross-attention of decoder.0, mean of heads 0, 2"


@pytest.mark.parametrize("make", [transformer, recurrent])
def test_without_a_target_it_is_the_translators_own(make) -> None:
    translator = make()
    own = translator.hypotheses(["the old house"])[0][0].tokens
    picture = picture_of(translator, "the old house", title="own")
    assert isinstance(picture, Heatmap)
    assert picture.keys == ("the", "old", "house", "</s>")
    assert len(picture.queries) == len(words_of(translator.target, own).names)
    assert translator.model.training is False


@pytest.mark.parametrize("make", [transformer, recurrent])
def test_what_goes_to_the_end_of_the_source_is_shown_beside_the_words(make) -> None:
    translator, source, target = make(), "the old house", "sea house by"
    looks, picture = looks_of(translator, source, target), picture_of(translator, source, target)
    assert looks.end.min() > 0
    torch.testing.assert_close(looks.weights.sum(1) + looks.end, torch.ones(3, dtype=torch.float64))
    assert picture.aside == 1
    torch.testing.assert_close(torch.tensor(picture.weights[:, -1]), looks.end)
    torch.testing.assert_close(torch.tensor(picture.weights.sum(1)), torch.ones(3, dtype=torch.float64))


def test_the_picture_is_written_by_the_name_of_its_file(tmp_path) -> None:
    picture = picture_of(transformer(), "the old house", "the sea")
    picture.write(tmp_path / "x.svg")
    assert "cross-attention of decoder." in (tmp_path / "x.svg").read_text()
    with pytest.raises(RegardError, match=r"x\.gif: a picture is written as \.png or \.svg"):
        picture.write(tmp_path / "x.gif")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the old house", ["the", "old", "house"]),
        ("  the  sea", ["the", "sea"]),
        ("the sea, by (the) house.", ["the", "sea", ",", "by", "(", "the", ")", "house", "."]),
        ("quatre-vingt-dix", ["quatre-", "vingt-", "dix"]),
        ("l'accord, don't", ["l'", "accord", ",", "don't"]),
        ("Zürich 1992 你", ["Zürich", "1992", "你"]),
        ("-", ["-"]),
    ],
)
def test_pieces_become_words(text: str, words: list[str]) -> None:
    own = tokenizer()
    found = words_of(own, own.encode(text))
    assert list(found.names) == words
    assert len(found.parts) == len(own.encode(text))
    assert sorted(set(found.parts)) == list(range(len(words)))
    assert list(found.parts) == sorted(found.parts)


def test_special_tokens_and_whole_words_stand_alone() -> None:
    own = tokenizer()
    house = own.encode("house")
    found = words_of(own, [*house, START, END, *house])
    assert found.names == ("house", "<s>", "</s>", "house")
    words = tokenizer("word")
    assert words_of(words, [*words.encode("the sea"), UNKNOWN]).names == ("the", "sea", "<unk>")
    letters = tokenizer("character")
    assert words_of(letters, letters.encode("an o")).names == ("a", "n", "␣", "o")


@pytest.mark.parametrize(
    ("make", "source", "options", "said"),
    [
        (lambda: recurrent(attention="none"), "the sea", {}, "no attention to look at"),
        (transformer, "", {"target": "sea"}, "a word on either side"),
        (transformer, "sea", {"target": ""}, "a word on either side"),
        (transformer, "sea", {"target": "sea", "layer": 2}, "layer=2, but the decoder has layers 0 to 1"),
        (transformer, "sea", {"target": "sea", "heads": 3}, "head 3, but there are only 3"),
        (transformer, "sea", {"target": "sea", "heads": []}, "chooses none of 3 heads"),
        (transformer, "sea " * 2100, {"target": "sea"}, "a picture shows below 2048"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make, source: str, options: dict, said: str) -> None:
    with pytest.raises(RegardError, match=said):
        picture_of(make(), source, **options)


@pytest.mark.parametrize("ended", [True, False])
def test_the_sharpest_block_is_the_one_whose_words_look_most_at_one_thing(
    monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """Of a text the END on either side does not count; of a picture the last patch is one like the others."""
    from regard.data.batches import Images, Pairs, Sequences
    from regard.sight.layer import Layer

    at_end = torch.tensor([[0.1, 0.1, 0.8], [0.2, 0.1, 0.7], [0.3, 0.4, 0.3]])  # sharp where the source ends
    within = torch.tensor([[0.5, 0.4, 0.1], [0.4, 0.5, 0.1], [0.3, 0.4, 0.3]])
    last_word = torch.tensor(
        [[0.3, 0.4, 0.3], [0.4, 0.3, 0.3], [0.0, 1.0, 0.0]]
    )  # sharp where the target ends
    blocks = {"decoder.0": at_end, "decoder.1": within, "decoder.2": last_word}
    monkeypatch.setattr(
        Layer, "weights", lambda self, heads=None: blocks[self.name.removesuffix(".cross")].expand(1, 1, 3, 3)
    )
    own = tokenizer()
    model = Transformer(
        TransformerConfig(
            source_vocabulary=own.size, target_vocabulary=own.size, width=8, heads=1, depth=1, decoder_depth=3
        )
    ).eval()
    target = Sequences.of([[5, 6, END]])
    pair = Pairs(Sequences.of([[5, 6, END]]), target)
    if not ended:
        from regard.models.captioner import Captioner, CaptionerConfig

        config = CaptionerConfig(
            channels=1, image_size=(4, 12), patch=(4, 4), target_vocabulary=own.size, width=8, heads=1, depth=1,
            decoder_depth=3,
        )  # fmt: skip
        model, pair = Captioner(config).eval(), Pairs(Images(torch.rand(1, 1, 4, 12)), target)
    weights, note = decoder_looks(model, pair, None, None)
    sharpest = "decoder.1" if ended else "decoder.0"
    assert sharpest in note
    torch.testing.assert_close(weights, blocks[sharpest].double())
