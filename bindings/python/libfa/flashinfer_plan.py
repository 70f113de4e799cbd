"""The plan() of libfa.flashinfer: FlashInfer's arrays of a batch as arguments of libfa.attention."""

from __future__ import annotations

from typing import Any

import torch

from .errors import InvalidArgument, Unsupported


def refuse(given: dict[str, Any], accepted: dict[str, Any], why: str = "libfa does not support it") -> None:
    """Raises for the first of the arguments that does not have the one value that libfa accepts."""
    for name, expected in accepted.items():
        value = given[name]
        if value is not expected and (isinstance(value, torch.Tensor) or value != expected):
            shown = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
            raise Unsupported(f"{name}: got {shown}, expected {expected!r}: {why}")


def heads_last(x: torch.Tensor, kv_layout: str) -> torch.Tensor:
    """(..., tokens, heads, dim), a view."""
    if kv_layout not in ("NHD", "HND"):
        raise InvalidArgument(f"kv_layout: got {kv_layout!r}, expected 'NHD' or 'HND'")
    return x if kv_layout == "NHD" else x.transpose(-2, -3)


def caches(paged_kv_cache: Any, kv_layout: str) -> list[torch.Tensor]:
    """The caches of keys and of values, each (pages, page size, heads, dim), of a pair or of one tensor of five dimensions."""
    if isinstance(paged_kv_cache, torch.Tensor):
        if paged_kv_cache.dim() != 5 or paged_kv_cache.shape[1] != 2:
            raise InvalidArgument(
                f"paged_kv_cache: got shape {tuple(paged_kv_cache.shape)}, expected (pages, 2, page size, heads, dim), with HND "
                "(pages, 2, heads, page size, dim), or a pair of tensors without the 2"
            )
        paged_kv_cache = paged_kv_cache.unbind(1)
    if len(paged_kv_cache) != 2 or any(x.dim() != 4 for x in paged_kv_cache):
        shapes = [tuple(x.shape) for x in paged_kv_cache]
        raise InvalidArgument(f"paged_kv_cache: got shapes {shapes}, expected two of four dimensions")
    return [heads_last(x, kv_layout) for x in paged_kv_cache]


def offsets(indptr: torch.Tensor, name: str) -> torch.Tensor:
    """indptr as int64 on the CPU: rising from 0."""
    if indptr.dim() != 1 or len(indptr) == 0:
        raise InvalidArgument(f"{name}: got shape {tuple(indptr.shape)}, expected (sequences + 1,)")
    found = indptr.to("cpu", torch.int64)
    if found[0] != 0 or (found.diff() < 0).any():
        raise InvalidArgument(f"{name}: got {found.tolist()}, expected offsets that begin at 0 and never fall")
    return found


def pages(
    indptr: torch.Tensor, indices: torch.Tensor, last_page_len: torch.Tensor, page_size: int, names: tuple[str, str, str]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(block table on the device of indices, lengths on the CPU), both int32, of pages that are listed sequence after sequence."""
    begins = offsets(indptr, names[0])
    counts, last = begins.diff(), last_page_len.to("cpu", torch.int64)
    if last.shape != counts.shape:
        raise InvalidArgument(f"{names[2]}: got shape {tuple(last.shape)}, expected ({len(counts)},), as {names[0]} has it")
    if begins[-1] > len(indices):
        raise InvalidArgument(f"{names[1]}: got {len(indices)} pages, expected the {int(begins[-1])} of {names[0]}")
    wrong = ((counts > 0) & ((last < 1) | (last > page_size))).nonzero().flatten().tolist()
    if wrong:
        raise InvalidArgument(f"{names[2]}[{wrong[0]}]: got {int(last[wrong[0]])}, expected 1 .. {page_size}, the page size")
    lengths = torch.where(counts > 0, (counts - 1) * page_size + last, 0).int()
    columns = torch.arange(max(1, int(counts.max())) if len(counts) else 1)
    places = (begins[:-1, None] + columns).clamp(max=max(0, len(indices) - 1)).to(indices.device)
    if len(indices) == 0:
        return torch.zeros_like(places, dtype=torch.int32), lengths
    unused = (columns >= counts[:, None]).to(indices.device)
    return indices[places].int().masked_fill(unused, 0), lengths


def packbits(x: torch.Tensor, bitorder: str = "little") -> torch.Tensor:
    """Booleans (n,) as uint8 (ceil(n / 8),), eight a byte."""
    refuse({"bitorder": bitorder}, {"bitorder": "little"})
    bits = torch.nn.functional.pad(x.flatten().to(torch.uint8), (0, -x.numel() % 8)).unflatten(0, (-1, 8))
    weights = (1 << torch.arange(8, device=x.device)).to(torch.uint8)
    return (bits * weights).sum(1, dtype=torch.uint8)


def segment_packbits(x: torch.Tensor, indptr: torch.Tensor, bitorder: str = "little") -> tuple[torch.Tensor, torch.Tensor]:
    """packbits() of each segment of x, whose offsets are indptr (segments + 1,): the bytes and their offsets."""
    sizes = offsets(indptr, "indptr").diff().tolist()
    packed = [packbits(part, bitorder) for part in x.flatten()[: sum(sizes)].split(sizes)]
    ends = torch.tensor([0, *(len(part) for part in packed)]).cumsum(0)
    return torch.cat(packed) if packed else x.new_empty(0, dtype=torch.uint8), ends.to(indptr)


def unpacked(packed: torch.Tensor, count: int) -> torch.Tensor:
    """The first count booleans of packbits()."""
    shifts = torch.arange(8, device=packed.device).to(torch.uint8)
    return ((packed[:, None] >> shifts) & 1).flatten()[:count].bool()


def mask(custom_mask: Any, packed_custom_mask: Any, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor | None:
    """The mask (sequences, 1, most queries, most keys) of masks (queries, keys) that follow each other, a byte or a bit an
    element; the latter's sequences begin at whole bytes, and it wins."""
    if custom_mask is None and packed_custom_mask is None:
        return None
    sizes = [(int(rows), int(columns)) for rows, columns in zip(queries, keys)]
    given = custom_mask.flatten() if packed_custom_mask is None else packed_custom_mask.flatten()
    steps = [rows * columns if packed_custom_mask is None else -(-rows * columns // 8) for rows, columns in sizes]
    name = "custom_mask" if packed_custom_mask is None else "packed_custom_mask"
    if given.numel() != sum(steps):
        unit = "elements" if packed_custom_mask is None else "bytes"
        raise InvalidArgument(f"{name}: got {given.numel()} {unit}, expected {sum(steps)} of queries times keys {sizes}")
    most = [max((size[i] for size in sizes), default=0) for i in (0, 1)]
    whole = torch.zeros(len(sizes), 1, *most, dtype=torch.bool, device=given.device)
    for i, (part, (rows, columns)) in enumerate(zip(given.split(steps), sizes)):
        flat = part.bool() if packed_custom_mask is None else unpacked(part, rows * columns)
        whole[i, 0, :rows, :columns] = flat.reshape(rows, columns)
    return whole
