"""Machine code for the tests of the kernel report."""

from __future__ import annotations

from kernel_report import sass


def made(text: str) -> sass.Instruction:
    """The instruction of a line such as "HMMA.16816.F32 R8, R4, R12, R8"."""
    opcode, _, operands = text.partition(" ")
    name, dot, modifiers = opcode.partition(".")
    return sass.Instruction(name, dot + modifiers, operands)
