"""The part of fa.h that a comparison needs, through ctypes."""
import ctypes as c

DTYPES = {"f32": 1, "f16": 2, "bf16": 3}
I32 = 5
NONDETERMINISTIC = 1  # of the flags
DEVICES = {"cpu": 1, "cuda": 2}


class Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("shape", c.c_int64 * 4),
        ("stride", c.c_int64 * 4),
        ("dtype", c.c_int32),
        ("reserved", c.c_int32),
    ]


class Desc(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("device", c.c_int32),
        ("device_index", c.c_int32),
        ("dtype_q", c.c_int32),
        ("dtype_kv", c.c_int32),
        ("dtype_out", c.c_int32),
        ("mask", c.c_int32),
        ("head_dim", c.c_int64),
        ("head_dim_v", c.c_int64),
        ("window_left", c.c_int64),
        ("window_right", c.c_int64),
        ("attention_chunk", c.c_int64),
        ("softmax_scale", c.c_float),
        ("softcap", c.c_float),
        ("flags", c.c_uint32),
        ("num_threads", c.c_int32),
        ("parallel_for", c.c_void_p),
        ("parallel_for_user", c.c_void_p),
    ]


class Args(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        *[(name, Tensor) for name in ("q", "k", "v", "out", "lse", "bias", "mask", "alibi_slopes", "sinks", "block_table")],
        *[(name, c.c_void_p) for name in ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k")],
        *[(name, c.c_void_p) for name in ("kv_batch_idx", "q_offset")],
        *[(name, c.c_int64) for name in ("num_seqs", "max_seqlen_q", "max_seqlen_k")],
        ("num_splits", c.c_int32),
        ("reserved", c.c_int32),
        ("workspace", c.c_void_p),
        ("workspace_size", c.c_size_t),
        ("stream", c.c_void_p),
    ]


class BackwardArgs(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t),
        *[(name, Tensor) for name in ("q", "k", "v", "out", "lse", "dout", "dq", "dk", "dv", "dlse", "delta", "bias", "mask")],
        *[(name, Tensor) for name in ("alibi_slopes", "sinks", "block_table", "dbias", "dsinks")],
        *[(name, c.c_void_p) for name in ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k")],
        *[(name, c.c_void_p) for name in ("kv_batch_idx", "q_offset")],
        *[(name, c.c_int64) for name in ("num_seqs", "max_seqlen_q", "max_seqlen_k")],
        ("accumulate", c.c_uint32),
        ("reserved", c.c_int32),
        ("workspace", c.c_void_p),
        ("workspace_size", c.c_size_t),
        ("stream", c.c_void_p),
    ]


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
        """From now on calls work there, rather than in memory of their own."""
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
