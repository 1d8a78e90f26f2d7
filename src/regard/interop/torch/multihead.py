"""`torch.nn.MultiheadAttention`, over our attention."""

from torch import Tensor, nn

from regard.interop.torch.functional import function_parameters
from regard.interop.torch.heads import multi_head
from regard.interop.torch.nested import to_dense, to_nested


class MultiheadAttention(nn.MultiheadAttention):
    """Multi-head attention with the constructor, parameters, masks and results of torch's.

    What differs: a query that may look at nothing gets 0 (see `strict_nan`), asking for weights changes no bit of
    the output, the weights are those before dropout, and nested tensors are taken in training too.
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What each query takes from the keys, and how much it looked at each, or None.

        Inputs are [positions, batch, width], or [batch, positions, width] with `batch_first`, or without a batch.
        In a bool mask True is hidden; a float mask is added to the scores. `attn_mask` is [queries, keys] or
        [batch · heads, queries, keys], `key_padding_mask` [batch, keys]. `is_causal` is a hint that `attn_mask` is
        the causal mask, and is believed.
        """
        asked = query
        query, _ = to_dense(query, batch_first=self.batch_first)
        key, key_padding_mask = to_dense(key, key_padding_mask, batch_first=self.batch_first)
        value, _ = to_dense(value, batch_first=self.batch_first)
        parameters = function_parameters(
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight),
            self.in_proj_bias,
            (self.bias_k, self.bias_v),
            self.add_zero_attn,
            (self.out_proj.weight, self.out_proj.bias),
            separate=self.in_proj_weight is None,
        )
        output, weights = multi_head(
            parameters,
            query,
            key,
            value,
            batch_first=self.batch_first,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            dropout=self.dropout if self.training else 0.0,
            need_weights=need_weights,
            average_attn_weights=average_attn_weights,
        )
        return to_nested(output, like=asked), weights
