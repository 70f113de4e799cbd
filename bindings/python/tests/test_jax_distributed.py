"""libfa.jax_distributed on 2 and 4 devices of the CPU against the mathematics of the whole in double precision.

The long tier is FA_TEST_RANKS="2 4 8": all combinations of schemes, rows and shapes on as many devices."""
# needs: jax

import functools
import itertools
import os
import re
import unittest.mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import SOURCE
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from test_jax_gradients import weights

import libfa.jax
import libfa.jax_distributed as D
from libfa import InvalidArgument, Unsupported

LONG = [int(x) for x in os.environ.get("FA_TEST_RANKS", "").split()]
jax.config.update("jax_num_cpu_devices", max([4, *LONG]))
jax.config.update("jax_disable_most_optimizations", True)  # these take half of the tests' time

SCHEMES, ROWS = ("ring", "all_gather", "ulysses"), ("contiguous", "zigzag", "striped")
UNITS = {"float32": 2**-19, "float16": 2**-9, "bfloat16": 2**-6}  # as in test_torch_gradients.py
# By name: keywords of attention, and of the arrays: rows n, keys m, query heads, key/value heads, dim of v, dtype.
SHAPES = {
    "plain": {},
    "causal": dict(causal=True),
    "sinks and softcap": dict(causal=True, sinks=True, softcap=2.0, kv_heads=1),
    "window": dict(causal=True, window=(9, 0), kv_heads=4),
    "window on both sides": dict(window=(5, 7), sinks=True),
    "open window": dict(window=(6, -1), softmax_scale=0.4),
    "narrow window": dict(causal=True, window=(0, 0)),
    "fewer keys": dict(causal=True, n=48, m=32, dim_v=24),
    "more keys, top left": dict(causal="top_left", n=32, m=48, window=(6, -1)),
    "slopes": dict(causal=True, slopes=True),
    "bf16": dict(causal=True, dtype="bfloat16", sinks=True),
    "f16": dict(dtype="float16", window=(11, 3)),
}


def arrays_of(n=48, m=None, heads=4, kv_heads=2, dim_v=16, batch=2, dtype="float32", sinks=False, slopes=False):
    m = n if m is None else m
    rng = np.random.default_rng(5)
    shapes = dict(q=(batch, n, heads, 16), k=(batch, m, kv_heads, 16), v=(batch, m, kv_heads, dim_v))
    given = {name: jnp.asarray(rng.standard_normal(shape), dtype) for name, shape in shapes.items()}
    if sinks:
        given["sinks"] = jnp.asarray(rng.standard_normal(heads), "float32")
    if slopes:
        given["alibi_slopes"] = jnp.asarray(rng.random(heads), "float32")
    return given


def exact(given, causal=False, window=(-1, -1), softcap=0.0, softmax_scale=None):
    """(out, lse) of the whole, in the precision of the arrays."""
    q, k, v = (given[name] for name in "qkv")
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    n, m = q.shape[1], k.shape[1]
    apart = np.arange(n)[:, None] + (0 if causal == "top_left" else m - n) - np.arange(m)
    seen = np.ones((n, m), bool)
    seen &= (apart >= 0) | (not causal)
    seen &= ((apart <= window[0]) | (window[0] < 0)) & ((apart >= -window[1]) | (window[1] < 0))
    x = jnp.einsum("bihd,bjhd->bhij", q, k) * (softmax_scale or q.shape[3] ** -0.5)
    x = softcap * jnp.tanh(x / softcap) if softcap else x
    if "alibi_slopes" in given:
        x = x - given["alibi_slopes"][:, None, None] * abs(apart)
    x = jnp.where(seen, x, -jnp.inf)
    if "sinks" in given:
        x = jnp.concatenate([x, jnp.broadcast_to(given["sinks"][:, None, None], (*x.shape[:3], 1))], -1)
    top = jax.lax.stop_gradient(jnp.maximum(x.max(-1, keepdims=True), -1e30))
    p = jnp.exp(x - top)
    total = p.sum(-1, keepdims=True)
    out = jnp.einsum("bhij,bjhd->bihd", (p / jnp.where(total == 0, 1, total))[..., :m], v)
    lse = jnp.where(total == 0, -jnp.inf, top + jnp.log(jnp.where(total == 0, 1, total)))
    return out, lse[..., 0]


def over(world, function, names, axis="x", **keywords):
    """A function of arrays in the order of devices, each device's rows."""
    mesh = jax.make_mesh((world,), (axis,), axis_types=(AxisType.Auto,), devices=jax.devices()[:world])
    specs = {name: P(None, axis) if name in "qkv" else P() for name in names}
    return jax.shard_map(function, mesh=mesh, in_specs=(specs,), out_specs=(P(None, axis), P(None, None, axis)), **keywords)


def distributed(world, scheme, rows, names, check_vma=True, **settings):
    """attention() of whole arrays on some devices: (out, lse)."""

    def local(x):
        return D.attention(**x, axis_name="x", scheme=scheme, rows=rows, return_lse=True, **settings)

    mapped = over(world, local, names, check_vma=check_vma)

    def whole(given):
        dealt = {name: D.deal(x, world, rows=rows) if name in "qkv" else x for name, x in given.items()}
        out, lse = mapped(dealt)
        return D.undeal(out, world, rows=rows), D.undeal(lse, world, rows=rows, axis=2)

    return whole


def total_of(function, given):
    """A number that depends on every element of out and lse."""
    out, lse = function(given)
    return (out * weights(out.shape, 4)).sum() + jnp.where(lse > -1e29, lse * weights(lse.shape, 5), 0).sum()


def near(found, want, dtype, name):
    assert found.shape == want.shape, (name, found.shape, want.shape)
    found, want = np.asarray(found, "f8"), np.asarray(want)
    there = np.isfinite(want)
    assert (np.isfinite(found) == there).all(), name
    error, bound = abs(found[there] - want[there]).max(initial=0), UNITS[dtype] * abs(want[there]).max(initial=0)
    assert error <= max(bound, 1e-12), f"{name}: off by {error:.1e}, bound {bound:.1e}"


@functools.lru_cache(maxsize=None)
def wanted(shape):
    """(out, lse) and the gradients of a shape, in double precision."""
    settings = SHAPES[shape].copy()
    given = arrays_of(**{name: settings.pop(name) for name in list(settings) if name in arrays_of.__code__.co_varnames})
    with jax.enable_x64(True):
        wide = {name: jnp.asarray(np.asarray(x, "f8")) for name, x in given.items()}
        slopes = {name: wide.pop(name) for name in ("alibi_slopes",) if name in wide}
        function = lambda x: exact(x | slopes, **settings)  # noqa: E731
        results = jax.tree.map(np.asarray, function(wide))
        gradients = jax.tree.map(np.asarray, jax.jit(jax.grad(lambda x: total_of(function, x)))(wide))
    return given, settings, results, gradients


def cases():
    """Each scheme with each shape, on as many devices and with such rows as the turn has it; or all."""
    if LONG:
        yield from itertools.product(LONG, SCHEMES, ROWS, SHAPES)
        return
    for i, (scheme, shape) in enumerate(itertools.product(SCHEMES, SHAPES)):
        turn = i // len(SHAPES) + i % len(SHAPES)
        if scheme == "ulysses" and turn % 3 == 2:  # it is libfa.jax.attention on each device
            continue
        yield 2 + 2 * (turn // 3 % 2), scheme, ROWS[turn % 3], shape


@pytest.mark.parametrize("world, scheme, rows, shape", list(cases()))
def test_results_and_gradients(world, scheme, rows, shape):
    given, settings, (out, lse), gradients = wanted(shape)
    if rows == "striped" and "alibi_slopes" in given and scheme != "ulysses":
        rows = "zigzag"  # refused: test_wrong_arguments
    if scheme == "ulysses" and given["q"].shape[2] % world:
        scheme = "auto"
    dtype = given["q"].dtype.name
    slopes = {name: x for name, x in given.items() if name == "alibi_slopes"}
    leaves = {name: x for name, x in given.items() if name != "alibi_slopes"}
    function = distributed(world, scheme, rows, list(given), **settings)

    def loss(x):
        found = function(x | slopes)
        return total_of(lambda _: found, None), found

    run = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (_, found), grads = run(leaves)
    near(found[0], out, dtype, "out")
    near(found[1], lse, "float32", "lse")
    for name, want in gradients.items():
        assert grads[name].dtype == leaves[name].dtype
        near(grads[name], want, dtype, f"gradient of {name}")
    (_, again), more = run(leaves)
    for x, y in zip(jax.tree.leaves((found, grads)), jax.tree.leaves((again, more)), strict=True):
        assert (np.asarray(x) == np.asarray(y)).all()


def test_rows_are_dealt():
    x = jnp.arange(2 * 16 * 3).reshape(2, 16, 3)
    for world, rows in itertools.product((1, 2, 4), ROWS):
        dealt = D.deal(x, world, rows=rows)
        assert (D.undeal(dealt, world, rows=rows) == x).all()
    chunks = np.arange(16).reshape(8, 2)
    assert D.deal(np.arange(16), 4, rows="zigzag", axis=0)[4:8].tolist() == [*chunks[1], *chunks[6]]
    assert D.deal(np.arange(16), 4, rows="striped", axis=0)[4:8].tolist() == [1, 5, 9, 13]


def collectives(compiled):
    """The collectives of a program, and the bytes of each kind's results on a device; those of several arrays are not counted."""
    found = {}
    for shape, name in re.findall(
        r"= (?:f32\[([\d,]+)\]|\()\S* .*?\b(collective-permute|all-gather|all-to-all|reduce-scatter)\(", compiled.as_text()
    ):
        size = 4 * int(np.prod([int(x) for x in shape.split(",")])) if shape else 0
        found[name] = found.get(name, 0) + size
    return found


def test_bytes_and_the_choice_of_a_scheme():
    given = arrays_of(n=32, heads=8, kv_heads=1)
    keys = 2 * 8 * 1 * 32 * 4  # of one of 4 devices, k and v

    def program(scheme, given=given, **settings):
        function = distributed(4, scheme, "contiguous", list("qkv"), causal=True, **settings)
        return jax.jit(lambda x: function(x)[0]).lower(given).compile()

    assert collectives(program("auto")) == {"collective-permute": 3 * keys}
    assert collectives(program("ring", window=(8, 0))) == {"collective-permute": keys}  # the ring ends early
    assert collectives(program("all_gather")) == {"all-gather": 4 * keys}
    assert set(collectives(program("auto", arrays_of(n=32, kv_heads=4)))) == {"all-to-all"}


@pytest.mark.parametrize(
    "scheme, jit, check_vma", [("ring", True, False), ("all_gather", False, True), ("ulysses", True, False)]
)
def test_other_ways_to_call(scheme, jit, check_vma):
    """Without jit, without JAX's checks, on a mesh whose other axis has the batch. Sinks are on every device."""
    given, settings, (out, _), gradients = wanted("sinks and softcap")
    mesh = jax.make_mesh((2, 2), ("d", "x"), axis_types=(AxisType.Auto,) * 2)
    specs = {name: P("d", "x") if name in "qkv" else P() for name in given}
    dealt = {name: D.deal(x, 2, rows="zigzag") if name in "qkv" else x for name, x in given.items()}
    local = lambda x: D.attention(**x, axis_name="x", scheme=scheme, rows="zigzag", return_lse=True, **settings)  # noqa: E731
    mapped = jax.shard_map(local, mesh=mesh, in_specs=(specs,), out_specs=(P("d", "x"), P("d", None, "x")), check_vma=check_vma)

    def total(x):
        found = mapped(x)
        return total_of(lambda _: [D.undeal(y, 2, rows="zigzag", axis=axis) for y, axis in zip(found, (1, 2))], None), found

    if not jit:
        near(D.undeal(mapped(dealt)[0], 2, rows="zigzag"), out, "float32", "out")
        return
    found, (own, _) = jax.jit(jax.grad(total, has_aux=True))(dealt)
    near(D.undeal(own, 2, rows="zigzag"), out, "float32", "out")
    near(found["sinks"], gradients["sinks"], "float32", "gradient of sinks")
    near(D.undeal(found["k"], 2, rows="zigzag"), gradients["k"], "float32", "gradient of k")


def test_wrong_arguments():
    given = arrays_of(n=24, heads=6, kv_heads=3)

    def call(world=4, rows="contiguous", given=given, **settings):
        names = list(given)
        mapped = over(world, lambda x: D.attention(**x, rows=rows, return_lse=True, **settings), names)
        jax.eval_shape(mapped, given)

    for text, kind, settings in (
        ("axis_name: got 'y', which is no axis of a jax.shard_map", InvalidArgument, dict(axis_name="y")),
        ("scheme: got 'rng', expected 'auto' or one of 'ring'", InvalidArgument, dict(scheme="rng")),
        ("rows: got 'zebra', expected one of 'contiguous'", InvalidArgument, dict(rows="zebra")),
        ("q: got 5 rows, expected an even number", InvalidArgument, dict(given=arrays_of(n=20), rows="zigzag")),
        ("scheme: got 'ulysses', but q has 6 heads, which 4 devices", InvalidArgument, dict(scheme="ulysses")),
        ("window: got 4, expected (left, right)", TypeError, dict(window=4)),
        ("k has head dimension 8; q has 16", InvalidArgument, dict(given={**given, "k": given["k"][..., :8]})),
        ("k has 3 heads, but q has 5 heads", InvalidArgument, dict(given={**given, "q": given["q"][:, :, :5]})),
        (
            "q: got shape (2, 6, 6, 16, 1), expected (batch, rows, heads, dim)",
            InvalidArgument,
            dict(given={**given, "q": given["q"][..., None]}),
        ),
        ("sinks: got shape (3,), expected (6,)", InvalidArgument, dict(given={**given, "sinks": jnp.zeros(3)})),
        (
            "alibi_slopes: scheme 'ring' has none with rows='striped'",
            Unsupported,
            dict(given={**given, "alibi_slopes": jnp.ones(6)}, scheme="ring", rows="striped"),
        ),
    ):
        with pytest.raises(kind) as caught:
            call(**{"axis_name": "x", **settings})
        assert text in str(caught.value), caught.value
    for text, function in (
        ("x: got 24 rows, expected a multiple of 16", lambda: D.deal(given["q"], 8, rows="zigzag")),
        ("world: got 0, expected 1 or more", lambda: D.deal(given["q"], 0)),
        ("axis: got 4, expected one of the 4 dimensions", lambda: D.undeal(given["q"], 2, axis=4)),
        ("axis_name: got 'x', which is no axis", lambda: D.attention(*given.values(), axis_name="x")),
    ):
        with pytest.raises(InvalidArgument) as caught:
            function()
        assert text in str(caught.value), caught.value


def test_the_guide(capsys):
    """Its program runs as written, and prints the stated text."""
    (_, code) = re.findall(r"^```python\n(.*?)^```$", (SOURCE / "docs/guides/distributed.md").read_text(), re.M | re.S)
    with unittest.mock.patch.object(jax.config, "update"):  # there are 4 already
        exec(compile(code, "distributed.md", "exec"), {})
    assert capsys.readouterr().out == "True\n" and code.endswith("  # True\n")


def test_what_has_no_gradient():
    given = arrays_of(n=16, slopes=True)
    function = distributed(4, "ring", "zigzag", list(given), causal=True)
    with pytest.raises(NotImplementedError, match="alibi_slopes: .*stop_gradient"):
        jax.jit(jax.grad(lambda x: total_of(function, x)))(given)
