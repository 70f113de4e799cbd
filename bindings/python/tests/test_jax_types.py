"""Every element type of NumPy, ml_dtypes and JAX in every argument of libfa.jax: computed in that type, or refused by name."""
# needs: jax

import contextlib

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import libfa
import libfa.jax

OF_NUMPY = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 g F D G >f4 <f4 >i4 S4 U4 M8[s] m8[s] O V4 f4,i4".split()
OF_ML_DTYPES = sorted(
    name for name in dir(ml_dtypes) if isinstance(getattr(ml_dtypes, name), type) and name not in ("finfo", "iinfo")
)
TYPES = [np.dtype(name) for name in OF_NUMPY] + [np.dtype(getattr(ml_dtypes, name)) for name in OF_ML_DTYPES]

FLOATS = {"float32", "float16", "bfloat16"}
ALLOWED = {
    **dict.fromkeys(("q", "k", "v", "bias", "alibi_slopes", "sinks"), FLOATS),
    "mask": {"bool", "uint8"},
    **dict.fromkeys(
        ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k", "kv_batch_idx", "q_offset", "block_table"),
        {"int32"},
    ),
}
DIFFERENTIABLE = ("q", "k", "v", "bias", "sinks")


def call_with(name):
    """A call that has the argument, on NumPy's arrays whose values every type of the argument's kind can hold."""
    rng = np.random.default_rng(5)
    given = {x: rng.integers(-4, 5, (2, 6, 2, 8)).astype("f4") / 4 for x in "qkv"}
    more = dict(
        bias=rng.integers(-4, 5, (2, 6, 6)).astype("f4") / 4,
        mask=rng.random((6, 6)) < 0.7,
        alibi_slopes=np.array([0.25, 0.5], "f4"),
        sinks=np.array([0.5, -1.0], "f4"),
        seqused_q=np.array([4, 6], "i4"),
        seqused_k=np.array([4, 5], "i4"),
        leftpad_k=np.array([1, 0], "i4"),
        kv_batch_idx=np.array([1, 0], "i4"),
        q_offset=np.array([2, 1], "i4"),
        block_table=np.array([[1, 0], [0, 1]], "i4"),
        cu_seqlens_q=np.array([0, 2, 6], "i4"),
        cu_seqlens_k=np.array([0, 3, 6], "i4"),
    )
    if name.startswith("cu_"):
        return {x: given[x][0] for x in "qkv"} | {x: more[x] for x in ("cu_seqlens_q", "cu_seqlens_k")}
    if name == "block_table":
        given["seqused_k"] = np.array([9, 10], "i4")
    return given if name in given else given | {name: more[name]}


def as_type(x, dtype, source):
    """x as an array of the type; None where its library has no such array."""
    if dtype.kind == "V" and dtype.name.startswith("void"):
        array = np.zeros(x.shape, dtype)
    else:
        with np.errstate(invalid="ignore"), contextlib.suppress(TypeError, ValueError):
            array = x.astype("i4" if dtype.kind in "Mm" else x.dtype).astype(dtype)
    if source == "numpy":
        return array
    try:
        made = jnp.asarray(array)
    except (TypeError, ValueError, jax.errors.JaxRuntimeError):
        return None
    return made if made.dtype == dtype else None


def expected(name, dtype, source, x64):
    """Whether JAX in this mode reads the type as one that the argument may have."""
    wide = {"float64": "float32", "int64": "int32"} if source == "numpy" and not x64 else {}
    return dtype.isnative and wide.get(dtype.name, dtype.name) in ALLOWED[name]


@pytest.mark.parametrize("x64", [False, True], ids=["default", "x64"])
@pytest.mark.parametrize("source", ["numpy", "jax"])
@pytest.mark.parametrize("name", ALLOWED)
def test_every_type(name, source, x64):
    with jax.enable_x64(x64):
        given = call_with(name)
        want = libfa.attention(**given, out=np.zeros_like(given["q"]))  # where no row is used
        for dtype in TYPES:
            x = as_type(given[name], dtype, source)
            if x is None:
                continue
            changed = given | {name: x}
            if name in "kv":
                changed |= {other: as_type(given[other], dtype, source) for other in "kv"}
            if expected(name, dtype, source, x64):
                out = libfa.jax.attention(**changed)
                assert abs(np.asarray(out, "f4") - want).max() < 2e-2, dtype
            else:
                refused(name, dtype, lambda: libfa.jax.attention(**changed))
            if source == "jax":
                traced(name, dtype, changed, expected(name, dtype, source, x64))


def refused(name, dtype, call):
    """The exception names the argument and its type."""
    other = "k" if name == "v" else name
    with pytest.raises((libfa.InvalidArgument, TypeError), match=f"^{other}: got ") as error:
        call()
    assert isinstance(error.value, libfa.InvalidArgument) or dtype.kind in "SUMmOV", (dtype, error.value)
    assert dtype.name in str(error.value) or dtype.byteorder == ">", (dtype, error.value)


def traced(name, dtype, given, supported):
    """Within jit and grad as outside of them."""
    function = jax.jit(lambda x: libfa.jax.attention(**{**given, name: x}))
    gradient = jax.grad(lambda x: libfa.jax.attention(**{**given, name: x}).astype("f4").sum())
    if not supported:
        refused(name, dtype, lambda: function(given[name]))
    if supported and name in DIFFERENTIABLE:
        found = gradient(given[name])
        assert found.dtype == dtype and np.isfinite(np.asarray(found, "f4")).all(), dtype
    elif not supported and name in DIFFERENTIABLE and jnp.issubdtype(dtype, jnp.floating):
        refused(name, dtype, lambda: gradient(given[name]))


@pytest.mark.parametrize("x64", [False, True], ids=["default", "x64"])
def test_every_type_of_out(x64):
    with jax.enable_x64(x64):
        given = call_with("q")
        want = libfa.attention(**given, out=np.zeros_like(given["q"]))  # where no row is used
        for dtype in TYPES:
            for way in (lambda f: f, jax.jit):
                function = way(lambda: libfa.jax.attention(**given, out_dtype=dtype))
                if dtype.name in FLOATS and dtype.byteorder != ">":
                    out = function()
                    assert out.dtype == dtype and abs(np.asarray(out, "f4") - want).max() < 2e-2
                else:
                    with pytest.raises(libfa.InvalidArgument, match="^out_dtype: got "):
                        function()
        for name in ("float8", "int8", 3, object()):
            with pytest.raises(libfa.InvalidArgument, match="^out_dtype: got "):
                libfa.jax.attention(**given, out_dtype=name)


@pytest.mark.parametrize("x64", [False, True], ids=["default", "x64"])
@pytest.mark.parametrize("name", libfa.tensors.ARRAYS)
def test_lists_of_ints(name, x64):
    with jax.enable_x64(x64):
        given = call_with(name)
        want = libfa.attention(**given, out=np.zeros_like(given["q"]))  # where no row is used
        for function in (libfa.jax.attention, lambda **x: jax.jit(lambda: libfa.jax.attention(**x))()):
            for kind in (list, tuple):
                out = function(**given | {name: kind(given[name].tolist())})
                assert (np.asarray(out) == want).all()
        with pytest.raises(TypeError, match=f"^{name}: got 1.5, expected an integer"):
            libfa.jax.attention(**given | {name: [0, 1.5, 6]})
        for wrong in ([0, 2**31], np.array([0, 2**32 + 6])):
            with pytest.raises(libfa.InvalidArgument, match=f"^{name}: got "):
                libfa.jax.attention(**given | {name: wrong})


def test_what_is_no_array():
    given = call_with("bias")
    masked = np.ma.zeros(given["q"].shape, "f4")
    for name, wrong in (("q", [[1.0]]), ("k", 3), ("v", None), ("bias", "text"), ("mask", object()), ("q", masked)):
        with pytest.raises(TypeError, match=f"^{name}: "):
            libfa.jax.attention(**given | {name: wrong})
