"""Training: updates of a Transformer beside torch.nn.Transformer and x-transformers, on the same sentences."""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.bench.contest import Contender, Row, contest
from regard.bench.peers import peer
from regard.bench.record import Setting
from regard.data.batches import START, Pairs
from regard.data.feeds import Corpus, PairFeed
from regard.layers.embedding import Sinusoidal
from regard.models.transformer import Transformer, TransformerConfig, base, tiny
from regard.runs.settings import Training
from regard.training.distribution import BatchPlace, World
from regard.training.state import TrainingState
from regard.training.update import Updater, chosen_precision

WORDS = 10_000
BATCHES = 4  # updates in a run
Update = Callable[[], int]  # makes one update, says how many real tokens it was of


def training(setting: Setting) -> Iterator[Row]:
    """Some updates: dropout, label smoothing, clipping and AdamW included. What counts is real tokens of both sides.

    regard has the sentences as they are drawn, packed; the others have them padded, as drawn and sorted by length.
    """
    config = replace(
        tiny() if setting.quick and not setting.gpu else base(),
        tied="all",
        dropout=0.1,
        source_vocabulary=WORDS,
        target_vocabulary=WORDS,
    )
    device, settings = setting.device, Training(cuda_graphs="auto" if setting.gpu else "never")
    precision = chosen_precision(settings, torch.device(device), Transformer(config))
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    budget = 8192 if setting.gpu else 256 if setting.quick else 1024  # tokens of a side in a batch
    feed = captions(20 * BATCHES * budget // 14)
    drawn = [list(samples) for samples in PairFeed(feed.sources, feed.targets, budget=budget, seed=1, packed=True).order(0)[:BATCHES]]  # fmt: skip
    rows = sorted((row for batch in drawn for row in batch), key=lambda row: int(feed.sources.lengths[row]))
    size = -(-len(rows) // BATCHES)
    alike = [rows[start : start + size] for start in range(0, len(rows), size)]
    settings = replace(settings, batch=budget)
    updates = {"regard": our_updates(config, feed, cycle(drawn), settings, device)}
    checks = {"regard": f"loss {_our_loss(config, feed.batch(drawn[0]), device):.4f}"}
    same = _torch_loss(config, feed.batch(drawn[0]), device)
    for way, order in (("drawn", drawn), ("sorted", alike)):
        batches = [feed.batch(samples) for samples in order]
        updates[f"torch, {way}"] = peer_updates(Peer(config), cycle(batches), dtype, device)
        checks[f"torch, {way}"] = f"loss {same:.4f}"
        if (other := x_transformer(config)) is not None:
            count = sum(weight.numel() for weight in other.parameters())
            updates[f"x-transformers, {way}"] = peer_updates(other, cycle(batches), dtype, device)
            checks[f"x-transformers, {way}"] = f"other, {count / 1e6:.0f} M"
    contenders = {
        name: Contender(run=lambda update=update: [update() for _ in range(BATCHES)], check=checks[name])  # type: ignore[misc]
        for name, update in updates.items()
    }
    tokens = int((feed.sources.lengths[rows] + feed.targets.lengths[rows] + 2).sum())
    for contender in list(contenders.values()) * 4 if setting.gpu else ():
        contender.run()  # until all is captured that will be: the third update of a shape is
    task = f"{config.depth} + {config.decoder_depth} × {config.width}, {str(dtype).removeprefix('torch.')}"
    yield from contest("training", task, contenders, setting, tokens=tokens)


def captions(count: int) -> PairFeed:
    """Pairs as long as captions of photographs and their translations: 14 tokens in the middle, some 40."""
    numbers = np.random.default_rng(0)
    source = np.clip(np.rint(numbers.lognormal(np.log(13.5), 0.33, count)), 4, 80)
    target = np.clip(np.rint(source * numbers.lognormal(0.0, 0.18, count)), 4, 80)
    sides = []
    for sizes in (source.astype(np.int64), target.astype(np.int64)):
        sides.append(Corpus(numbers.integers(4, WORDS, int(sizes.sum())).astype(np.uint16), np.cumsum(sizes)))
    return PairFeed(*sides, budget=1, seed=0)


class Peer(nn.Module):
    """torch.nn.Transformer with what it needs to be trained."""

    waves: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width = config.width
        self.embedding = nn.Embedding(config.target_vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        sizes = (config.heads, config.depth, config.decoder_depth, config.hidden_width, config.dropout)
        with (
            warnings.catch_warnings()
        ):  # that norms before go without nested tensors, which training does anyway
            warnings.simplefilter("ignore", UserWarning)
            self.core = nn.Transformer(width, *sizes, batch_first=True, norm_first=True)
        self.dropout = nn.Dropout(config.dropout)
        self.smoothing = config.smoothing
        self.register_buffer("waves", Sinusoidal(width)(torch.arange(512)))

    def forward(self, batch: Pairs) -> Tensor:
        """The mean loss of the real target tokens."""
        source, target = batch.source, batch.target
        start = target.tokens.new_full((len(target), 1), START)
        given = torch.cat([start, target.tokens[:, :-1]], 1)
        size = given.shape[1]
        ahead = torch.ones(size, size, dtype=torch.bool, device=given.device).triu(1)
        vectors = self.core(
            self._embedded(source.tokens),
            self._embedded(given),
            tgt_mask=ahead,
            src_key_padding_mask=~source.real(),
            tgt_key_padding_mask=~target.real(),
            memory_key_padding_mask=~source.real(),
            tgt_is_causal=True,
        )
        logits = F.linear(vectors, self.embedding.weight)
        return F.cross_entropy(
            logits.flatten(0, 1), target.tokens.flatten(), ignore_index=0, label_smoothing=self.smoothing
        )

    def _embedded(self, tokens: Tensor) -> Tensor:
        scaled = self.embedding(tokens) * self.embedding.embedding_dim**0.5
        return self.dropout(scaled + self.waves[: tokens.shape[1]])


def weights_for_torch(model: Transformer) -> dict[str, Tensor]:
    """The weights of a Transformer with one table and the norms before, by the names of `Peer`."""
    changes = (
        (r"^(encoder|decoder)\.(\d+)\.", r"core.\1.layers.\2."),
        (r"^(encoder|decoder)_norm\.", r"core.\1.norm."),
        (r"^target_embedding\.table$", "embedding.weight"),
        (r"\.around_attention\.norm\.", ".norm1."),
        (r"\.around_cross\.norm\.", ".norm2."),
        (r"(encoder.*)\.around_feedforward\.norm\.", r"\1.norm2."),
        (r"(decoder.*)\.around_feedforward\.norm\.", r"\1.norm3."),
        (r"\.attention\.", ".self_attn."),
        (r"\.cross\.", ".multihead_attn."),
        (r"\.input\.all\.", ".in_proj_"),
        (r"\.output\.", ".out_proj."),
        (r"\.feedforward\.inner\.", ".linear1."),
        (r"\.feedforward\.outer\.", ".linear2."),
    )
    found = {}
    for name, weight in model.state_dict().items():
        for pattern, new in changes:
            name = re.sub(pattern, new, name)
        found[name] = weight
    return found


def x_transformer(config: TransformerConfig) -> nn.Module | None:
    """x-transformers' model of this size, with its flash attention; None where it is not installed."""
    library = peer("x_transformers")
    if library is None:
        return None
    sides: dict[str, Any] = {}
    for side, depth in (("enc", config.depth), ("dec", config.decoder_depth)):
        own: dict[str, Any] = {"num_tokens": config.target_vocabulary, "max_seq_len": 512, "depth": depth}
        own |= {"heads": config.heads, "attn_flash": True, "ff_mult": config.hidden_width // config.width}
        own |= {"ff_dropout": config.dropout, "attn_dim_head": config.width // config.heads}
        sides |= {f"{side}_{name}": value for name, value in own.items()}
    model = library.XTransformer(dim=config.width, tie_token_emb=True, ignore_index=0, **sides)
    return _Other(model)


class _Other(nn.Module):
    """Its loss of a batch; it has no label smoothing."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Pairs) -> Tensor:
        start = batch.target.tokens.new_full((len(batch.target), 1), START)
        target = torch.cat([start, batch.target.tokens], 1)
        return self.model(batch.source.tokens, target, mask=batch.source.real())


def peer_updates(model: nn.Module, batches: Iterator[Any], dtype: torch.dtype, device: str) -> Update:
    """Updates of a module that gives the loss of a batch."""
    model = model.to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def update() -> int:
        batch = next(batches)
        count = int(batch.source.lengths.sum() + batch.target.lengths.sum())
        batch = batch.to(device)
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device.split(":")[0], dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = model(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return count

    return update


def our_updates(
    config: TransformerConfig, feed: PairFeed, order: Iterator[Sequence[int]], settings: Training, device: str
) -> Update:
    """Updates of regard, by what trains every recipe: the next batch is made while a GPU computes."""
    torch.manual_seed(0)
    feed = PairFeed(feed.sources, feed.targets, budget=1, seed=0, packed=True)
    state = TrainingState(Transformer(config).to(device).train(), settings)
    updater = Updater(state, settings, world=World(torch.device(device)), seed=0)
    sizes = feed.sources.lengths + feed.targets.lengths + 2
    prepared = (updater.prepare(feed, BatchPlace(0, 0, samples)) for samples in order)
    upcoming = [next(prepared)]

    def update() -> int:
        work = upcoming.pop()
        pending = updater.compute(work, stop=False)
        upcoming.append(next(prepared))
        updater.apply(work, pending)
        return int(sizes[work.place.samples].sum())

    return update


def _drawn(config: TransformerConfig) -> Transformer:
    torch.manual_seed(0)
    return Transformer(config).eval()


def _our_loss(config: TransformerConfig, batch: Any, device: str) -> float:
    with torch.no_grad():
        loss = _drawn(config).to(device).loss(batch.to(device))
    return float(loss.total / loss.count)


def _torch_loss(config: TransformerConfig, batch: Any, device: str) -> float:
    """The same weights, the same batch."""
    other = Peer(config).eval()
    other.load_state_dict(weights_for_torch(_drawn(config)), strict=False)
    with torch.no_grad():
        return float(other.to(device)(batch.to(device)))
