"""The documentation is true: snippets run, print what the page says, commands exist, links lead somewhere."""

import contextlib
import dataclasses
import importlib
import importlib.util
import inspect
import io
import json
import math
import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from PIL import Image

from regard.cli import main
from regard.data.text_lines import Parallel
from regard.figures import FIGURES, figure_function
from regard.models import KINDS, Kind
from regard.runs.recipe import Recipe

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PICTURES = ROOT / "docs" / "pictures"
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))

# Commands that are shown and not run here, each with its reason.
OWN = "needs files of the reader's; tests/cli and tests/runs do it with small ones"
LONG = "takes minutes; results are in benchmarks/results"
FIGURE = "trains for up to a minute; its slow test in tests/figures does so too"
NOT_RUN = {
    "regard figure alignment": FIGURE,
    "regard figure alignment --number 91071": FIGURE,
    "regard figure bottleneck": FIGURE,
    "regard figure counter": FIGURE,
    'regard figure counter --digits "4 4 2 0 2 1 3 4 8 6"': FIGURE,
    "regard train translate --data pairs.tsv --out runs/mine": OWN,
    "regard train translate --data pairs.tsv": OWN,
    "regard train translate --data pairs.tsv --minutes 30": OWN,
    "regard train translate --data pairs.tsv --plan": OWN,
    'regard translate runs/mine "Two dogs play in the snow."': OWN,
    'regard translate runs/mine "Two dogs play in the snow." --picture looked.png': OWN,
    "regard evaluate runs/mine --on test.tsv": OWN,
    "cat sentences.txt | regard translate runs/mine --beam 5 > translations.txt": OWN,
    "regard train mine.yaml --set training.steps=20000 --set model.dropout=0.3 --out runs/long": OWN,
    "regard train language --data book.txt --out runs/book": OWN,
    "regard train shakespeare --set data.folder=data/tinyshakespeare": OWN,
    'regard generate runs/book "Once upon a time" --tokens 100 --temperature 0.8': OWN,
    "regard train classify --data reviews.tsv --out runs/reviews": OWN,
    'regard classify runs/reviews "what a film"': OWN,
    'regard classify runs/reviews "what a film" --json': OWN,
    'regard translate runs/en-de "Two dogs play." --precision int8 --threads 2': OWN,
    "regard export runs/en-de --to ctranslate2 --out en-de-ct2": OWN,
    "regard export runs/en-de --to marian --out en-de-marian": OWN,
    "regard export runs/en-de --to int8 --out en-de-small": OWN,
    "regard train mine.yaml --kind own_kind.py --out runs/mine": OWN,
    'regard classify runs/mine "yes, 12 times" --kind own_kind.py': OWN,
    'regard look runs/mine "yes, 12 times" --kind own_kind.py': OWN,
    "regard export runs/mine --to int8 --out mine-small --kind own_kind.py": OWN,
    'regard look french "The white house near the old bridge is not for sale."': "opens a browser; tests/cli/test_look.py",
    "regard train numbers": LONG,
    "regard train numbers-recurrent": LONG,
    "regard train numbers-recurrent --set model.attention=dot --out runs/dot": LONG,
    "regard train numbers --set model.score=additive --set model.additive_hidden=16 --out runs/additive": LONG,
    "regard train numbers --set model.score=low-rank --set model.rank=8 --out runs/low-rank": LONG,
    "regard train numbers --set model.position_width=32 --out runs/concatenated": LONG,
    "regard train numbers-recurrent --set model.attention=none --set model.width=92 --set model.embedding_width=32 --set training.steps=2000 --set training.batch=2048 --out runs/bottleneck": LONG,
    'regard translate runs/dot "nine hundred and ninety-nine" --picture looked.png': LONG,
    'regard translate runs/numbers "nine hundred and ninety-nine" --picture looked.png': LONG,
    "torchrun --nproc-per-node 2 -m regard train numbers": LONG,
    "regard train digits": LONG,
    "regard train digits --set model.kind=convolution --set model.preset=pico --out runs/digits-convolution": LONG,
    "regard train images --data pictures --out runs/mine": OWN,
    "regard classify runs/mine cat.jpg dog.png": OWN,
    "regard classify runs/mine cat.jpg --picture looked.png": OWN,
    "regard train read-digits": LONG,
    "regard train read-digits --set model.kind=recurrent-captioner --set model.preset=show-attend-tell --out runs/read-recurrent": LONG,
    "regard caption runs/read-digits strip.png": LONG,
    "regard caption runs/read-digits strip.png --picture looked.png": LONG,
    "regard train captions --data captions.csv --out runs/photos": OWN,
    "regard caption runs/photos cat.jpg dog.png": OWN,
    "regard caption runs/photos cat.jpg --beam 5 --n-best 3": OWN,
    "regard evaluate runs/photos --answers answers.tsv": OWN,
    "regard train spoken-digits --set data.folder=data/free-spoken-digits": OWN,
    "regard classify runs/spoken-digits seven.wav": OWN,
    "regard classify runs/spoken-digits seven.wav --picture heard.png": OWN,
    "regard classify runs/spoken-digits seven.wav --top 3": OWN,
    "regard train spoken-words --set data.folder=data/free-spoken-digits": OWN,
    "regard transcribe runs/spoken-words seven.wav": OWN,
    "regard transcribe runs/spoken-words seven.wav --picture heard.png": OWN,
    "ls recordings/*.wav | regard transcribe runs/spoken-words > said.txt": OWN,
    "regard train sounds --data recordings --out runs/birds": OWN,
    "regard classify runs/birds blackbird.wav robin.wav": OWN,
    "regard train transcripts --data transcripts.csv --out runs/voices": OWN,
    "regard transcribe runs/voices hello.wav --beam 5": OWN,
    "regard evaluate runs/voices --answers answers.tsv": OWN,
    "regard train same-digit --set data.folder=data/free-spoken-digits": OWN,
    "regard train same-digit --set data.folder=data/free-spoken-digits --set data.without=sound --out runs/deaf": OWN,
    "regard train same-digit --set data.folder=data/free-spoken-digits --set data.without=image --out runs/blind": OWN,
    "regard classify runs/same-digit seven.png seven.wav": OWN,
    "regard classify runs/same-digit seven.png seven.wav --picture looked.png": OWN,
    "regard classify runs/same-digit seven.png seven.wav two.png seven.wav": OWN,
    "regard train spoken-place --set data.folder=data/free-spoken-digits": OWN,
    "regard evaluate runs/spoken-place": OWN,
    'regard classify runs/spoken-place seven.wav "two nine seven one"': OWN,
    'regard classify runs/spoken-place seven.wav "two nine seven one" --picture looked.png': OWN,
    'regard look runs/spoken-place seven.wav "two nine seven one"': OWN,
    "regard train classify --from runs/translate --data labelled.tsv --out runs/labelled": OWN,
    "python benchmarks/reuse_encoder.py --data data/tatoeba-eng-fra": "takes a quarter of an hour; its results are in benchmarks/results",
    "regard classify runs/digits seven.png two.png": LONG,
    "regard classify runs/digits seven.png --picture looked.png": LONG,
    'regard look runs/numbers "nine hundred and ninety-nine"': LONG,
    'regard look runs/numbers "nine hundred and ninety-nine" --export page.html': LONG,
    "python docs/make_screenshots.py runs/demo runs/digits digit.png": "needs a browser and trained runs",
    "regard bench --quick": "takes minutes; tests/bench and tests/cli/test_bench.py run its parts",
    "regard demo": ".ci/run runs it as `make demo`",
    "regard --install-completion": "changes the reader's shell",
    "pip install .": ".ci/run builds the wheel and installs it into a clean environment",
    "pip install '.[plot]'": "the same with matplotlib, which `make test` installs",
    'pip install "regard @ git+ADDRESS"': "needs a network, and the reader's own address",
    "python benchmarks/evidence.py": "takes ten minutes; its results are in benchmarks/results",
    "python docs/make_pictures.py": "test_the_pictures_are_what_the_library_draws does it, into another folder",
    "python tests/interop/torch_upstream.py CHECKOUT/test": "needs a checkout of PyTorch's sources",
    "pre-commit install": "changes the hooks of the reader's clone",
    ".venv/bin/python -m pytest tests/attention/test_masks.py": "is what `make test` does, for one file",
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line of the page where that begins, and packages it needs.

    What a snippet needs beyond regard is in a comment above it: <!-- needs: transformers -->.
    """

    language: str
    text: str
    line: int
    needs: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        return all(importlib.util.find_spec(package) is not None for package in self.needs)


def blocks(page: Path) -> list[Block]:
    source = page.read_text()
    found = re.finditer(r"^(?:<!-- needs: ([\w ]+) -->\n+)?```(\w*)\n(.*?)^```$", source, flags=re.M | re.S)
    return [
        Block(one[2], one[3], source[: one.start(3)].count("\n"), tuple((one[1] or "").split()))
        for one in found
    ]


def followed(page: Path) -> Iterator[tuple[Block, Block | None]]:
    """Each block with the one after it."""
    every = blocks(page)
    return zip_longest(every, every[1:])


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def prose(page: Path) -> str:
    """The page without what is code."""
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.M | re.S)


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them from its headings."""
    without_code = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", without_code, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.fixture
def _as_printed() -> Iterator[None]:
    """On the CPU, wherever the other tests run: that is where the pages were written."""
    device = torch.get_default_device()
    # Not "cpu": naming a device is a mode, which takes torch.nn off its fused path.
    torch.set_default_device(None)
    yield
    if device.type != "cpu":
        torch.set_default_device(device)


def test_there_are_pages() -> None:
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} <= {page.name for page in PAGES}
    assert len(PAGES) > 10


@pages
def test_every_block_says_what_it_is(page: Path) -> None:
    # No language: an equation or a drawing. text: what the block above it prints.
    assert {block.language for block in blocks(page)} <= {"", "python", "text", "sh", "toml", "yaml"}
    assert page.read_text().count("\n```") % 2 == 0
    if blocks(page):
        assert blocks(page)[0].language != "text"


@pages
@pytest.mark.usefixtures("as_a_user", "_as_printed")
def test_snippets_run_and_print_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    printed, shown = {}, {}  # by line: all that is out of date is told at once
    for block, after in followed(page):
        if block.language != "python" or not block.runs:
            continue
        code = compile("\n" * block.line + block.text, str(page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, names)
        printed[block.line] = trimmed(output.getvalue())
        shown[block.line] = trimmed(after.text if after is not None and after.language == "text" else "")
    assert printed == shown, page


def commands(page: Path) -> list[tuple[str, Block | None]]:
    """The commands of a page, without their comments, and what the last of a block prints."""
    found: list[tuple[str, Block | None]] = []
    for block, after in followed(page):
        if block.language == "sh":
            lines = [re.sub(r"\s+#.*", "", line) for line in block.text.splitlines() if line.strip()]
            shown = after if after is not None and after.language == "text" else None
            found += [(line, shown if line == lines[-1] else None) for line in lines]
    return found


@pytest.mark.slow
@pages
@pytest.mark.usefixtures("as_a_user", "_as_printed")
def test_commands_work(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    makefile = (ROOT / "Makefile").read_text()
    for command, shown in commands(page):
        program, *arguments = shlex.split(command)
        if command in NOT_RUN:
            continue
        if program == "make":
            # `.ci/run` runs `make demo` and `make test`, and everything of `make check`.
            assert all(re.search(rf"^{target}:", makefile, flags=re.M) for target in arguments)
        elif program == "python" and arguments[0].startswith("examples/"):
            assert (ROOT / arguments[0]).is_file()  # and test_examples runs each
        else:
            assert program == "regard", f"{command!r}: run it, or say in NOT_RUN why not"
            with pytest.raises(SystemExit) as ended:
                main(arguments)
            printed = capsys.readouterr()
            assert ended.value.code == 0, printed.err
            assert shown is None or trimmed(printed.out) == trimmed(shown.text)


def test_no_excuse_is_left_over() -> None:
    assert set(NOT_RUN) <= {command for page in PAGES for command, _ in commands(page)}


@pages
def test_links_lead_somewhere(page: Path) -> None:
    text = prose(page)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    for target in targets:
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert ROOT in found.parents, target
        if anchor:
            assert anchor in headings(found), target


@pages
def test_a_table_of_settings_has_each_of_them_with_its_default_and_its_choices(page: Path) -> None:
    tables = re.findall(r"^<!-- settings: ([\w.]+) -->\n+((?:\|.*\n)+)", page.read_text(), flags=re.M)
    for name, table in tables:
        module, _, title = name.rpartition(".")
        kind = getattr(importlib.import_module(f"regard.{module}"), title)
        settings = [each for each in dataclasses.fields(kind) if each.metadata.get("setting", True)]
        own = [each for each in settings if each.name not in elsewhere(kind)]
        rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", table, flags=re.M)
        assert {row[0]: row[1] for row in rows} == {each.name: default_of(each) for each in own}, name
        choices = {each: hint for each, hint in get_type_hints(kind).items() if get_origin(hint) is Literal}
        for setting, _, meaning in rows:
            assert meaning, f"{name}.{setting}: say what it means"
            assert all(f"`{word}`" in meaning for word in get_args(choices.get(setting)))


def default_of(setting: "dataclasses.Field[Any]") -> str:
    """A default as a table shows it, in the words of YAML."""
    if setting.default is not dataclasses.MISSING:
        return f"`{in_yaml(setting.default)}`"
    return "required" if setting.default_factory is dataclasses.MISSING else "see there"


def in_yaml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(in_yaml, value))}]"
    words = {None: "null", True: "true", False: "false", "": '""'}
    return words[value] if isinstance(value, bool | str | None) and value in words else str(value)


def elsewhere(kind: Any) -> set[str]:
    """Inherited settings that are in the table of what they are inherited from."""
    bases = [base for base in kind.__mro__[1:] if dataclasses.is_dataclass(base) and base.__name__[0] != "_"]
    inherited = {name for base in bases for name in get_type_hints(base)}
    return inherited - {*inspect.get_annotations(kind)}


def test_every_setting_of_a_recipe_is_in_a_table() -> None:
    named = (re.findall(r"<!-- settings: [\w.]+\.(\w+) -->", page.read_text()) for page in PAGES)
    configs = {each for kind in KINDS for each in settings_in(kind.config)}
    kinds = (settings_in(Recipe) | configs) - {Kind}
    assert {kind.__name__ for kind in kinds} == {name for each in named for name in each}


def settings_in(hint: Any) -> set[type]:
    """The public dataclasses of settings that a type consists of, and those they inherit from."""
    parts = get_args(hint)
    if dataclasses.is_dataclass(hint):
        parts = (*get_type_hints(hint).values(), *getattr(hint, "__bases__", ()))
    found = {kind for part in parts for kind in settings_in(part)}
    public = dataclasses.is_dataclass(hint) and isinstance(hint, type) and not hint.__name__.startswith("_")
    public = public and bool(
        inspect.get_annotations(hint)
    )  # what only joins others has no settings of its own
    return {*found, hint} - {Parallel} if public else found


def test_the_readme_names_every_file_that_holds_an_equation() -> None:
    package, readme = ROOT / "src" / "regard", (ROOT / "README.md").read_text()
    for room in ("attention", "layers"):
        for file in (package / room).rglob("*.py"):
            if re.search(r"[ᵀ√Σ‖≤⊙]|softmax\(", file.read_text()):
                assert f"({file.relative_to(ROOT)})" in readme


def test_every_page_of_a_concept_shows_a_picture_and_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        if page.name != "index.md":
            assert f"({page.name})" in index
            assert re.search(r"\]\((pictures|explorer)/", page.read_text()), page.name


def test_every_view_of_the_explorer_is_shown_and_small() -> None:
    pages = (ROOT / "docs" / "explorer.md").read_text() + (ROOT / "README.md").read_text()
    views = list((ROOT / "docs" / "explorer").iterdir())
    assert {view.name for view in views} == set(re.findall(r"[(/]explorer/([\w-]+\.png)[)\"]", pages))
    assert all(view.stat().st_size < 150_000 for view in views)


def test_every_picture_is_shown_and_small() -> None:
    shown = {
        Path(name).name for page in PAGES for name in re.findall(r"pictures/[\w-]+\.png", page.read_text())
    }
    assert shown == {picture.name for picture in PICTURES.glob("*.png")}
    assert all(picture.stat().st_size < 150_000 for picture in PICTURES.glob("*.png"))


def test_every_figure_that_is_drawn_is_shown_with_its_command_beside_its_numbers() -> None:
    files = list((PICTURES / "figures").glob("*"))
    names = {file.stem for file in files}
    assert names <= set(FIGURES)
    assert {file.name for file in files} == {
        f"{name}.{suffix}" for name in names for suffix in ("png", "json")
    }
    assert all(file.stat().st_size < 400_000 for file in files)
    for name in names:
        pages = [page for page in PAGES if f"(pictures/figures/{name}.png)" in page.read_text()]
        assert any(f"regard figure {name}" in page.read_text() for page in pages), name


@pytest.mark.usefixtures("_as_printed")
@pytest.mark.parametrize("name", sorted(file.stem for file in (PICTURES / "figures").glob("*.json")))
def test_the_numbers_of_a_figure_that_trains_nothing_are_what_it_computes(name: str) -> None:
    make = figure_function(name)
    if "progress" in inspect.signature(make).parameters:
        pytest.skip("takes longer; its own test makes a small one")
    held = json.loads((PICTURES / "figures" / f"{name}.json").read_text())
    computed = json.loads(json.dumps({"figure": name, **make().numbers}))  # whose keys are strings
    assert alike(computed, held), f"regard figure {name} --out docs/pictures/figures"


def alike(computed: Any, held: Any) -> bool:
    """Whether two pieces of plain data agree, numbers to three digits; what is below 1e-6 is rounding."""
    if isinstance(held, dict):
        return computed.keys() == held.keys() and all(alike(computed[name], held[name]) for name in held)
    if isinstance(held, list):
        return len(computed) == len(held) and all(map(alike, computed, held))
    if isinstance(held, float):
        return math.isclose(computed, held, rel_tol=1e-3, abs_tol=1e-6)
    return bool(computed == held)


@pytest.mark.slow
@pytest.mark.usefixtures("_as_printed", "as_a_user")  # hundreds of updates, each checked, would take minutes
def test_the_pictures_are_what_the_library_draws(tmp_path: Path) -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "make_pictures.py"))["draw"](tmp_path)
    assert {picture.name for picture in drawn} == {picture.name for picture in PICTURES.glob("*.png")}
    for picture in drawn:
        with Image.open(picture) as new, Image.open(PICTURES / picture.name) as old:
            assert new.size == old.size
            a, b = (np.asarray(image.convert("L"), dtype=float) for image in (new, old))
        # Rounding differs between machines and may move an edge; a picture of something else is far from it.
        assert np.abs(a - b).mean() < 0.5, f"{picture.name} is out of date: python docs/make_pictures.py"
