"""Errors speak of the caller's arguments, and never of fields of C structures: for every argument, and for every text that
the library's sources have."""

import re

import numpy as np
import pytest
from conftest import SOURCE

import libfa
from libfa.words import in_words

Q, K = np.zeros((2, 3, 4, 8), "f4"), np.zeros((2, 5, 2, 8), "f4")
OUT, LSE = libfa.attention(Q, K, K, return_lse=True)
C_WORDS = re.compile(
    r"\bargs\b|\bdesc\b|FA_(?!FORCE|MAX_ARCH|KERNEL_PATH|NUM_THREADS|VERBOSE|KERNELS|ARCHS|CUDA|BACKWARD)|NULL|\.shape\[|\.stride\["
)


def text_of(function, *given, **keywords):
    with pytest.raises(libfa.Error) as error:
        function(*given, **keywords)
    assert not C_WORDS.search(str(error.value)), str(error.value)
    return str(error.value)


def zeros(*shape, dtype="f4"):
    return np.zeros(shape, dtype)


ATTENTION = {
    "k has head dimension 6; q has 8": dict(k=K[..., :6]),
    "v has 4 keys; k has 5": dict(v=K[:, :4]),
    "k has batch size 1; q has 2": dict(k=K[:1], v=K[:1]),
    "k has 3 heads, but q has 4 heads; expected a divisor of 4": dict(k=zeros(2, 5, 3, 8), v=zeros(2, 5, 3, 8)),
    "q has head dimension 600; expected 1 .. 576": dict(q=zeros(1, 1, 1, 600), k=zeros(1, 1, 1, 600), v=zeros(1, 1, 1, 600)),
    "v has head dimension 600; expected": dict(v=zeros(2, 5, 2, 600)),
    "q has dtype int32; expected float32, float16 or bfloat16": dict(q=Q.astype("i4")),
    "q has dtype uint8; expected float32, float16 or bfloat16": dict(q=Q.astype("u1")),
    "k has dtype bool; expected float32, float16, bfloat16, int8": dict(k=K.astype("?"), v=K.astype("?")),
    "out has 2 queries; q has 3": dict(out=zeros(2, 2, 4, 8)),
    "out has head dimension 7; v has 8": dict(out=zeros(2, 3, 4, 7)),
    "out has dtype int32; expected": dict(out=zeros(2, 3, 4, 8, dtype="i4")),
    "out_dtype has dtype int32; expected": dict(out_dtype="int32"),
    "out overlaps q": dict(out=Q),
    "bias has 2 queries; expected 1 or 3": dict(bias=zeros(2, 5)),
    "bias has dtype int32; expected float32, float16 or bfloat16": dict(bias=zeros(3, 5, dtype="i4")),
    "mask has dtype float32; expected bool": dict(mask=zeros(3, 5)),
    "alibi_slopes has 3 heads; q has 4": dict(alibi_slopes=zeros(3)),
    "sinks has 3 heads; q has 4": dict(sinks=zeros(3)),
    "block_table has dtype float32; expected int32": dict(block_table=zeros(2, 1)),
    "block_table has 3 sequences": dict(block_table=zeros(3, 1, dtype="i4")),
    "lse has 3 heads; q has 4": dict(lse=zeros(2, 3, 3)),
    "lse has dtype float16; expected float32": dict(lse=zeros(2, 4, 3, dtype="f2")),
    "softcap is -1": dict(softcap=-1.0),
    "batch_invariant=True and deterministic=False, which contradict": dict(batch_invariant=True, deterministic=False),
    "bias_before_softcap=True, but softcap is 0": dict(bias_before_softcap=True),
    "num_splits is 4 with batch_invariant=True": dict(num_splits=4, batch_invariant=True),
    "num_threads is 5000; expected 0 .. 1024": dict(num_threads=5000),
    "max_seqlen_q is 2, but every sequence has all 3 rows of q": dict(max_seqlen_q=2),
    "the workspace's size is 1": dict(workspace=zeros(257, dtype="u1")[:1], num_splits=4),
    "kv_batch_idx[0] is 9": dict(kv_batch_idx=[9, 0]),
    "block_table[0][0] is 7": dict(block_table=np.full((2, 1), 7, "i4"), seqused_k=[3, 3]),
}


@pytest.mark.parametrize("text", ATTENTION)
def test_attention(text):
    given = dict(q=Q, k=K, v=K) | ATTENTION[text]
    if "workspace" in given:  # aligned to 256 bytes
        memory = np.zeros(512, "u1")
        begin = -memory.__array_interface__["data"][0] % 256
        given["workspace"] = memory[begin : begin + 1]
    assert text in text_of(libfa.attention, **given)


BACKWARD = {
    "dout has 2 queries; q has 3": dict(dout=OUT[:, :2]),
    "lse has batch size 1; q has 2": dict(lse=LSE[:1]),
    "lse has dtype float16; expected float32": dict(lse=LSE.astype("f2")),
    "dlse has 3 heads; q has 4": dict(dlse=LSE[:, :3]),
    "dq has 5 queries; q has 3": dict(dq=zeros(2, 5, 4, 8)),
    "dk has 4 keys; k has 5": dict(dk=zeros(2, 4, 2, 8)),
    "dv has head dimension 7; v has 8": dict(dv=zeros(2, 5, 2, 7)),
    "dq has dtype int32; expected": dict(dq=zeros(2, 3, 4, 8, dtype="i4")),
    "dsinks without sinks": dict(dsinks=zeros(4)),
    "accumulate has dq, but dq is of float16; expected float32": dict(dq=zeros(2, 3, 4, 8, dtype="f2"), accumulate="dq"),
    "out has no memory, and so is delta's memory": dict(out=None),
}


@pytest.mark.parametrize("text", BACKWARD)
def test_backward(text):
    assert text in text_of(libfa.backward, **(dict(q=Q, k=K, v=K, out=OUT, lse=LSE, dout=OUT) | BACKWARD[text]))


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("name", ["k", "v", "out", "lse", "bias", "mask", "alibi_slopes", "sinks"])
def test_every_dimension(name, layout):
    """One more of each dimension, in either layout: the words are the same."""
    order = (0, 1, 2, 3) if layout == "bshd" else (0, 2, 1, 3)
    given = dict(q=Q, k=K, v=K, out=zeros(2, 3, 4, 8), lse=zeros(2, 4, 3), bias=zeros(2, 4, 3, 5))
    given |= dict(mask=zeros(2, 4, 3, 5, dtype="?"), alibi_slopes=zeros(2, 4), sinks=zeros(2, 4))
    for axis in range(given[name].ndim):
        shape = list(given[name].shape)
        shape[axis] += 1
        wrong = given | {name: np.zeros(shape, given[name].dtype)}
        heads = {n: x.transpose(order) if n in ("q", "k", "v", "out") else x for n, x in wrong.items()}
        text = text_of(libfa.attention, layout=layout, **heads)
        assert re.match(r"\w+ has ", text) and re.search(rf"\b{name}\b", text), text


def texts():
    """Every string of the library's sources that names a field or a constant, with something in the place of its values."""
    found = set()
    for path in [*SOURCE.glob("src/api/*.cpp"), *SOURCE.glob("src/api/*.h"), *SOURCE.glob("src/cpu/*.cpp")]:
        for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"(?:\s*"((?:[^"\\\n]|\\.)*)")*', path.read_text()):
            text = "".join(text)
            if re.search(r"\b(args|desc)\.|FA_", text) and not text.startswith(("FA_ERROR", "FA_OK")):
                found.add(re.sub(r"%[-#]?[a-z]+", "3", text))
    return sorted(found)


def test_every_text_of_the_library():
    assert len(texts()) > 30
    for text in texts():
        assert not C_WORDS.search(in_words(text, {}).replace("NULL", "")), text


def test_an_op_speaks_of_its_keywords():
    with pytest.raises(libfa.InvalidArgument, match="^head_dim is 600; expected 1 .. 576"):
        libfa.Op(dtype_q="float32", head_dim=600)
