"""Arbitrary calls by hypothesis: whatever the types, shapes, strides, lengths and numbers, there is a result of the right
shape or one of libfa's errors, and no input is written."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import libfa

MEMORY = np.zeros(1 << 16, "u1")
SMALL = st.integers(0, 5)
NUMBERS = st.one_of(st.integers(-3, 5), st.integers(-(2**70), 2**70), st.floats(), st.none(), st.text(max_size=2))


@st.composite
def arrays(draw, dimensions=st.integers(0, 5)):
    """An array of any type, shape and strides within MEMORY; sometimes no array at all."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.one_of(NUMBERS, st.lists(st.integers(-5, 5), max_size=4)))
    dtype = np.dtype(draw(st.sampled_from(["f4", "f4", "f4", "f2", "i4", "i8", "f8", "?", "u1", ">f4", "c8"])))
    count = draw(dimensions)
    shape = draw(st.tuples(*[SMALL] * count))
    strides = draw(st.one_of(st.none(), st.tuples(*[st.integers(-64, 64)] * count)))
    if strides is None:
        return np.zeros(shape, dtype)
    return np.ndarray(shape, dtype, MEMORY, 1 << 15, strides)


@st.composite
def calls(draw):
    """Mostly a legal call with a few things replaced."""
    batch, rows, keys, heads, dim = draw(st.tuples(SMALL, SMALL, SMALL, st.integers(1, 4), st.integers(1, 9)))
    call = {
        "q": np.zeros((batch, rows, heads, dim), "f4"),
        "k": np.zeros((batch, keys, 1, dim), "f4"),
        "v": np.zeros((batch, keys, 1, dim), "f4"),
    }
    any_array = st.one_of(st.none(), arrays())
    ints = st.one_of(st.none(), st.lists(st.integers(-3, 9), max_size=6), arrays(st.just(1)))
    optional = {
        "q": arrays(),
        "k": arrays(st.just(4)),
        "v": arrays(st.just(4)),
        "out": any_array,
        "lse": any_array,
        "bias": any_array,
        "mask": any_array,
        "alibi_slopes": any_array,
        "sinks": any_array,
        "block_table": any_array,
        "workspace": any_array,
        "causal": st.sampled_from([True, False, "top_left", "?", None, 3]),
        "window": st.tuples(NUMBERS, NUMBERS),
        "layout": st.sampled_from(["bshd", "bhsd", "?"]),
        "out_dtype": st.sampled_from(["float32", "float16", "bfloat16", "int32", "?"]),
        "return_lse": st.booleans(),
        "deterministic": st.booleans(),
        "batch_invariant": st.booleans(),
        "bias_before_softcap": st.booleans(),
        "hadamard_k": st.booleans(),
        "hadamard_v": st.booleans(),
    }
    for name in ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k", "kv_batch_idx", "q_offset"):
        optional[name] = ints
    for name in ("attention_chunk", "softcap", "softmax_scale", "max_seqlen_q", "max_seqlen_k", "num_splits"):
        optional[name] = NUMBERS
    for name in draw(st.lists(st.sampled_from(sorted(optional)), unique=True, max_size=6)):
        call[name] = draw(optional[name])
    return call


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(calls())
def test_any_call(call):
    inputs = {
        name: (x, x.copy()) for name, x in call.items() if isinstance(x, np.ndarray) and name not in ("out", "lse", "workspace")
    }
    before = MEMORY.copy()
    try:
        result = libfa.attention(**call)
    except (libfa.InvalidArgument, TypeError, BufferError) as error:
        assert str(error)
        assert (MEMORY == before).all(), "an error, and yet something was written"
    else:
        out = result[0] if call.get("return_lse") else result
        assert tuple(out.shape[:-1]) == tuple(call["q"].shape[:-1]) and out.shape[-1] == call["v"].shape[-1]
    if not any(isinstance(call.get(name), np.ndarray) for name in ("out", "lse", "workspace")):
        for name, (x, copy) in inputs.items():
            assert x.tobytes() == copy.tobytes(), f"{name} was written"
