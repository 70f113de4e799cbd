"""The library's texts of errors, which name fields of C structures, in the words of a Python caller: "args.k.shape[3] is 16;
expected 32 (desc.head_dim)" is "k has head dimension 16; q has 32".
"""

import re
from typing import Any

from . import fields
from .arrays import NAMES, type_name

_OF_SCORES = ("batch size", "heads", "queries", "keys")
_BY_TENSOR = dict.fromkeys(("q", "out", "outs", "dout", "dq"), ("batch size", "queries", "heads", "head dimension"))
_BY_TENSOR |= dict.fromkeys(("k", "v", "dk", "dv"), ("batch size", "keys", "heads", "head dimension"))
_BY_TENSOR |= dict.fromkeys(("lse", "lses", "dlse", "delta"), ("batch size", "heads", "queries", "dimension 3 of size"))
_BY_TENSOR |= dict.fromkeys((*fields.TENSORS, "dbias", "dsinks"), _OF_SCORES)
_BY_TENSOR["k_rope"] = _BY_TENSOR["k"]
_BY_TENSOR |= dict.fromkeys(("k_cache", "v_cache", "k_rope_cache"), ("batch size", "rows", "heads", "head dimension"))
_BY_TENSOR["q_out"] = _BY_TENSOR["q"]
_BY_TENSOR |= dict.fromkeys(("rotary_cos", "rotary_sin"), ("dimension 0 of size", "positions", "dimension 2 of size", "pairs"))
_BY_TENSOR |= dict.fromkeys(fields.INDICES, ("sequences", "tokens", "dimension 2 of size", "dimension 3 of size"))
_BY_TENSOR |= dict.fromkeys(fields.QUANTISED, ("batch size", "keys", "heads", "groups"))
_BY_TENSOR["tree_mask"] = ("batch size", "heads", "queries", "words")
_BY_TENSOR["tree_depth"] = ("batch size", "queries", "dimension 2 of size", "dimension 3 of size")
_BY_TENSOR["block_table"] = ("sequences", "pages of a sequence", "dimension 2 of size", "dimension 3 of size")
_IN_PAGES = {name: ("pages", "rows of a page") for name in ("k", "v", "k_rope", "k_cache", "v_cache", "k_rope_cache")}
_COUNTED = {  # and one of them
    "heads": "head",
    "queries": "query",
    "keys": "key",
    "sequences": "sequence",
    "pages of a sequence": "page of a sequence",
    "pages": "page",
    "rows of a page": "row of a page",
    "rows": "row",
    "positions": "position",
    "pairs": "pair",
    "tokens": "token",
    "words": "word",
}
_SAME_AS = {"desc.head_dim": "q", "desc.head_dim_v": "v", "as q": "q", "as k": "k", "as v": "v"}
_SAME_AS |= {"heads of q": "q", "sequences of q": "q", "queries, as q": "q", "sequences, as q": "q"}
_SAME_AS |= dict.fromkeys(("as out", "heads of out", "sequences, as out", "queries, as out"), "out")

_TYPES = {
    "FA_F32": "float32",
    "FA_F16": "float16",
    "FA_BF16": "bfloat16",
    "FA_BOOL": "bool",
    "FA_I32": "int32",
    "FA_I64": "int64",
    "FA_DTYPE_DEFAULT": "no dtype",
    "FA_I8": "int8",
    "FA_E4M3": "float8_e4m3fn",
    "FA_E5M2": "float8_e5m2",
    "FA_I4": "int4",
    "FA_U4": "uint4",
    "FA_Q8_0": "q8_0",
    "FA_Q4_0": "q4_0",
}
_FIELDS = {
    "desc.head_dim_v": "v's head dimension",
    "desc.head_dim": "q's head dimension",
    "desc.head_dim_rope": "k_rope's head dimension",
    "desc.dtype_k_rope": "k_rope's dtype",
    "desc.dtype_q": "q's dtype",
    "desc.dtype_kv": "k's dtype",
    "desc.dtype_v": "v's dtype",
    "desc.dtype_out": "out_dtype",
    "desc.mask": "causal",
    "desc.window_left": "window[0]",
    "desc.window_right": "window[1]",
    "desc.device": "q's device",
    "desc.device_index": "q's device",
    "args.workspace_size": "the workspace's size",
    "FA_FLAG_NONDETERMINISTIC": "deterministic=False",
    "FA_FLAG_BATCH_INVARIANT": "batch_invariant=True",
    "FA_FLAG_BIAS_BEFORE_SOFTCAP": "bias_before_softcap=True",
    "FA_FLAG_HADAMARD_K": "hadamard_k=True",
    "FA_FLAG_HADAMARD_V": "hadamard_v=True",
    "FA_FLAG_DEVICE_POINTERS": "device_pointers=True",
    "FA_MASK_NONE": "False",
    "FA_MASK_CAUSAL": "True",
    "FA_MASK_CAUSAL_TOP_LEFT": "'top_left'",
    "FA_DEVICE_CPU": "the CPU",
    "FA_DEVICE_CUDA": "a GPU",
    "FA_DEVICE_AUTO": "either",
    "FA_FLAG_*": "flag",
    "args.flags has FA_APPEND_COMPUTE_SCALES": "compute_scales is True",
    "FA_APPEND_COMPUTE_SCALES": "compute_scales=True",
    "FA_APPEND_*": "flag of libfa.append",
    "FA_APPEND_ROTARY_*": "rotary_interleaved or rotary_tail",
    "FA_ACCUMULATE_*": "names of gradients",
    "fa_forward": "libfa.attention",
    "fa_backward": "libfa.backward",
    "fa_merge": "libfa.merge",
    "fa_append": "libfa.append",
    "FA_MERGE_BASE_2": "base_2=True",
    "an fa_dtype": "a dtype",
} | _TYPES
_FLAGS = re.compile(r"desc\.flags holds (\w+)(, but| and)")
_TENSOR = r"args\.(\w+(?:\[\d+\])?)"  # or one of an array of them: args.outs[1]
_DTYPE = re.compile(
    rf"(?:{_TENSOR}\.dtype|desc\.(dtype_q|dtype_kv|dtype_v|dtype_out)) is (\d+)(?: \((\w+)\)|[^;]*); expected ([^(]*?)(?: \(.*\))?$"
)
_SHAPE = re.compile(rf"{_TENSOR}\.shape\[(\d)\]( is (\d+))?(; expected (1 or )?(\d+) \(([^()]*)\)$)?")
_HEAD_DIM = re.compile(r"desc\.(head_dim|head_dim_v) is (-?\d+)(.*)")
_STRIDE = re.compile(rf"{_TENSOR}\.stride\[(\d)\] is (-?\d+)")
_WHOLE = re.compile(rf"{_TENSOR}\.(shape|stride) is \(")
_OWNERS = {"dtype_q": "q", "dtype_kv": "k", "dtype_v": "v", "dtype_out": "out", "head_dim": "q", "head_dim_v": "v"}


def _axis(name: str, axis: int, paged: bool) -> str:
    words = _BY_TENSOR[name.partition("[")[0]]
    if paged and name in _IN_PAGES:
        words = (*_IN_PAGES[name], *words[2:])
    return words[axis]


def _sized(word: str, size: str) -> str:
    """ "has 3 heads", "has head dimension 16"."""
    return f"{size} {_COUNTED[word] if size == '1' else word}" if word in _COUNTED else f"{word} {size}"


def _dtype(arrays: dict[str, Any], name: str, number: int) -> str:
    """The name of an array's own dtype, which uint8 has, too."""
    return type_name(arrays.get(name), number) if number in NAMES else str(number)


def in_words(text: str, arrays: dict[str, Any], owners: "dict[str, str] | None" = None) -> str:
    """text for the caller who gave arrays by their names; owners: whose the fields of fa_desc are, where not q's and v's."""
    same_as = _SAME_AS | (owners or {})
    paged = arrays.get("block_table") is not None

    def dtype(found: "re.Match[str]") -> str:
        name = found[1] or ("out_dtype" if found[2] == "dtype_out" and arrays.get("out") is None else _OWNERS[found[2]])
        return f"{name} has dtype {_dtype(arrays, name, int(found[3]))}; expected {found[5]}"

    def shape(found: "re.Match[str]") -> str:
        name, word = found[1], _axis(found[1], int(found[2]), paged)
        if found[3] is None:
            return f"{name}'s {word}"
        subject = f"{name} has {_sized(word, found[4])}"
        if found[5] is None:
            return subject
        one, size, why = found[6] or "", found[7], found[8]
        other = same_as.get(why)
        if other == "out" and arrays.get("out") is None:  # which is then shaped as the first part
            other = "outs[0]"
        if other == name:
            other = None
        if other is not None and not one:
            return f"{subject}; {other} has {size}"
        return f"{subject}; expected {one}{size}" + (f" ({why})" if other is None else f", as {other} has")

    def stride(found: "re.Match[str]") -> str:
        return f"{found[1]} has a stride of {found[3]} between its {_axis(found[1], int(found[2]), paged)}"

    text = _DTYPE.sub(dtype, text)
    text = _FLAGS.sub(r"\1\2", text)
    text = _HEAD_DIM.sub(lambda found: f"{_OWNERS[found[1]]} has head dimension {found[2]}{found[3]}", text)
    text = _SHAPE.sub(shape, text)
    text = _STRIDE.sub(stride, text)
    text = _WHOLE.sub(r"\1 has \2 (", text)
    text = re.sub(rf"{_TENSOR}\.data is NULL", r"\1 has no memory", text)
    text = re.sub(rf"{_TENSOR}\.data\b", r"\1's memory", text)
    text = re.sub(r"FA_ACCUMULATE_([A-Z]+)", lambda found: found[1].lower(), text)
    for field in sorted(_FIELDS, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(field)}(?![\w*])", _FIELDS[field], text)
    return re.sub(r"\b(args|desc)\.", "", text)
