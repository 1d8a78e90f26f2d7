"""Tokenizers, and which tokenizer.json are read."""

import json
import os
import subprocess
import sys

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from regard import RegardError
from regard.data.batches import END, PAD, SPECIAL, START, UNKNOWN
from regard.data.tokenizer import Tokenizer

LINES = [
    "nine hundred and ninety-nine",
    "neuf cent quatre-vingt-dix-neuf",
    "</s> <pad> <s> <unk> </s></s>",
    "a tab\tand  two spaces",
    "日本語 é",
] * 20
BPE = Tokenizer.train(LINES, size=400)
WORDS = Tokenizer.train(LINES, kind="word")
CHARACTERS = Tokenizer.train([*LINES, "two\nlines\r\n"], kind="character")
ALL = [BPE, WORDS, CHARACTERS]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_bytes_bring_every_text_back_exactly(text):
    assert BPE.decode(BPE.encode(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n", "\r\n\t", "  a  ", "</s>", "a<s>b", "e\u0301", "\u2028", "👩‍👩‍👧", "\0", "\ufeff", "Ġ"],
)
def test_texts_that_others_change_come_back_exactly(text):
    assert BPE.decode(BPE.encode(text)) == text


@given(
    st.lists(st.sampled_from([*SPECIAL, " ", "a", "</", "s>", "<", "\n", "nine"]), max_size=8).map("".join),
    st.sampled_from(ALL),
)
def test_no_text_becomes_a_special_token(text, tokenizer):
    tokens = tokenizer.encode(text)
    assert not {*tokens} & {PAD, START, END}
    if tokenizer is BPE:
        assert UNKNOWN not in tokens
        assert BPE.decode(tokens) == text


def test_training_on_special_names_does_not_make_text_special():
    """A merge may not end in the letters of a special token, however often they occur."""
    for kind in ("bpe", "word", "character"):
        tokenizer = Tokenizer.train(["</s>", "<pad>", "x</s>y <s>"] * 500, kind=kind, size=1000)
        assert tokenizer.pieces(range(4)) == [*SPECIAL]
        for text in ("</s>", "<pad>", "x</s>y", "<s>", " </s> "):
            assert not {*tokenizer.encode(text)} & {PAD, START, END}


@pytest.mark.parametrize("tokenizer", ALL, ids=lambda tokenizer: tokenizer.kind)
def test_the_first_four_tokens_are_special_and_vanish_from_text(tokenizer):
    tokens = tokenizer.encode("nine hundred")
    assert tokenizer.decode([START, PAD, *tokens, END, UNKNOWN, PAD]) == "nine hundred"
    assert tokenizer.pieces([0, 1, 2, 3]) == [*SPECIAL]
    assert all(3 < token < tokenizer.size for token in tokens)


def test_decoding_does_not_stop_at_an_end():
    nine, cent = BPE.encode("nine"), BPE.encode(" cent")
    assert BPE.decode([*nine, END, *cent]) == "nine cent"


def test_words_stand_between_white_space():
    assert WORDS.decode(WORDS.encode("nine hundred and ninety-nine")) == "nine hundred and ninety-nine"
    assert WORDS.encode("nine\t hundred\n") == WORDS.encode("nine hundred")
    assert len(WORDS.encode("nine hundred")) == 2
    assert WORDS.encode("nine unheard-of") == [*WORDS.encode("nine"), UNKNOWN]


def test_characters_are_single_and_spaces_too():
    text = "nine  hundred\nlines\r\n日本"
    assert len(CHARACTERS.encode(text)) == len(text)
    assert CHARACTERS.decode(CHARACTERS.encode(text)) == text
    assert CHARACTERS.encode("Q") == [UNKNOWN]


def test_many_texts_are_encoded_as_one_by_one():
    for tokenizer in ALL:
        assert tokenizer.encode_all(LINES[:5]) == [tokenizer.encode(line) for line in LINES[:5]]
        assert tokenizer.encode_all([]) == []


def test_pieces_show_what_can_be_seen():
    assert BPE.pieces(BPE.encode("nine hundred and")) == ["nine", "hundred", "and"]
    assert BPE.pieces(BPE.encode("\n")) == ["↵"]
    assert BPE.pieces(BPE.encode("€")) == ["e2", "82", "ac"]
    assert BPE.pieces(BPE.encode(" ")) == ["␣"]
    assert CHARACTERS.pieces(CHARACTERS.encode("é \n")) == ["é", "␣", "↵"]
    assert WORDS.pieces(WORDS.encode("neuf cent ?")) == ["neuf", "cent", "<unk>"]
    with pytest.raises(RegardError, match="token 99999"):
        BPE.pieces([99_999])


def test_every_byte_has_a_token_that_can_be_shown():
    shown = BPE.pieces(range(4, 260))
    assert len(shown) == 256
    assert all(shown)


@pytest.mark.parametrize("tokenizer", ALL, ids=lambda tokenizer: tokenizer.kind)
def test_what_is_saved_loads_as_the_same(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    again = Tokenizer.load(path)
    assert (again.kind, again.size, again.to_json()) == (tokenizer.kind, tokenizer.size, tokenizer.to_json())
    for text in [*LINES[:5], "a</s>b"]:
        assert again.encode(text) == tokenizer.encode(text)
        assert again.decode(again.encode(text)) == tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize("tokenizer", ALL, ids=lambda tokenizer: tokenizer.kind)
def test_other_libraries_read_what_is_saved(tokenizer, tmp_path):
    path = str(tmp_path / "tokenizer.json")
    tokenizer.save(path)
    text = "nine hundred and ninety-nine"
    theirs = tokenizers.Tokenizer.from_file(path)
    assert theirs.encode(text).ids == tokenizer.encode(text)
    fast = PreTrainedTokenizerFast(
        tokenizer_file=path, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    assert fast(text)["input_ids"] == tokenizer.encode(text)
    assert fast.decode(tokenizer.encode(text)) == text
    assert (fast.pad_token_id, fast.bos_token_id, fast.eos_token_id, fast.unk_token_id) == (0, 1, 2, 3)
    assert len(fast) == tokenizer.size


PROGRAM = """
import json, sys
from regard.data.tokenizer import Tokenizer
lines = [f"word{n % 97} und{n % 31}er {n}" for n in range(3000)]
kinds = ("bpe", "word", "character")
json.dump([Tokenizer.train(iter(lines), kind=kind, size=700).to_json() for kind in kinds], sys.stdout)
"""


@pytest.mark.slow
def test_the_same_lines_train_the_same_bytes_in_any_process():
    lines = [f"word{n % 97} und{n % 31}er {n}" for n in range(3000)]
    here = [Tokenizer.train(lines, kind=kind, size=700).to_json() for kind in ("bpe", "word", "character")]
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    there = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(there.stdout) == here


def test_rare_things_are_left_out_and_sizes_are_kept():
    lines = ["often often often seldom"]
    assert Tokenizer.train(lines, kind="word", least=2).size == 5
    assert Tokenizer.train(lines, kind="word", size=5).decode([4]) == "often"
    assert Tokenizer.train(LINES, size=270).size == 270


@pytest.mark.parametrize(
    ("lines", "options", "named"),
    [
        ([], {}, "no lines"),
        (["a"], {"size": 259}, "size=259: bpe needs at least 260"),
        (["a"], {"size": 4, "kind": "word"}, "size=4: word needs at least 5"),
        (["a"], {"kind": "subword"}, "subword"),
        (["a", "b\ud800"], {}, "character 2 is half of one"),
    ],
)
def test_what_cannot_be_trained_is_refused_by_name(lines, options, named, as_a_user):
    with pytest.raises(RegardError, match=named):
        Tokenizer.train(lines, **options)


def test_what_goes_wrong_while_reading_lines_is_passed_on():
    def lines():
        yield "a"
        raise RegardError("a.txt:2: not UTF-8")

    with pytest.raises(RegardError, match=r"a\.txt:2: not UTF-8"):
        Tokenizer.train(lines())


def test_half_a_character_is_refused():
    with pytest.raises(RegardError, match="character 2 is half of one"):
        BPE.encode("b\ud800")


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b'{"version": "1.0"}', b"x\ny"])
def test_a_missing_or_broken_file_is_one_line(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RegardError, match=r"tokenizer\.json") as caught:
        Tokenizer.load(path)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_with_other_special_tokens_is_refused(tmp_path):
    other = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<s>": 0, "<pad>": 1, "<unk>": 2}, "<unk>"))
    other.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(RegardError, match="token 0 is '<s>', not '<pad>'"):
        Tokenizer.load(tmp_path / "tokenizer.json")
    with pytest.raises(RegardError, match="cannot be written"):
        BPE.save(tmp_path / "none" / "tokenizer.json")


TEXTS = ["one two three", "twenty-one"]


def told(kind: str) -> dict:
    return json.loads(Tokenizer.train(TEXTS, kind=kind, size=270).to_json())


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_what_training_writes_is_read(kind) -> None:
    ours = Tokenizer.train(TEXTS, kind=kind, size=270)
    again = Tokenizer.of_json(ours.to_json())
    assert (again.kind, again.size) == (kind, ours.size)
    assert again.encode("one twenty") == ours.encode("one twenty")


def test_a_version_that_leaves_unsaid_what_is_off_is_read() -> None:
    given = told("bpe")
    for key in ("ignore_merges", "byte_fallback", "fuse_unk"):
        del given["model"][key]
    del given["normalizer"]
    given["model"]["merges"] = [" ".join(pair) for pair in given["model"]["merges"]]
    assert Tokenizer.of_json(json.dumps(given)).size == 270


CHANGES = {
    "padding": ("padding", {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None,
                            "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}),
    "truncation": ("truncation", {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}),
    "a normaliser": ("normalizer", {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10_000}),
    "a slow pattern": ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated",
                                        "invert": False}),
    "no splitting": ("pre_tokenizer", None),
    "a post-processor": ("post_processor", {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False,
                                            "use_regex": True}),
    "a decoder": ("decoder", {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}),
    "more tokens": ("added_tokens", [{"id": 4, "content": "x", "single_word": False, "lstrip": False,
                                     "rstrip": False, "normalized": True, "special": False}]),
    "another part": ("surprise", {"a": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_what_a_run_has_no_use_for_is_refused_by_name(kind, name) -> None:
    part, value = CHANGES[name]
    with pytest.raises(RegardError, match=rf"x: .*{part}.* is not as in the tokenizers") as refused:
        Tokenizer.of_json(json.dumps({**told(kind), part: value}), "x")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"dropout": 0.5}, r"model\.dropout"),
        ({"continuing_subword_prefix": "##"}, r"model\.continuing_subword_prefix"),
        ({"byte_fallback": True}, r"model\.byte_fallback"),
        ({"type": "Unigram"}, r"model\.type"),
        ({"vocab": {}}, "no vocab"),
        ({"vocab": ["<pad>"]}, "no vocab"),
        ({"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": 10**9}}, "not numbered from 0"),
        ({"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": 3}}, "not numbered from 0"),
        ({"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": -4}}, "not numbered from 0"),
        ({"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "a": "4"}}, "not numbered from 0"),
        ({"vocab": {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}}, "token 0 is '<s>', not '<pad>'"),
        ({"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "漢": 4}, "merges": []}, "letters of bytes"),
        ({"merges": [["a", "nobody"]]}, "not a tokenizer.json"),
        ({"merges": 5}, "not a tokenizer.json"),
    ],
)
def test_models_that_are_not_ours_are_refused(changes, what) -> None:
    given = told("bpe")
    with pytest.raises(RegardError, match=what) as refused:
        Tokenizer.of_json(json.dumps({**given, "model": {**given["model"], **changes}}), "x")
    assert "\n" not in str(refused.value)


def test_a_panic_of_the_library_is_a_line(monkeypatch) -> None:
    class Panic(BaseException):
        pass

    class Library:
        @staticmethod
        def from_str(text: str) -> None:
            raise Panic("called `Option::unwrap()` on a `None` value")

    text = Tokenizer.of_json(json.dumps(told("word"))).to_json()
    monkeypatch.setattr("tokenizers.Tokenizer", Library)
    with pytest.raises(RegardError, match=r"not a tokenizer\.json \(called `Option::unwrap"):
        Tokenizer.of_json(text, "x")
