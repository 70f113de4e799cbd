/* fa_forward, fa_backward and their like on views (arrays.py), in one step from Python: most of a small call would be
 * the making of an fa_forward_args, field by field. */
#ifndef LIBFA_PYTHON_CALL_H
#define LIBFA_PYTHON_CALL_H

#include <Python.h>
#include <fa.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "schema/fields.def"

/* How the dimensions of a view become those of an fa_tensor. */
typedef enum {
  HEADS,    /* (batch, sequence, heads, dim), or with heads first; packed without the batch */
  ROWS,     /* (batch, heads, rows), with a fourth dimension of one or without; packed (heads, rows) */
  SCORES,   /* (batch, heads, queries, keys), or the last of these, which are repeated */
  PER_HEAD, /* (batch, heads) or (heads), with dimensions of one or without; so are block tables and a number a row */
  TABLE     /* (positions, numbers) */
} view_role;

/* How many dimensions a view has; -1, with a Python error set, for anything but a view of least to 4 dimensions. */
static int view_dimensions(PyObject *view, int least) {
  PyObject *shape = PyTuple_Check(view) && PyTuple_Size(view) > 3 ? PyTuple_GetItem(view, 2) : NULL;
  PyObject *strides = shape ? PyTuple_GetItem(view, 3) : NULL;
  if (shape && PyTuple_Check(shape) && PyTuple_Check(strides) && PyTuple_Size(shape) == PyTuple_Size(strides)) {
    const int ndim = (int)PyTuple_Size(shape);
    if (ndim >= least && ndim <= 4) return ndim;
  }
  PyErr_Format(PyExc_TypeError, "expected a view (address, dtype, shape, strides) of %d to 4 dimensions", least);
  return -1;
}

/* The integers of item i of a view into values; 0, with a Python error set, when it has others. */
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

/* A view as *tensor; None leaves it as it is. 0, with a Python error set, for anything but a view of its role. */
static int read_view(PyObject *view, view_role role, int heads_first, fa_tensor *tensor) {
  static const int least[] = {[HEADS] = 3, [ROWS] = 2, [SCORES] = 0, [PER_HEAD] = 1, [TABLE] = 2};
  if (view == Py_None) return 1;
  const int ndim = view_dimensions(view, least[role]);
  if (ndim < 0) return 0;
  switch (role) {
    case HEADS:
      if (!tensor_of_view(view, 4 - ndim, ndim, tensor)) return 0;
      if (heads_first) {
        const int64_t heads = tensor->shape[1], step = tensor->stride[1];
        tensor->shape[1] = tensor->shape[2], tensor->stride[1] = tensor->stride[2];
        tensor->shape[2] = heads, tensor->stride[2] = step;
      }
      return 1;
    case ROWS:
      return tensor_of_view(view, ndim == 2, ndim, tensor);
    case SCORES:
      return tensor_of_view(view, 4 - ndim, ndim, tensor);
    case PER_HEAD:
      return tensor_of_view(view, ndim == 1, ndim, tensor);
    case TABLE:
      if (!tensor_of_view(view, 2, 2, tensor)) return 0;
      tensor->shape[1] = tensor->shape[2], tensor->stride[1] = tensor->stride[2];
      tensor->shape[2] = 1, tensor->stride[2] = 0;
      return 1;
  }
  return 0;
}

/* Where a tensor is in a structure, and its role. */
typedef struct {
  size_t offset;
  view_role role;
} view_field;

/* The first items of a tuple as the fields of a structure; 0, with a Python error set, when it has fewer or they are
 * none. */
static int read_views(PyObject *tuple, const view_field *fields, int count, int heads_first, void *structure) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != count) {
    PyErr_Format(PyExc_TypeError, "expected a tuple of %d views", count);
    return 0;
  }
  for (int i = 0; i < count; ++i) {
    fa_tensor *tensor = (fa_tensor *)((char *)structure + fields[i].offset);
    if (!read_view(PyTuple_GetItem(tuple, i), fields[i].role, heads_first, tensor)) return 0;
  }
  return 1;
}

/* The optional inputs of a structure, in the order of fields.py, as view_fields. */
#define FORM_rows HEADS
#define FORM_factors HEADS
#define FORM_row_sums ROWS
#define FORM_scores SCORES
#define FORM_per_head PER_HEAD
#define FORM_pages PER_HEAD
#define FORM_places PER_HEAD
#define FORM_table TABLE
#define FORM_tree SCORES
#define ROLE_OF(name, form, text) ROLE_##name = FORM_##form,
enum { FA_SHAPE_RULES(ROLE_OF) };
#define VIEW_required(structure, name, role)
#define VIEW_optional(structure, name, role) {offsetof(structure, name), role},
#define FORWARD_VIEW(name, access, presence, type, shape, ...) \
  VIEW_##presence(fa_forward_args, name, (view_role)ROLE_##shape)
#define BACKWARD_VIEW(name, access, presence, type, shape, ...) \
  VIEW_##presence(fa_backward_args, name, (view_role)ROLE_##shape)

/* The fields of both structures after their tensors. */
typedef struct {
  const int32_t *arrays[7];
  int64_t num_seqs, max_seqlen_q, max_seqlen_k;
  int32_t number, reserved; /* num_splits, or accumulate */
  void *workspace;
  size_t workspace_size;
  void *stream;
} call_rest;
#define IS_LIKE_CALL_REST(structure, number_of_it)                                                              \
  _Static_assert(                                                                                               \
      offsetof(structure, stream) - offsetof(structure, cu_seqlens_q) == offsetof(call_rest, stream) &&         \
          offsetof(structure, number_of_it) - offsetof(structure, cu_seqlens_q) == offsetof(call_rest, number), \
      "the rest of " #structure)
IS_LIKE_CALL_REST(fa_forward_args, num_splits);
IS_LIKE_CALL_REST(fa_backward_args, accumulate);

/* A tuple of their values to where they begin in a structure: addresses of the arrays, four numbers, the workspace's
 * address and size, the stream. None leaves all as it is; 0, with a Python error set, when it is anything else. */
static int read_rest(PyObject *tuple, void *begin) {
  call_rest rest = {0};
  unsigned long long arrays[7], workspace, size, stream;
  long long num_seqs, max_seqlen_q, max_seqlen_k;
  if (tuple == Py_None) return 1;
  if (!PyTuple_Check(tuple)) {
    PyErr_SetString(PyExc_TypeError, "expected a tuple of the call's arrays and numbers");
    return 0;
  }
  if (!PyArg_ParseTuple(tuple, "KKKKKKKLLLiKKK:rest", &arrays[0], &arrays[1], &arrays[2], &arrays[3], &arrays[4],
                        &arrays[5], &arrays[6], &num_seqs, &max_seqlen_q, &max_seqlen_k, &rest.number, &workspace,
                        &size, &stream)) {
    return 0;
  }
  for (int i = 0; i < 7; ++i) rest.arrays[i] = (const int32_t *)(uintptr_t)arrays[i];
  rest.num_seqs = num_seqs, rest.max_seqlen_q = max_seqlen_q, rest.max_seqlen_k = max_seqlen_k;
  rest.workspace = (void *)(uintptr_t)workspace, rest.workspace_size = (size_t)size;
  rest.stream = (void *)(uintptr_t)stream;
  memcpy(begin, &rest, sizeof rest);
  return 1;
}

static PyObject *forward(const fa_op *op, PyObject *q, PyObject *k, PyObject *v, PyObject *out, PyObject *lse,
                         int heads_first, PyObject *tensors, PyObject *rest) {
  static const view_field fields[] = {
      FA_INPUT_FIELDS(FORWARD_VIEW, FA_NOTHING, FA_NOTHING) FA_QUANTISED_FIELDS(FORWARD_VIEW, FA_NOTHING, FA_NOTHING)
          FA_TREE_FIELDS(FORWARD_VIEW, FA_NOTHING, FA_NOTHING) FA_ROPE_FIELDS(FORWARD_VIEW, FA_NOTHING, FA_NOTHING)};
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  if (q == Py_None || k == Py_None || v == Py_None || out == Py_None) {
    return PyErr_Format(PyExc_TypeError, "forward: expected a view of q, k, v and out");
  }
  if (!read_view(q, HEADS, heads_first, &args.q) || !read_view(k, HEADS, heads_first, &args.k) ||
      !read_view(v, HEADS, heads_first, &args.v) || !read_view(out, HEADS, heads_first, &args.out) ||
      !read_view(lse, ROWS, heads_first, &args.lse)) {
    return NULL;
  }
  if (tensors != Py_None && !read_views(tensors, fields, sizeof fields / sizeof *fields, heads_first, &args))
    return NULL;
  if (!read_rest(rest, &args.cu_seqlens_q)) return NULL;
  fa_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa_forward(op, &args);
  Py_END_ALLOW_THREADS;
  return PyLong_FromLong(status);
}

static PyObject *backward(const fa_op *op, PyObject *tensors, int heads_first, PyObject *rest) {
  static const view_field fields[] = {
      {offsetof(fa_backward_args, q), HEADS},         {offsetof(fa_backward_args, k), HEADS},
      {offsetof(fa_backward_args, v), HEADS},         {offsetof(fa_backward_args, out), HEADS},
      {offsetof(fa_backward_args, lse), ROWS},        {offsetof(fa_backward_args, dout), HEADS},
      {offsetof(fa_backward_args, dq), HEADS},        {offsetof(fa_backward_args, dk), HEADS},
      {offsetof(fa_backward_args, dv), HEADS},        {offsetof(fa_backward_args, dbias), SCORES},
      {offsetof(fa_backward_args, dsinks), PER_HEAD}, {offsetof(fa_backward_args, dlse), ROWS},
      {offsetof(fa_backward_args, delta), ROWS},      FA_INPUT_FIELDS(BACKWARD_VIEW, FA_NOTHING, FA_NOTHING)};
  fa_backward_args args;
  fa_backward_args_init(&args, sizeof args);
  if (!read_views(tensors, fields, sizeof fields / sizeof *fields, heads_first, &args)) return NULL;
  if (!read_rest(rest, &args.cu_seqlens_q)) return NULL;
  fa_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa_backward(op, &args);
  Py_END_ALLOW_THREADS;
  return PyLong_FromLong(status);
}

/* Views as an array of tensors; how many, or -1 with a Python error set. */
static int read_parts(PyObject *tuple, view_role role, int heads_first, fa_tensor *parts) {
  const int count = PyTuple_Check(tuple) ? (int)PyTuple_Size(tuple) : -1;
  if (count < 1 || count > FA_MAX_PARTS) {
    PyErr_Format(PyExc_TypeError, "merge: expected tuples of 1 to %d views", FA_MAX_PARTS);
    return -1;
  }
  for (int i = 0; i < count; ++i) {
    PyObject *view = PyTuple_GetItem(tuple, i);
    memset(&parts[i], 0, sizeof parts[i]);
    if (view == Py_None) PyErr_Format(PyExc_TypeError, "merge: expected a view of each part");
    if (PyErr_Occurred() || !read_view(view, role, heads_first, &parts[i])) return -1;
  }
  return count;
}

static PyObject *merge(const fa_op *op, PyObject *outs, PyObject *lses, PyObject *out, PyObject *lse, PyObject *mask,
                       int heads_first, unsigned flags, unsigned long long stream) {
  fa_tensor parts[FA_MAX_PARTS], sums[FA_MAX_PARTS];
  fa_merge_args args;
  fa_merge_args_init(&args, sizeof args);
  args.outs = parts, args.lses = sums;
  args.num_parts = read_parts(outs, HEADS, heads_first, parts);
  if (args.num_parts < 0) return NULL;
  const int count = read_parts(lses, ROWS, heads_first, sums);
  if (count < 0) return NULL;
  if (count != args.num_parts || out == Py_None)
    return PyErr_Format(PyExc_TypeError, "merge: expected as many views of lses as of outs, and a view of out");
  if (!read_view(out, HEADS, heads_first, &args.out) || !read_view(lse, ROWS, heads_first, &args.lse) ||
      !read_view(mask, ROWS, heads_first, &args.mask))
    return NULL;
  args.flags = flags;
  args.stream = (void *)(uintptr_t)stream;
  fa_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa_merge(op, &args);
  Py_END_ALLOW_THREADS;
  return PyLong_FromLong(status);
}

static PyObject *append(const fa_op *op, PyObject *tensors, PyObject *rest) {
#define APPEND_VIEW(name, access, presence, type, shape, ...) {offsetof(fa_append_args, name), (view_role)ROLE_##shape},
  static const view_field fields[] = {FA_APPEND_FIELDS(APPEND_VIEW, FA_NOTHING, FA_NOTHING)};
#undef APPEND_VIEW
  unsigned long long arrays[5], stream;
  long long num_seqs, max_seqlen_new;
  fa_append_args args;
  fa_append_args_init(&args, sizeof args);
  if (!read_views(tensors, fields, sizeof fields / sizeof *fields, 0, &args)) return NULL;
  if (!PyTuple_Check(rest) || !PyArg_ParseTuple(rest, "KKKKKLLIK:rest", &arrays[0], &arrays[1], &arrays[2], &arrays[3],
                                                &arrays[4], &num_seqs, &max_seqlen_new, &args.flags, &stream)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected a tuple of the call's arrays and numbers");
    return NULL;
  }
  args.cu_seqlens_new = (const int32_t *)(uintptr_t)arrays[0];
  args.seqused_new = (const int32_t *)(uintptr_t)arrays[1];
  args.cache_seqlens = (const int32_t *)(uintptr_t)arrays[2];
  args.leftpad_k = (const int32_t *)(uintptr_t)arrays[3];
  args.kv_batch_idx = (const int32_t *)(uintptr_t)arrays[4];
  args.num_seqs = num_seqs, args.max_seqlen_new = max_seqlen_new;
  args.stream = (void *)(uintptr_t)stream;
  fa_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa_append(op, &args);
  Py_END_ALLOW_THREADS;
  return PyLong_FromLong(status);
}

#endif /* LIBFA_PYTHON_CALL_H */
