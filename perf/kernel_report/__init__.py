"""What the SASS of the kernels says of their speed; perf/kernel-model.md has the rules."""
