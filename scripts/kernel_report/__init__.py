"""What the SASS of the kernels says of their speed; docs/kernel-model.md has the rules."""
