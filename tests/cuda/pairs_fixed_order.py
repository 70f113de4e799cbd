"""The factors of calls whose gradients are computed in one loop, by blocks of keys that add in a fixed order or in any
order: a plan of pairs.py. Each has several tiles of keys, and a device that works on two or three of a head at once."""

from pairs_backward import LAYOUTS

TITLE = "gradients in one loop"
FACTORS = {
    "arch": ("80", "120", "90a", "86", "75", "89", "100a"),
    "type": ("bf16", "f16"),
    "columns": ("64", "32", "96", "128", "40/64", "128/72", "192", "256"),
    "heads": ("4/1", "6/1", "8/2"),
    "order": ("fixed", "any"),
    "mask": ("causal", "none", "window", "band", "chunk", "top_left"),
    "lengths": ("packed", "same", "used"),
    "given": ("out", "delta", "dlse"),
    "gradients": ("16", "32", "added"),
    "sinks": ("none", "summed"),
    "layout": ("bshd", "bhsd", "packed_qkv"),
    "values": ("finite", "special", "falling"),
}
MORE = []
SMS = {"4/1": 2, "6/1": 3, "8/2": 4}


def allowed(row):
    """SM 75 has no bf16, and small shared memory no tiles of 256 columns (kernels/backward/mma/tiles.h)."""
    arch, columns = row.get("arch"), row.get("columns")
    return (arch, row.get("type")) != ("75", "bf16") and not (arch in ("75", "86", "89", "120") and columns == "256")


def mended(_row, kept):
    """The change that makes a forbidden row allowed, without the values that are kept."""
    if "arch" not in kept:
        return {"arch": "80"}
    return {name: value for name, value in (("type", "f16"), ("columns", "64")) if name not in kept}


def case_of(row, number):
    """Queries for as many steps as a fixed order needs to pay (src/cuda/dq_order.cpp)."""
    columns, _, of_values = row["columns"].partition("/")
    heads, _, heads_kv = row["heads"].partition("/")
    words = [f"sq={270 + number % 7}", f"sk={270 + number % 5}", f"hq={heads}", f"hkv={heads_kv}", f"d={columns}", f"q={row['type']}"]
    words += ["workspace=1", f"seed={number + 1}", "backward=1"]
    if of_values:
        words.append(f"dv={of_values}")
    words += {"causal": ["mask=causal"], "none": [], "window": ["mask=causal", "window_left=140"],
              "band": ["window_left=100", "window_right=40"], "chunk": ["mask=causal", "chunk=150"],
              "top_left": ["mask=top_left"]}[row["mask"]]  # fmt: skip
    words += {"packed": ["cu_q=1", "cu_k=1"], "same": [], "used": ["used_q=1", "used_k=1", "offset=1", "leftpad=1"]}[row["lengths"]]
    words += {"out": [], "delta": ["delta=1"], "dlse": ["dlse=1"]}[row["given"]]
    words += {"16": [], "32": ["dq=f32", "dk=f32", "dv_type=f32"],
              "added": ["dq=f32", "dk=f32", "dv_type=f32", "accumulate=qkv"]}[row["gradients"]]  # fmt: skip
    words += {"none": [], "summed": ["sinks=h", "dsinks=h"]}[row["sinks"]]
    words += LAYOUTS[row["layout"]] + {"finite": [], "special": ["special=1"], "falling": ["dout_amp=256", "dout_fall=12"]}[row["values"]]
    words += {"fixed": [], "any": ["flags=1"]}[row["order"]]
    said = "fa_backward_fused in " + {"fixed": "a fixed order", "any": "any order"}[row["order"]]
    return f"sm_{row['arch'].rstrip('a')}:sms={SMS[row['heads']]}", f"cuda.sm_{row['arch']}.mma", " ".join(words), said
