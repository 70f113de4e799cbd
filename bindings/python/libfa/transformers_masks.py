"""The masks of transformers as arguments of libfa: a causal mask, a window, a chunk, lengths and left padding, packed sequences.

transformers describes a mask by a function of positions, composed of those of its masking_utils, and by a padding mask of
(batch, keys). mask() recognises these functions by their code. Any other mask is the boolean tensor that sdpa has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map
from transformers import masking_utils
from transformers.masking_utils import sdpa_mask
from transformers.utils import is_tracing


class Mask(torch.Tensor):  # type: ignore[misc]
    """A boolean mask (batch, 1, queries, keys) in two forms: arguments of libfa.torch.attention, and a tensor, which is built when
    anything but libfa looks at its elements."""

    keywords: dict[str, Any]  # of libfa.torch.attention
    packed: bool  # whether those are of sequences packed into one batch entry
    build: Callable[[], torch.Tensor]

    @staticmethod
    def __new__(cls, shape: tuple[int, ...], device: Any, keywords: dict[str, Any], packed: bool, build: Any) -> Mask:
        mask: Mask = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bool, device=device)
        mask.keywords, mask.packed, mask.build = keywords, packed, build
        return mask

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(lambda x: x.build() if isinstance(x, Mask) else x, (args, kwargs or {}))
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Mask({tuple(self.shape)}, {self.keywords})"


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Any = masking_utils.causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    device: Any = "cpu",
    **given: Any,
) -> torch.Tensor | None:
    """The function that AttentionMaskInterface calls, with sdpa_mask's arguments. None where forward() needs no mask, else a
    Mask, or sdpa_mask's tensor where a function is not one of transformers' own, lengths have gaps, or torch traces."""

    def build() -> Any:
        return sdpa_mask(
            batch_size=batch_size,
            q_length=q_length,
            kv_length=kv_length,
            q_offset=q_offset,
            kv_offset=kv_offset,
            mask_function=mask_function,
            attention_mask=attention_mask,
            allow_is_causal_skip=False,
            allow_is_bidirectional_skip=False,
            device=device,
            **given,
        )

    # transformers forbids the skip where a compiled function is about to take the mask, and that cannot take a Mask.
    decodes_compiled = q_length == 1 and not allow_is_causal_skip and not allow_is_bidirectional_skip
    pattern = None if decodes_compiled or is_tracing(attention_mask) or is_tracing(q_offset) else _pattern(mask_function)
    if pattern is None or not isinstance(kv_offset, int):
        return build()
    packed = "packed" in pattern
    if packed:
        keywords = _packed(pattern, batch_size, q_length, kv_length) if attention_mask is None else None
    else:
        keywords = _padded(pattern, batch_size, kv_length, q_offset, kv_offset, attention_mask, device)
    if keywords is None:
        return build()
    # Without a mask forward() takes the last query and the last key for the same position.
    if not packed and isinstance(q_offset, int) and q_offset + q_length == kv_offset + kv_length:
        may_skip = allow_is_causal_skip and q_length in (1, kv_length) if keywords.get("causal") else allow_is_bidirectional_skip
        if may_skip and _is_plain(keywords, kv_length):
            return None
    return Mask((batch_size, 1, q_length, kv_length), device, keywords, packed, build)


def _is_plain(keywords: dict[str, Any], keys: int) -> bool:
    """Whether nothing but causality masks any of that many keys, where the last query is at the last one."""
    left, right = keywords.get("window", (-1, -1))
    chunk = keywords.get("attention_chunk", 0)
    return (
        "seqused_k" not in keywords and not 0 <= left < keys and not 0 <= right < keys and (chunk == 0 or chunk >= keys)
    )


def _pattern(function: Any) -> dict[str, Any] | None:
    """A mask function of transformers by its parts: causal, window (keys to the left, to the right), chunk with its
    left_padding, packed (the sequence of each token) with its positions. None for any other function."""
    if function is masking_utils.causal_mask_function:
        return {"causal": True}
    if function is masking_utils.bidirectional_mask_function:
        return {}
    reader = _READERS.get(getattr(function, "__code__", None))
    if reader is None:
        return None
    variables = zip(function.__code__.co_freevars, function.__closure__)
    return reader(**{name: cell.cell_contents for name, cell in variables})


def _intersection(mask_functions: Any) -> dict[str, Any] | None:
    whole: dict[str, Any] = {}
    for part in map(_pattern, mask_functions):
        if part is None or part.keys() & whole.keys():
            return None
        whole.update(part)
    return whole


def _remapped(mask_function: Any, position_ids: torch.Tensor) -> dict[str, Any] | None:
    """Within a sequence distances are as before; chunks are not."""
    pattern = _pattern(mask_function)
    return None if pattern is None or "chunk" in pattern or "packed" in pattern else {**pattern, "positions": position_ids}


def _readers() -> dict[Any, Callable[..., dict[str, Any] | None]]:
    """Readers of a function's closure, by the function's code. Not every version of transformers has each of them."""
    none = torch.zeros(1, 1, dtype=torch.int64)
    known: list[tuple[str, tuple[Any, ...], Callable[..., dict[str, Any] | None]]] = [
        ("and_masks", (), _intersection),
        ("sliding_window_overlay", (1,), lambda sliding_window: {"window": (sliding_window - 1, -1)}),
        ("sliding_window_bidirectional_overlay", (1,), lambda sliding_window: {"window": (sliding_window, sliding_window)}),
        ("chunked_overlay", (1, none), lambda chunk_size, left_padding: {"chunk": chunk_size, "left_padding": left_padding}),
        ("packed_sequence_mask_function", (none,), lambda packed_sequence_mask: {"packed": packed_sequence_mask}),
        ("remap_positions_for_packed_sequence", (masking_utils.causal_mask_function, none), _remapped),
    ]
    makers = ((getattr(masking_utils, name, None), arguments, reader) for name, arguments, reader in known)
    return {maker(*arguments).__code__: reader for maker, arguments, reader in makers if maker is not None}


_READERS = _readers()


def _padded(
    pattern: dict[str, Any], batch: int, keys: int, q_offset: Any, kv_offset: int, padding: torch.Tensor | None, device: Any
) -> dict[str, Any] | None:
    """Arguments for sequences that are rows of the batch; None where the keys of one have gaps, or its chunks begin elsewhere."""
    if "positions" in pattern:
        return None
    chunk = pattern.get("chunk", 0)
    if padding is not None and padding.shape[0] != batch:
        return None
    first = torch.zeros(batch, dtype=torch.int64, device=device)
    end = first + keys
    checks = [torch.ones((), dtype=torch.bool, device=device)] * 3  # of no gaps, no padding, no padding on the left
    if padding is not None:
        seen = torch.nn.functional.pad(padding.bool(), (0, max(0, kv_offset + keys - padding.shape[1])))[:, kv_offset : kv_offset + keys]
        count = seen.sum(1)
        first = torch.where(count > 0, seen.int().argmax(1), 0)
        end = first + count
        places = torch.arange(keys, device=device)
        gapless = seen == ((places >= first[:, None]) & (places < end[:, None]))
        checks = [gapless.all(), (count == keys).all(), (first == 0).all()]
    if chunk:
        is_aligned = (first + kv_offset - pattern["left_padding"].to(device)) % chunk == 0
        checks[0] = checks[0] & (is_aligned | (end == first)).all()
    is_gapless, is_whole, begins_at_0 = torch.stack(checks).tolist()  # one wait for the device
    if not is_gapless:
        return None
    keywords: dict[str, Any] = {"causal": pattern["causal"]} if "causal" in pattern else {}
    if "window" in pattern:
        keywords["window"] = pattern["window"]
    if chunk:
        keywords["attention_chunk"] = chunk
    if not is_whole:
        keywords["seqused_k"] = end.int()
    if not begins_at_0:
        keywords["leftpad_k"] = first.int()
    if keywords.keys() & {"causal", "window", "attention_chunk"}:
        keywords["q_offset"] = (q_offset - kv_offset - first).int()
    return keywords


def _packed(pattern: dict[str, Any], batch: int, queries: int, keys: int) -> dict[str, Any] | None:
    """Arguments for sequences that share rows of the batch, which become one row; None where positions do not run on within each."""
    tokens, positions = pattern["packed"], pattern.get("positions")
    if "chunk" in pattern or queries != keys or tokens.shape != (batch, queries):
        return None
    begins = torch.ones_like(tokens, dtype=torch.bool)
    begins[:, 1:] = tokens.diff(dim=1) != 0
    if positions is not None and not ((positions.diff(dim=1) == 1) | begins[:, 1:]).all():
        return None
    starts = begins.flatten().nonzero().flatten()
    cu_seqlens = torch.nn.functional.pad(starts, (0, 1), value=batch * queries).int()
    longest = int(cu_seqlens.diff().max())
    shared = dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), cu_seqlens) | dict.fromkeys(("max_seqlen_q", "max_seqlen_k"), longest)
    return {**shared, "causal": pattern.get("causal", False), "window": pattern.get("window", (-1, -1))}
