"""Are there more 4s than 2s among ten digits? Two models that learn where to look from yes and no alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.weights import weigh
from regard.data.batches import Sequences
from regard.data.digit_counts import EXAMPLE, FIRST, LABELS, CountFeed, count_samples, rows_of_digits
from regard.figures.figure_result import FigureResult, Progress, silent
from regard.figures.short_training import check_options, learn
from regard.models.counter import Counter, CounterConfig
from regard.models.labelling import Labelling
from regard.runs.settings import Training
from regard.sight.pictures.chart import Chart, Series
from regard.sight.pictures.counter_picture import counted
from regard.sight.pictures.curves import smoothed
from regard.sight.pictures.scene import Panels

WIDTH, KEY_WIDTH, HIDDEN_WIDTH = 16, 32, 32  # of embedding, of query and keys, of the MLP
FRESH = 5000  # rows of digits that no update has seen
ABOVE = 0.1  # a weight from here on is looked at: the even share among ten digits
_LEAST = 1e-8  # loss that is drawn: rounded to 0, it would have no logarithm
_AROUND = 7  # updates on either side that a loss is smoothed over


class OneValueCounter(Labelling[Sequences]):
    """The counter as introductions to attention write it: one learned query, and one number a digit.

    w = softmax(q·k_i / √32) over the digits, v_i = MLP(e_i), p = σ(a Σ w_i v_i + b).
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, WIDTH)
        self.query = nn.Parameter(torch.randn(1, KEY_WIDTH))
        self.key = nn.Linear(WIDTH, KEY_WIDTH)
        self.value = nn.Sequential(nn.Linear(WIDTH, HIDDEN_WIDTH), nn.ReLU(), nn.Linear(HIDDEN_WIDTH, 1))
        self.head = nn.Linear(1, 1)

    def message(self, batch: Sequences) -> Float[Tensor, "b 1"]:
        """Σ w_i v_i, which the head reads. Scores are divided by √32, the width of a key."""
        return attend(self._queries(batch), self._keys(batch), self.values(batch))[:, 0]

    def scores(self, inputs: Sequences) -> Float[Tensor, "b 2"]:
        """0 for no and a·message + b for yes: their softmax is σ(a·message + b)."""
        yes = self.head(self.message(inputs))
        return torch.cat([torch.zeros_like(yes), yes], -1)

    def weights(self, batch: Sequences) -> Float[Tensor, "b n"]:
        """How much it looks at each digit."""
        return weigh(self._queries(batch), self._keys(batch))[:, 0]

    def values(self, batch: Sequences) -> Float[Tensor, "b n 1"]:
        """The number that each digit sends."""
        return self.value(self._embedded(batch))

    def _queries(self, batch: Sequences) -> Float[Tensor, "b 1 key"]:
        return self.query.expand(len(batch), -1, -1)

    def _keys(self, batch: Sequences) -> Float[Tensor, "b n key"]:
        return self.key(self._embedded(batch))

    def _embedded(self, batch: Sequences) -> Float[Tensor, "b n width"]:
        return self.embedding(batch.tokens - FIRST)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Learned:
    """A trained model and what it does with fresh digits."""

    model: Any  # a `CountingModel`
    losses: list[tuple[float, float]]
    right: float  # share of fresh rows
    on: float  # share of the weight on 4s and 2s, of rows that have one


def counter(
    *,
    seed: Annotated[int, "Draws the first weights and all digits."] = 1,
    digits: Annotated[str, "Ten digits to look at."] = EXAMPLE,
    steps: Annotated[int, "Updates of each model, of 256 rows of digits."] = 700,
    progress: Progress = silent,
) -> FigureResult:
    """More 4s than 2s? One learned query finds out which digits to look at, from yes and no alone."""
    check_options(seed=seed, steps=steps)
    given = rows_of_digits([digits])
    plain = _learned(OneValueCounter, "one value a digit", seed, steps, progress)
    ours = _learned(lambda: Counter(CounterConfig()), "regard's Counter", seed, steps, progress)
    with torch.no_grad():
        value = plain.model.values(given)[0, :, 0].double()
        weight = plain.model.weights(given)[0].double()
        sent = {digit: float(plain.model.values(_only(digit))[0, 0, 0]) for digit in (4, 2)}
        message, yes = float(plain.model.message(given)), float(plain.model.predict(given)[0, 1].exp())
    shown = (given.tokens[0] - FIRST).tolist()
    picture = Panels(
        parts=[
            replace(
                counted(plain.model, given),
                values=value[None].numpy(),
                numbered=True,
                title="One value a digit, a query and keys of 32, a sigmoid",
                note="dark: weight · outlined: 4s and 2s · bars: the value, coloured where the weight is above 0.1",
            ),
            replace(
                counted(ours.model, given),
                title="regard's Counter: two values a digit",
                note="bars: along the line from what a 2 sends to what a 4 sends",
            ),
            _losses({"one value a digit": plain, "regard's Counter": ours}),
        ],
        title="Are there more 4s than 2s?",
        note="learned from yes and no; nothing says where to look",
    )
    twos, fours = shown.count(2), shown.count(4)
    answer = LABELS[yes > 0.5]
    return FigureResult(
        name="counter",
        picture=picture,
        numbers={
            "seed": seed,
            "steps": steps,
            "digits": shown,
            "one value a digit": {
                **_numbers(plain, given),
                "value": _rounded(value),
                "message where the weight is above 0.1": _rounded(torch.where(weight > ABOVE, value, 0.0)),
                "message": round(message, 6),
                "value of a 4": round(sent[4], 6),
                "value of a 2": round(sent[2], 6),
            },
            "regard's Counter": _numbers(ours, given),
        },
        see=(
            f"On 4s and 2s, where there are any, lies {_percent(plain.on)} (one value) and {_percent(ours.on)} (Counter) "
            "of the weight.",
            f"A 4 sends {_signed(sent[4])} and a 2 {_signed(sent[2])}; weighted, {fours} × 4 and {twos} × 2 make the message "
            f"{_signed(message)}: {answer}, {_percent(max(yes, 1 - yes))}.",
            f"Right on {FRESH:,} fresh rows: {_percent(plain.right)} (one value) and {_percent(ours.right)} (Counter).",
        ),
    )


def _learned(make: Any, name: str, seed: int, steps: int, progress: Progress) -> _Learned:
    settings = Training(
        steps=steps, learning_rate=3e-3, schedule="cosine", warmup=0, weight_decay=0.0, save=steps
    )
    feed = CountFeed(seed=2 * seed)
    model, losses = learn(make, feed, settings, seed=seed, name=name, progress=progress)
    fresh = count_samples(FRESH, seed=2 * seed + 1)
    wanted = (fresh.inputs.tokens == FIRST + 4) | (fresh.inputs.tokens == FIRST + 2)
    counts: Any = model
    with torch.no_grad():
        right = (counts.predict(fresh.inputs).argmax(-1) == fresh.labels).double().mean()
        weights = counts.weights(fresh.inputs).double()
    on = (weights * wanted).sum(-1)[wanted.any(-1)].mean()
    return _Learned(model=model, losses=losses, right=float(right), on=float(on))


def _only(digit: int) -> Sequences:
    """A row of one digit."""
    return Sequences(torch.tensor([[FIRST + digit]]), torch.tensor([1]))


def _losses(models: Mapping[str, _Learned]) -> Chart:
    series = []
    for name, learned in models.items():
        points = [(step, max(loss, _LEAST)) for step, loss in learned.losses]
        series.append(Series(name="", points=points, look="thin"))
        series.append(Series(name=name, points=smoothed(points, _AROUND, log=True)))
    return Chart(y="loss, logarithmic", x="updates", series=series, log=True, height=200)


def _numbers(learned: _Learned, given: Sequences) -> dict[str, Any]:
    with torch.no_grad():
        return {
            "parameters": sum(each.numel() for each in learned.model.parameters()),
            "right on fresh rows": learned.right,
            "share of the weight on 4s and 2s": round(learned.on, 6),
            "weights": _rounded(learned.model.weights(given)[0]),
            "p(yes)": float(f"{float(learned.model.predict(given)[0, 1].exp()):.6g}"),
            "loss": [float(f"{loss:.4g}") for _, loss in learned.losses],
        }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 6) for value in values.tolist()]
