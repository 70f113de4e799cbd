"""The ranks of test_distributed.py: one process each, one thread, on gloo. Each case of CASES runs on all ranks, and a rank
reports the traceback of a case that fails."""

import contextlib
import datetime
import io
import itertools
import os
import pathlib
import re
import time
import traceback
import unittest.mock

import libfa.distributed as D
import libfa.torch
import reference_torch
import torch
import torch.distributed as dist
from libfa import DistributedError, InvalidArgument, dealt_rows
from libfa.distributed import decode, local, ring, wire
from torch.utils.checkpoint import checkpoint

UNITS = {torch.float32: 2**-19, torch.float16: 2**-9, torch.bfloat16: 2**-6}  # as in test_torch_gradients.py
SOURCE = pathlib.Path(os.environ["FA_SOURCE"])
TIMEOUT = 60.0
SCHEMES, ROWS = ("ring", "all_gather", "ulysses"), ("contiguous", "zigzag", "striped")
CASES = {}


def case(function, name=None, *given):
    CASES[name or function.__name__] = (function, given)
    return function


def run(rank, world, port, names, results):
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=TIMEOUT)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world, timeout=limit)
    for name in names:
        function, given = CASES[name]
        began, error = time.time(), None
        try:
            function(*given)
        except Exception:
            error = traceback.format_exc()
        except SystemExit:
            names = []
        results.put((rank, name, error, time.time() - began))
        if not names:
            break
    results.put((rank, None, None, 0))
    results.close()
    results.join_thread()
    os._exit(0)  # some cases leave waits behind


# By name: keywords of attention, and of the tensors: rows n, keys m, query heads, key/value heads, dim, dim of v, batch, dtype.
SHAPES = {
    "plain": {},
    "causal": dict(causal=True),
    "sinks and softcap": dict(causal=True, sinks=True, softcap=2.0, kv_heads=1),
    "window": dict(causal=True, window=(9, 0), kv_heads=4),
    "window on both sides": dict(window=(5, 7), sinks=True),
    "narrow window": dict(causal=True, window=(0, 0)),
    "fewer keys": dict(causal=True, n=37, m=23, seqlens=True),
    "more keys, top left": dict(causal="top_left", n=19, m=40, window=(6, -1), seqlens=True),
    "uneven": dict(causal=True, n=43, seqlens=True, heads=6, kv_heads=3, dim_v=24, batch=1, softmax_scale=0.4),
    "empty shards": dict(causal=True, n=3, seqlens=True, heads=2, kv_heads=1, sinks=True),
    "slopes": dict(causal=True, slopes=True),
    "heads first": dict(causal=True, layout="bhsd", heads=5, kv_heads=1),
    "bf16": dict(causal=True, dtype=torch.bfloat16, sinks=True),
    "f16": dict(dtype=torch.float16, window=(11, 3)),
}
PACKED = {
    "packed": dict(causal=True, ends=[0, 16, 20, 48, 60]),
    "packed, not causal": dict(ends=[0, 5, 5, 48], batch=1),
    "packed with windows": dict(causal=True, window=(6, 0), ends=[0, 31, 33, 49], sinks=True),
    "packed with slopes": dict(causal=True, slopes=True, ends=[0, 13, 41]),
    "packed, other keys": dict(causal=True, ends=[0, 9, 20, 21], ends_k=[0, 30, 31, 45]),
    "packed, other keys and windows": dict(window=(4, 3), causal="top_left", ends=[0, 9, 20, 21], ends_k=[0, 30, 31, 45]),
}


def tensors(n, m, heads, kv_heads, dim, dim_v, batch, dtype, packed, seed=5):
    generator = torch.Generator().manual_seed(seed)
    lead = () if packed else (batch,)
    shapes = [(n, heads, dim), (m, kv_heads, dim), (m, kv_heads, dim_v), (n, heads, dim_v)]
    q, k, v, dout = (torch.randn(*lead, *shape, generator=generator).to(dtype) for shape in shapes)
    dlse = torch.randn(*lead, heads, n, generator=generator)
    return q, k, v, dout, dlse, torch.randn(heads, generator=generator), torch.rand(heads, generator=generator)


def exact(q, k, v, sinks, slopes, ends, ends_k, causal, window, **given):
    """(out, lse) by the mathematics in double precision; top left is a bottom right of as many keys as queries."""
    if ends is None:
        pairs, parts = [(slice(None), slice(None))], []
        q, k, v = (x[None] if x.dim() == 3 else x for x in (q, k, v))
    else:
        pairs, parts = [(slice(*a), slice(*b)) for a, b in zip(zip(ends, ends[1:]), zip(ends_k, ends_k[1:]))], []
        q, k, v = q[None], k[None], v[None]
    for of_q, of_k in pairs:
        x, y, z = q[:, of_q], k[:, of_k], v[:, of_k]
        n, m = x.shape[1], y.shape[1]
        mask = None
        if causal == "top_left":
            apart = torch.arange(n)[:, None] - torch.arange(m)
            mask = apart >= 0
            if window[0] >= 0:
                mask &= apart <= window[0]
            if window[1] >= 0:
                mask &= apart >= -window[1]
            out = reference_torch.attention(x, y, z, mask=mask, sinks=sinks, slopes=slopes, **given)
        else:
            out = reference_torch.attention(x, y, z, causal=bool(causal), window=window, sinks=sinks, slopes=slopes, **given)
        parts.append(out)
    return torch.cat([out for out, _ in parts], 1), torch.cat([lse for _, lse in parts], 2)


def near(found, want, dtype, name):
    assert found.shape == want.shape, (name, found.shape, want.shape)
    if want.numel():
        error, bound = (found.double() - want).abs().max().item(), UNITS[dtype] * want.abs().max().item()
        assert error <= bound or error <= 1e-12, f"{name}: off by {error:.1e}, bound {bound:.1e}"


def one_call(scheme, rows, shape):
    """Results and gradients on this rank's rows against those of the whole in double precision; the same bits once more."""
    given = dict(SHAPES | PACKED)[shape].copy()
    world, rank = dist.get_world_size(), dist.get_rank()
    ends, ends_k = given.pop("ends", None), given.pop("ends_k", None)
    n = given.pop("n", 40) if ends is None else ends[-1]
    m = given.pop("m", n) if ends is None else (ends_k or ends)[-1]
    sizes = (given.pop("heads", 4), given.pop("kv_heads", 2), 16, given.pop("dim_v", 16), given.pop("batch", 2))
    dtype, layout, seqlens = given.pop("dtype", torch.float32), given.pop("layout", "bshd"), given.pop("seqlens", False)
    q, k, v, dout, dlse, sinks, slopes = tensors(n, m, *sizes, dtype, ends is not None)
    sinks = sinks if given.pop("sinks", False) else None
    slopes = slopes if given.pop("slopes", False) else None
    dim = 1 if ends is None else 0
    part = dict(rows=rows, cu_seqlens=ends)
    mine = D.rows_of(n, **part)
    mine_k = D.rows_of(m, rows=rows, cu_seqlens=ends_k or ends)
    leaves = [D.shard(q, dim, **part).detach(), *(x.index_select(dim, mine_k) for x in (k, v))]
    if sinks is not None:
        leaves.append(sinks.clone())
    leaves = [x.requires_grad_() for x in leaves]
    options = {
        **given,
        "rows": rows,
        "scheme": scheme,
        "timeout": TIMEOUT,
        "alibi_slopes": slopes,
        "layout": layout,
        "num_threads": 1,
    }
    if ends is not None:
        options.update(cu_seqlens=ends, cu_seqlens_k=ends_k)
    elif seqlens:
        options.update(seqlen=n, seqlen_k=m)

    def call():
        inputs = [x.transpose(1, 2) for x in leaves[:3]] if layout == "bhsd" else leaves[:3]
        out, lse = D.attention(*inputs, sinks=leaves[3] if sinks is not None else None, return_lse=True, **options)
        if layout == "bhsd":
            out = out.transpose(1, 2)
        gradients = torch.autograd.grad((out, lse), leaves, (dout.index_select(dim, mine), dlse.index_select(-1, mine)))
        return out, lse, *gradients

    found = call()
    wide = [x.double().requires_grad_() for x in (q, k, v, *([] if sinks is None else [sinks]))]
    given.setdefault("window", (-1, -1))
    given.setdefault("causal", False)
    given["scale"] = given.pop("softmax_scale", None)
    wide_sinks = wide[3] if sinks is not None else None
    out, lse = exact(*wide[:3], wide_sinks, slopes, ends, ends_k or ends, **given)
    lead = 0 if ends is None else 1
    seen = found[1] > -1e29  # rows without keys have -inf, and no gradient from lse
    want_out, want_lse = (out[0], lse[0]) if lead else (out, lse)
    have = lse > -1e29
    total = (want_out * dout.double()).sum() + (torch.where(have, lse, 0.0).squeeze(0 if lead else ()) * dlse.double()).sum()
    gradients = torch.autograd.grad(total, wide)
    near(found[0], want_out.index_select(dim, mine), dtype, "out")
    want_lse = torch.where(want_lse > -1e29, want_lse, -torch.inf).index_select(-1, mine)
    assert torch.equal(torch.isinf(want_lse), ~seen)
    near(found[1][seen], want_lse[seen], torch.float32, "lse")
    for name, x, want, places in zip("qkv", found[2:], gradients, (mine, mine_k, mine_k)):
        here = want.index_select(dim, places)
        bound = UNITS[dtype] * want.abs().max().item()
        error = (x.double() - here).abs().max().item() if here.numel() else 0
        assert x.dtype == dtype and error <= max(bound, 1e-12), f"gradient of {name}: off by {error:.1e}, bound {bound:.1e}"
    if sinks is not None:
        whole = found[5].clone()
        dist.all_reduce(whole)
        near(whole, gradients[3], dtype, "gradient of sinks")
    for x, y in zip(found, call()):
        assert torch.equal(x, y)
    assert world > rank


for _i, (_scheme, _rows, _shape) in enumerate(itertools.product(SCHEMES, ROWS, SHAPES | PACKED)):
    if _rows == "striped" and "slopes" in (SHAPES | PACKED)[_shape] and _scheme != "ulysses":
        continue  # refused: see wrong_arguments
    case(one_call, f"{_scheme}, {_rows}: {_shape}", _scheme, _rows, _shape)


def names_of(world, whole):
    """The cases of a world size: a third of the combinations, each scheme with each shape among them, or all."""
    size = len(SHAPES | PACKED)
    combinations = list(itertools.product(SCHEMES, ROWS, SHAPES | PACKED))
    thin = {
        f"{scheme}, {rows}: {shape}"
        for i, (scheme, rows, shape) in enumerate(combinations)
        if (i // size // 3 + i // size % 3 + i % size - world // 2) % 3
    }
    return [name for name in CASES if whole or name not in thin]


def leaves_of(n=24, heads=4, kv_heads=2, dim=16, seed=5, **shard):
    q, k, v, *_ = tensors(n, n, heads, kv_heads, dim, dim, 2, torch.float32, False, seed)
    return [D.shard(x, 1, **shard).requires_grad_() for x in (q, k, v)]


def same_everywhere(text):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, text)
    assert len(set(found)) == 1, found
    return found[0]


def refused(function, *given, kind=InvalidArgument, **keywords):
    """The text of the error that every rank gets."""
    try:
        function(*given, **keywords)
    except kind as error:
        return same_everywhere(str(error))
    raise AssertionError(f"no {kind.__name__}")


@case
def rows_are_dealt_and_gathered():
    world = dist.get_world_size()
    for n, ends in ((13, None), (3, None), (0, None), (29, [0, 11, 11, 12, 29])):
        for rows in ROWS:
            every = [D.rows_of(n, rows=rows, rank=rank, cu_seqlens=ends) for rank in range(world)]
            assert sorted(torch.cat(every).tolist()) == list(range(n))
            assert max(map(len, every)) - min(map(len, every)) <= 2 * (len(ends or [0, 0]) - 1)
            x = torch.arange(2 * n * 3.0).view(2, n, 3).to(torch.bfloat16)
            assert torch.equal(D.unshard(D.shard(x, 1, rows=rows, cu_seqlens=ends), n, 1, rows=rows, cu_seqlens=ends), x)
    chunks = torch.arange(8 * world).chunk(2 * world)
    assert D.rows_of(8 * world, rows="zigzag", rank=1).tolist() == [*chunks[1].tolist(), *chunks[2 * world - 2].tolist()]
    assert D.rows_of(4 * world, rows="striped", rank=1).tolist() == list(range(1, 4 * world, world))
    for length, interleave in ((0, 1), (1, 1), (17, 1), (17, 3), (64, 4)):
        owners = [t // interleave % world for t in range(length)]
        for rank in range(world):
            assert D.local_lengths(length, rank, world, interleave) == owners.count(rank)
            assert D.local_lengths(torch.tensor([length]), rank, world, interleave).tolist() == [owners.count(rank)]


@case
def causal_work_is_even():
    """Pairs of queries and keys that each rank computes."""
    mask, world = dealt_rows.Masking("bottom_right", -1, -1), dist.get_world_size()
    for rows, most in (("contiguous", 2.0), ("zigzag", 1.0), ("striped", 1.2)):
        dealt = dealt_rows.Rows((16 * world,), rows, world, False)
        work = [0.0] * world
        for rank, owner in itertools.product(range(world), repeat=2):
            for box in dealt_rows.plan(dealt, dealt, mask, rank, owner, False):
                i, j = torch.arange(box.q_count)[:, None], torch.arange(box.k_count)
                work[rank] += ((j <= i + box.offset) if box.causal else torch.ones(box.q_count, box.k_count)).sum().item()
        assert sum(work) == 16 * world * (16 * world + 1) / 2
        even = max(work) / (sum(work) / world)
        assert even <= most and (even > 1.4 or rows != "contiguous"), (rows, even)


@case
def bytes_are_those_of_the_formula():
    world = dist.get_world_size()
    for scheme, rows in itertools.product(SCHEMES, ROWS):
        for n, heads, kv_heads, window in ((24, 4, 2, (-1, -1)), (21, 8, 8, (3, 0)), (2, 6, 1, (-1, -1))):
            leaves = leaves_of(n, heads, kv_heads, rows=rows)
            with D.count_bytes() as forward:
                out = D.attention(*leaves, scheme=scheme, rows=rows, causal=True, window=window, seqlen=n, seqlen_k=n)
            with D.count_bytes() as backward:
                out.sum().backward()
            counted = torch.tensor([forward.sent, backward.sent, forward.received, backward.received])
            dist.all_reduce(counted)
            given = dict(batch=2, dtype=torch.float32, rows=rows, causal=True, window=window)
            want = D.wire_bytes(scheme, world, n, heads, kv_heads, 16, **given)
            assert counted.tolist() == [*want, *want], (scheme, rows, n, counted, want)
            if n == 24:
                times, of_keys = world - 1, 2 * 24 * 2 * 32 * 4
                of_rows = 2 * 24 * 4 * (32 * 4 + 4) * times // world
                if scheme == "ulysses":
                    of_keys = of_keys * times // world * max(1, min(world, heads) // kv_heads)
                    assert want == (of_rows + of_keys, of_rows + of_keys)
                else:
                    assert want == (times * of_keys, 2 * times * of_keys)
    with D.count_bytes() as none:  # keys need no gradients, and so send none
        q, k, v = leaves_of(24)
        D.ring_attention(q, k.detach(), v.detach()).sum().backward()
    assert none.sent == 2 * (world - 1) * 2 * (24 // world) * 2 * 32 * 4


@case
def auto_sends_the_fewest_bytes():
    world = dist.get_world_size()
    for heads, kv_heads in ((8, 1), (8, 8)):
        leaves = leaves_of(24, heads, kv_heads)
        with D.count_bytes() as counted:
            D.attention(*leaves).sum().backward()
        total = torch.tensor(counted.sent)
        dist.all_reduce(total)
        by_name = {
            scheme: sum(D.wire_bytes(scheme, world, 24, heads, kv_heads, 16, batch=2, dtype=torch.float32))
            for scheme in SCHEMES
        }
        assert total == min(by_name.values())
        assert (min(by_name, key=by_name.get) == "ulysses") == (kv_heads == 8)


@case
def a_window_ends_the_ring_early():
    world = dist.get_world_size()
    leaves = leaves_of(8 * world)
    with D.count_bytes() as counted:
        D.ring_attention(*leaves, causal=True, window=(8, 0))
    assert counted.sent == 2 * 8 * 2 * 32 * 4
    for n, m, causal, left, right in itertools.product(
        (8, 29), (13, 40), ("", "bottom_right", "top_left"), (-1, 0, 5), (-1, 0, 3)
    ):
        for ranks in (2, 5, 8):
            of_q, of_k = (dealt_rows.Rows((x,), "contiguous", ranks, False) for x in (n, m))
            mask = dealt_rows.Masking(causal, left, right)
            far = max(
                (i - j) % ranks for i in range(ranks) for j in range(ranks) if dealt_rows.plan(of_q, of_k, mask, i, j, False)
            )
            assert dealt_rows.hops(of_q, of_k, mask) == far or (left < 0 and right < 0), (n, m, ranks, mask)


@case
def transfers_begin_before_the_computation():
    seen = []

    def recorded(owner, name, word):
        kept = getattr(owner, name)
        setattr(owner, name, lambda *given, **keywords: seen.append(word) or kept(*given, **keywords))
        stack.callback(setattr, owner, name, kept)

    with contextlib.ExitStack() as stack:
        recorded(wire.Wire, "begin", "begin")
        recorded(local, "attention", "compute")
        recorded(local, "backward", "compute")
        recorded(wire.Transfer, "wait", "wait")
        out = D.ring_attention(*leaves_of(rows="zigzag"), rows="zigzag", causal=True)
        forward, seen[:] = list(seen), []
        out.sum().backward()
    for order in (forward, seen):
        assert order[:3] == ["begin", "compute", "wait"] or order[:2] == ["begin", "compute"], order
        assert order.count("begin") == order.count("wait") >= dist.get_world_size() - 1


@case
def the_guide():
    """Its program runs as written, and prints the stated text."""
    (code, _) = re.findall(r"^```python\n(.*?)^```$", (SOURCE / "docs/guides/distributed.md").read_text(), re.M | re.S)
    said = "".join(f"{text}\n" for text in re.findall(r"^.*\bprint\(.*\)  # (.*)$", code, re.M))
    printed = io.StringIO()
    with unittest.mock.patch.object(dist, "init_process_group"), contextlib.redirect_stdout(printed):
        exec(compile(code, "distributed.md", "exec"), {})
    assert said and printed.getvalue() == said, printed.getvalue()


@case
def checkpoints_and_autocast():
    leaves = leaves_of(rows="zigzag")

    def call(*x):
        return D.ring_attention(*x, rows="zigzag", causal=True).square().sum()

    want = torch.autograd.grad(call(*leaves), leaves)
    for x, y in zip(torch.autograd.grad(checkpoint(call, *leaves, use_reentrant=False), leaves), want):
        assert torch.equal(x, y)
    with torch.autocast("cpu", torch.bfloat16):
        assert D.ring_attention(*leaves, rows="zigzag").dtype == torch.bfloat16


@case
def ranks_that_disagree_raise_the_same_text():
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    leaves = leaves_of()
    given = {"softcap": 3.0} if rank == last else {}
    text = refused(D.ring_attention, *leaves, **given)
    assert text == f"softcap: rank 0 has 0.0, rank {last} has 3.0; expected the same on every rank"
    text = refused(D.attention, *leaves, scheme="ulysses" if rank == last else "ring", softcap=1.5)
    assert text == f"call: rank 0 has attention, ring, rank {last} has attention, ulysses; expected the same on every rank"
    half = [x.half() for x in leaves] if rank == last else leaves
    text = refused(D.ring_attention, *half)
    assert text.startswith("q: rank 0 has (2, rows, 4, 16) torch.float32 on cpu, rank ") and "float16" in text
    fewer = [leaves[0][:, 1:], *leaves[1:]] if rank == last else leaves
    assert "seqlen: rank 0 has (24,), rank" in refused(D.ring_attention, *fewer, softcap=1.75)
    assert f"rank {last}: InvalidArgument: q: got {24 // (last + 1) - 1} rows, expected" in refused(
        D.ring_attention, *fewer, seqlen=24, seqlen_k=24, softcap=1.75
    )
    text = refused(D.attention, *leaves, scheme="rng" if rank == last else "ring", softcap=1.25)
    assert f"rank {last}: InvalidArgument: scheme: got 'rng', expected 'auto' or one of 'ring'" in text
    text = refused(D.attention, *[x.detach() for x in leaves] if rank == last else leaves, scheme="ring", softcap=1.125)
    assert "gradients of: rank 0 has q, k, v" in text
    D.ring_attention(*leaves).sum().backward()  # the group is as good as before


@case
def wrong_arguments():
    q, k, v = leaves_of()
    for text, call in (
        ("rows: got 'zebra', expected one of 'contiguous', 'zigzag', 'striped'", lambda: D.attention(q, k, v, rows="zebra")),
        ("q: got shape (2, ", lambda: D.attention(q, k, v, cu_seqlens=[0, 24])),
        ("cu_seqlens: got [0, 9, 4], expected", lambda: D.attention(q[0], k[0], v[0], cu_seqlens=[0, 9, 4])),
        ("k has head dimension 8; q has 16", lambda: D.attention(q, k[..., :8], v)),
        ("layout: got 'sbhd', expected", lambda: D.attention(q, k, v, layout="sbhd")),
        ("alibi_slopes: got shape (2, 4), expected (4,)", lambda: D.attention(q, k, v, alibi_slopes=torch.ones(2, 4))),
        ("sinks: got shape (3,), expected (4,)", lambda: D.attention(q, k, v, sinks=torch.zeros(3))),
        (
            "alibi_slopes: scheme 'ring' has none with rows='striped'",
            lambda: D.ring_attention(q, k, v, rows="striped", alibi_slopes=torch.ones(4)),
        ),
        ("timeout: got -1, expected seconds above 0", lambda: D.attention(q, k, v, timeout=-1)),
        ("q, k, v: one requires a gradient, and decoding has none", lambda: D.decode_attention(q, k, v, [1, 2])),
        ("seqlens: got shape (3,), expected (2,)", lambda: D.decode_attention(q.detach(), k.detach(), v.detach(), [1, 2, 3])),
        ("scheme: got 'x', expected one of", lambda: D.wire_bytes("x", 2, 8, 1, 1, 8)),
    ):
        found = refused(call)
        assert text in found, found
    D.attention(q, k, v, check=False)


def decoded(name, new, lengths, interleave, split=False, paged=False, window=-1, sinks=False, dtype=torch.float32):
    """decode_attention against the mathematics on whole sequences."""
    world, rank = dist.get_world_size(), dist.get_rank()
    batch, most, heads = len(lengths), max(lengths), 8
    sinks = torch.linspace(-1, 2, heads) if sinks else None
    q, *_ = tensors(new, 1, heads, 2, 16, 16, batch, dtype, False)
    _, k, v, *_ = tensors(1, most, heads, 2, 16, 24, batch, dtype, False, seed=8)
    mine = [t for t in range(most) if t // interleave % world == rank]
    cache = [x[:, mine] for x in (k, v)]
    options = dict(interleave=interleave, split_heads=split, window=window, timeout=TIMEOUT, return_lse=True, num_threads=1)
    if paged:
        pages = -(-len(mine) // 4)
        order = torch.randperm(batch * pages, generator=torch.Generator().manual_seed(1))
        table = order.view(batch, pages).int()
        paged_cache = []
        for x in cache:
            full = torch.full((batch, pages * 4, *x.shape[2:]), float("nan"), dtype=dtype)
            full[:, : len(mine)] = x
            pool = torch.empty((batch * pages, 4, *x.shape[2:]), dtype=dtype)
            pool[order] = full.reshape(batch * pages, 4, *x.shape[2:])
            paged_cache.append(pool)
        cache, options["block_table"] = paged_cache, table
    own = slice(heads // world * rank, heads // world * (rank + 1)) if split else slice(None)
    out, lse = D.decode_attention(q[:, :, own], *cache, lengths, sinks=sinks, **options)
    again, _ = D.decode_attention(q[:, :, own], *cache, torch.tensor(lengths), sinks=sinks, **options)
    assert torch.equal(out, again)
    for b, length in enumerate(lengths):
        x, y, z = q[b : b + 1].double(), k[b : b + 1, :length].double(), v[b : b + 1, :length].double()
        want, want_lse = reference_torch.attention(x, y, z, causal=True, window=(window, -1), sinks=sinks)
        near(out[b : b + 1], want[:, :, own], dtype, "out")
        if length >= new or sinks is not None:
            near(lse[b : b + 1], want_lse[:, own], torch.float32, "lse")


for _name, _given in {
    "a token": (1, [17, 5, 30], 1),
    "drafts in runs": (3, [17, 5, 30], 4),
    "fewer tokens than ranks": (1, [1, 2], 1),
    "fewer tokens than queries": (2, [1, 9], 1),
    "window and sinks": (2, [17, 8, 31], 2, False, False, 6, True),
    "pages": (1, [17, 5, 30], 1, False, True),
    "drafts in pages": (2, [17, 5, 30], 2, False, True, 9),
    "own heads": (1, [17, 5, 30], 1, True),
    "own heads and sinks, bf16": (2, [17, 5, 30], 3, True, False, -1, True, torch.bfloat16),
}.items():
    case(decoded, f"decode: {_name}", _name, *_given)


@case
def compiled_calls():
    """torch.compile without a graph break: the bits of the same call without it, and of its gradients."""
    world, group = dist.get_world_size(), dist.new_group()
    slopes, sinks = torch.linspace(0.1, 0.5, 4), torch.linspace(-1, 1, 4).requires_grad_()
    packed = [torch.tensor(ends) for ends in ([0, 9, 31], [0, 17, 31])]
    for scheme, rows, uneven, given in (
        ("ring", "zigzag", True, dict(causal=True, softcap=2, sinks=sinks)),
        ("all_gather", "striped", False, dict(window=(5, 3), softmax_scale=0.3, group=group)),
        ("ulysses", "contiguous", True, dict(causal="top_left", alibi_slopes=slopes, layout="bhsd", sinks=sinks)),
        ("auto", "zigzag", False, dict(causal=True)),
        ("ring", "contiguous", False, dict(causal=True, cu_seqlens=packed[0])),
    ):
        n = 31 if uneven or "cu_seqlens" in given else 8 * world
        q, k, v, *_ = tensors(n, n, 4, 2, 16, 16, 2, torch.float32, False)
        seqlens = dict(seqlen=n, seqlen_k=n) if uneven else {}
        options = dict(scheme=scheme, rows=rows, timeout=TIMEOUT, num_threads=1, return_lse=True, **seqlens, **given)

        def step(q, k, v, options=options):
            out, lse = D.attention(2 * q, k, v, **options)
            return (out * out).sum() + lse.sum()

        compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
        for ends in packed if "cu_seqlens" in given else [None]:
            leaves = [D.shard(x, rows=rows, group=given.get("group")) for x in (q, k, v)]
            if ends is not None:
                options["cu_seqlens"], leaves = ends, [D.shard(x[0], 0, cu_seqlens=ends) for x in (q, k, v)]
            if given.get("layout"):
                leaves = [x.transpose(1, 2) for x in leaves]
            leaves = [x.detach().requires_grad_() for x in leaves]
            inputs = [*leaves, sinks] if "sinks" in given else leaves
            found = [torch.autograd.grad(function(*leaves), inputs) for function in (step, compiled)]
            for name, x, y in zip(("q", "k", "v", "sinks"), *found):
                assert torch.equal(x, y), (scheme, name)
            assert torch.equal(step(*leaves), compiled(*leaves))


@case
def calls_that_cannot_be_compiled_say_so():
    q, k, v = (x.detach() for x in leaves_of())
    slopes = torch.ones(4, requires_grad=True)
    for text, call in (
        (
            "cu_seqlens: scheme 'auto' needs their numbers, which a graph of torch.compile has not; scheme='ring'",
            lambda: D.attention(q[0], k[0], v[0], cu_seqlens=[0, 24]),
        ),
        ("sees attention() as an operator, and no other function", lambda: D.decode_attention(q, k, v, [1, 2])),
        ("sees attention() as an operator, and no other function", lambda: D.unshard(q, 24)),
        ("scheme: got 'x', expected 'auto' or one of 'ring'", lambda: D.attention(q, k, v, scheme="x")),
        (
            "alibi_slopes: requires a gradient, and to libfa slopes are constants",
            lambda: D.ring_attention(q, k, v, alibi_slopes=slopes),
        ),
    ):
        found = refused(torch.compile(call, fullgraph=True, backend="aot_eager"), kind=Exception)
        assert text in found, found
        torch._dynamo.reset()
    D.ring_attention(q, k, v)  # the group is as good as before


@case
def decoding_from_rotated_codes():
    """Values and keys that libfa.append rotated on their way into this rank's caches."""
    world, rank = dist.get_world_size(), dist.get_rank()
    q, k, v, *_ = tensors(1, 30, 4, 2, 16, 16, 2, torch.float32, False)
    k[..., 3] *= 30
    mine, rotated = list(range(rank, 30, world)), dict(hadamard_k=True, hadamard_v=True)
    codes = torch.zeros((2, 2, len(mine), 2, 16), dtype=torch.int8)
    scales = torch.zeros((2, 2, len(mine), 2, 1))
    of_scales = dict(k_scale=scales[0], v_scale=scales[1])
    libfa.append(k[:, mine], v[:, mine], *codes, compute_scales=True, **of_scales, **rotated)
    out = D.decode_attention(q, *codes, [30, 30], timeout=TIMEOUT, **of_scales, **rotated)
    want = reference_torch.attention(q.double(), k.double(), v.double(), causal=True)[0]
    assert (out - want).abs().max() < 0.1 * want.abs().max()


@case
def decoding_from_codes():
    """int8 keys and values, a scale a token and head."""
    world, rank = dist.get_world_size(), dist.get_rank()
    q, k, v, *_ = tensors(1, 30, 4, 2, 16, 16, 2, torch.float32, False)
    q = q[:, :1]
    mine = list(range(rank, 30, world))
    codes, scales, wide = [], [], []
    for x in (k, v):
        scale = x.abs().amax(-1, keepdim=True) / 127
        code = (x / scale).round().to(torch.int8)
        codes.append(code[:, mine])
        scales.append(scale[:, mine])
        wide.append(code.double() * scale.double())
    out = D.decode_attention(q, *codes, [30, 30], k_scale=scales[0], v_scale=scales[1], timeout=TIMEOUT)
    near(out, reference_torch.attention(q.double(), *wide, causal=True)[0], torch.float32, "out")


@case
def partial_results_and_gradients_are_f32():
    """In f16 results are rounded once, however many ranks had a part in them: CPUs compute f16 in f32, on AMX with weights of 16 bits."""
    q, k, v, dout, *_ = tensors(48, 48, 4, 2, 16, 16, 1, torch.float16, False)
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    out, _ = reference_torch.attention(*wide, causal=True)
    (dv,) = torch.autograd.grad(out, wide[2:], dout.double())
    weights = 2e-6 + 2**-17 * v.abs().max().item()
    for scheme in ("ring", "all_gather"):
        for rows in ("zigzag", "striped"):
            leaves = [D.shard(x, rows=rows).requires_grad_() for x in (q, k, v)]
            mine = D.rows_of(48, rows=rows)
            found = D.attention(*leaves, scheme=scheme, rows=rows, causal=True)
            found.backward(dout[:, mine])
            for x, want, least in ((found, out[:, mine], weights), (leaves[2].grad, dv[:, mine], 2e-6)):
                assert ((x.double() - want).abs() <= 2**-11 * want.abs() + least).all(), (scheme, rows)


@case
def many_parts_are_merged():
    q, k, v, *_ = tensors(3, 80, 4, 2, 16, 16, 2, torch.float32, False)
    parts = [libfa.attention(q, k[:, i : i + 1], v[:, i : i + 1], return_lse=True) for i in range(80)]
    out, lse = decode._merged([x for x, _ in parts], [x for _, x in parts], torch.float32, 1)
    want, want_lse = reference_torch.attention(q.double(), k.double(), v.double())
    near(out, want, torch.float32, "out")
    near(lse, want_lse, torch.float32, "lse")


def timed(function, *given, kind, **keywords):
    began = time.monotonic()
    try:
        function(*given, **keywords)
    except kind as error:
        return str(error), time.monotonic() - began
    raise AssertionError(f"no {kind.__name__}")


def both_passes(leaves, scheme, group):
    D.attention(*leaves, scheme=scheme, group=group, timeout=TIMEOUT).sum().backward()


@case
def a_rank_that_fails_makes_all_fail():
    """In the forward pass, in the backward pass and of a scheme with one exchange: soon, though their time is long."""
    rank = dist.get_rank()
    for scheme, module, name in (
        ("ring", local, "attention"),
        ("ring", local, "backward"),
        ("all_gather", ring, "_in_order"),
    ):
        group = dist.new_group()
        leaves = leaves_of()
        both_passes(leaves, scheme, group)
        kept = getattr(module, name)

        def broken(*_, **__):
            raise MemoryError("planted")

        if rank == 1:
            setattr(module, name, broken)
        try:
            kind = MemoryError if rank == 1 else DistributedError
            text, seconds = timed(both_passes, leaves, scheme, group, kind=kind)
        finally:
            setattr(module, name, kept)
        assert text == "planted" if rank == 1 else "rank 1 failed: MemoryError: planted" in text, text
        assert seconds < 8, seconds
        text, seconds = timed(D.attention, *leaves, scheme=scheme, group=group, timeout=TIMEOUT, kind=DistributedError)
        assert "rank 1 failed: MemoryError: planted" in text, text
        assert seconds < 8, seconds
        dist.barrier()


@case
def a_rank_that_is_late_is_not_waited_for():
    rank = dist.get_rank()
    group = dist.new_group()
    leaves = leaves_of()
    D.ring_attention(*leaves, group=group, timeout=TIMEOUT)
    if rank:
        text, seconds = timed(D.ring_attention, *leaves, group=group, timeout=1.0, kind=DistributedError)
        assert " lost its transfer with rank " in text and seconds < 6, (text, seconds)
    dist.barrier()
    text, _ = timed(D.ring_attention, *leaves, group=group, timeout=TIMEOUT, kind=DistributedError)
    group = dist.new_group()
    if rank:  # rank 0 takes no part in the comparison
        text, seconds = timed(D.ring_attention, *leaves, group=group, timeout=1.0, kind=DistributedError)
        assert "rank 0 took no part in a call of rank" in text and seconds < 6, (text, seconds)
    dist.barrier()


@case
def a_rank_that_dies_makes_all_fail():
    """The last case: the group has lost a member."""
    leaves = leaves_of()
    D.ring_attention(*leaves, timeout=TIMEOUT)
    if dist.get_rank() == dist.get_world_size() - 1:
        raise SystemExit
    text, seconds = timed(D.ring_attention, *leaves, timeout=TIMEOUT, kind=DistributedError)
    assert " lost its transfer with rank " in text and seconds < 8, (text, seconds)
