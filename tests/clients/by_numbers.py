"""by_numbers.py LIBRARY: a forward and a backward pass by ctypes and the numbers of `schema/generate.py layout` alone, which docs/ffi.md
shows."""

import ctypes
import struct
import sys

fa = ctypes.CDLL(sys.argv[1])  # libfa.so.0
fa.fa_last_error.restype = ctypes.c_char_p


def check(status):
    if status != 0:  # FA_OK
        raise RuntimeError(fa.fa_last_error().decode())


desc = ctypes.create_string_buffer(104)
fa.fa_desc_init(desc, ctypes.c_size_t(104))
struct.pack_into("=i", desc, 16, 1)  # dtype_q: FA_F32
struct.pack_into("=i", desc, 28, 1)  # mask: FA_MASK_CAUSAL
struct.pack_into("=q", desc, 32, 2)  # head_dim
op = ctypes.c_void_p()
check(fa.fa_create(desc, ctypes.byref(op)))

floats = ctypes.c_float * 8
q, k, v, out = floats(), floats(), floats(1, 1, 2, 2, 3, 3, 4, 4), floats()
lse = (ctypes.c_float * 4)()
dout, dv = floats(*[1] * 8), floats()


def tensor(structure, offset, data, *shape):
    place, sizes = ctypes.byref(structure, offset), map(ctypes.c_int64, shape)
    fa.fa_tensor_init(place, data, 1, *sizes)  # FA_F32


args = ctypes.create_string_buffer(920)
fa.fa_forward_args_init(args, ctypes.c_size_t(920))
for offset, data in {8: q, 88: k, 168: v, 248: out}.items():
    tensor(args, offset, data, 1, 4, 1, 2)
tensor(args, 328, lse, 1, 1, 4, 1)  # fa_backward reads it
check(fa.fa_forward(op, args))
print([round(x, 3) for x in out[::2]])  # each query's mean of the values up to its own

backward = ctypes.create_string_buffer(1560)
fa.fa_backward_args_init(backward, ctypes.c_size_t(1560))
for offset, data in {8: q, 88: k, 168: v, 248: out, 408: dout, 648: dv}.items():
    tensor(backward, offset, data, 1, 4, 1, 2)
tensor(backward, 328, lse, 1, 1, 4, 1)
check(fa.fa_backward(op, backward))
print([round(x, 3) for x in dv[::2]])  # the sum of each value's weights
fa.fa_destroy(op)
