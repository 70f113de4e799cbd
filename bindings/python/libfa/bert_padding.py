"""flash_attn.bert_padding: padded batches of torch's tensors to packed sequences, and back, with gradients.

    from flash_attn.bert_padding import pad_input, unpad_input      by      from libfa.bert_padding import pad_input, unpad_input
"""

from __future__ import annotations

import torch
from torch.nn.functional import pad


def index_first_axis(input: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The rows of input (rows, ...) that indices (n) name: (n, ...)."""
    return input.index_select(0, indices)


def index_put_first_axis(values: torch.Tensor, indices: torch.Tensor, first_axis_dim: int) -> torch.Tensor:
    """(first_axis_dim, ...) with the rows of values (n, ...) at indices (n), 0 elsewhere."""
    return values.new_zeros(first_axis_dim, *values.shape[1:]).index_copy(0, indices, values)


def index_first_axis_residual(input: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """index_first_axis(input, indices), and input itself."""
    return index_first_axis(input, indices), input


def unpad_input(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, unused_mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Tensor]:
    """hidden_states (batch, sequence, ...) without the tokens whose attention_mask (batch, sequence) is 0. Tokens of unused_mask
    are kept, too, but do not count as used.

    Returns (tokens (total, ...), their indices in (batch * sequence), cu_seqlens (batch + 1) in int32, the longest sequence,
    the used tokens of each sequence (batch) in int32)."""
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    indices = kept.flatten().nonzero().flatten()
    cu_seqlens, longest = _cu_seqlens(kept.sum(-1))
    used = attention_mask.sum(-1, dtype=torch.int32)
    return index_first_axis(hidden_states.flatten(0, 1), indices), indices, cu_seqlens, longest, used


def unpad_input_for_concatenated_sequences(
    hidden_states: torch.Tensor, attention_mask_in_length: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """hidden_states (batch, sequence, ...), in which each row of the batch holds several sequences from its left: their lengths
    are the numbers in the row of attention_mask_in_length (batch, sequence) that are not 0.

    Returns (tokens (total, ...), their indices in (batch * sequence), cu_seqlens in int32, the longest sequence)."""
    places = torch.arange(attention_mask_in_length.shape[1], device=attention_mask_in_length.device)
    indices = (places < attention_mask_in_length.sum(-1, keepdim=True)).flatten().nonzero().flatten()
    lengths = attention_mask_in_length.flatten()
    cu_seqlens, longest = _cu_seqlens(lengths[lengths != 0])
    return index_first_axis(hidden_states.flatten(0, 1), indices), indices, cu_seqlens, longest


def pad_input(hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
    """The reverse of unpad_input: hidden_states (total, ...) to (batch, seqlen, ...), 0 where indices names no place."""
    return index_put_first_axis(hidden_states, indices, batch * seqlen).unflatten(0, (batch, seqlen))


def _cu_seqlens(lengths: torch.Tensor) -> tuple[torch.Tensor, int]:
    return pad(lengths.cumsum(0, dtype=torch.int32), (1, 0)), int(lengths.max())
