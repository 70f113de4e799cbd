"""libfa on JAX's arrays: directly, and through jax.ffi inside of jax.jit."""
# needs: jax

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import libfa
import libfa.jax

TOLERANCE = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}


def arrays(dtype="float32", kv_heads=2):
    rng = np.random.default_rng(1)
    shapes = ((2, 9, 4, 16), (2, 21, kv_heads, 16), (2, 21, kv_heads, 16))
    return [jnp.asarray(rng.standard_normal(shape), dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("way", ["protocol", "ffi", "jit"])
def test_attention(way, dtype):
    q, k, v = arrays(dtype)
    function = functools.partial(libfa.attention if way == "protocol" else libfa.jax.attention, causal=True, return_lse=True)
    out, lse = (jax.jit(function) if way == "jit" else function)(q, k, v)
    assert isinstance(out, jax.Array) and out.dtype == q.dtype and lse.dtype == jnp.float32
    want, want_lse = reference.attention(*(np.asarray(x) for x in (q, k, v)), causal=True)
    assert abs(np.asarray(out, "f8") - want).max() < TOLERANCE[dtype]
    assert abs(np.asarray(lse, "f8") - want_lse).max() < 1e-4


def test_nothing_is_copied(monkeypatch):
    seen = []
    forward = libfa.capi.forward

    def looked_at(op, *views):
        seen.append([view[0] for view in views[:4]])
        return forward(op, *views)

    monkeypatch.setattr(libfa.capi, "forward", looked_at)
    inputs = arrays()
    out = libfa.attention(*inputs)
    assert seen == [[x.unsafe_buffer_pointer() for x in (*inputs, out)]]


def test_every_tensor_of_a_call():
    q, k, v = arrays()
    rng = np.random.default_rng(2)
    given = dict(
        bias=rng.standard_normal((4, 9, 21)).astype("f4"),
        mask=rng.random((9, 21)) < 0.7,
        alibi_slopes=rng.random(4).astype("f4"),
        sinks=rng.standard_normal((2, 4)).astype("f4"),
        seqused_k=np.array([3, 20], "i4"),
        leftpad_k=np.array([1, 0], "i4"),
        q_offset=np.array([2, -1], "i4"),
    )
    settings = dict(window=(9, 4), softcap=2.0, softmax_scale=0.3, num_splits=2, out_dtype="float16")
    want = libfa.attention(*(np.asarray(x) for x in (q, k, v)), **given, **settings)
    assert (np.asarray(libfa.jax.attention(q, k, v, **given, **settings)) == want).all()


def test_packed_and_paged():
    q, k, v = (np.asarray(x) for x in arrays())
    ends = dict(cu_seqlens_q=np.array([0, 4, 9], "i4"), cu_seqlens_k=np.array([0, 9, 21], "i4"))
    want, want_lse = libfa.attention(q[0], k[0], v[0], return_lse=True, **ends)
    out, lse = libfa.jax.attention(*(jnp.asarray(x[0]) for x in (q, k, v)), return_lse=True, **ends)
    assert (np.asarray(out) == want).all() and (np.asarray(lse) == want_lse).all()
    pages = dict(block_table=np.array([[1, 0], [0, 1]], "i4"), seqused_k=np.array([30, 21], "i4"))
    out = libfa.jax.attention(*(jnp.asarray(x) for x in (q, k, v)), **pages)
    assert (np.asarray(out) == libfa.attention(q, k, v, **pages)).all()


def test_vmap():
    q, k, v = (jnp.stack([x, -x]) for x in arrays())
    out = jax.vmap(libfa.jax.attention)(q, k, v)
    assert (out[1] == libfa.jax.attention(q[1], k[1], v[1])).all()


def test_errors():
    q, k, v = arrays()
    with pytest.raises(Exception, match="softcap"):  # XLA's own kind of exception, with the library's text
        libfa.jax.attention(q, k, v, softcap=-1.0).block_until_ready()
    with pytest.raises(libfa.InvalidArgument, match="cu_seqlens_q"):
        libfa.jax.attention(q[0], k, v, cu_seqlens_q=np.zeros(3, "f4"))
    with pytest.raises(TypeError, match="biass"):
        libfa.jax.attention(q, k, v, biass=None)
    for wrong in (dict(causal="left"), dict(causal=[]), dict(softmax_scale=0.0), dict(window=(1, 2, 3))):
        with pytest.raises(libfa.InvalidArgument, match=next(iter(wrong))):
            libfa.jax.attention(q, k, v, **wrong)
    with pytest.raises(TypeError, match="num_splits: got 1.5, expected an integer"):
        libfa.jax.attention(q, k, v, num_splits=1.5)
    for transformed in (jax.jit, jax.vmap, jax.grad):
        with pytest.raises(TypeError, match="q: is traced .*; use libfa.jax.attention there"):
            transformed(lambda *x: libfa.attention(*x))(q, k, v)


def test_numbers_of_arrays():
    q, k, v = arrays()
    given = dict(softmax_scale=0.25, softcap=2.0, window=(7, 0), num_splits=2, causal=True)
    want = libfa.jax.attention(q, k, v, **given)
    given = {name: tuple(map(jnp.asarray, x)) if isinstance(x, tuple) else jnp.asarray(x) for name, x in given.items()}
    for function in (libfa.attention, libfa.jax.attention):
        assert (function(q, k, v, **given) == want).all()
