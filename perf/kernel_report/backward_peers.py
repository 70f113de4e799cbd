"""The model of the backward pass held to FlashAttention-2: its loops by their machine code (peers.json, of perf/peers/peers),
the bytes of its other kernels, and its speeds as others published them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import model, peers
from .backward import Call
from .rates import GPUS, Gpu

OWNED = 4  # tiles that a block reads or writes in addition to its iterations: keys, values and their gradients


@dataclass(frozen=True)
class Published:
    """teraflops: 0 where nobody has published any. deterministic: a block takes a head's tiles of keys one after another. (With
    fewer heads than multiprocessors several share them, and each has a separate dQ.)"""

    loop: peers.Loop
    gpu: str
    call: Call
    teraflops: float
    deterministic: bool = False
    forward: peers.Loop | None = None  # whose call is part of the figure
    of: str = ""  # the kernel that was measured, where the loop replaces it

    @property
    def operations(self) -> float:
        return self.call.operations * (1.4 if self.forward else 1)

    @property
    def modelled(self) -> float:
        gpu = GPUS[self.gpu]
        total = loop_seconds(self) + moved_bytes(self.call) / (gpu.dram * 1e9)
        if self.forward:
            heads = self.call.batch * self.call.heads
            rate = peers.Published(self.forward, self.gpu, self.call.rows, self.call.causal, 1, heads).modelled
            total += 0.4 * self.call.operations / (rate * 1e12)
        return self.operations / total / 1e12

    @property
    def error(self) -> float:
        return self.modelled / self.teraflops - 1


def iteration(loop: peers.Loop, gpu: str) -> model.Iteration:
    """The iteration of a tile of loop.keys, which a block owns, with loop.rows queries."""
    units = peers.units_on(loop, gpu)
    return model.Iteration(units, units["tensor"], loop.blocks, loop.keys, loop.rows)


def loop_seconds(of: Published) -> float:
    gpu, call = GPUS[of.gpu], of.call
    an_iteration = iteration(of.loop, of.gpu)
    tiles = model.iterations(call.rows, call.rows, an_iteration.rows, an_iteration.keys, call.causal)
    heads = call.batch * call.heads
    if not of.deterministic:
        return model.seconds(an_iteration, gpu, tiles, heads, call.dim, call.causal, OWNED / 2)
    each = [sum(model.tile_cycles(in_memory(an_iteration, gpu, of.loop, busy), tiles, call.dim, OWNED / 2))
            for busy in waves(heads, gpu.sms)]  # fmt: skip
    return sum(each) / gpu.sustained_hertz


def waves(blocks: int, places: int) -> list[int]:
    """Blocks at work in each."""
    return [min(places, blocks - begun) for begun in range(0, blocks, places)]


def in_memory(an_iteration: model.Iteration, gpu: Gpu, loop: peers.Loop, busy: int) -> model.Iteration:
    """Where blocks work on a head each, more than the L2 holds: an iteration's operands and sums come from memory, and the
    sums go back there."""
    moved = busy * (loop.bytes_per_iteration + 4 * loop.rows * loop.dim)
    cycles = moved / (gpu.dram * 1e9) * gpu.sustained_hertz
    return replace(an_iteration, units={**an_iteration.units, "DRAM": cycles})


def moved_bytes(call: Call) -> float:
    """By the kernels before and after the loop: out and its gradient are read, dQ is cleared in f32 and later read and
    written. Gradients of keys and values are summed over a group's heads."""
    total = (2 + 2 + 4) * call.elements + (4 + 2) * call.elements
    if call.heads != call.heads_kv:
        total += 2 * (2 * call.elements + 2 * call.elements * call.heads_kv / call.heads)
    return total


def paper(dim: int, figures: dict[tuple[int, bool], float], gpu: str = "A100") -> list[Published]:
    """The paper's figures of forward and backward together: 16384 tokens, 2048 columns."""
    sm = GPUS[gpu].sm
    walked, owned, forward_keys = (64, 128, 64) if dim == 128 else (128, 128, 128)
    return [
        Published(peers.loop(f"fa2_backward.sm_{sm}.{walked}x{owned}.{dim}.{mask}"), gpu,
                  Call(16384 // rows, 2048 // dim, 2048 // dim, rows, dim, causal), figure,
                  forward=peers.loop(f"fa2.sm_80.128x{forward_keys}.{dim}.{mask}"))
        for (rows, causal), figure in figures.items()
        for mask in ("causal" if causal else "full",)
    ]  # fmt: skip


def fa2(gpu: str, call: Call) -> Published | None:
    """FlashAttention-2's loop in a call, in any order, where one is at hand for the board; where a causal one is not, that for
    full masks replaces it."""
    family = f"fa2_backward.sm_{GPUS[gpu].sm}."
    its = {loop.name.rpartition(".")[2]: loop for loop in peers.LOOPS if loop.name.startswith(family) and loop.dim == call.dim}
    loop = its.get("causal" if call.causal else "full", its.get("full"))
    return Published(loop, gpu, call, 0) if loop else None


ANCHOR, ANCHOR_CAUSAL = (Call(2, 64, 8, 8192, 128, causal) for causal in (False, True))
FULL, CAUSAL = (peers.loop(f"fa2_backward.sm_80.64x128.128.{mask}") for mask in ("full", "causal"))
HOPPER, SMALL = peers.loop("fa2_backward.sm_90.64x128.128.full"), peers.loop("fa2_backward.sm_120.64x64.128.full")

PUBLISHED = [
    Published(FULL, "A100", ANCHOR, 178),
    Published(CAUSAL, "A100", ANCHOR_CAUSAL, 173),
    Published(FULL, "A100", ANCHOR, 95, deterministic=True),
    Published(CAUSAL, "A100", ANCHOR_CAUSAL, 96, deterministic=True),
    *paper(64, {(2048, False): 162, (16384, False): 176, (2048, True): 140, (16384, True): 171}),
    *paper(128, {(2048, False): 187, (16384, False): 203, (2048, True): 155, (16384, True): 189}),
]

# On an H100, with forward; then FlashAttention-2's loop for such boards in the place of kernels whose code is not at hand.
OTHERS = [
    *(Published(HOPPER, "H100 mma.sync", Call(1, 16, 16, 16384, 128, causal), figure, forward=peers.FA2_HOPPER)
      for causal, figure in ((False, 338), (True, 328))),
    Published(SMALL, "RTX PRO 6000", ANCHOR, 352, of="open source"),
    Published(SMALL, "RTX PRO 6000", ANCHOR_CAUSAL, 337, of="open source"),
    Published(SMALL, "RTX PRO 6000", ANCHOR, 288, of="cuDNN"),
    Published(SMALL, "RTX PRO 6000", ANCHOR_CAUSAL, 248, of="cuDNN"),
    Published(SMALL, "RTX PRO 6000", ANCHOR, 285, of="FlashAttention-4"),
    Published(SMALL, "RTX PRO 6000", ANCHOR_CAUSAL, 278, of="FlashAttention-4"),
]  # fmt: skip
