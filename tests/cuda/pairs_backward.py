"""The factors of calls of the backward pass: a plan of pairs.py. Calls that tensor cores do not support, for their bias, mask, odd
rows or type of dout, run on kernels in f32."""

TITLE = "calls of the backward pass"
FACTORS = {
    "arch": ("80", "75", "90a", "120"),
    "columns": ("64", "32", "96", "128", "192", "256", "40/64", "192/128", "61"),
    "type": ("f16", "bf16"),
    "mask": ("causal", "none", "window", "chunk", "array"),
    "lengths": ("packed", "same", "used", "shared"),
    "heads": ("4/1", "2/2", "6/2"),
    "score": ("scaled", "softcap", "alibi", "bias"),
    "given": ("out", "delta", "dlse"),
    "gradients": ("qkv", "q", "kv", "added", "other"),
    "sinks": ("none", "one", "summed"),
    "layout": ("bshd", "bhsd", "packed_qkv"),
    "values": ("finite", "special", "large"),
    "order": ("one", "any"),  # FA_FLAG_NONDETERMINISTIC
}
LAYOUTS = {
    "bshd": [],
    "bhsd": [f"{name}_layout=bhsd" for name in ("q", "k", "v", "dout", "grad")],
    "packed_qkv": [f"{name}_layout=slice" for name in ("q", "k", "v", "dout", "grad")],
}

MORE = []


def allowed(row):
    """SM 75 has no bf16."""
    return (row.get("arch"), row.get("type")) != ("75", "bf16")


def mended(row, kept):
    """The change that makes a forbidden row allowed, without the values that are kept."""
    return {"arch": "80"} if "arch" not in kept else {"type": "f16"}


def case_of(row, number):
    """A few tiles of a few sequences."""
    columns, _, of_values = row["columns"].partition("/")
    heads, _, heads_kv = row["heads"].partition("/")
    wide = int(columns) >= 128  # which take the emulator long
    words = [f"b={1 if wide else 2}", f"sq={66 if wide else 70 + number % 5}", f"sk={81 if wide else 130 + number % 7}"]
    words += [f"hq={heads}", f"hkv={heads_kv}", f"d={columns}", f"q={row['type']}", "workspace=1", f"seed={number + 1}", "backward=1"]
    if of_values:
        words.append(f"dv={of_values}")
    masks = {"causal": ["mask=causal"], "none": [], "window": ["mask=causal", "window_left=40"], "chunk": ["mask=causal", "chunk=48"]}
    words += masks.get(row["mask"], ["boolmask=qk"])
    words += {"packed": ["cu_q=1", "cu_k=1"], "same": [], "used": ["used_q=1", "used_k=1", "offset=1", "leftpad=1"],
              "shared": ["batch_idx=1", "used_k=1"]}[row["lengths"]]  # fmt: skip
    words += {"scaled": [], "softcap": ["softcap=4"], "alibi": ["alibi=h"], "bias": ["bias=f16:hk", "dbias=hk"]}[row["score"]]
    words += {"out": [], "delta": ["delta=1"], "dlse": ["dlse=1"]}[row["given"]]
    words += {"qkv": [], "q": ["grads=q"], "kv": ["grads=kv"], "added": ["dq=f32", "dk=f32", "dv_type=f32", "accumulate=qkv"],
              "other": ["dq=f32", "dk=bf16", "dout=f32"]}[row["gradients"]]  # fmt: skip
    words += {"none": [], "one": ["sinks=h"], "summed": ["sinks=h", "dsinks=h"]}[row["sinks"]]
    words += LAYOUTS[row["layout"]]
    words += {"finite": [], "special": ["special=1"], "large": ["dout_amp=8000"]}[row["values"]]
    if row["score"] == "bias" and row["values"] == "large":
        words.append("dbias_type=f32")  # sums that f16 does not hold
    words += {"one": [], "any": ["flags=1"]}[row["order"]]
    return f"sm_{row['arch'].rstrip('a')}", f"cuda.sm_{row['arch']}.mma", " ".join(words)
