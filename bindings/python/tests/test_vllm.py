"""libfa.vllm and libfa.vllm_attention by their interface: vLLM's classes are replaced, as it needs a torch without CUDA. vllm_model.py
runs real models where vLLM is installed."""
# needs: torch

import enum
import os
import subprocess
import sys
import types

import pytest
import reference_torch
import torch

from libfa import fallback

torch.set_num_threads(1)  # the suites run side by side
REGISTERED = {}


class Kernel:
    """vLLM's own."""

    def __init__(self, attn_type="decoder", kv_cache_dtype="auto", head_size=16, window=-1, softcap=0, slopes=None, sinks=None):
        self.attn_type, self.kv_cache_dtype, self.head_size, self.scale = attn_type, kv_cache_dtype, head_size, 0.3
        self.sliding_window, self.logits_soft_cap, self.alibi_slopes, self.sinks = window, softcap, slopes, sinks
        self.calls = []

    def do_kv_cache_update(self, *given):
        self.calls.append("update")

    def forward(self, *given):
        self.calls.append("forward")
        return given[6]


class Planner:
    is_cross_attention = is_encoder_only_attention = False
    kv_cache_dtype, head_dim = "auto", 16

    def build(self, *given):
        return "a plan"


class Names(enum.Enum):
    CPU_ATTN, CUSTOM, FLASH_ATTN = range(3)


def module(name, **contents):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(contents)


for name in ("vllm", "vllm.v1", "vllm.v1.attention", "vllm.v1.attention.backends"):
    module(name)
module("vllm.v1.attention.backend", AttentionType=types.SimpleNamespace(DECODER="decoder"))
module(
    "vllm.v1.attention.backends.cpu_attn",
    CPUAttentionBackend=object,
    CPUAttentionBackendImpl=Kernel,
    CPUAttentionMetadata=types.SimpleNamespace,
    CPUAttentionMetadataBuilder=Planner,
)
module("vllm.v1.attention.backends.registry", AttentionBackendEnum=Names, register_backend=REGISTERED.__setitem__)

import libfa.vllm  # noqa: E402
from libfa import vllm_attention as hook  # noqa: E402

HEADS, KV_HEADS, DIM, SIZE = 4, 2, 16, 32


def random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def near(found, want, dtype):
    torch.testing.assert_close(found.double(), want.double(), rtol=0, atol=1e-5 if dtype == torch.float32 else 2e-2)


def batch_of(lengths, cached, causal=True):
    """vLLM's description of requests, each with new tokens behind cached ones; pages in no order."""
    pages = 3
    order = torch.randperm(len(lengths) * pages, generator=torch.Generator().manual_seed(2)).int()
    table = order.view(len(lengths), pages)
    slots = [table[i, t // SIZE] * SIZE + t % SIZE for i, (n, m) in enumerate(zip(lengths, cached)) for t in range(m, m + n)]
    return types.SimpleNamespace(
        num_actual_tokens=sum(lengths),
        max_query_len=max(lengths),
        max_seq_len=pages * SIZE,
        query_start_loc=torch.tensor([0, *lengths]).cumsum(0).int(),
        seq_lens=torch.tensor([n + m for n, m in zip(lengths, cached)]).int(),
        block_table_tensor=table,
        slot_mapping=torch.tensor(slots),
        causal=causal,
    )


CASES = {
    "plain": {},
    "bf16": dict(dtype=torch.bfloat16),
    "window": dict(window=7),
    "softcap and sinks": dict(softcap=2.0, sinks=torch.linspace(-1, 2, HEADS)),
    "slopes": dict(slopes=torch.linspace(0.1, 0.5, HEADS)),
}


@pytest.mark.parametrize("name", CASES)
def test_prefill_in_two_chunks_and_decode(name):
    settings = dict(CASES[name])
    dtype = settings.pop("dtype", torch.float32)
    impl = hook.Attention(**settings)
    lengths = [70, 9, 33]
    heads = (HEADS, KV_HEADS, KV_HEADS)
    q, k, v = ([random(n, h, DIM, dtype=dtype, seed=10 * i + j) for j, n in enumerate(lengths)] for i, h in enumerate(heads))
    cache = torch.full((9, KV_HEADS, SIZE, 2 * DIM), float("nan"), dtype=dtype)
    found = [[], [], []]
    for ends in ([(0, 40), (0, 8), (0, 0)], [(40, 69), (8, 9), (0, 32)], [(69, 70), (9, 9), (32, 33)]):
        batch = batch_of([end - begin for begin, end in ends], [begin for begin, _ in ends])
        own = [torch.cat([x[slice(*part)] for x, part in zip(rows, ends)]) for rows in (q, k, v)]
        own = [torch.cat([x, torch.full_like(x[:2], 7)]) for x in own]  # padding
        metadata = hook.Builder().build(0, batch)
        impl.do_kv_cache_update(None, *own[1:], cache, batch.slot_mapping)
        out = torch.full_like(own[0], -1)
        assert impl.forward(None, *own, cache, metadata, out) is out
        assert (out[-2:] == -1).all()
        for i, part in enumerate(out[:-2].split([end - begin for begin, end in ends])):
            found[i].append(part)
    window = (settings.get("window", 0) - 1, 0) if "window" in settings else (-1, -1)
    for i in range(3):
        given = [x[i][None].double() for x in (q, k, v)]
        options = {name: x for name, x in settings.items() if name != "window"}
        want, _ = reference_torch.attention(*given, causal=True, window=window, scale=0.3, **options)
        near(torch.cat(found[i]), want[0], dtype)
    assert impl.calls == []


def test_causal_by_request():
    impl, lengths, cached = hook.Attention(), [3, 2], [4, 30]
    batch = batch_of(lengths, cached, causal=torch.tensor([True, False]))
    whole = random(2, 2, 40, KV_HEADS, DIM)
    cache = torch.zeros(6, KV_HEADS, SIZE, 2 * DIM)
    every = batch_of([n + m for n, m in zip(lengths, cached)], [0, 0])
    k, v = (torch.cat([x[0, :7], x[1, :32]]) for x in whole)
    impl.do_kv_cache_update(None, k, v, cache, every.slot_mapping)
    q = random(5, HEADS, DIM, seed=3)
    out = torch.empty_like(q)
    impl.forward(None, q, None, None, cache, hook.Builder().build(0, batch), out)
    for part, rows, keys, causal in ((slice(0, 3), 0, 7, True), (slice(3, 5), 1, 32, False)):
        want, _ = reference_torch.attention(
            q[part][None].double(), *(x[rows, :keys][None].double() for x in whole), causal=causal, scale=0.3
        )
        near(out[part], want[0], torch.float32)


@pytest.mark.parametrize(
    "kind, text",
    [
        (dict(attn_type="encoder_only"), "attention is of the type encoder_only"),
        (dict(kv_cache_dtype="fp8"), "the cache has the type fp8"),
        (dict(head_size=640), "the head dimension is 640"),
    ],
)
def test_layers_that_stay_with_vllm(kind, text, monkeypatch, capsys):
    monkeypatch.setenv("FA_VERBOSE", "1")
    fallback._said.clear()
    impl = hook.Attention(**kind)
    assert f"fa: vLLM: {text}: left to vLLM's own kernel" in capsys.readouterr().err
    out = torch.zeros(1)
    impl.do_kv_cache_update(None, None, None, None, None)
    assert impl.forward(None, None, None, None, None, None, out) is out and impl.calls == ["update", "forward"]
    planner = hook.Builder()
    planner.is_encoder_only_attention = "attn_type" in kind
    planner.kv_cache_dtype, planner.head_dim = kind.get("kv_cache_dtype", "auto"), kind.get("head_size", 16)
    assert planner.build(0, None) == "a plan"


def test_the_plug_in(monkeypatch):
    for value in (None, "", "other", "libfa2"):
        monkeypatch.delenv("VLLM_PLUGINS", raising=False)
        if value is not None:
            monkeypatch.setenv("VLLM_PLUGINS", value)
        libfa.vllm.plugin()
        assert not REGISTERED
    monkeypatch.setenv("VLLM_PLUGINS", "other,libfa")
    libfa.vllm.plugin()
    assert REGISTERED == dict.fromkeys((Names.CPU_ATTN, Names.CUSTOM), "libfa.vllm_attention.Backend")
    assert hook.Backend.get_impl_cls() is hook.Attention and hook.Backend.get_builder_cls() is hook.Builder
    assert hook.Backend.get_name() in Names.__members__


THREADS = """
import os, sys
sys.argv = ["test"]
import test_vllm as test
test.torch.set_num_threads(2)
test.torch.randn(10**6).exp()
assert len(os.sched_getaffinity(0)) == 1, "OpenMP has bound nothing"
before = set(os.listdir("/proc/self/task"))
assert test.hook._threads() == 2
started = set(os.listdir("/proc/self/task")) - before
assert len(os.sched_getaffinity(0)) == 1
print([len(os.sched_getaffinity(int(x))) for x in started])
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
def test_threads_are_not_bound_to_one_cpu():
    cpus = sorted(os.sched_getaffinity(0))[:2]
    environment = {**os.environ, "GOMP_CPU_AFFINITY": " ".join(map(str, cpus)), "OMP_NUM_THREADS": "2"}
    environment["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), environment["PYTHONPATH"]])
    ran = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "[2]\n"
