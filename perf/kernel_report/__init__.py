"""The speed of kernels by their SASS; perf/kernel-model.md has the rules."""
