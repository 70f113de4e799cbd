"""The factors of calls of kernels/forward/tcgen05: a plan of pairs.py."""

import pairs_wgmma
from pairs_wgmma import mended

TITLE = "calls of `kernels/forward/tcgen05`"
KERNEL = "cuda.sm_100a.tcgen05"
# Two tiles of queries a block, and one: of 192 and of 256 columns.
FACTORS = pairs_wgmma.FACTORS | {
    "columns": ("64", "96", "128", "192", "256", "40/64", "72/128", "128/64", "192/128"),
    "page": ("16", "none", "64", "12"),
}
MORE = []


def allowed(row):
    """Tiles between powers of two have neither softcaps nor ALiBi."""
    dim = max(map(int, row.get("columns", "0").split("/")))
    return dim not in (96, 192) or row.get("score", "scaled") == "scaled"


def case_of(row, number):
    _, _, words = pairs_wgmma.case_of(row, number)
    return "sm_100a", KERNEL, words
