"""jax.vmap of libfa.jax: one call of all samples, against a call for each."""
# needs: jax

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import libfa.jax

N, B, S, T, H, D = 3, 2, 4, 5, 4, 8
SHAPES = dict(
    q=(B, S, H, D),
    k=(B, T, 2, D),
    v=(B, T, 2, D),
    bias=(1, H, S, T),
    mask=(B, 1, S, T),
    alibi_slopes=(H,),
    sinks=(H,),
)
LENGTHS = dict(seqused_q=(1, S), seqused_k=(1, T), leftpad_k=(0, 1), q_offset=(-2, 3), kv_batch_idx=(0, B - 1))
FLOATS = ("q", "k", "v", "bias", "sinks")


def inputs(names, samples=N):
    """Arrays with a first dimension of samples."""
    rng, given = np.random.default_rng(9), {}
    for name in names:
        if name in LENGTHS:
            least, most = LENGTHS[name]
            given[name] = jnp.asarray(rng.integers(least, most + 1, (samples, B)), "i4")
        elif name == "mask":
            given[name] = jnp.asarray(rng.random((samples, *SHAPES[name])) < 0.8)
        else:
            given[name] = jnp.asarray(rng.standard_normal((samples, *SHAPES[name])), "f4")
    return given


CASES = [
    ("qkv", ""),
    ("q", "k v bias sinks mask alibi_slopes"),
    ("kv", "q"),
    (("q", "k", "v", "bias", "mask", "alibi_slopes", "sinks"), ""),
    (("q", "k", "v", "seqused_q", "seqused_k", "leftpad_k", "q_offset"), "bias"),
    (("q", "k", "v", "kv_batch_idx"), ""),
    (("k", "v", "seqused_k"), "q kv_batch_idx"),
    (("bias", "sinks"), "q k v"),
]


def equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr")):
            if hasattr(inner, "jaxpr"):
                yield from equations(inner.jaxpr)


@pytest.mark.parametrize("mapped, shared", CASES, ids=lambda x: x if isinstance(x, str) else " ".join(x))
def test_one_call_for_all_samples(mapped, shared):
    given, rest = inputs(mapped), {name: x[0] for name, x in inputs(shared.split(), 1).items()}
    one = lambda x, y: libfa.jax.attention(**x, **y, softcap=3.0, return_lse=True)  # noqa: E731
    every = jax.vmap(one, in_axes=(0, None))
    names = list(equations(jax.make_jaxpr(every)(given, rest).jaxpr))
    assert names.count("libfa_attention") == 1 and "scan" not in names and "while" not in names
    single = jax.jit(one)
    compare(jax.jit(every)(given, rest), [single({name: x[n] for name, x in given.items()}, rest) for n in range(N)])

    # The gradients of each sample, and those of all together, where those of shared inputs are sums.
    floats, ints = ({name: x for name, x in given.items() if (name in FLOATS) == kind} for kind in (True, False))
    more, most = ({name: x for name, x in rest.items() if (name in FLOATS) == kind} for kind in (True, False))

    def total(x, y, z):
        out, lse = one({**x, **z}, {**y, **most})
        return (out * jnp.arange(1, D + 1)).sum() + jnp.where(jnp.isinf(lse), 0, lse).sum()

    gradient = jax.jit(jax.grad(total, argnums=(0, 1)))
    sample = lambda tree, n: {name: x[n] for name, x in tree.items()}  # noqa: E731
    wanted = [gradient(sample(floats, n), more, sample(ints, n)) for n in range(N)]
    compare(jax.jit(jax.vmap(gradient, in_axes=(0, None, 0)))(floats, more, ints), wanted)
    together = jax.jit(jax.grad(lambda x, y: jax.vmap(total, (0, None, 0))(x, y, ints).sum(), argnums=(0, 1)))
    found, found_shared = together(floats, more)
    compare(found, [own for own, _ in wanted])
    for name, x in found_shared.items():
        want = sum(np.asarray(shared[name]) for _, shared in wanted)
        assert abs(np.asarray(x) - want).max() < 2e-5 * max(1, abs(want).max())


def compare(found, samples):
    for x, *wanted in zip(jax.tree.leaves(found), *map(jax.tree.leaves, samples), strict=True):
        want = np.stack([np.asarray(w) for w in wanted])
        assert x.shape == want.shape and np.allclose(np.asarray(x), want, rtol=2e-5, atol=2e-5)


def test_pages():
    rng = np.random.default_rng(3)
    q, k, v = (jnp.asarray(rng.standard_normal((N, *SHAPES[name])), "f4") for name in "qkv")
    table = jnp.asarray(rng.integers(0, B, (N, B, 2)), "i4")
    used = jnp.asarray(rng.integers(1, 2 * T, (N, B)), "i4")
    one = lambda q, k, v, t, u: libfa.jax.attention(q, k, v, block_table=t, seqused_k=u)  # noqa: E731
    for axes in ((0, 0, 0, 0, 0), (0, None, None, 0, 0), (0, 0, 0, None, None), (None, 0, None, None, 0)):
        given = [x if axis == 0 else x[0] for x, axis in zip((q, k, v, table, used), axes)]
        every = jax.vmap(one, in_axes=axes)
        assert list(equations(jax.make_jaxpr(every)(*given).jaxpr)).count("libfa_attention") == 1
        compare(every(*given), [one(*(x[n] if axis == 0 else x for x, axis in zip(given, axes))) for n in range(N)])


def test_packed_ones_one_after_another():
    given = {name: x.reshape(N, -1, *x.shape[3:])[:, : B * S] for name, x in inputs("qkv").items()}
    ends = jnp.asarray([[0, 2, 8], [0, 8, 8], [1, 4, 6]], "i4")
    one = lambda x, e: libfa.jax.attention(**x, cu_seqlens_q=e, cu_seqlens_k=e)  # noqa: E731
    compare(jax.vmap(one)(given, ends), [one({name: x[n] for name, x in given.items()}, ends[n]) for n in range(N)])
    gradient = jax.grad(lambda x, e: one(x, e).sum())
    wanted = [gradient({name: x[n] for name, x in given.items()}, ends[n]) for n in range(N)]
    compare(jax.vmap(gradient)(given, ends), wanted)


def test_other_axes_and_vmap_of_vmap():
    given = inputs("qkv", 6)
    want = jax.vmap(libfa.jax.attention)(*given.values())
    moved = [jnp.moveaxis(x, 0, 2) for x in given.values()]
    assert (jax.vmap(libfa.jax.attention, in_axes=2, out_axes=1)(*moved) == jnp.moveaxis(want, 0, 1)).all()
    twice = [x.reshape(2, 3, *x.shape[1:]) for x in given.values()]
    assert (jax.vmap(jax.vmap(libfa.jax.attention))(*twice).reshape(want.shape) == want).all()
