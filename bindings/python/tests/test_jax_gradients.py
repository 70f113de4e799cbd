"""Gradients of libfa.jax.attention against JAX's own of a reference in double precision."""
# needs: jax

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import libfa.jax

ROWS, KEYS, HEADS, DIM = 5, 11, 4, 8
OFFSET = KEYS - ROWS


def reference(q, k, v, *, bias=None, sinks=None, seen=True, slopes=None, softcap=0.0, scale=DIM**-0.5):
    """(out, lse) of all that tensors have, in their own precision; seen: which keys a query attends."""
    group = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(x, group, axis=2) for x in (k, v))
    x = jnp.einsum("bihd,bjhd->bhij", q, k) * scale
    if softcap:
        x = softcap * jnp.tanh(x / softcap)
    if bias is not None:
        x = x + bias
    if slopes is not None:
        x = x - slopes[:, None, None] * abs(np.arange(ROWS)[:, None] + OFFSET - np.arange(KEYS))
    x = jnp.where(seen, x, -1e30)
    if sinks is not None:
        x = jnp.concatenate([x, jnp.broadcast_to(jnp.reshape(sinks, (-1, HEADS, 1, 1)), x.shape[:3] + (1,))], -1)
    p = jax.nn.softmax(x, -1)[..., : k.shape[1]]
    return jnp.einsum("bhij,bjhd->bihd", p, v), jax.nn.logsumexp(x, -1)


def inputs(dtype="float32", batch=2, **more):
    rng = np.random.default_rng(3)
    shapes = dict(q=(batch, ROWS, HEADS, DIM), k=(batch, KEYS, 2, DIM), v=(batch, KEYS, 2, DIM), **more)
    return {name: np.asarray(jnp.asarray(rng.standard_normal(shape), dtype)) for name, shape in shapes.items()}


def weights(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


def loss(attention, given, with_lse=True):
    """A number that depends on every element of out, and of lse."""
    out, lse = attention(**given)
    total = (out * weights(out.shape, 4).astype(out.dtype)).sum().astype(jnp.float64 if jax.config.x64_enabled else jnp.float32)
    return total + (lse * weights(lse.shape, 5)).sum() if with_lse else total


def expected(given, with_lse=True, **settings):
    """The gradients in double precision, by JAX, of the numbers that the inputs are."""
    with jax.enable_x64(True):
        wide = {name: jnp.asarray(x.astype("f8")) for name, x in given.items()}
        found = jax.jit(jax.grad(lambda x: loss(functools.partial(reference, **settings), x, with_lse)))(wide)
        return {name: np.asarray(x) for name, x in found.items()}


def check(found, want, tolerance):
    for name, gradient in want.items():
        got = np.asarray(found[name])
        assert got.shape == gradient.shape
        assert abs(got.astype("f8") - gradient).max() < tolerance * max(1, abs(gradient).max()), name


causal = np.arange(KEYS) <= np.arange(ROWS)[:, None] + OFFSET


@pytest.mark.parametrize("dtype, tolerance", [("float32", 5e-6), ("float16", 5e-3), ("bfloat16", 4e-2)])
def test_types(dtype, tolerance):
    given = inputs(dtype)
    attention = functools.partial(libfa.jax.attention, causal=True, return_lse=True)
    value, found = jax.jit(jax.value_and_grad(lambda x: loss(attention, x, dtype == "float32")))(given)
    assert value.dtype == jnp.float32 and all(found[name].dtype == dtype for name in found)
    check(found, expected(given, dtype == "float32", seen=causal), tolerance)


def test_every_gradient():
    given = inputs(bias=(HEADS, 1, KEYS), sinks=(HEADS,))
    mask = np.random.default_rng(6).random((2, 1, ROWS, KEYS)) < 0.7
    slopes = np.linspace(0.1, 0.5, HEADS, dtype="f4")
    positions = np.arange(ROWS)[:, None] + OFFSET
    seen = mask & (np.arange(KEYS) >= positions - 6) & (np.arange(KEYS) <= positions + 2)
    settings = dict(window=(6, 2), softcap=2.0, softmax_scale=0.5, mask=mask, alibi_slopes=slopes, return_lse=True)
    found = jax.grad(lambda x: loss(functools.partial(libfa.jax.attention, **settings), x))(given)
    check(found, expected(given, seen=seen, slopes=slopes, softcap=2.0, scale=0.5), 1e-5)


def test_rows_that_no_sequence_uses():
    given = inputs(batch=1)
    packed = {name: x[0] for name, x in given.items()}
    # Two sequences, of queries 0 to 1 and 2 to 3, and a query and two keys that are of none.
    ends = dict(cu_seqlens_q=np.array([0, 2, 4], "i4"), cu_seqlens_k=np.array([0, 6, 9], "i4"))
    poisoned = dict(packed, q=packed["q"].copy(), k=packed["k"].copy())
    poisoned["q"][4:] = poisoned["k"][9:] = np.nan
    attention = functools.partial(libfa.jax.attention, return_lse=True, **ends)
    out, lse = attention(**poisoned)
    assert (out[4:] == 0).all() and (lse[:, 4:] == -jnp.inf).all()
    found = jax.grad(lambda x: libfa.jax.attention(**x, **ends).sum())(poisoned)
    for queries, keys in ((slice(0, 2), slice(0, 6)), (slice(2, 4), slice(6, 9))):
        parts = dict(q=packed["q"][None, queries], k=packed["k"][None, keys], v=packed["v"][None, keys])
        want = jax.grad(lambda x: libfa.jax.attention(**x).sum())(parts)
        for name, rows in dict(q=queries, k=keys, v=keys).items():
            assert (found[name][rows] == want[name][0]).all()
    assert (found["q"][4:] == 0).all() and (found["k"][9:] == 0).all() and (found["v"][9:] == 0).all()


def test_vmap():
    given = {name: np.stack([x, 2 * x]) for name, x in inputs().items()}
    gradient = jax.grad(lambda x: libfa.jax.attention(**x).sum())
    found = jax.vmap(gradient)(given)
    outer = jax.grad(lambda x: jax.vmap(lambda y: libfa.jax.attention(**y))(x).sum())(given)
    want = gradient({name: x[1] for name, x in given.items()})
    for name in given:
        assert (found[name][1] == want[name]).all() and (outer[name][1] == want[name]).all()


def backward_calls(jaxpr):
    """(wanted, given) of every backward call in a jaxpr."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "libfa_attention_backward":
            yield equation.params["call"].wanted, equation.params["call"].given
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr")):
            if hasattr(inner, "jaxpr"):
                yield from backward_calls(inner.jaxpr)


def test_only_what_is_asked_for_is_computed():
    given = inputs(bias=(HEADS, ROWS, KEYS))
    for names, wanted in ((["q"], "q"), (["k", "v"], "kv"), (["q", "bias"], "qb")):
        total = lambda x: libfa.jax.attention(**{**given, **x}).sum()  # noqa: E731
        jaxpr = jax.make_jaxpr(jax.grad(total))({name: given[name] for name in names})
        assert list(backward_calls(jaxpr.jaxpr)) == [(wanted, "b")]
    of_lse = jax.grad(lambda q: libfa.jax.attention(**{**given, "q": q}, return_lse=True)[1].sum())
    assert list(backward_calls(jax.make_jaxpr(of_lse)(given["q"]).jaxpr)) == [("q", "bD")]


def test_what_has_no_gradient():
    given = inputs(alibi_slopes=(HEADS,))
    total = lambda **x: libfa.jax.attention(**x).sum()  # noqa: E731
    with pytest.raises(NotImplementedError, match="alibi_slopes: .*stop_gradient"):
        jax.grad(lambda x: total(**x))(given)
    held = jax.grad(lambda x: total(**{**x, "alibi_slopes": jax.lax.stop_gradient(x["alibi_slopes"])}))(given)
    assert (held["alibi_slopes"] == 0).all() and (held["q"] != 0).any()
    q, k, v = (given[name] for name in "qkv")
    with pytest.raises(NotImplementedError, match="block_table: .*pages"):
        jax.grad(lambda x: total(q=x, k=k, v=v, block_table=np.array([[0], [1]], "i4")))(q)
    with pytest.raises(NotImplementedError, match="second derivatives"):
        jax.grad(lambda x: jax.grad(lambda y: total(q=y, k=k, v=v))(x).sum())(q)
    with pytest.raises(NotImplementedError, match="forward mode"):
        jax.jvp(lambda x: total(q=x, k=k, v=v), (q,), (q,))
