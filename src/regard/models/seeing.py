"""What sees: pictures as tokens, and the encoder over them that every model of pictures shares."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.batches import Images
from regard.errors import RegardError
from regard.layers.convolution import Convolutional, ConvolutionalFeatures
from regard.layers.embedding import Gaussian, Sinusoidal
from regard.layers.grid_positions import Grid, GridRotary, LearnedGrid
from regard.layers.patches import Patches, read_dtype
from regard.models.layout import Encoded, pictures, through
from regard.models.stack import StackConfig, encoder_blocks, last_norm


@dataclass(frozen=True, kw_only=True)
class PictureConfig:
    """How pictures become tokens."""

    channels: int = 3
    image_size: tuple[int, int] = (224, 224)  # height and width that are trained with
    tokens: Literal["patches", "convolutional"] = "patches"
    patch: tuple[int, int] = (16, 16)  # height and width
    widths: tuple[int, ...] = (32, 64, 128)  # of the stages of convolutional tokens
    strides: tuple[int, ...] = (2, 2, 2)  # of each stage
    units: int = 2  # of each stage


@dataclass(frozen=True, kw_only=True)
class PictureStackConfig(PictureConfig, StackConfig):
    """The settings of an encoder of pictures."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positions in ("alibi", "relative"):
            raise RegardError(
                f"positions={self.positions!r}: a distance along a text; for a picture say 'learned', 'sinusoidal', "
                "'gaussian', 'rotary' or 'none'"
            )


class PictureTokens(nn.Module):
    """Pictures cut into tokens, with positions in them, or beside them where those have a width of their own."""

    def __init__(
        self,
        config: PictureConfig,
        width: int,  # of both together
        *,
        positions: str = "none",
        position_width: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.cut = cut(config, width - (position_width or 0))
        self.size = self.cut.grid(*config.image_size)
        self.beside = position_width is not None
        name, width = ("width", width) if position_width is None else ("position_width", position_width)
        self.positions: Grid | LearnedGrid | None = None
        if positions == "learned":
            self.positions = LearnedGrid(width, rows=self.size[0], columns=self.size[1])
        elif positions == "sinusoidal":
            if width < 2:
                raise RegardError(
                    f"{name}={width}, positions='sinusoidal': rows and columns have their own, so at least 2"
                )
            self.positions = Grid(Sinusoidal(width - width // 2), Sinusoidal(width // 2))
        elif positions == "gaussian":
            if width % 4:
                raise RegardError(
                    f"{name}={width}, positions='gaussian': pairs for rows and columns, so 4 divides it"
                )
            self.positions = Grid(Gaussian(width // 2), Gaussian(width // 2))
        self.turned = positions == "rotary"
        self.dropout = nn.Dropout(dropout)

    def forward(self, images: Images) -> Float[Tensor, "b n d"]:
        """The tokens, row by row."""
        rows, columns = self.cut.grid(*pictures(images).pixels.shape[2:])
        if self.turned and columns != self.size[1]:
            raise RegardError(
                f"pictures {columns} tokens wide, and positions='rotary' for {self.size[1]}: rotary positions count "
                "along rows of one length; only the height may change"
            )
        x = self.cut(centred(images, read_dtype(self.cut.projection)))
        if self.positions is not None:
            join = self.positions.concatenate if self.beside else self.positions.add
            x = join(x, rows=rows, columns=columns)
        return self.dropout(x)


class PictureEncoder(nn.Module):
    """Tokens of pictures that have looked at each other; a class token precedes them if there is one."""

    def __init__(self, config: PictureStackConfig, *, class_token: bool = False) -> None:
        super().__init__()
        self.tokens = PictureTokens(
            config,
            config.width,
            positions=config.positions,
            position_width=config.position_width,
            dropout=config.dropout,
        )
        self.class_token = nn.Parameter(torch.randn(config.width) * math.sqrt(0.5)) if class_token else None
        rotary = None
        if config.positions == "rotary":
            head, columns = config.width // config.heads, self.tokens.size[1]
            rotary = GridRotary(head, columns=columns, leading=int(class_token))
        self.blocks = encoder_blocks(config, rotary=rotary)
        self.norm = last_norm(config)

    def forward(self, images: Images) -> Encoded:
        """Every token, having looked at all."""
        x = self.tokens(images)
        if self.class_token is not None:
            x = torch.cat([self.class_token.to(x.dtype).expand(len(x), 1, -1), x], dim=1)
        return Encoded.full(self.norm(through(self.blocks, x, None)))


def centred(images: Images, dtype: torch.dtype) -> Float[Tensor, "b channels height across"]:
    """Pixels from −1 to 1, so that a grey picture is not a large number everywhere."""
    return (2 * images.pixels - 1).to(dtype)


def cut(config: PictureConfig, width: int) -> Patches | Convolutional:
    """What turns pixels into tokens."""
    if config.tokens == "patches":
        return Patches(width, channels=config.channels, patch=config.patch)
    features = ConvolutionalFeatures(
        config.channels, widths=config.widths, strides=config.strides, depth=config.units
    )
    return Convolutional(width, features)
