/* Looks into a DLPack capsule: the few fields of its two layouts (before and since version 1) that a view needs. */
#ifndef LIBFA_PYTHON_DLPACK_H
#define LIBFA_PYTHON_DLPACK_H

#include <Python.h>
#include <fa.h>
#include <stdint.h>

typedef struct {
  void *data;
  struct {
    int32_t type, index;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides; /* strides in elements; NULL: contiguous */
  uint64_t byte_offset;
} dlpack_tensor;

typedef struct {
  uint32_t major, minor;
  void *manager_ctx;
  void *deleter;
  uint64_t flags; /* 1: read-only, 2: a copy, whose changes nobody would see */
  dlpack_tensor tensor;
} dlpack_versioned;

/* The fa_dtype of a DLPack type, or 0. */
static int dlpack_dtype(int code, int bits, int lanes) {
  enum { INT, UINT, FLOAT, BFLOAT = 4, BOOL = 6 };
  if (lanes != 1) return 0;
  switch (code << 8 | bits) {
    case FLOAT << 8 | 32:
      return FA_F32;
    case FLOAT << 8 | 16:
      return FA_F16;
    case BFLOAT << 8 | 16:
      return FA_BF16;
    case BOOL << 8 | 8:
    case UINT << 8 | 8:
      return FA_BOOL;
    case INT << 8 | 32:
      return FA_I32;
    case INT << 8 | 64:
      return FA_I64;
    default:
      return 0;
  }
}

static PyObject *tuple_of(const int64_t *values, int32_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple && i < count; ++i) {
    PyObject *value = PyLong_FromLongLong(values[i]);
    if (!value || PyTuple_SetItem(tuple, i, value)) {
      Py_DECREF(tuple);
      return NULL;
    }
  }
  return tuple;
}

/* The strides of contiguous elements. */
static PyObject *packed_strides(const int64_t *shape, int32_t count) {
  PyObject *tuple = PyTuple_New(count);
  long long step = 1;
  for (int32_t i = count; tuple && i-- > 0; step *= shape[i]) {
    PyObject *value = PyLong_FromLongLong(step);
    if (!value || PyTuple_SetItem(tuple, i, value)) {
      Py_DECREF(tuple);
      return NULL;
    }
  }
  return tuple;
}

static PyObject *dlpack_view(PyObject *capsule) {
  enum { ON_CPU = 1, ON_CUDA = 2, ON_CUDA_HOST = 3, ON_CUDA_MANAGED = 13 };
  const dlpack_tensor *t;
  int read_only = 0;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const dlpack_versioned *versioned = (const dlpack_versioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (versioned->major != 1) return PyErr_Format(PyExc_BufferError, "DLPack version %u is unknown", versioned->major);
    t = &versioned->tensor;
    read_only = (versioned->flags & 3) != 0;
  } else {
    t = (const dlpack_tensor *)PyCapsule_GetPointer(capsule, "dltensor");
    if (!t) return NULL;
  }
  const int on_gpu = t->device.type == ON_CUDA || t->device.type == ON_CUDA_MANAGED;
  if (!on_gpu && t->device.type != ON_CPU && t->device.type != ON_CUDA_HOST) {
    return PyErr_Format(PyExc_BufferError, "DLPack device type %d is neither CPU (1) nor CUDA (2)",
                        (int)t->device.type);
  }
  const int dtype = dlpack_dtype(t->dtype.code, t->dtype.bits, t->dtype.lanes);
  return Py_BuildValue(
      "(KNNN(ii)NO)", (unsigned long long)((uintptr_t)t->data + t->byte_offset),
      dtype ? PyLong_FromLong(dtype) : Py_BuildValue("(iii)", t->dtype.code, t->dtype.bits, t->dtype.lanes),
      tuple_of(t->shape, t->ndim), t->strides ? tuple_of(t->strides, t->ndim) : packed_strides(t->shape, t->ndim),
      on_gpu ? FA_DEVICE_CUDA : FA_DEVICE_CPU, on_gpu ? (int)t->device.index : 0, PyBool_FromLong(!read_only), capsule);
}

#endif /* LIBFA_PYTHON_DLPACK_H */
