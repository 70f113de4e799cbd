"""Errors of libfa.jax: libfa's own, by the names of the caller, and uses of JAX that libfa does not support."""
# needs: jax

import warnings

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import libfa
import libfa.jax


def arrays(**changed):
    rng = np.random.default_rng(1)
    given = {name: jnp.asarray(rng.standard_normal((2, 6, 2, 8)), "f4") for name in "qkv"}
    return given | {name: jnp.asarray(x) if isinstance(x, np.ndarray) else x for name, x in changed.items()}


ZEROS = np.zeros((2, 6, 2, 8), "f4")
PACKED = dict.fromkeys("qkv", ZEROS[0])

# Found when the call is traced: arrays need not have elements.
OF_SHAPES = [
    (dict(q=ZEROS[0, 0]), "q: got shape (2, 8), expected (batch, sequence, heads, dim)"),
    (dict(k=ZEROS[..., :4]), "k has head dimension 4; q has 8"),
    (dict(v=ZEROS[:, :5]), "v has 5 keys; k has 6"),
    (dict(k=ZEROS.astype("f2")), "v: got dtype float32, expected k's float16"),
    (dict(q=np.zeros((2, 6, 3, 8), "f4")), "k has 2 heads, but q has 3 heads"),
    (dict(k=ZEROS[:1], v=ZEROS[:1]), "k has batch size 1; q has 2"),
    (dict(q=np.zeros((2, 6, 2, 0), "f4"), k=np.zeros((2, 6, 2, 0), "f4")), "q has head dimension 0"),
    (dict(bias=np.zeros((5, 6), "f4")), "bias has 5 queries; expected 1 or 6"),
    (dict(bias=np.zeros((1, 1, 1, 1, 1), "f4")), "bias: got shape (1, 1, 1, 1, 1), expected (batch, heads, queries, keys)"),
    (dict(mask=np.zeros((3, 6), "?")), "mask has 3 queries; expected 1 or 6"),
    (dict(sinks=np.zeros(3, "f4")), "sinks has 3 heads; q has 2"),
    (dict(sinks=np.zeros((), "f4")), "sinks: got shape (), expected (heads,) or (batch, heads)"),
    (dict(alibi_slopes=np.zeros((1, 2, 1), "f4")), "alibi_slopes: got shape (1, 2, 1), expected"),
    (dict(block_table=np.zeros(2, "i4")), "block_table: got shape (2,), expected (batch, pages per sequence)"),
    (dict(seqused_k=[1, 2, 3]), "seqused_k: got shape (3,), expected (2,)"),
    (dict(q_offset=np.zeros((2, 1), "i4")), "q_offset: got shape (2, 1), expected (2,)"),
    (dict(**PACKED, cu_seqlens_q=[0, 3, 6], cu_seqlens_k=[0, 6]), "cu_seqlens_k: got shape (2,), expected (3,)"),
    (dict(**PACKED, cu_seqlens_q=[]), "cu_seqlens_q: got shape (0,), expected (sequences + 1,)"),
    (dict(cu_seqlens_q=[0, 6]), "q has batch size 2; expected 1"),
    (dict(softcap=-1.0), "softcap is -1"),
    (dict(attention_chunk=-1), "attention_chunk is -1"),
    (dict(num_threads=2**40), "num_threads: got 1099511627776"),
    (dict(num_splits=2**40), "num_splits: got 1099511627776"),
    (dict(max_seqlen_k=-1), "max_seqlen_k is -1"),
]

# Found when it runs.
OF_LENGTHS = [
    (dict(**PACKED, cu_seqlens_q=[0, 5, 4], cu_seqlens_k=[0, 3, 6]), "cu_seqlens_q falls from 5 to 4"),
    (dict(**PACKED, cu_seqlens_q=[0, 3, 6], cu_seqlens_k=[0, 3, 7]), "cu_seqlens_k ends at 7, but k has only 6 rows"),
    (dict(seqused_q=[7, 1]), "seqused_q[0] is 7"),
    (dict(seqused_k=[-1, 1]), "seqused_k[0] is -1"),
    (dict(leftpad_k=[1, 7]), "leftpad_k[1] is 7"),
    (dict(kv_batch_idx=[1, 2]), "kv_batch_idx[1] is 2"),
    (dict(block_table=np.array([[0], [2]], "i4")), "block_table"),
]


@pytest.mark.parametrize("changed, text", OF_SHAPES, ids=[text for _, text in OF_SHAPES])
def test_shapes_and_settings(changed, text):
    given = arrays(**changed)
    traced = {name: x for name, x in given.items() if isinstance(x, jax.Array)}
    rest = {name: x for name, x in given.items() if name not in traced}
    call = lambda x: libfa.jax.attention(**x, **rest)  # noqa: E731
    for function in (call, jax.jit(call), jax.grad(lambda x: call(x).sum(), allow_int=True)):
        with pytest.raises(libfa.InvalidArgument) as error:
            function(traced)
        assert str(error.value).startswith(text), error.value
        assert "args." not in str(error.value) and "desc." not in str(error.value)


@pytest.mark.parametrize("changed, text", OF_LENGTHS, ids=[text for _, text in OF_LENGTHS])
def test_lengths(changed, text):
    given = arrays(**changed)
    with pytest.raises(libfa.InvalidArgument) as error:
        libfa.jax.attention(**given)
    assert str(error.value).startswith(text) and "args." not in str(error.value), error.value
    with pytest.raises(jax.errors.JaxRuntimeError) as error:
        jax.jit(lambda x: libfa.jax.attention(**{**given, **x}))({name: given[name] for name in "qkv"}).block_until_ready()
    assert str(error.value).startswith(f"INVALID_ARGUMENT: {text}") and "args." not in str(error.value), error.value


def test_no_kernel(monkeypatch):
    monkeypatch.setenv("FA_FORCE_KERNEL", "none")
    libfa.clear_cache()
    with pytest.raises((libfa.Unsupported, libfa.InvalidArgument), match="none"):
        libfa.jax.attention(**arrays(softcap=123.0))
    monkeypatch.delenv("FA_FORCE_KERNEL")
    libfa.clear_cache()


@pytest.mark.parametrize("name", ["q", "k", "v", "bias"])
def test_deleted_and_donated(name):
    given = arrays(bias=np.zeros((6, 6), "f4"))
    want = libfa.jax.attention(**given)
    donated = jax.jit(lambda x, rest: libfa.jax.attention(**{**rest, name: x}), donate_argnums=0)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of JAX: no result can have the donated memory
        out = donated(given.pop(name), given)
    assert (out == want).all()
    given = arrays(bias=np.zeros((6, 6), "f4"))
    given[name].delete()
    with pytest.raises(libfa.InvalidArgument, match=f"^{name}: has been deleted, as arrays are that were donated"):
        libfa.jax.attention(**given)


def test_forward_mode_and_second_derivatives():
    given = arrays()
    total = lambda x: libfa.jax.attention(x, given["k"], given["v"]).sum()  # noqa: E731
    for way in (lambda f: f, jax.jit):
        for transformed in (lambda x: jax.jvp(total, (x,), (x,)), jax.jacfwd(total), jax.hessian(total)):
            with pytest.raises(NotImplementedError, match="no derivatives in forward mode.*expected reverse mode"):
                way(transformed)(given["q"])
        with pytest.raises(NotImplementedError, match="no second derivatives"):
            way(jax.grad(lambda x: jax.grad(total)(x).sum()))(given["q"])


def test_export():
    """JAX keeps custom calls out of exported functions unless they are allowed by name."""
    given = arrays()
    function = jax.jit(lambda x: libfa.jax.attention(**x, causal=True))
    with pytest.raises(ValueError, match="libfa_attention"):
        jax.export.export(function)(given)
    allowed = [jax.export.DisabledSafetyCheck.custom_call("libfa_attention")]
    exported = jax.export.export(function, disabled_checks=allowed)(given)
    assert (exported.call(given) == function(given)).all()
