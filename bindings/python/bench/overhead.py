"""What one call of libfa.attention costs beside the attention: microseconds on tiny arrays, the least of many rounds.

python overhead.py [ROUNDS]
"""

import sys
import timeit

import numpy

import libfa
from libfa import capi

ROUNDS, CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 300, 100

q, k, v = (numpy.ones((1, 4, 2, 8), "float32") for _ in range(3))
out = numpy.empty_like(q)


def microseconds(call):
    return min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def tensor(x):
    return x.__array_interface__["data"][0], capi.FA_F32, x.shape, tuple(step // 4 for step in x.strides)


op = libfa.Op(dtype_q=capi.FA_F32, head_dim=8)
args = capi.fa_args(*(tensor(x) for x in (q, k, v, out)))
print(f"libfa.attention(q, k, v)            {microseconds(lambda: libfa.attention(q, k, v)):6.2f} us")
print(f"libfa.attention(q, k, v, out=out)   {microseconds(lambda: libfa.attention(q, k, v, out=out)):6.2f} us")
print(f"op.forward(args)                    {microseconds(lambda: op.forward(args)):6.2f} us")
