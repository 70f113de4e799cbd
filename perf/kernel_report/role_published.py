"""Published and measured speeds that the simulation of roles is held to, in TFLOP/s."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import blackwell
from .rates import GPUS, Gpu
from .role_calls import Call

# A B200's clock falls from 1965 to 1580 MHz under FlashAttention-4: flashinfer's pull request 2899.
SUSTAINED = 1580 / 1965
BOARDS: dict[str, Gpu] = GPUS | {name: replace(gpu, sustained=SUSTAINED) for name, gpu in blackwell.GPUS.items()}


@dataclass(frozen=True)
class Figure:
    kernel: str
    gpu: str
    call: Call
    teraflops: float  # published


# [A] FlashAttention-3's paper: 16384 tokens, 2048 columns. [2754] FlashAttention's pull request, 32768 tokens; [1893] its issue. [C]
# cudnn-frontend, as in peers.py and blackwell.py: 2 sequences of 64 heads; [2280] FlashAttention's pull request, of 4 sequences taken. [O] ours: bench/results/nvidia-h200, by tickets where those were measured.
def of_lengths(kernel: str, gpu: str, dim: int, causal: bool, figures: dict[int, float], tokens: int = 16384) -> list[Figure]:
    return [Figure(kernel, gpu, Call(max(1, tokens // rows) * 2048 // dim, rows, causal), speed) for rows, speed in figures.items()]


H100, H200 = "H100 wgmma", "H200 wgmma"
FORWARD = [
    *of_lengths("FA3 hd128 128x176", H100, 128, False, {1024: 565, 4096: 638, 16384: 648}),
    *of_lengths("FA3 hd128 128x128", H100, 128, True, {1024: 423, 4096: 579, 16384: 616}),
    *of_lengths("FA3 hd128 128x128", H200, 128, True, {1024: 511, 4096: 690, 16384: 695}, 32768),  # [2754]
    *of_lengths("FA3 hd64 192x128", H100, 64, False, {1024: 392, 4096: 476, 16384: 497}),
    *of_lengths("FA3 hd64 192x128", H100, 64, True, {1024: 265, 4096: 420, 16384: 473}),
    *of_lengths("FA3 hd256 128x80", H100, 256, False, {1024: 639, 4096: 736, 16384: 756}),
    *of_lengths("FA3 hd256 128x80", H100, 256, True, {1024: 427, 4096: 612, 16384: 642}),
    Figure("wgmma hd64", H200, Call(128, 8192), 485),  # [O], to the end
    Figure("wgmma hd64", H200, Call(128, 8192, True), 461),
    Figure("wgmma hd128", H200, Call(128, 8192), 741),
    Figure("wgmma hd128", H200, Call(128, 2048), 659),
    Figure("wgmma hd128", H200, Call(128, 8192, True), 698),
    Figure("wgmma hd128", H200, Call(128, 2048, True), 516),
    Figure("wgmma hd128", H200, Call(64, 4096, True), 624),
    Figure("wgmma hd128", H200, Call(16, 16384), 757),
    Figure("wgmma hd128", H200, Call(16, 16384, True), 690),
    Figure("wgmma hd256", H200, Call(128, 8192), 826),
    Figure("wgmma hd256", H200, Call(128, 8192, True), 787),
    *(Figure(f"FA4 sm_{blackwell.GPUS[of.gpu].sm} {of.dim}/{of.dim_v} {'causal' if of.causal else 'full'}", of.gpu,
             Call(of.heads, of.sequence, of.causal), of.teraflops)
      for of in blackwell.PUBLISHED if of.gpu != "GB300" or of.dim == 128),  # [C] and its paper
]  # fmt: skip
BACKWARD = [
    *of_lengths("FA3 hd128 80x128", H100, 128, False, {1024: 424, 4096: 542, 16384: 561}),
    *of_lengths("FA3 hd64 128x128", H100, 64, False, {1024: 363, 4096: 453, 16384: 474}),
    Figure("FA3 hd128 64x128", H100, Call(32, 8192, True), 575),  # [1893], as the next
    Figure("FA3 hd128 64x128", H100, Call(32, 8192, True, True), 474),
    Figure("FA3 hd128 80x128", H200, Call(128, 8192), 656),  # [C], FlashAttention-4 to the next comment: the same tiles and order
    Figure("FA3 hd128 64x128", H200, Call(128, 8192, True), 629),
    Figure("FA3 hd128 80x128", H200, Call(128, 8192, False, True), 608),
    Figure("FA3 hd128 64x128", H200, Call(128, 8192, True, True), 555),
    Figure("FA4 hd128", "B200", Call(64, 8192), 1248),  # [2280], to the next comment
    Figure("FA4 hd128", "B200", Call(64, 8192, True), 1118),
    Figure("FA4 hd128", "B200", Call(64, 8192, False, True), 980),
    Figure("FA4 hd128", "B200", Call(64, 8192, True, True), 934),
    Figure("FA4 hd128, two CTAs", "B200", Call(64, 8192), 1360),
    Figure("FA4 hd128, two CTAs", "B200", Call(64, 8192, True), 1209),
    Figure("FA4 hd128, two CTAs", "B200", Call(64, 8192, False, True), 1167),
    Figure("FA4 hd128, two CTAs", "B200", Call(64, 8192, True, True), 1097),
    Figure("FA4 hd128, two CTAs", "GB200", Call(128, 8192), 1359),  # [C]
    Figure("FA4 hd128, two CTAs", "GB200", Call(128, 8192, True), 1280),
    Figure("FA4 hd128, two CTAs", "GB200", Call(128, 8192, False, True), 1381),
    Figure("FA4 hd128, two CTAs", "GB200", Call(128, 8192, True, True), 1208),
]
