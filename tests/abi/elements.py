"""elements.py SOURCE: no code of the product takes an element type for one of two. `x == f16 ? a : b` means "else bf16" and is
silently wrong with the next type; a specialisation of Element, or a list made of core/elements.inc or codes.inc, does not compile there.

In src, kernels, reference and tools no type of these but f32 is compared by name, and f32 is not compared in the
condition of a ?:. The lines that are about one type alone, whatever others exist, are listed here."""

import pathlib
import re
import sys

FOLDERS = ("src", "kernels", "reference", "tools")
SUFFIXES = {".h", ".cpp", ".cuh", ".cu", ".inc"}

# (file, text of the line): why it is about this type alone.
ALONE = {
    ("reference/number.h", "return dtype == FA_BF16;"): "instructions of bf16 alone",
}

# These define the formats.
DEFINITIONS = {"reference/codes.h"}

LINE = re.compile(r"^FA_(?:ELEMENT|CODES)\((\w+), \d+, (\w+), (\w+), [\d, ]+\)", re.MULTILINE)
COMMENT_OR_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def blank(match):
    """As many lines, without words."""
    return re.sub(r"[^\n]", " ", match[0])


def faults_of(path, text, types):
    """(line number, line) of each comparison that is not to be."""
    names = "|".join(types)
    compared = re.compile(rf"[=!]=\s*(?:\w+::)*({names})\b|(?<![\w:])(?:\w+::)*({names})\s*[=!]=")
    lines, found = text.splitlines(), set()
    code = COMMENT_OR_TEXT.sub(blank, text)
    for match in compared.finditer(code):
        name = (match[1] or match[2]).removeprefix("FA_").lower()
        rest = re.split(r"[;{}]", code[match.end() :], maxsplit=1)[0]
        if name != "f32" or "?" in rest:
            found.add(code.count("\n", 0, match.start()) + 1)
    for number in sorted(found):
        line = lines[number - 1].strip()
        if not any(path == file and part in line for file, part in ALONE):
            yield number, line


def main(source):
    types = []
    for table in ("elements.inc", "codes.inc"):
        lines = LINE.findall((source / "src/core" / table).read_text(encoding="utf-8"))
        assert lines, f"{table} has no lines that are as its head says"
        types += [name for dtype, short, use in lines if use != "other" for name in (f"FA_{dtype}", short)]
    faults, seen = [], set()
    for path in sorted(path for folder in FOLDERS for path in (source / folder).rglob("*") if path.suffix in SUFFIXES):
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(source))
        seen |= {entry for entry in ALONE if entry[0] == name and entry[1] in text}
        if name not in DEFINITIONS:
            faults += [f"{name}:{number}: {line}" for number, line in faults_of(name, text, types)]
    faults += [f"{file} no longer has the line {part!r}, which elements.py excuses" for file, part in ALONE.keys() - seen]
    for fault in faults:
        print(fault)
    if faults:
        raise SystemExit(
            f"{len(faults)} places take an element type for one of two: make the difference a member of Element, or visit "
            'core/elements.inc (CONTRIBUTING.md, "Adding an element type")'
        )


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
