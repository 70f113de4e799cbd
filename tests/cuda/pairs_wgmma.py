"""The factors of calls of kernels/forward/wgmma: a plan of pairs.py."""

TITLE = "calls of `kernels/forward/wgmma`"
KERNEL = "cuda.sm_90a.wgmma"
FACTORS = {
    "columns": ("64", "96", "128", "192", "256", "40/64", "192/128", "512", "576/512"),
    "type": ("bf16", "f16"),
    "mask": ("causal", "none", "window"),
    "lengths": ("packed", "same", "used"),
    "page": ("16", "none", "64", "128"),
    "splits": ("1", "3"),
    "heads": ("4/1", "2/2", "6/2"),
    "score": ("scaled", "softcap", "alibi"),
    "values": ("finite", "special"),
}

# Besides the pairs: pages that no boxes fit, groups that do not fill one.
MORE = [
    ("sm_90a", KERNEL, words)
    for words in (
        "b=2 sq=50 sk=300 hq=6 hkv=2 d=64 q=bf16 splits=3 workspace=1 sinks=h mask=causal page=12 cu_q=1 used_k=1 special=1",
        "b=2 sq=40 sk=200 hq=7 hkv=1 d=64 q=bf16 splits=1 workspace=1 mask=causal window_left=140 page=1 used_k=1 leftpad=1",
        "b=2 sq=40 sk=290 hq=5 hkv=1 d=64 q=bf16 splits=1 workspace=1 page=20 softcap=4",
        "b=1 sq=66 sk=270 hq=4 hkv=1 d=192 dv=128 q=bf16 splits=3 workspace=1 mask=causal page=12 used_k=1 special=1",
    )
]


def allowed(row):
    """Tiles between powers of two have neither softcaps nor ALiBi, 256 columns and more no ALiBi."""
    columns, score = row.get("columns", "")[:3], row.get("score", "scaled")
    return not (columns in ("96", "192", "576") and score != "scaled") and not (columns in ("256", "512") and score == "alibi")


def mended(row, kept):
    """The change that makes a forbidden row allowed, without the values that are kept."""
    if "score" not in kept:
        return {"score": "scaled"}
    return {"columns": "64"}


def case_of(row, number):
    """A few tiles of a few sequences."""
    columns, _, of_values = row["columns"].partition("/")
    heads, _, heads_kv = row["heads"].partition("/")
    wide = int(columns) >= 192  # which take the emulator long
    words = [f"b={1 if wide else 2}", f"sq={66 if wide else 70 + number % 5}", f"sk={270 + number}", f"hq={heads}", f"hkv={heads_kv}"]
    words += [f"d={columns}", f"q={row['type']}", f"splits={row['splits']}", "workspace=1", f"seed={number + 1}", "sinks=h"]
    if of_values:
        words.append(f"dv={of_values}")
    if row["mask"] == "causal":
        words.append("mask=causal")
    if row["mask"] == "window":
        words += ["mask=causal", "window_left=140"]
    paged = row["page"] != "none"
    if paged:
        words.append(f"page={row['page']}")
    if row["lengths"] == "packed":
        words += ["cu_q=1", "used_k=1" if paged else "cu_k=1"]
    if row["lengths"] == "used":
        words += ["used_q=1", "used_k=1", "offset=1"] + ([] if paged else ["leftpad=1"])
    words += {"scaled": [], "softcap": ["softcap=4"], "alibi": ["alibi=h"]}[row["score"]]
    if row["values"] == "special":
        words.append("special=1")
    return "sm_90a", KERNEL, " ".join(words)
