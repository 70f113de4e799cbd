/* fa_set_log with a Python callable. A message may come from any thread, with or without the GIL, while another thread sets
 * the callable: free-threaded Python has no lock around either. */
#ifndef LIBFA_PYTHON_LOG_H
#define LIBFA_PYTHON_LOG_H

#include <Python.h>
#include <fa.h>
#include <pthread.h>

static PyObject *log_callable; /* of the main interpreter, which PyGILState_Ensure is about */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER; /* no Python runs while it is held */

static void log_to_python(void *user, const char *text) {
  (void)user;
  PyGILState_STATE state = PyGILState_Ensure();
  pthread_mutex_lock(&log_lock);
  PyObject *callable = log_callable;
  Py_XINCREF(callable);
  pthread_mutex_unlock(&log_lock);
  PyObject *result = callable ? PyObject_CallFunction(callable, "s", text) : NULL;
  if (callable && !result) PyErr_WriteUnraisable(callable);
  Py_XDECREF(result);
  Py_XDECREF(callable);
  PyGILState_Release(state);
}

static PyObject *set_log(PyObject *callable) {
  const int clear = callable == Py_None;
  if (!clear && !PyCallable_Check(callable)) {
    return PyErr_Format(PyExc_TypeError, "fa_set_log: expected a callable of one str, or None");
  }
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_RuntimeError, "fa_set_log: called in a subinterpreter; call it in the main interpreter");
    return NULL;
  }
  if (!clear) Py_INCREF(callable);
  pthread_mutex_lock(&log_lock);
  PyObject *previous = log_callable;
  log_callable = clear ? NULL : callable;
  pthread_mutex_unlock(&log_lock);
  fa_set_log(clear ? NULL : log_to_python, NULL);
  Py_XDECREF(previous);
  Py_RETURN_NONE;
}

#endif /* LIBFA_PYTHON_LOG_H */
