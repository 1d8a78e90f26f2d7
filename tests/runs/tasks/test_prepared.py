"""What is printed before training: how much was read, how, some of it, and all that was dropped."""

import json
import re

import pytest
import torch
from PIL import Image
from runs.small import (
    MODEL,
    TRAINING,
    classification,
    hearing,
    language,
    numbers,
    reader,
    write_spoken,
    write_text,
)

from regard import RegardError
from regard.data.audio import Recording, tone, wav_of
from regard.data.text_lines import Report
from regard.runs.answering import Translator
from regard.runs.load import build_model
from regard.runs.recipe import resolve
from regard.runs.tasks.prepared import SAMPLES_ANSWERED, spread, summary
from regard.runs.tasks.translation import pairs_of
from regard.training.experiment import prepare


def said(recipe) -> list[str]:
    report = Report()
    return summary(prepare(recipe, report), report)


def pairs(path, **changes):
    data = {"kind": "pairs", "train": str(path), "held_out": 0.1, "policy": "skip", **changes}
    return numbers(data=data)


def test_every_dropped_pair_is_counted_and_the_first_are_named(tmp_path):
    table = tmp_path / "pairs.tsv"
    rows = [f"source {n}\t{'' if n % 2 else f'target {n}'}\n" for n in range(300)]
    table.write_text("".join(rows))
    lines = said(pairs(table))
    assert lines[0] == f"{table}: columns 1 and 2 of 2; the first line is no header"
    counts = [int(part.split(": ")[1]) for part in lines[1].split(", ")[:3]]
    assert sum(counts) == 150
    assert "as read: 'source 0' → 'target 0'" in lines
    at = lines.index("dropped: 150 (empty: 150)")
    assert lines[at + 1] == f"  {table}:2: target: empty, pair dropped"
    assert len(lines[at + 1 :]) == 5


def test_joined_pairs_are_counted_and_made_of_training_pairs_alone(tmp_path):
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"s{n}\tt{n}\n" for n in range(300)))
    plain, joined = (prepare(pairs(table, joined=share), Report()) for share in (0.0, 0.5))
    added = plain.facts["training pairs"] // 2
    assert joined.facts == {
        **plain.facts,
        "training pairs": plain.facts["training pairs"] + added,
        "made of others": added,
    }
    tokenizer = joined.tokenizers["source"]
    words = {
        word
        for row in range(len(joined.train.sources))
        for word in tokenizer.decode(joined.train.sources[row]).split()
    }
    assert words == {source for source, _ in pairs_of(pairs(table), "train")()}


def test_hurried_sources_are_trained_on_and_validation_stays_as_it_was(tmp_path):
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"Source {n}.\tTarget {n}.\n" for n in range(300)))
    plain, made = (prepare(pairs(table, joined=share, hurried=share), Report()) for share in (0.0, 0.5))
    count = plain.facts["training pairs"]
    joined = count // 2
    assert made.facts["made of others"] == joined + (count + joined) // 2
    assert made.facts["validation pairs"] == plain.facts["validation pairs"]
    tokenizer, feed = made.tokenizers["source"], made.train
    sources = [tokenizer.decode(feed.sources[row]) for row in range(len(feed.sources))]
    targets = [tokenizer.decode(feed.targets[row]) for row in range(len(feed.targets))]
    assert any(source.islower() and not source.endswith(".") for source in sources)
    assert all(target[0] == "T" and target.endswith(".") for target in targets)
    valid = [text for each in made.answer(untrained(made)) for text in (each.given, each.reference)]
    assert all(text[0] in "ST" and text.count(".") == 1 for text in valid)


def test_unequal_parallel_files_and_long_lines_are_reported(tmp_path):
    (tmp_path / "en").write_text("".join(f"source {n}\n" for n in range(211)))
    (tmp_path / "fr").write_text("".join(f"target {n}{'!' * 99 * (n == 6)}\n" for n in range(200)))
    place = {"source": str(tmp_path / "en"), "target": str(tmp_path / "fr")}
    data = {"kind": "pairs", "train": place, "held_out": 0.1, "longest": 50}
    lines = said(numbers(data={**data, "policy": "skip"}))
    assert lines[0] == f"{tmp_path}/en: line n is line n of {tmp_path}/fr"
    assert "dropped: 12 (unequal line counts: 11, too long: 1)" in lines
    assert f"  {tmp_path}/fr:7: longer than 50 characters, pair dropped" in lines
    assert any("has 211 lines and" in line and "has 200, the last 11 of" in line for line in lines)
    with pytest.raises(RegardError, match=r"has 211 lines and .* has 200: they are not parallel"):
        prepare(numbers(data={**data, "longest": 500}), Report())


def test_a_test_file_is_looked_through_before_training(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"source {n}\ttarget {n}\n" for n in range(60)))
    (tmp_path / "b.tsv").write_text("one\tun\n\ntwo\tdeux\n \t \n")
    lines = said(pairs(tmp_path / "a.tsv", test=str(tmp_path / "b.tsv")))
    assert "dropped: 2 (empty: 2)" in lines
    assert "test pairs: 2" in lines[2]


def test_no_pair_left_gives_the_reasons(tmp_path):
    table = tmp_path / "pairs.tsv"
    table.write_text("one\n" * 7 + "two\t\n")
    with pytest.raises(RegardError) as error:
        prepare(pairs(table), Report())
    assert str(error.value) == (
        "data.train: no pair is left to train on; dropped: missing column: 7, empty: 1; the first: "
        f"{table}:1: no column 2, there are 1, pair dropped"
    )


def test_samples_too_long_for_training_are_counted(tmp_path):
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"source {n}{' x' * 100 * (n == 3)}\ttarget\n" for n in range(100)))
    recipe = numbers(
        data={"kind": "pairs", "train": str(table), "held_out": 0.1}, tokens={"kind": "word", "longest": 20}
    )
    assert any("left out of training, longer than 20 tokens: 1" in line for line in said(recipe))
    short = numbers(data={"kind": "pairs", "train": str(table), "held_out": 0.1}, tokens={"longest": 1})
    with pytest.raises(RegardError, match=r"all \d+ samples have more than tokens\.longest=1 tokens"):
        prepare(short, Report())


def test_classes_are_counted(tmp_path):
    table = tmp_path / "table.csv"
    rows = [{"text": f"text {n}", "label": "ab"[n % 3 == 0]} for n in range(60)]
    table.write_text("label,text\n" + "".join(f"{row['label']},{row['text']}\n" for row in rows))
    recipe = classification(table)
    report = Report()
    prepared = prepare(recipe, report)
    lines = summary(prepared, report)
    assert lines[0] == f"{table}: columns 'text' and 'label'; the first line is a header"
    assert [*prepared.classes] == ["a", "b"]
    assert sum(prepared.classes.values()) == prepared.facts["training texts"]
    assert (
        f"training samples of each class: 'a' {prepared.classes['a']}, 'b' {prepared.classes['b']}" in lines
    )
    assert any(line.startswith("as read: 'text ") and line.endswith(("→ 'a'", "→ 'b'")) for line in lines)
    assert "dropped: nothing" in lines


def test_a_stream_and_lines_of_text_are_shown_and_blank_lines_counted(tmp_path):
    text = write_text(tmp_path)
    assert "as read: 'line 0 of the text\\nline 1 of the text\\nline 2 of the text\\nline 3 of th…'" in said(
        language(text)
    )
    text.write_text("one\n \ntwo\n\nthree\nfour\n")
    lines = said(language(text, data={"kind": "text", "train": str(text), "unit": "lines", "held_out": 0.25}))
    assert lines[0].startswith("training texts: 3, ")
    assert lines[1:4] == ["as read: 'one'", "as read: 'two'", "as read: 'three'"]
    assert lines[4:] == [
        "dropped: 2 (empty: 2)",
        f"  {text}:2: empty, passed over",
        f"  {text}:4: empty, passed over",
    ]


def test_a_column_of_a_table_is_read_as_lines(tmp_path):
    table = tmp_path / "reviews.jsonl"
    table.write_text("".join(json.dumps({"id": n, "review": f"text {n}"}) + "\n" for n in range(9)))
    data = {"kind": "text", "train": str(table), "unit": "lines"}
    with pytest.raises(RegardError, match=r"data\.column=review"):
        prepare(language(table, data=data), Report())
    assert "as read: 'text 0'" in said(language(table, data={**data, "column": "review"}))
    with pytest.raises(RegardError, match=r"column='review': only with unit=lines"):
        language(table, data={**data, "column": "review", "unit": "stream"})


def test_several_files_are_one_training_set(tmp_path):
    for part in (1, 2):
        rows = "".join(f"source {part} {n}\ttarget {n}\n" for n in range(50))
        (tmp_path / f"part-{part}.tsv").write_text(rows)
    both = [str(tmp_path / "part-1.tsv"), str(tmp_path / "part-2.tsv")]
    data = {"kind": "pairs", "held_out": 0.1}
    patterned = said(numbers(data={**data, "train": "part-*.tsv", "folder": str(tmp_path)}))
    assert patterned == said(numbers(data={**data, "train": both}))
    assert len([line for line in patterned if line.endswith("the first line is no header")]) == 2


@pytest.fixture
def photos(tmp_path):
    lines = ["file,caption"]
    for number in range(40):
        Image.new("RGB", (9, 9), (5 * number,) * 3).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,a light on the {('left', 'right')[number % 2]}")
    (tmp_path / "captions.csv").write_text("\n".join([*lines, "missing.png,nothing", "1.png, "]) + "\n")
    return tmp_path / "captions.csv"


def test_captions_are_shown_and_flipping_under_left_and_right_is_said(photos):
    data = {"kind": "images", "train": str(photos), "size": [8, 8], "held_out": 0.2, "policy": "skip"}
    lines = said(reader(data=data))
    assert lines[0] == f"{photos}: columns 'file' and 'caption'; the first line is a header"
    assert any(line.startswith("as read: '") and "→ 'a light on the " in line for line in lines)
    assert "dropped: 2 (empty: 1, missing: 1)" in lines
    assert not any("left or right" in line for line in lines)
    flipped = said(reader(data={**data, "jitter": {"flip": True}}))
    assert flipped[-1].startswith(flipped[1].split(": ")[1].split(",")[0] + " captions say left or right")


def test_pictures_recordings_and_pairs_of_senses_are_counted_by_class(tmp_path):
    spoken = write_spoken(tmp_path)
    lines = said(hearing(spoken))
    assert any(line.startswith("training samples of each class: '0' 9, '1' 9, ") for line in lines)
    digits = said(numbers(data={"kind": "digits"}, model={"kind": "vision", "patch": [4, 4], **MODEL}))
    assert any(line.startswith("as read: 'sample 0' → ") for line in digits)
    assert any(line.startswith("training samples of each class: '0' 1") for line in digits)
    same = {
        "data": {"kind": "same", "train": str(spoken), "speaker": "bo", "samples": 7, "valid": 8, "test": 8},
        "model": {"kind": "fusion", "bands": 8, "patch": [4, 4], "fusion_depth": 1, **MODEL},
        "training": TRAINING,
    }
    lines = said(resolve(same))
    assert "training samples of each class: 'different' 3, 'same' 4" in lines
    assert any(line.startswith("as read: 'a ") and line.endswith("said' → 'same'") for line in lines)


def test_transcripts_and_folders_of_recordings_are_shown(tmp_path):
    for name in ("low", "high"):
        (tmp_path / "own" / name).mkdir(parents=True)
        for n in range(20):
            wav = wav_of(Recording(tone(300.0 + n, seconds=0.05, rate=8000), 8000))
            (tmp_path / "own" / name / f"{n}.wav").write_bytes(wav)
    (tmp_path / "own" / "low" / "broken.wav").write_bytes(b"RIFF")
    data = {"kind": "sounds", "train": str(tmp_path / "own"), "held_out": 0.2, "policy": "skip"}
    lines = said(resolve({"data": data, "model": {"kind": "hearing", "bands": 8, **MODEL}}))
    assert "dropped: 1 (not WAV: 1)" in lines
    assert any(line.startswith("as read: 'high/") and line.endswith(".wav' → 'high'") for line in lines)
    table = tmp_path / "own" / "said.tsv"
    table.write_text("".join(f"{name}/{n}.wav\tso {name}\n" for name in ("low", "high") for n in range(20)))
    model = {"kind": "transcriber", "decoder_depth": 1, "bands": 8, **MODEL}
    tokens = {"kind": "character"}
    lines = said(resolve({"data": {**data, "train": str(table)}, "model": model, "tokens": tokens}))
    assert lines[0] == f"{table}: columns 1 and 2 of 2; the first line is no header"
    assert any(".wav' → 'so low'" in line for line in lines)


def test_nothing_left_of_pictures_gives_the_reason(tmp_path):
    (tmp_path / "t.csv").write_text("file,label\nnone.png,a\n")
    data = {"kind": "images", "train": str(tmp_path / "t.csv"), "policy": "skip"}
    recipe = numbers(data=data, model={"kind": "vision", **MODEL})
    with pytest.raises(
        RegardError, match=r"none of 1 pictures can be used; dropped: missing: 1; the first: .*none\.png"
    ):
        prepare(recipe, Report())


@pytest.mark.parametrize("count", [1, 20, 21])
def test_a_test_set_of_few_samples_says_so(count):
    recipe = numbers(data={"kind": "numbers", "largest": 9999, "train": 60, "valid": 5, "test": count})
    few = [line for line in said(recipe) if line.startswith("test pairs: only")]
    assert few == [
        f"test pairs: only {count}, so what is measured on them says little; give more, or hold out more"
    ] * (count <= 20)


def untrained(prepared):
    torch.manual_seed(1)
    return build_model(prepared.config).eval()


def answered(recipe):
    """What an untrained model makes of some validation samples, and the recipe's data made ready."""
    prepared = prepare(recipe, Report())
    model = untrained(prepared)
    return prepared, model, prepared.answer(model)


def test_a_translator_answers_validation_pairs_as_it_decodes_them():
    prepared, model, found = answered(numbers())
    valid = dict(pairs_of(numbers(), "valid")())
    translator = Translator(model, dict(prepared.tokenizers))
    assert len(found) == SAMPLES_ANSWERED
    assert len({each.given for each in found}) == SAMPLES_ANSWERED
    for each in found:
        assert each.reference == valid[each.given]
        assert each.answer == translator.translate([each.given])[0]


def test_a_classifier_and_a_language_model_answer_validation_samples(tmp_path):
    table = tmp_path / "texts.tsv"
    table.write_text("".join(f"text {n}\t{'even' if n % 2 == 0 else 'odd'}\n" for n in range(200)))
    _, _, found = answered(classification(table))
    assert [each.reference for each in found] == [
        "even" if int(each.given.split()[1]) % 2 == 0 else "odd" for each in found
    ]
    assert {each.answer for each in found} <= {"even", "odd"}
    text = tmp_path / "text.txt"
    text.write_text("".join(f"a b c d {n} {n + 1}\n" for n in range(200)))
    _, _, found = answered(language(text))
    assert len(found) == SAMPLES_ANSWERED
    for each in found:
        assert each.given == "a b c"
        assert re.fullmatch(r"d \d+ \d+", each.reference)
        assert each.answer


def test_one_sample_is_answered_once_and_none_not_at_all():
    assert spread(["x"]) == ["x"]
    assert spread([]) == []
    assert spread(range(5000)) == [250, 750]
