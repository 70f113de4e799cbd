"""torch's scaled_dot_product_attention with and without libfa.torch_sdpa, interleaved, the least of several runs: 12 heads of 64."""

import time

import torch
import torch.nn.functional as F
from torch.nn.attention import activate_flash_attention_impl, restore_flash_attention_impl

import libfa.torch_sdpa  # noqa: F401  (registers)


def least(q, causal, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        F.scaled_dot_product_attention(q, q, q, is_causal=causal)
    return (time.perf_counter() - begin) / calls


for dtype in (torch.float32, torch.bfloat16):
    for rows in (128, 512, 2048):
        for causal in (False, True):
            q = torch.randn(1, 12, rows, 64).to(dtype)
            calls, torchs, ours = max(1, 2**21 // rows**2), [], []
            for _ in range(9):
                torchs.append(least(q, causal, calls))
                activate_flash_attention_impl("libfa")
                ours.append(least(q, causal, calls))
                restore_flash_attention_impl()
            a, b = min(torchs) * 1e6, min(ours) * 1e6
            print(f"{str(dtype)[6:]} {rows} {'causal' if causal else 'full'}: torch {a:.0f} us, libfa {b:.0f} us, {a / b:.2f}x")
