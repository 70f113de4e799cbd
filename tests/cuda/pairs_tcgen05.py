"""What calls of kernels/tcgen05 differ in: a plan of pairs.py."""

import pairs_wgmma

TITLE = "calls of `kernels/tcgen05`"
KERNEL = "cuda.sm_100a.tcgen05"
FACTORS = pairs_wgmma.FACTORS | {
    "columns": ("64", "128", "40/64", "72/128", "128/64"),
    "page": ("16", "none", "64", "12"),
}
MORE = []


def allowed(_row):
    return True


def case_of(row, number):
    _, _, words = pairs_wgmma.case_of(row, number)
    return "sm_100a", KERNEL, words
