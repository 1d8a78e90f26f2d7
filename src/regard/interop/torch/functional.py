"""`torch.nn.functional.multi_head_attention_forward`, over our attention."""

from torch import Tensor

from regard.interop.torch.heads import multi_head
from regard.interop.torch.parameters import Parameters, Static


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention with all its parameters as arguments; inputs are [positions, batch, width].

    Arguments, mask polarity and results are torch's. Where torch's answer depends on `need_weights`, ours does not:
    the hint `is_causal` is always believed, the extra keys of `bias_k` and `add_zero_attn` are seen by all, and a
    query that may look at nothing gets 0 (see `strict_nan`).
    """
    parameters = function_parameters(
        embed_dim_to_check,
        num_heads,
        None if use_separate_proj_weight else in_proj_weight,
        (q_proj_weight, k_proj_weight, v_proj_weight),
        in_proj_bias,
        (bias_k, bias_v),
        add_zero_attn,
        (out_proj_weight, out_proj_bias),
        separate=use_separate_proj_weight,
    )
    return multi_head(
        parameters,
        query,
        key,
        value,
        batch_first=False,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        is_causal=is_causal,
        dropout=dropout_p if training else 0.0,
        need_weights=need_weights,
        average_attn_weights=average_attn_weights,
        static=Static(key=static_k, value=static_v),
    )


def function_parameters(
    width: int,
    heads: int,
    packed: Tensor | None,
    apart: tuple[Tensor | None, Tensor | None, Tensor | None],
    bias: Tensor | None,
    rows: tuple[Tensor | None, Tensor | None],
    zero_row: bool,
    out: tuple[Tensor, Tensor | None],
    *,
    separate: bool,
) -> Parameters:
    """The parameters among the arguments of torch's function."""
    query, key, value = apart
    if not separate:
        query, key, value = (None,) * 3 if packed is None else packed.chunk(3)
    if query is None or key is None or value is None:
        wanted = "q_, k_ and v_proj_weight" if separate else "in_proj_weight"
        raise AssertionError(f"use_separate_proj_weight={separate} needs {wanted}, and got None")
    return Parameters(
        width=width,
        heads=heads,
        packed=not separate,
        query=query,
        key=key,
        value=value,
        bias=bias,
        key_row=rows[0],
        value_row=rows[1],
        zero_row=zero_row,
        out=out[0],
        out_bias=out[1],
    )
