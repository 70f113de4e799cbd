"""libfa.torch.scaled_dot_product_attention at random against torch's own: its error against double precision is at most twice
torch's in the same type, whatever the shapes, strides, masks, types and leading dimensions; gradients, too."""
# needs: torch

import collections
import random

import torch
import torch.nn.functional as F

import libfa.torch

torch.set_num_threads(1)  # the suites run side by side

CALLS = 400
GRADIENTS = 5  # of every fifth call
# The calls of this seed, by their properties.
PINNED = {
    "float32": 135,
    "float16": 116,
    "bfloat16": 149,
    "boolean": 84,
    "additive": 77,
    "causal": 67,
    "gqa": 113,
    "broadcast": 56,
}
UNITS = {torch.float32: 2**-22, torch.float16: 2**-10, torch.bfloat16: 2**-7}
GRADIENT_UNITS = {torch.float32: 2**-18, torch.float16: 2**-8, torch.bfloat16: 2**-5}


def strided(shape, rng, generator, dtype):
    """Random numbers in any order of dimensions, with gaps now and then."""
    order = rng.sample(range(len(shape)), len(shape)) if rng.random() < 0.3 else list(range(len(shape)))
    memory = torch.randn([shape[i] for i in order], generator=generator, dtype=torch.float32).to(dtype)
    if rng.random() < 0.2:
        memory = memory.repeat_interleave(2, 0)[::2]
    return memory.permute([order.index(i) for i in range(len(shape))])


def call(rng, generator):
    """(q, k, v, keywords, what the call has)."""
    dtype = rng.choice(list(UNITS))
    batch, rows, keys = rng.choice([1, 2, 3]), rng.choice([1, 2, 7, 16, 33]), rng.choice([1, 5, 16, 40, 129])
    heads, dim, dim_v = rng.choice([1, 2, 4, 6]), rng.choice([1, 8, 16, 40, 64]), rng.choice([1, 8, 24, 64])
    has = [str(dtype)[6:]]
    lead, lead_kv = [[batch, heads]] * 2
    given = {}
    kind = rng.choice(["", "", "gqa", "gqa", "broadcast", "3d", "5d"])
    if kind == "gqa":
        given["enable_gqa"] = True
        lead_kv = [batch, heads // rng.choice([d for d in (1, 2, 3, 6) if heads % d == 0])]
    elif kind == "broadcast":
        lead_kv = rng.choice([[1, heads], [batch, 1], [1, 1], [heads]])
    elif kind == "3d":
        lead, lead_kv = [[heads]] * 2
    elif kind == "5d":
        lead, lead_kv = [2, *lead], rng.choice([[2, *lead], lead])
    has += [kind] if kind in ("gqa", "broadcast") else []
    mask = rng.choice(["", "", "boolean", "additive", "causal"])
    if mask == "causal":
        given["is_causal"] = True
    elif mask:
        shape = rng.choice([[rows, keys], [1, keys], [lead[-1], rows, keys], [*lead, rows, keys], [*lead[:-1], 1, rows, keys]])
        given["attn_mask"] = torch.randn(shape, generator=generator).to(dtype)
        if mask == "boolean":
            given["attn_mask"] = given["attn_mask"] > -0.5
    has += [mask] if mask else []
    if rng.random() < 0.3:
        given["scale"] = rng.choice([0.05, 0.5, 1.0, 2.0])
    q, k = strided([*lead, rows, dim], rng, generator, dtype), strided([*lead_kv, keys, dim], rng, generator, dtype)
    return q, k, strided([*lead_kv, keys, dim_v], rng, generator, dtype), given, has


def test_at_random():
    rng, generator = random.Random(1), torch.Generator().manual_seed(1)
    counts = collections.Counter()
    for index in range(CALLS):
        q, k, v, given, has = call(rng, generator)
        counts.update(has)
        mask = given.get("attn_mask")
        inputs = [q, k, v] + ([mask] if "additive" in has else [])
        keyless = "boolean" in has and not bool(mask.any(-1).all())  # rows for which torch's gradient is NaN
        needed = index % GRADIENTS == 0 and not keyless and k.shape[-2] > 1  # (one key: q and k have none, but for roundings)
        for x in inputs:
            x.requires_grad_(needed)
        wide = {**given, "attn_mask": mask.double()} if mask is not None and mask.dtype != torch.bool else given
        exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), **wide).nan_to_num()  # rows without keys: 0
        torchs = F.scaled_dot_product_attention(q, k, v, **given).nan_to_num()
        ours = libfa.torch.scaled_dot_product_attention(q, k, v, **given)
        what = f"call {index}: {tuple(q.shape)} {tuple(k.shape)} {has} {given}"
        assert ours.shape == exact.shape and ours.dtype == q.dtype, what
        # The rounding of a score is an error of its weight, which torch may be spared by luck.
        score = given.get("scale", q.shape[-1] ** -0.5) * float(q.detach().norm(dim=-1).max() * k.detach().norm(dim=-1).max())
        allowed = 2 * (torchs.double() - exact).abs().max() + (UNITS[q.dtype] + 2**-24 * score) * exact.abs().max()
        assert (ours.double() - exact).abs().max() <= allowed, what
        if needed:
            dout = torch.randn(ours.shape, generator=torch.Generator().manual_seed(index)).to(q.dtype)
            every = (torch.autograd.grad(out, inputs, dout.to(out.dtype)) for out in (exact, torchs, ours))
            for name, want, theirs, mine in zip(("q", "k", "v", "mask"), *every):
                terms = given.get("scale", 1) * (q.shape[-2] * v.shape[-1]) ** 0.5  # may cancel
                unit = GRADIENT_UNITS[q.dtype] * max(terms, want.abs().max())
                allowed = 2 * (theirs.double() - want).abs().max() + unit
                assert (mine.double() - want).abs().max() <= allowed, f"{what}: gradient of {name}"
    assert counts == PINNED
