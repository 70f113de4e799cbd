/* fa_set_log with a Python callable. A message may come from any thread, with or without the GIL. */
#ifndef LIBFA_PYTHON_LOG_H
#define LIBFA_PYTHON_LOG_H

#include <Python.h>
#include <fa.h>

static PyObject *log_callable;

static void log_to_python(void *user, const char *text) {
  (void)user;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *callable = log_callable;
  Py_XINCREF(callable);
  PyObject *result = callable ? PyObject_CallFunction(callable, "s", text) : NULL;
  if (callable && !result) PyErr_WriteUnraisable(callable);
  Py_XDECREF(result);
  Py_XDECREF(callable);
  PyGILState_Release(state);
}

static PyObject *set_log(PyObject *callable) {
  PyObject *previous = log_callable;
  int clear = callable == Py_None;
  if (!clear && !PyCallable_Check(callable)) {
    return PyErr_Format(PyExc_TypeError, "fa_set_log: expected a callable of one str, or None");
  }
  log_callable = clear ? NULL : callable;
  Py_XINCREF(log_callable);
  fa_set_log(clear ? NULL : log_to_python, NULL);
  Py_XDECREF(previous);
  Py_RETURN_NONE;
}

#endif /* LIBFA_PYTHON_LOG_H */
