"""The goals of the kernels, next to an entry's figures; None where there is no goal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import blackwell, model, peers
from .analysis import Entry
from .decode import Decode
from .rates import GPUS

PEAK = {75: 0.70, 80: 0.75, 86: 0.95, 89: 0.95, 120: 0.95}  # modelled, of the tensor peak, at head dimension 128

# Of kernels whose warpgroups multiply, by head dimension: instructions a score, and how much faster than the loop of
# FlashAttention-3 by the same model, with full and with causal masks.
WARPGROUPS_A_SCORE = {64: 6.0, 128: 6.0}
CAUSAL_A_SCORE = 6.3  # the same at head dimension 128, of squares under a causal mask of that number of rows
CAUSAL_ROWS = (2048, 8192)
OVER_FA3 = {64: 1.05, 128: 1.06, 256: 1.03}
FA3_SEQUENCE, FA3_HEADS, FA3_GPU = 8192, 128, "H200 wgmma"


# Of kernels on tensor memory: how much faster than FlashAttention-4's loops by the same model, at each of its lengths.
OVER_FA4, FA4_GPU = 1.02, "B200"


@dataclass(frozen=True)
class Verdict:
    what: str
    goal: str
    got: float
    met: bool
    modelled: bool = False  # or counted


def at_most(what: str, limit: float, got: float, modelled: bool = False) -> Verdict:
    return Verdict(what, f"<= {limit:g}", got, got <= limit, modelled)


def at_least(what: str, limit: float, got: float, modelled: bool = False) -> Verdict:
    return Verdict(what, f">= {limit:g}", got, got >= limit, modelled)


def judge(entry: Entry) -> Iterator[Verdict]:
    sm, dim = entry.image.sm, entry.image.dim
    yield at_most("spills in the steady loop", 0, entry.spills)
    yield at_most("tensor-core instructions over the ideal", 1.01, entry.tensor / entry.tensor_ideal)
    if "bank_conflict_factor" in entry.emulated:
        yield at_most("bank conflict factor", 1.02, entry.emulated["bank_conflict_factor"])
    if entry.products:
        yield from judge_products(entry)
    if entry.name != "fa_forward_plain":
        return
    if sectors := entry.emulated.get("sectors_per_request"):
        # A request is of 16 bytes for each lane of a warp, which are 16 sectors at least.
        yield at_least("part of the global sectors that is used", 0.97, 16 / max(sectors, 16))
    if sm == 80 and entry.image.dtype == "bf16" and dim in (64, 128):
        yield at_most(f"instructions a score, head dimension {dim}", 12 if dim == 128 else 8, entry.per_score)
        yield at_most("of them neither mma nor ldmatrix", 6, entry.per_score_rest)
    if dim == 128 and sm in PEAK and not entry.products and entry.of_peak is not None:
        yield at_least(f"fraction of the tensor peak on SM {sm}", PEAK[sm], entry.of_peak, True)


def causal_a_score(entry: Entry, rows: int) -> float:
    """Instructions a lane issues for one of its scores in a square under a causal mask, whose last iterations have masks."""
    tiles = model.iterations(rows, rows, entry.tile.rows, entry.tile.keys, True)
    masked, all_iterations = sum(masked for _, masked in tiles), sum(iterations for iterations, _ in tiles)
    return entry.per_score * (1 + masked / all_iterations * (entry.masked / entry.issued - 1))


def judge_products(entry: Entry) -> Iterator[Verdict]:
    assert entry.products
    dim = entry.image.dim
    yield at_most("products: instructions between two of a group", 0, entry.products.between)
    yield at_most("products: moves of their sums", 0, entry.products.moves)
    yield at_most("products: waited for one by one", 0, entry.products.lonely)
    yield at_most("products: warnings of ptxas that they wait for one another", 0, entry.warnings)
    if entry.name != "fa_forward_plain":
        return
    if dim == 128 and entry.masked:
        for rows in CAUSAL_ROWS:
            what = f"products: instructions a score, head dimension 128, causal squares of {rows} rows"
            yield at_most(what, CAUSAL_A_SCORE, causal_a_score(entry, rows))
    if dim in WARPGROUPS_A_SCORE:
        yield at_most(f"products: instructions a score, head dimension {dim}", WARPGROUPS_A_SCORE[dim], entry.per_score)
    if dim not in OVER_FA3 or entry.iteration is None:
        return
    for causal in (False, True):
        theirs = peers.fa3(dim, causal, FA3_GPU, FA3_SEQUENCE, FA3_HEADS)
        ours = model.teraflops(entry.iteration, GPUS[FA3_GPU], FA3_SEQUENCE, dim, FA3_HEADS, causal)
        what = f"times as fast as FlashAttention-3, head dimension {dim}, {'causal' if causal else 'full'}"
        yield at_least(what, OVER_FA3[dim], ours / theirs, True)


def judge_roles(of: blackwell.Counts) -> Iterator[Verdict]:
    if not blackwell.has_loop(of.dim, of.dim_v) or of.feature or of.dtype != "bf16":
        return  # FlashAttention-4's loops and figures are of bf16
    for causal in (False, True):
        theirs = blackwell.loop_of(of.dim, of.dim_v, causal, blackwell.GPUS[FA4_GPU].sm)
        for rows in blackwell.SEQUENCES:
            speeds = [blackwell.teraflops(one, FA4_GPU, rows, blackwell.HEADS, causal) for one in (of, theirs)]
            dim = f"{of.dim}" if of.dim == of.dim_v else f"{of.dim}/{of.dim_v}"
            what = f"times as fast as FlashAttention-4, head dimension {dim}, {'causal' if causal else 'full'}, {rows} rows"
            yield at_least(what, OVER_FA4, speeds[0] / speeds[1], True)


def judge_decode(decode: Decode) -> Iterator[Verdict]:
    yield at_most("decode: bytes read over those of keys and values", 1.02, decode.ratio)
    yield at_most("decode: launches", 2, len(decode.kernels))
    yield at_least("decode: bytes in flight over those that hide the latency", 1, decode.in_flight / decode.needed, True)
