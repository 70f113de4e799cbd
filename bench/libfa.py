"""The part of fa.h that a comparison needs, through ctypes."""
import ctypes as c
import pathlib
import sys

_ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(_ROOT / "bindings"))
import header  # noqa: E402

DTYPES = {"f32": 1, "f16": 2, "bf16": 3}
I32 = 5
NONDETERMINISTIC = 1  # of the flags
DEVICES = {"cpu": 1, "cuda": 2}


_HEADER = header.read(_ROOT / "include/fa.h")
_TYPES = {"int64_t": c.c_int64, "int32_t": c.c_int32, "uint32_t": c.c_uint32, "size_t": c.c_size_t, "float": c.c_float}
_TYPES |= dict.fromkeys(_HEADER.scalars, c.c_int32)


def _structure(name):
    def type_of(field):
        if "*" in field.type or field.type in _HEADER.callbacks:
            return c.c_void_p
        return _TYPES[field.type] * field.length if field.length else _TYPES[field.type]

    fields = [(field.name, type_of(field)) for field in _HEADER.structs[name]]
    _TYPES[name] = type(name, (c.Structure,), {"_fields_": fields})
    return _TYPES[name]


Tensor, Desc = _structure("fa_tensor"), _structure("fa_desc")
Args, BackwardArgs = _structure("fa_forward_args"), _structure("fa_backward_args")


class Library:
    def __init__(self, path):
        self.handle = c.CDLL(path)
        self.handle.fa_last_error.restype = c.c_char_p
        self.handle.fa_op_kernel_name.restype = c.c_char_p
        self.handle.fa_build_info.restype = c.c_char_p
        self.handle.fa_desc_init.argtypes = [c.c_void_p, c.c_size_t]
        self.handle.fa_forward_args_init.argtypes = [c.c_void_p, c.c_size_t]
        self.handle.fa_create.argtypes = [c.c_void_p, c.c_void_p]
        self.handle.fa_op_kernel_name.argtypes = [c.c_void_p]
        self.handle.fa_forward.argtypes = [c.c_void_p, c.c_void_p]
        self.handle.fa_forward_workspace_size.argtypes = [c.c_void_p, c.c_void_p, c.c_void_p]
        self.handle.fa_destroy.argtypes = [c.c_void_p]
        self.handle.fa_backward_args_init.argtypes = [c.c_void_p, c.c_size_t]
        self.handle.fa_backward.argtypes = [c.c_void_p, c.c_void_p]
        self.handle.fa_backward_workspace_size.argtypes = [c.c_void_p, c.c_void_p, c.c_void_p]

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.handle.fa_last_error().decode())


class Attention:
    """One call on q, k, v and out, each (address, shape, strides) in (batch, sequence, heads, dim) order; pages: a table of
    them in the same form, k and v being (pages, tokens of a page, heads, dim)."""

    def __init__(self, library, dtype, causal, threads, q, k, v, out, device="cpu", flags=0, pages=None):
        self.library = library
        desc, self.args, self.op = Desc(), Args(), c.c_void_p()
        library.handle.fa_desc_init(c.byref(desc), c.sizeof(desc))
        library.handle.fa_forward_args_init(c.byref(self.args), c.sizeof(self.args))
        desc.device = DEVICES[device]
        desc.dtype_q = DTYPES[dtype]
        desc.mask = int(causal)
        desc.head_dim, desc.head_dim_v = q[1][3], v[1][3]
        desc.num_threads, desc.flags = threads, flags
        library.check(library.handle.fa_create(c.byref(desc), c.byref(self.op)))
        for name, given in (("q", q), ("k", k), ("v", v), ("out", out), ("block_table", pages)):
            if given is not None:
                tensor = getattr(self.args, name)
                tensor.data, tensor.shape[:], tensor.stride[:] = given
                tensor.dtype = I32 if name == "block_table" else DTYPES[dtype]

    @property
    def kernel(self):
        return self.library.handle.fa_op_kernel_name(self.op).decode()

    @property
    def workspace_bytes(self):
        size = c.c_size_t()
        self.library.check(self.library.handle.fa_forward_workspace_size(self.op, c.byref(self.args), c.byref(size)))
        return size.value

    def use_workspace(self, address, size):
        """From now on calls work there, rather than in memory that they allocate."""
        self.args.workspace, self.args.workspace_size = address, size

    def __call__(self, stream=None):
        self.args.stream = stream
        self.library.check(self.library.handle.fa_forward(self.op, c.byref(self.args)))

    def __del__(self):
        self.library.handle.fa_destroy(self.op)


class Backward:
    """The gradients of `attention`, whose lse and the tensors dout, dq, dk and dv are given in the same form."""

    def __init__(self, attention, lse, dout, dq, dk, dv):
        self.attention, self.args = attention, BackwardArgs()
        handle = attention.library.handle
        handle.fa_backward_args_init(c.byref(self.args), c.sizeof(self.args))
        lse_tensor = attention.args.lse
        lse_tensor.data, lse_tensor.dtype = lse[0], DTYPES["f32"]
        lse_tensor.shape[:], lse_tensor.stride[:] = lse[1], lse[2]
        attention()  # out and lse are inputs here
        for name in ("q", "k", "v", "out", "lse"):
            setattr(self.args, name, getattr(attention.args, name))
        for name, (address, shape, strides) in (("dout", dout), ("dq", dq), ("dk", dk), ("dv", dv)):
            tensor = getattr(self.args, name)
            tensor.data, tensor.dtype = address, attention.args.q.dtype
            tensor.shape[:], tensor.stride[:] = shape, strides

    @property
    def workspace_bytes(self):
        library, size = self.attention.library, c.c_size_t()
        library.check(library.handle.fa_backward_workspace_size(self.attention.op, c.byref(self.args), c.byref(size)))
        return size.value

    def use_workspace(self, address, size):
        self.args.workspace, self.args.workspace_size = address, size

    def __call__(self, stream=None):
        library = self.attention.library
        self.args.stream = stream
        library.check(library.handle.fa_backward(self.attention.op, c.byref(self.args)))
