"""libfa.jax over several devices: inside of shard_map, and under jit with arrays that are sharded over batch and heads."""
# needs: jax

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import libfa.jax

jax.config.update("jax_num_cpu_devices", 4)

B, S, T, H, D = 4, 5, 7, 4, 8
TYPES = pytest.mark.parametrize("axes", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])


def mesh_of(axes=AxisType.Auto, shape=(2, 2)):
    return jax.make_mesh(shape, ("x", "y"), axis_types=(axes,) * 2)


def inputs(kv_heads=2, **shapes):
    rng = np.random.default_rng(7)
    shapes = dict(q=(B, S, H, D), k=(B, T, kv_heads, D), v=(B, T, kv_heads, D), **shapes)
    return {name: jnp.asarray(rng.standard_normal(shape), "f4") for name, shape in shapes.items()}


def loss(given, **settings):
    out, lse = libfa.jax.attention(**given, return_lse=True, **settings)
    return (out * jnp.arange(1, out.shape[-1] + 1)).sum() + (lse * jnp.arange(1, lse.shape[-1] + 1)).sum()


def near(found, want, tolerance=2e-5):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert abs(np.asarray(a) - np.asarray(b)).max() <= tolerance * max(1, abs(np.asarray(b)).max())


def collectives(compiled):
    return set(re.findall(r"\b(all-gather|all-to-all|collective-permute|all-reduce|reduce-scatter)\b", compiled.as_text()))


WHERE = {
    "batch": (P("x"), P("x")),
    "heads": (P(None, None, "x"), P(None, None, "x")),
    "both": (P("x", None, "y"), P("x", None, "y")),
    "all devices on the batch": (P(("x", "y")), P(("x", "y"))),
}


@pytest.mark.parametrize(
    "where, check_vma, jit",
    [("both", check_vma, jit) for check_vma in (False, True) for jit in (False, True)]
    + [(where, True, True) for where in WHERE if where != "both"],
)
def test_gradients_through_shard_map(where, check_vma, jit):
    given, mesh = inputs(), mesh_of()
    spec, spec_kv = WHERE[where]
    specs = dict(q=spec, k=spec_kv, v=spec_kv)
    mapped = jax.shard_map(
        lambda x: libfa.jax.attention(**x), mesh=mesh, in_specs=(specs,), out_specs=spec, check_vma=check_vma
    )
    total = lambda f: lambda x: (f(x) * jnp.arange(D)).sum()  # noqa: E731
    way = jax.jit if jit else lambda f: f
    near(way(mapped)(given), libfa.jax.attention(**given))
    near(way(jax.grad(total(mapped)))(given), jax.grad(total(lambda x: libfa.jax.attention(**x)))(given))


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_gradients_inside_of_shard_map(jit):
    given, mesh = inputs(), mesh_of()
    specs = dict.fromkeys("qkv", P("x", None, "y"))
    mapped = jax.shard_map(lambda x: jax.grad(loss)(x), mesh=mesh, in_specs=(specs,), out_specs=specs)
    scaled = lambda x: loss({name: a for name, a in x.items()})  # noqa: E731
    near((jax.jit if jit else lambda f: f)(mapped)(given), jax.grad(scaled)(given))


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_what_devices_share_in_shard_map(jit):
    """k, v, bias and sinks are on every device: their gradients are sums over the devices."""
    given, mesh = inputs(kv_heads=1, bias=(1, 1, S, T), sinks=(H,)), mesh_of()
    specs = dict(q=P("x", None, "y"), k=P("x"), v=P("x"), bias=P(), sinks=P("y"))
    total = lambda x: libfa.jax.attention(**x, causal=True)  # noqa: E731
    mapped = jax.shard_map(total, mesh=mesh, in_specs=(specs,), out_specs=P("x", None, "y"))
    way = jax.jit if jit else lambda f: f
    near(way(jax.grad(lambda x: mapped(x).sum()))(given), jax.grad(lambda x: total(x).sum())(given))


@TYPES
@pytest.mark.parametrize("where", WHERE)
def test_sharded_inputs_stay_where_they_are(where, axes):
    given, mesh = inputs(), mesh_of(axes)
    spec, spec_kv = WHERE[where]
    shardings = {name: NamedSharding(mesh, spec if name == "q" else spec_kv) for name in given}
    placed = jax.device_put(given, shardings)
    forward = functools.partial(libfa.jax.attention, causal=True, return_lse=True)
    compiled = jax.jit(lambda x: forward(**x)).lower(placed).compile()
    assert collectives(compiled) == set()
    out, lse = compiled(placed)
    near((out, lse), forward(**given))
    assert out.sharding.is_equivalent_to(shardings["q"], 4)
    assert {x.data.shape for x in out.addressable_shards} == {x.data.shape for x in placed["q"].addressable_shards}
    near(forward(**placed), forward(**given))  # outside of jit

    with jax.set_mesh(mesh):
        compiled = jax.jit(jax.grad(loss)).lower(placed).compile()
    assert collectives(compiled) <= {"all-reduce"}
    found = compiled(placed)
    near(found, jax.grad(loss)(given))
    assert all(found[name].sharding.is_equivalent_to(shardings[name], 4) for name in given)


@TYPES
def test_every_input_over_devices(axes):
    """Gradients of shared inputs are summed over the devices, everything else stays where it is."""
    given, mesh = inputs(kv_heads=1, bias=(1, H, S, T), sinks=(H,)), mesh_of(axes)
    rng = np.random.default_rng(8)
    rest = dict(
        mask=rng.random((B, 1, S, T)) < 0.7,
        alibi_slopes=np.linspace(0.1, 0.4, H, dtype="f4"),
        seqused_k=np.array([7, 5, 6, 7], "i4"),
        leftpad_k=np.array([0, 1, 2, 0], "i4"),
        q_offset=np.array([2, 0, 3, 1], "i4"),
    )
    specs = dict(q=P("x", None, "y"), k=P("x"), v=P("x"), bias=P(None, "y"), sinks=P("y"))
    specs |= dict(mask=P("x"), alibi_slopes=P("y"), seqused_k=P("x"), leftpad_k=P("x"), q_offset=P("x"))
    placed = jax.device_put(given | rest, {name: NamedSharding(mesh, spec) for name, spec in specs.items()})
    value = jax.jit(jax.grad(lambda x, y: loss(x | y)))
    split = [{name: placed[name] for name in names} for names in (given, rest)]
    with jax.set_mesh(mesh):
        compiled = value.lower(*split).compile()
    assert collectives(compiled) <= {"all-reduce"}
    near(compiled(*split), value(given, rest))


@TYPES
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_heads_over_more_devices_than_key_heads(kv_heads, axes):
    given, mesh = inputs(kv_heads), mesh_of(axes, (1, 4))
    spec = NamedSharding(mesh, P(None, None, "y"))
    placed = given | {"q": jax.device_put(given["q"], spec)}
    for name in "kv":
        placed[name] = jax.device_put(given[name], spec if kv_heads == 4 else NamedSharding(mesh, P()))
    with jax.set_mesh(mesh):
        near(jax.jit(lambda x: libfa.jax.attention(**x))(placed), libfa.jax.attention(**given))
        near(jax.jit(jax.grad(loss))(placed), jax.grad(loss)(given))


@TYPES
def test_what_cannot_be_split_is_gathered(axes):
    """A sharded sequence, packed sequences, shared keys, pages: right, with whatever communication it takes."""
    mesh = mesh_of(axes)
    place = lambda x, spec: jax.device_put(x, NamedSharding(mesh, spec))  # noqa: E731
    given = inputs()
    four = {name: x[:, :4] for name, x in given.items()}
    idx = np.array([1, 1, 0, 3], "i4")
    table = np.array([[1, 0], [0, 1], [3, 2], [2, 0]], "i4")
    packed = {name: x.reshape(-1, *x.shape[2:]) for name, x in four.items()}
    ends = np.array([0, 5, 9, 16], "i4")
    cases = (
        (four, P(None, "x"), {}),
        (given, P("x", None, "y"), dict(kv_batch_idx=place(idx, P("x")))),
        (packed, P("x", "y"), dict(cu_seqlens_q=ends, cu_seqlens_k=ends)),
        (four, P("x"), dict(block_table=place(table, P("x")), seqused_k=place(np.array([7, 8, 5, 6], "i4"), P("x")))),
    )
    for tensors, spec, more in cases:
        placed = {name: place(x, spec) for name, x in tensors.items()}
        plain = {name: np.asarray(x) for name, x in more.items()}
        with jax.set_mesh(mesh):
            found = jax.jit(lambda x, more=more: libfa.jax.attention(**x, **more))(placed)
        near(found, libfa.jax.attention(**tensors, **plain))
        if "block_table" not in more:
            with jax.set_mesh(mesh):
                gradients = jax.jit(jax.grad(lambda x, more=more: loss(x, **more)))(placed)
            near(gradients, jax.grad(functools.partial(loss, **plain))(tensors))
