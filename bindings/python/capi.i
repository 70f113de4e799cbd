/* libfa.capi: fa.h itself as a Python module, written by SWIG from the header at build time. Its names are the header's.
 *
 *   structures     classes with the header's fields; constructed with the header's defaults, fa_forward_args also of q, k, v, out
 *   pointers       integers (0 for NULL); an fa_op is a capsule that destroys it when the last reference goes
 *   fa_tensor      also a tuple (address, dtype, shape, strides), strides in elements
 *   fa_create      (status, op or None); fa_forward_workspace_size and its like (status, bytes); fa_kernel_info fills an fa_kernel
 *   fa_set_log     takes a callable of one str, or None
 *
 * The GIL is released where work is done. Exceptions are raised by the package libfa, from the statuses. */
%module(package="libfa") capi

%{
#include <fa.h>

#include "call.h"
#include "dlpack.h"
#include "log.h"

/* The name that marks a capsule as an op. */
static const char op_capsule[] = "fa_op";

static void destroy_op_capsule(PyObject *capsule) {
  fa_destroy((fa_op *)PyCapsule_GetPointer(capsule, op_capsule));
}

/* Reads (address, dtype, shape, strides) into *tensor; 0, with a Python error set, when it is anything else. */
static int tensor_from_tuple(PyObject *tuple, fa_tensor *tensor) {
  PyObject *shape, *strides;
  unsigned long long address;
  int dtype;
  long long n[4], s[4];
  if (!PyArg_ParseTuple(tuple, "KiOO:fa_tensor", &address, &dtype, &shape, &strides)) return 0;
  if (!PyTuple_Check(shape) || !PyTuple_Check(strides)) {
    PyErr_SetString(PyExc_TypeError, "fa_tensor: shape and strides must be tuples of four integers");
    return 0;
  }
  if (!PyArg_ParseTuple(shape, "LLLL:fa_tensor.shape", &n[0], &n[1], &n[2], &n[3])) return 0;
  if (!PyArg_ParseTuple(strides, "LLLL:fa_tensor.stride", &s[0], &s[1], &s[2], &s[3])) return 0;
  tensor->data = (void *)(uintptr_t)address;
  tensor->dtype = dtype;
  tensor->reserved = 0;
  for (int i = 0; i < 4; ++i) tensor->shape[i] = n[i], tensor->stride[i] = s[i];
  return 1;
}
%}

%nothread;
%thread fa_forward;
%thread fa_backward;
%thread fa_merge;
%thread fa_append;
%thread fa_shutdown;

%define SWIGWORDSIZE64
%enddef
%include <stdint.i>
%include <typemaps.i>

/* Pointers are integers; so are fa_merge_args' arrays of tensors. */
%typemap(in) void *, const int32_t *, fa_parallel_for, const fa_tensor *outs, const fa_tensor *lses {
  $1 = ($1_ltype)PyLong_AsVoidPtr($input);
  if (PyErr_Occurred()) SWIG_fail;
}
%typemap(out) void *, const int32_t *, fa_parallel_for, const fa_tensor *outs, const fa_tensor *lses {
  $result = PyLong_FromVoidPtr((void *)$1);
}

/* Four sizes are a tuple. */
%typemap(in) int64_t [4] (int64_t value[4]) {
  long long n[4];
  if (!PyTuple_Check($input) || !PyArg_ParseTuple($input, "LLLL:$1_name", &n[0], &n[1], &n[2], &n[3])) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "$1_name: expected a tuple of four integers");
    SWIG_fail;
  }
  for (int i = 0; i < 4; ++i) value[i] = n[i];
  $1 = value;
}
%typemap(out) int64_t [4] {
  $result = Py_BuildValue("(LLLL)", (long long)$1[0], (long long)$1[1], (long long)$1[2], (long long)$1[3]);
}

/* A tensor is also a tuple. */
%typemap(in) fa_tensor * (fa_tensor value, void *wrapped) {
  if (PyTuple_Check($input)) {
    if (!tensor_from_tuple($input, &value)) SWIG_fail;
    $1 = &value;
  } else {
    int found = SWIG_ConvertPtr($input, &wrapped, $1_descriptor, 0);
    if (!SWIG_IsOK(found)) SWIG_exception_fail(SWIG_ArgError(found), "expected an fa_tensor or its tuple");
    $1 = (fa_tensor *)wrapped;
  }
}

/* An op is a capsule. */
%typemap(in) const fa_op * {
  $1 = (fa_op *)PyCapsule_GetPointer($input, op_capsule);
  if (!$1) SWIG_fail;
}
%typemap(in, numinputs=0) fa_op ** (fa_op *made) {
  made = NULL;
  $1 = &made;
}
%typemap(argout) fa_op ** {
  PyObject *op = *$1 ? PyCapsule_New(*$1, op_capsule, destroy_op_capsule) : Py_BuildValue("");
  $result = SWIG_AppendOutput($result, op);
}
%apply size_t *OUTPUT { size_t *bytes };

/* The capsule destroys; the constructors initialise. */
%ignore fa_destroy;
%rename("$ignore", regextarget=1) "^fa_.*_init$";
%ignore fa_set_log;
%immutable struct_size;
%immutable fa_kernel::name;
%immutable fa_kernel::device;
%immutable fa_kernel::arch;
%immutable fa_kernel::compute_dtypes;
%immutable fa_kernel::available;
%immutable fa_kernel::unavailable_reason;
%immutable fa_kernel::backward;

%include <fa.h>

%define INITIALISED(structure)
%extend structure {
  structure() {
    structure *made = (structure *)malloc(sizeof *made);
    structure##_init(made, sizeof *made);
    return made;
  }
}
%enddef
INITIALISED(fa_desc)
INITIALISED(fa_backward_args)
INITIALISED(fa_merge_args)
INITIALISED(fa_append_args)
%feature("compactdefaultargs") fa_forward_args::fa_forward_args;
%extend fa_forward_args {
  fa_forward_args(const fa_tensor *q = NULL, const fa_tensor *k = NULL, const fa_tensor *v = NULL, const fa_tensor *out = NULL) {
    fa_forward_args *args = (fa_forward_args *)malloc(sizeof *args);
    fa_forward_args_init(args, sizeof *args);
    if (q) args->q = *q;
    if (k) args->k = *k;
    if (v) args->v = *v;
    if (out) args->out = *out;
    return args;
  }
}
%extend fa_kernel {
  fa_kernel() {
    fa_kernel *kernel = (fa_kernel *)calloc(1, sizeof *kernel);
    kernel->struct_size = sizeof *kernel;
    return kernel;
  }
}

%rename(fa_set_log) set_log;
PyObject *set_log(PyObject *callable);

/* A DLPack capsule's view (arrays.py); the dtype is (code, bits, lanes) where fa_dtype lacks it. */
PyObject *dlpack_view(PyObject *capsule);

/* fa_forward of views, q, k, v and out with heads before rows when heads_first; lse a view or None; tensors None or the views of
 * the optional inputs (fields.py), None where one is absent; rest None or the fields of fa_forward_args after its tensors:
 * seven addresses, num_seqs, max_seqlen_q, max_seqlen_k, num_splits, workspace, workspace_size, stream. */
PyObject *forward(const fa_op *op, PyObject *q, PyObject *k, PyObject *v, PyObject *out, PyObject *lse, int heads_first,
                  PyObject *tensors, PyObject *rest);

/* fa_backward of the views of q, k, v, out, lse, dout, dq, dk, dv, dbias, dsinks, dlse, delta and the
 * optional inputs; rest as forward's, with accumulate for num_splits. */
PyObject *backward(const fa_op *op, PyObject *tensors, int heads_first, PyObject *rest);

/* fa_merge of tuples of views: outs, with heads before rows when heads_first, and lses, as many; out, lse and mask, the latter two a
 * view or None; flags of fa_merge_args and the address of a stream. */
PyObject *merge(const fa_op *op, PyObject *outs, PyObject *lses, PyObject *out, PyObject *lse, PyObject *mask, int heads_first,
                unsigned flags, unsigned long long stream);

/* fa_append of the views of its tensors, in the order of fields.py, None where one is absent; rest: five addresses of arrays,
 * num_seqs, max_seqlen_new, flags, stream. */
PyObject *append(const fa_op *op, PyObject *tensors, PyObject *rest);
