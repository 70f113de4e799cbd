"""The C tests' case list (tests/bindings/dump_cases.cpp describes its files) as numpy arrays, each in separate memory."""

import os
import pathlib

import ml_dtypes
import numpy as np

from libfa import capi

TYPES = {
    capi.FA_F32: np.dtype("f4"),
    capi.FA_F16: np.dtype("f2"),
    capi.FA_BF16: np.dtype(ml_dtypes.bfloat16),
    capi.FA_BOOL: np.dtype("?"),
    capi.FA_I32: np.dtype("i4"),
}


class Case:
    """One case: numbers of fa_desc and fa_forward_args, arrays by field, the memory behind each, and the expected results."""

    def __init__(self, name):
        self.name, self.text, self.refused, self.workspace = name, "", None, False
        self.desc, self.args, self.arrays, self.memory, self.want = {}, {}, {}, {}, {}

    def keywords(self):
        """The call as keywords of libfa.attention."""
        desc, given = dict(self.desc), dict(self.args)
        given.update({name: x for name, x in self.arrays.items() if name not in ("q", "k", "v")})
        given["return_lse"] = "lse" in self.arrays
        given["causal"] = {0: False, 1: True, 2: "top_left"}[int(desc.pop("mask", 0))]
        given["window"] = (int(desc.pop("window_left", -1)), int(desc.pop("window_right", -1)))
        flags = int(desc.pop("flags", 0))
        given["deterministic"] = not flags & capi.FA_FLAG_NONDETERMINISTIC
        given["batch_invariant"] = bool(flags & capi.FA_FLAG_BATCH_INVARIANT)
        given["bias_before_softcap"] = bool(flags & capi.FA_FLAG_BIAS_BEFORE_SOFTCAP)
        given["hadamard_k"], given["hadamard_v"] = bool(flags & capi.FA_FLAG_HADAMARD_K), bool(flags & capi.FA_FLAG_HADAMARD_V)
        given["softcap"], given["softmax_scale"] = float(desc.pop("softcap", 0)), float(desc.pop("softmax_scale", 0)) or None
        for name in ("attention_chunk", "num_threads"):
            given[name] = int(desc.pop(name, 0))
        for name in ("device", "dtype_q", "dtype_kv", "dtype_out", "head_dim", "head_dim_v", "num_seqs"):
            (given if name == "num_seqs" else desc).pop(name, None)  # they follow from the arrays
        assert not desc, f"fields of fa_desc that nothing is done with: {desc}"
        return given

    def judge(self):
        """The first error in the arrays that the call wrote, or ""."""
        for name, (kept, memory, written) in self.memory.items():
            values, bounds = self.want.get(name, (None, None))
            if values is not None:
                got = self.arrays[name].astype("f8").reshape(-1)
                live = bounds >= 0
                with np.errstate(invalid="ignore"):
                    near = np.abs(got - values) <= bounds
                good = near | (got == values) | (np.isnan(got) & np.isnan(values))
                if not good[live].all():
                    at = np.flatnonzero(live & ~good)[0]
                    return f"{name}: element {at} is {got[at]}, expected {values[at]} within {bounds[at]}"
                for array in (self.arrays[name], written):  # only written elements may differ from before
                    array[live.reshape(array.shape)] = 0
            if (kept != memory).any():
                return f"{name}: byte {np.flatnonzero(kept != memory)[0]} of its memory was touched"
        return ""


def load():
    """All cases, one after another."""
    folder = pathlib.Path(os.environ["FA_CASES"])
    data = np.fromfile(folder / "cases.bin", "u1")
    case = None
    for line in (folder / "cases.txt").read_text().splitlines():
        word, *rest = line.split(" ")
        if word == "case":
            case = Case(f"{rest[0]} {rest[1]}")
        elif word == "text":
            case.text = " ".join(rest)
        elif word in ("desc", "args"):
            value = float(rest[1])
            getattr(case, word)[rest[0]] = int(value) if value.is_integer() else value
        elif word == "tensor":
            field, dtype, *numbers = rest[0], TYPES[int(rest[1])], *map(int, rest[2:])
            shape, strides, (offset, size, first) = numbers[:4], numbers[4:8], numbers[8:]
            kept = data[offset : offset + size].copy()
            memory = kept.copy()
            steps = [stride * dtype.itemsize for stride in strides]
            before, case.arrays[field] = (
                np.ndarray(shape, dtype, bytes_, first, steps) if size else np.empty(shape, dtype) for bytes_ in (kept, memory)
            )
            case.memory[field] = (kept, memory, before)
        elif word == "array":
            offset, count = int(rest[1]), int(rest[2])
            case.arrays[rest[0]] = np.frombuffer(data[offset : offset + 4 * count].tobytes(), "i4")
        elif word == "workspace":
            case.workspace = True
        elif word == "refused":
            case.refused = rest
        elif word == "want":
            offset, count = int(rest[1]), int(rest[2])
            values = np.frombuffer(data[offset : offset + 16 * count].tobytes(), "f8")
            case.want[rest[0]] = (values[:count], values[count:])
        elif word == "end":
            yield case
        else:
            raise ValueError(f"cases.txt: {line}")
