"""libfa.flashinfer against attention of each sequence in double precision, over caches that append_paged_kv_cache has written. FlashInfer's
own tests run through it, too: flashinfer_upstream.py."""
# needs: torch

import math

import pytest
import reference_torch
import torch

import libfa
import libfa.flashinfer as fi

torch.set_num_threads(1)  # the suites run side by side

HEADS, KV_HEADS, DIM, PAGE = 6, 2, 16, 4
KEYS, QUERIES = [13, 0, 4, 9, 17], [3, 2, 4, 1, 0]
WORKSPACE = torch.empty(64, dtype=torch.uint8)
UNITS = {torch.float32: 2**-20, torch.float16: 2**-9, torch.bfloat16: 2**-6}
OPTIONS = {
    "plain": {},
    "causal": dict(causal=True),
    "window": dict(causal=True, window_left=3),
    "window alone": dict(window_left=2),
    "softcap and scale": dict(logits_soft_cap=1.5, sm_scale=0.7),
    "mask": dict(custom_mask=True, causal=True),  # which a mask switches off
    "mask and window": dict(custom_mask=True, window_left=4),
    "packed mask": dict(packed_custom_mask=True),
}


def random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def indptr(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def pages(lengths=KEYS, seed=3):
    """(indptr, indices, last_page_len, pages in all): pages in no order."""
    counts = [-(-n // PAGE) for n in lengths]
    order = torch.randperm(sum(counts) + 3, generator=torch.Generator().manual_seed(seed))
    last = [(n - 1) % PAGE + 1 if n else 0 for n in lengths]
    return indptr(counts), order[: sum(counts)].int(), torch.tensor(last).int(), len(order)


def filled(kv_layout, dtype, joined=True):
    """A cache with random keys and values of all sequences, written by append_paged_kv_cache, and these, packed."""
    k, v = (random(sum(KEYS), KV_HEADS, DIM, dtype=dtype, seed=seed) for seed in (1, 2))
    begins, indices, last, count = pages()
    rows = (PAGE, KV_HEADS) if kv_layout == "NHD" else (KV_HEADS, PAGE)
    cache = torch.full((count, 2, *rows, DIM), math.nan, dtype=dtype)
    cache = cache if joined else tuple(x.clone() for x in cache.unbind(1))
    lengths = fi.get_seq_lens(begins, last, PAGE)
    assert lengths.tolist() == KEYS
    owners, places = fi.get_batch_indices_positions(indptr(KEYS), lengths, sum(KEYS))
    fi.append_paged_kv_cache(k, v, owners, places, cache, indices, begins, last, kv_layout)
    return cache, k, v


def masks():
    generator = torch.Generator().manual_seed(9)
    return [torch.rand(rows, keys, generator=generator) > 0.4 for rows, keys in zip(QUERIES, KEYS)]


def expected(q, k, v, options, queries=QUERIES, **more):
    """(out, lse to base 2) of packed sequences, in double precision."""
    given = dict(
        window=(options.get("window_left", -1), -1), softcap=options.get("logits_soft_cap", 0.0), scale=options.get("sm_scale")
    )
    masked = "custom_mask" in options or "packed_custom_mask" in options
    given["causal"] = options.get("causal", False) and not masked
    outs, lses = [], []
    parts = (x.double().split(lengths) for x, lengths in ((q, queries), (k, KEYS), (v, KEYS)))
    for one, mask in zip(zip(*parts), masks()):
        out, lse = reference_torch.attention(*(x[None] for x in one), mask=mask if masked else None, **given, **more)
        if one[1].shape[0] == 0 and "sinks" not in more:
            lse = torch.full_like(lse, -math.inf)
        outs.append(out[0])
        lses.append(lse[0].t() / math.log(2))
    lse = torch.cat(lses)
    return torch.cat(outs), lse.masked_fill(lse < -1e20, -math.inf)


def require_close(got, want, dtype):
    unit = UNITS[dtype]
    assert got[0].dtype == dtype and got[0].shape == want[0].shape
    assert (got[0].double() - want[0]).abs().max() <= unit * max(1, want[0].abs().max())
    if len(got) == 2:
        assert got[1].dtype == torch.float32 and got[1].shape == want[1].shape and got[1].is_contiguous()
        torch.testing.assert_close(
            got[1].double(), want[1], rtol=0, atol=8 * UNITS[torch.float32] if dtype == torch.float32 else unit
        )


def with_mask(options):
    options = dict(options)
    if "custom_mask" in options:
        options["custom_mask"] = torch.cat([x.flatten() for x in masks()])
    if "packed_custom_mask" in options:
        sizes = indptr([x.numel() for x in masks()])
        packed, ends = fi.segment_packbits(torch.cat([x.flatten() for x in masks()]), sizes)
        assert ends[-1] == len(packed) and ends.dtype == torch.int32
        options["packed_custom_mask"] = packed
    return options


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize("name", OPTIONS)
def test_prefill(name, kv_layout, dtype):
    options = OPTIONS[name]
    cache, k, v = filled(kv_layout, dtype)
    q = random(sum(QUERIES), HEADS, DIM, dtype=dtype)
    want = expected(q, k, v, options)
    wrapper = fi.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, kv_layout)
    wrapper.plan(indptr(QUERIES), *pages()[:3], HEADS, KV_HEADS, DIM, PAGE, q_data_type=dtype, **with_mask(options))
    require_close(wrapper.run_return_lse(q, cache), want, dtype)
    require_close([wrapper.run(q, tuple(cache.unbind(1)))], want, dtype)
    ragged = fi.BatchPrefillWithRaggedKVCacheWrapper(WORKSPACE, kv_layout)
    ragged.plan(indptr(QUERIES), indptr(KEYS), HEADS, KV_HEADS, DIM, q_data_type=dtype, **with_mask(options))
    require_close(ragged.run(q, k, v, return_lse=True), want, dtype)


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize("queries", [1, 3])
def test_decode(kv_layout, queries):
    """Several queries a sequence are its last tokens."""
    dtype = torch.float32
    cache, k, v = filled(kv_layout, dtype, joined=False)
    lengths = [queries] * len(KEYS)
    q = random(sum(lengths), HEADS, DIM)
    options = dict(window_left=5, logits_soft_cap=2.0)
    wrapper = fi.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, kv_layout, use_tensor_cores=True)
    wrapper.plan(*pages()[:3], HEADS, KV_HEADS, DIM, PAGE, q_len_per_req=queries, **options)
    want = expected(q, k, v, options | dict(causal=True), lengths)
    require_close(wrapper.run(q, cache, return_lse=True), want, dtype)
    out, lse = torch.empty_like(q), torch.empty(sum(lengths), HEADS)
    assert wrapper.run(q, cache, out=out, lse=lse, return_lse=True)[0] is out
    require_close((out, lse), want, dtype)
    sinks = random(HEADS, seed=7)
    want = expected(q, k, v, dict(causal=True), lengths, sinks=sinks.double())
    wrapper.plan(*pages()[:3], HEADS, KV_HEADS, DIM, PAGE, q_len_per_req=queries)
    require_close(wrapper.run_return_lse(q, cache, sinks=sinks), want, dtype)
    want = expected(q * 3, k * 0.5, v * 2, dict(causal=True), lengths)
    require_close(wrapper.run_return_lse(q, cache, q_scale=3.0, k_scale=torch.tensor(0.5), v_scale=2.0), want, dtype)


def test_captured_plans_keep_their_memory():
    """A plan after the first writes where the one before did: a captured graph reads it there."""
    cache, k, v = filled("NHD", torch.float32)
    begins, indices, last, _ = pages()
    buffers = dict(
        paged_kv_indptr_buf=torch.empty_like(begins),
        paged_kv_indices_buf=torch.empty(40),
        paged_kv_last_page_len_buf=torch.empty_like(last),
    )
    wrapper = fi.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, use_cuda_graph=True, qo_indptr_buf=begins, **buffers)
    short = [min(n, 4) for n in KEYS]
    shape = (HEADS, KV_HEADS, DIM, PAGE)
    wrapper.plan(indptr([1] * 5), *pages(short)[:3], *shape)
    addresses = {name: x.data_ptr() for name, x in wrapper._kept.items()}
    assert set(addresses) == {"block_table", "seqused_k", "cu_seqlens_q"}
    wrapper.plan(indptr(QUERIES), begins, indices, last, *shape, causal=True)
    assert addresses == {name: x.data_ptr() for name, x in wrapper._kept.items()}
    q = random(sum(QUERIES), HEADS, DIM)
    require_close(wrapper.run_return_lse(q, cache), expected(q, k, v, dict(causal=True)), torch.float32)
    with pytest.raises(
        libfa.InvalidArgument, match=r"plan: got \(4,\) for seqused_k, expected \(5,\)|block_table, expected \(5, 40\)"
    ):
        wrapper.plan(indptr(QUERIES[:4]), *pages(KEYS[:4])[:3], *shape)


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_caches(kind):
    """k_scale and v_scale multiply the cache's elements."""
    cache, _, _ = filled("NHD", torch.float32)
    codes = cache.nan_to_num().to(getattr(torch, kind))
    begins, indices, last, _ = pages()
    owners, places = fi.get_batch_indices_positions(indptr(KEYS), fi.get_seq_lens(begins, last, PAGE), sum(KEYS))
    at = indices[begins[owners.long()] + places // PAGE].long(), places % PAGE
    k, v = (x[at].float() for x in codes.float().unbind(1))
    q = random(len(KEYS), HEADS, DIM)
    wrapper = fi.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE)
    wrapper.plan(begins, indices, last, HEADS, KV_HEADS, DIM, PAGE, kv_data_type=kind)
    require_close(
        wrapper.run_return_lse(q, codes, k_scale=0.5, v_scale=3.0), expected(q, k * 0.5, v * 3, {}, [1] * 5), torch.float32
    )


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
def test_single(kv_layout):
    order = (0, 1, 2) if kv_layout == "NHD" else (1, 0, 2)
    q, k, v = random(5, HEADS, DIM), random(9, KV_HEADS, DIM, seed=1), random(9, KV_HEADS, DIM, seed=2)
    mask = torch.rand(5, 9, generator=torch.Generator().manual_seed(4)) > 0.3
    given = [x.permute(order).contiguous() for x in (k, v)]

    def want(q, **keywords):
        out, lse = reference_torch.attention(*(x[None].double() for x in (q, k, v)), **keywords)
        return out[0], lse[0].t() / math.log(2)

    for keywords, name in ((dict(causal=True), dict(causal=True)), (dict(custom_mask=mask), dict(mask=mask))):
        got = fi.single_prefill_with_kv_cache(q, *given, kv_layout=kv_layout, return_lse=True, **keywords)
        require_close(got, want(q, **name), torch.float32)
    packed = fi.packbits(mask)
    assert packed.tolist()[0] == sum(1 << i for i in range(8) if mask.flatten()[i])
    got = fi.single_prefill_with_kv_cache(q, *given, packed_custom_mask=packed, kv_layout=kv_layout, return_lse=True)
    require_close(got, want(q, mask=mask), torch.float32)
    out, lse = fi.single_decode_with_kv_cache(q[0], *given, kv_layout, window_left=3, return_lse=True)
    require_close((out[None], lse[None]), want(q[:1], window=(3, -1)), torch.float32)


def test_merging():
    """States of parts of the keys are merged into those of all; 40 of them, and of parts without keys."""
    q, k, v = random(3, HEADS, DIM), random(40, KV_HEADS, DIM, seed=1), random(40, KV_HEADS, DIM, seed=2)

    def part(first, last):
        return fi.single_prefill_with_kv_cache(q, k[first:last], v[first:last], return_lse=True)

    want, want_lse = part(0, 40)
    (a, s_a), (b, s_b) = part(0, 13), part(13, 40)
    for got, lse in (fi.merge_state(a, s_a, b, s_b), fi.merge_states(torch.stack([a, b], 1), torch.stack([s_a, s_b], 1))):
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(lse, want_lse)
    every = [part(i, i + 1) for i in range(40)]
    got, lse = fi.merge_states(*(torch.stack(x, 1) for x in zip(*every)))
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(lse, want_lse)
    nothing = part(0, 0)
    assert torch.equal(fi.merge_state(*nothing, a, s_a)[0], a) and nothing[1].isneginf().all()
    out, lse = a.clone(), s_a.clone()
    fi.merge_state_in_place(out, lse, b, s_b, mask=torch.tensor([True, False, True]))
    torch.testing.assert_close(out, torch.stack([want[0], a[1], want[2]]))
    torch.testing.assert_close(lse, torch.stack([want_lse[0], s_a[1], want_lse[2]]))


@pytest.mark.parametrize("causal", [False, True])
def test_cascade(causal):
    """A prefix that all sequences share, and keys of their own: as if each had both."""
    cache, k, v = filled("NHD", torch.float32)
    q = random(sum(QUERIES), HEADS, DIM)
    begins, indices, last, _ = pages()
    prefix = slice(sum(KEYS[:4]), sum(KEYS))  # the keys of the last sequence
    shared = [torch.tensor([0, begins[5] - begins[4]]), indices[begins[4] :], last[4:]]
    wrapper = fi.MultiLevelCascadeAttentionWrapper(2, WORKSPACE)
    every, own = indptr(QUERIES), (begins, indices, last)
    wrapper.plan(
        [torch.tensor([0, sum(QUERIES)]), every], *map(list, zip(shared, own)), HEADS, KV_HEADS, DIM, PAGE, causal=causal
    )
    got = wrapper.run(q, cache).split(QUERIES)
    for i, (mine, query) in enumerate(zip(got, q.split(QUERIES))):
        both = [torch.cat([x[prefix], x.split(KEYS)[i]])[None].double() for x in (k, v)]
        seen = torch.ones(QUERIES[i], both[0].shape[1], dtype=torch.bool)
        if causal:
            own_keys = torch.ones(QUERIES[i], KEYS[i], dtype=torch.bool).tril(KEYS[i] - QUERIES[i])
            seen[:, KEYS[4] :] = own_keys
        want, _ = reference_torch.attention(query[None].double(), *both, mask=seen)
        torch.testing.assert_close(mine.double(), want[0], rtol=0, atol=1e-6)


def test_append_of_some_tokens():
    """New tokens are the last ones; those that no sequence has are left out, and the rest of the cache stays."""
    begins, indices, last, count = pages()
    new = [2, 0, 1, 0, 4]
    owners, places = fi.get_batch_indices_positions(indptr(new), fi.get_seq_lens(begins, last, PAGE), sum(new) + 2)
    assert owners.tolist() == [0, 0, 2, 4, 4, 4, 4, -1, -1] and places.tolist() == [11, 12, 3, 13, 14, 15, 16, 0, 0]
    cache = torch.full((count, 2, PAGE, KV_HEADS, DIM), 5.0)
    k = random(9, KV_HEADS, DIM)
    fi.append_paged_kv_cache(k, k + 1, owners, places, cache, indices, begins, last)
    for i in range(sum(new)):
        page = indices[begins[owners[i]] + places[i] // PAGE]
        assert torch.equal(cache[page, 0, places[i] % PAGE], k[i]) and torch.equal(cache[page, 1, places[i] % PAGE], k[i] + 1)
    assert (cache == 5).sum() == cache.numel() - 2 * sum(new) * KV_HEADS * DIM


def planned(**given):
    wrapper = fi.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE)
    begins, indices, last, _ = pages()
    defaults = dict(qo_indptr=indptr(QUERIES), paged_kv_indptr=begins, paged_kv_indices=indices, paged_kv_last_page_len=last)
    wrapper.plan(
        **{**defaults, "num_qo_heads": HEADS, "num_kv_heads": KV_HEADS, "head_dim_qk": DIM, "page_size": PAGE, **given}
    )
    return wrapper


REFUSED = {
    "pos_encoding_mode: got 'ROPE_LLAMA', expected 'NONE'": dict(pos_encoding_mode="ROPE_LLAMA"),
    r"prefix_len_ptr: got a tensor of shape \(5,\), expected None": dict(prefix_len_ptr=torch.zeros(5)),
    "custom_mask: got 7 elements, expected": dict(custom_mask=torch.ones(7).bool()),
    r"qo_indptr: got \[0, 3, 2\], expected offsets": dict(qo_indptr=torch.tensor([0, 3, 2])),
    "qo_indptr: got 1 sequences, expected paged_kv_indptr's 5": dict(qo_indptr=torch.tensor([0, 3])),
    "paged_kv_indices: got 2 pages, expected the 13": dict(paged_kv_indices=torch.zeros(2).int()),
    r"paged_kv_last_page_len\[0\]: got 5, expected 1 .. 4": dict(paged_kv_last_page_len=torch.tensor([5, 0, 4, 1, 1])),
    "sm_scale: got 0": dict(sm_scale=0.0),
}


@pytest.mark.parametrize("text", REFUSED)
def test_plans_that_are_refused(text):
    with pytest.raises((libfa.InvalidArgument, libfa.Unsupported), match="^" + text):
        planned(**REFUSED[text])


def test_runs_that_are_refused():
    cache, _, _ = filled("NHD", torch.float32)
    q = random(sum(QUERIES), HEADS, DIM)
    with pytest.raises(RuntimeError, match=r"expected a call of plan\(\)"):
        fi.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE).run(q, cache)
    for text, call in {
        r"q: got shape \(10, 5, 16\), expected \(..., 10, 6, 16\)": lambda: planned().run(q[:, 1:], cache),
        "paged_kv_cache: got pages of 2 rows with 4 heads, read as NHD": lambda: planned().run(q, cache.transpose(2, 3)),
        r"paged_kv_cache: got shape \(16, 4, 2, 16\), expected \(pages, 2,": lambda: planned().run(q, cache[:, 0]),
        "lse_base: got 'log10', expected 'log2' or 'ln'": lambda: planned().run(q, cache, return_lse=True, lse_base="log10"),
        "kv_layout: got 'DHN'": lambda: fi.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, "DHN"),
        "jit_args: got .*, expected None": lambda: fi.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, jit_args=["x"]),
        "paged_kv_cache's keys has dtype|the table of paged_kv_indices": lambda: planned(paged_kv_indices=pages()[1] + 50).run(
            q, cache
        ),
    }.items():
        with pytest.raises((libfa.InvalidArgument, libfa.Unsupported), match=text):
            call()
