"""The C tests' case list through libfa.attention: every feature of fa.h over changing types and layouts, within the
published bounds, nothing else touched, no copies made."""

import cases
import numpy as np
import pytest

import libfa
from libfa import capi
from libfa.words import in_words


def refusal(case):
    with pytest.raises(libfa.InvalidArgument) as error:
        libfa.attention(**{name: case.arrays[name] for name in "qkv"}, **case.keywords())
    return str(error.value)


def test_every_case(monkeypatch):
    seen = []
    forward = capi.forward
    monkeypatch.setattr(capi, "forward", lambda op, *given: seen.append([x[0] for x in given[:4]]) or forward(op, *given))
    count = 0
    for case in cases.load():
        count += 1
        if case.refused is not None:
            text = refusal(case)
            assert all(in_words(name, {}) in text for name in case.refused), f"{case.text}: {text}"
        else:
            keywords = case.keywords()
            if case.workspace:
                keywords["workspace"] = aligned(1 << 22)
            result = libfa.attention(case.arrays["q"], case.arrays["k"], case.arrays["v"], **keywords)
            assert (result[0] if keywords["return_lse"] else result) is case.arrays["out"]
            addresses = [case.arrays[name].__array_interface__["data"][0] for name in ("q", "k", "v", "out")]
            if all(case.arrays[name].size for name in "qkv"):
                assert seen[-1] == addresses, f"{case.text}: something was copied"
        assert case.judge() == "", case.text
    assert count > 200


def aligned(size):
    memory = np.empty(size + 256, "u1")
    skip = -memory.__array_interface__["data"][0] % 256
    return memory[skip : skip + size]


def test_the_judge_sees_wrong_results():
    case = next(c for c in cases.load() if c.refused is None)
    libfa.attention(**{name: case.arrays[name] for name in "qkv"}, **case.keywords())
    case.arrays["out"][0, 0, 0, 0] += 0.01
    assert "element 0" in case.judge()


def test_the_judge_sees_what_was_touched():
    case = next(c for c in cases.load() if c.refused is None)
    libfa.attention(**{name: case.arrays[name] for name in "qkv"}, **case.keywords())
    case.arrays["k"][0, 0, 0, 0] += 1
    assert "k: byte" in case.judge()
