/* Looks into a DLPack capsule: the few fields of its two layouts (before and since version 1) that a view needs. */
#ifndef LIBFA_PYTHON_DLPACK_H
#define LIBFA_PYTHON_DLPACK_H

#include <Python.h>
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
  uint64_t flags; /* 1: read-only */
  dlpack_tensor tensor;
} dlpack_versioned;

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

static PyObject *dlpack_view(PyObject *capsule) {
  const dlpack_tensor *t;
  int read_only = 0;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const dlpack_versioned *versioned = (const dlpack_versioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (versioned->major != 1) return PyErr_Format(PyExc_BufferError, "DLPack version %u is unknown", versioned->major);
    t = &versioned->tensor;
    read_only = versioned->flags & 1;
  } else {
    t = (const dlpack_tensor *)PyCapsule_GetPointer(capsule, "dltensor");
    if (!t) return NULL;
  }
  PyObject *shape = tuple_of(t->shape, t->ndim);
  PyObject *strides = t->strides ? tuple_of(t->strides, t->ndim) : Py_BuildValue("");
  return Py_BuildValue("(KiiiiiNNN)", (unsigned long long)((uintptr_t)t->data + t->byte_offset), t->dtype.code,
                       t->dtype.bits, t->dtype.lanes, t->device.type, t->device.index, shape, strides,
                       PyBool_FromLong(read_only));
}

#endif /* LIBFA_PYTHON_DLPACK_H */
