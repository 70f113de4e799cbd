/* fa_forward on views (arrays.py), in one step from Python: most of a small call would be the making of an fa_args,
 * field by field. */
#ifndef LIBFA_PYTHON_FORWARD_H
#define LIBFA_PYTHON_FORWARD_H

#include <Python.h>
#include <fa.h>
#include <stdint.h>

/* How many dimensions a view has; -1, with a Python error set, when it is none or has fewer than least or more than 4.
 */
static int view_dimensions(PyObject *view, int least) {
  PyObject *shape = PyTuple_Check(view) && PyTuple_Size(view) > 3 ? PyTuple_GetItem(view, 2) : NULL;
  PyObject *strides = shape ? PyTuple_GetItem(view, 3) : NULL;
  if (shape && PyTuple_Check(shape) && PyTuple_Check(strides) && PyTuple_Size(shape) == PyTuple_Size(strides)) {
    const int ndim = (int)PyTuple_Size(shape);
    if (ndim >= least && ndim <= 4) return ndim;
  }
  PyErr_Format(PyExc_TypeError, "forward: expected a view (address, dtype, shape, strides) of %d to 4 dimensions",
               least);
  return -1;
}

/* The integers of item i of a view into values; 0, with a Python error set, when they are none. */
static int view_integers(PyObject *view, int i, int64_t *values, int count) {
  PyObject *tuple = PyTuple_GetItem(view, i);
  for (int n = 0; n < count; ++n) {
    values[n] = PyLong_AsLongLong(PyTuple_GetItem(tuple, n));
    if (values[n] == -1 && PyErr_Occurred()) return 0;
  }
  return 1;
}

/* The dimensions first .. first + ndim - 1 of *tensor are view's, the others have one element. */
static int tensor_of_view(PyObject *view, int first, int ndim, fa_tensor *tensor) {
  for (int i = 0; i < 4; ++i) tensor->shape[i] = 1, tensor->stride[i] = 0;
  if (!view_integers(view, 2, tensor->shape + first, ndim) || !view_integers(view, 3, tensor->stride + first, ndim))
    return 0;
  tensor->data = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GetItem(view, 0));
  tensor->dtype = (int32_t)PyLong_AsLong(PyTuple_GetItem(view, 1));
  return !PyErr_Occurred();
}

/* q, k, v or out: four dimensions, or three, packed, without the batch. */
static int tensor_of_heads(PyObject *view, int heads_first, fa_tensor *tensor) {
  const int ndim = view_dimensions(view, 3);
  if (ndim < 0 || !tensor_of_view(view, 4 - ndim, ndim, tensor)) return 0;
  if (heads_first) {
    const int64_t heads = tensor->shape[1], step = tensor->stride[1];
    tensor->shape[1] = tensor->shape[2], tensor->stride[1] = tensor->stride[2];
    tensor->shape[2] = heads, tensor->stride[2] = step;
  }
  return 1;
}

/* lse: (batch, heads, rows), with a fourth dimension of one or without, packed (heads, rows). */
static int tensor_of_lse(PyObject *view, fa_tensor *tensor) {
  const int ndim = view_dimensions(view, 2);
  return ndim > 0 && tensor_of_view(view, ndim == 2, ndim, tensor);
}

static PyObject *forward(const fa_op *op, PyObject *q, PyObject *k, PyObject *v, PyObject *out, PyObject *lse,
                         int heads_first, const fa_args *more) {
  fa_args args;
  if (more) {
    args = *more;
  } else {
    fa_args_init(&args, sizeof args);
  }
  if (!tensor_of_heads(q, heads_first, &args.q) || !tensor_of_heads(k, heads_first, &args.k) ||
      !tensor_of_heads(v, heads_first, &args.v) || !tensor_of_heads(out, heads_first, &args.out) ||
      (lse != Py_None && !tensor_of_lse(lse, &args.lse))) {
    return NULL;
  }
  fa_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa_forward(op, &args);
  Py_END_ALLOW_THREADS;
  return PyLong_FromLong(status);
}

#endif /* LIBFA_PYTHON_FORWARD_H */
