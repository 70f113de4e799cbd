"""nvdisasm's text (`nvdisasm -hex`) as functions of instructions, with the scheduling bits of each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FUNCTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
LABEL = re.compile(r"^\s*(\.L_\w+):")
REGISTERS = re.compile(r"EIATTR_REGCOUNT.*?index@\((\S+)\).*?\.word\s+0x([0-9a-f]+)", re.DOTALL)
INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(?P<predicate>!?U?P\w+)\s+)?(?P<opcode>[A-Z][A-Z0-9_]*)(?P<modifiers>(?:\.[A-Za-z0-9_]+)*)"
    r"\s*(?P<operands>[^;]*);\s*(?:/\*\s*0x(?P<low>[0-9a-f]{16})\s*\*/)?"
)
SECOND_WORD = re.compile(r"^\s*/\*\s*0x([0-9a-f]{16})\s*\*/\s*$")
TARGET = re.compile(r"`\((\.L_\w+)\)")


@dataclass
class Control:
    """The assembler's scheduling information, in bits 105..121 of an instruction (Jia et al. 2018, section 2.1)."""

    stall: int = 1  # cycles until the warp's next instruction may issue
    writes: int = 7  # scoreboard that the result releases; 7: none
    reads: int = 7  # scoreboard that having read the operands releases
    waits: int = 0  # scoreboards that must be free, one a bit

    @classmethod
    def of(cls, word: int) -> "Control":
        return cls(word >> 41 & 15, word >> 46 & 7, word >> 49 & 7, word >> 52 & 63)


@dataclass
class Instruction:
    opcode: str  # "HMMA"
    modifiers: str  # ".16816.F32.BF16"
    operands: str
    predicate: str = ""  # "!P0"
    control: Control = field(default_factory=Control)

    @property
    def target(self) -> str | None:
        """The label that a branch goes to."""
        found = TARGET.search(self.operands) if self.opcode == "BRA" else None
        return found.group(1) if found else None

    @property
    def conditional(self) -> bool:
        return self.predicate not in ("", "PT") or bool(re.search(r"\b(U?P\d|DIV)", self.operands.split("`")[0]))


@dataclass
class Function:
    name: str
    registers: int = 0
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # to the index of an instruction


def parse(text: str) -> list[Function]:
    """The functions of a cubin. Text that holds no instruction gives none."""
    functions: list[Function] = []
    for line in text.splitlines():
        if found := FUNCTION.match(line):
            functions.append(Function(found.group(1)))
        if not functions:
            continue
        now = functions[-1]
        if found := LABEL.match(line):
            now.labels[found.group(1)] = len(now.instructions)
        elif found := INSTRUCTION.match(line):
            now.instructions.append(
                Instruction(found["opcode"], found["modifiers"], found["operands"].strip(), found["predicate"] or "")
            )
        elif (found := SECOND_WORD.match(line)) and now.instructions:
            now.instructions[-1].control = Control.of(int(found.group(1), 16))
    registers = {name: int(count, 16) for name, count in REGISTERS.findall(text)}
    for function in functions:
        function.registers = registers.get(function.name, 0)
    return [f for f in functions if f.instructions]
