"""Reads include/fa.h: its constants, structures and functions, for the generators of bindings and for the check that a
binding has all of them. Understands the C that fa.h is written in, and stops at anything else."""

import dataclasses
import re


@dataclasses.dataclass
class Field:
    name: str
    type: str  # "int64_t", "fa_tensor", "const int32_t *"
    length: int  # of an array; 0 otherwise
    comment: str


@dataclasses.dataclass
class Function:
    name: str
    result: str
    parameters: list  # of (name, type)


@dataclasses.dataclass
class Header:
    constants: dict  # name -> value
    scalars: dict  # typedef name -> C type: fa_dtype -> int32_t
    structs: dict  # name -> list of Field
    functions: dict  # name -> Function
    callbacks: list  # typedefs of function pointers


def _declared(text):
    """("int64_t", "shape", 4) of "int64_t shape[4]"."""
    found = re.fullmatch(r"(.*?)(\w+)(?:\[(\d+)\])?", text.strip(), re.S)
    if not found or not found[1].strip():
        raise ValueError(f"fa.h: not a declaration: {text!r}")
    return re.sub(r"\s+", " ", found[1]).strip(), found[2], int(found[3] or 0)


def read(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)

    header = Header({}, {}, {}, {}, [])
    for name, value in re.findall(r"^#define (FA_\w+) +(-?\d+|\".*\")$", code, re.M):
        header.constants[name] = value.strip('"') if value.startswith('"') else int(value)
    for body in re.findall(r"^enum \{(.*?)^\};", code, re.M | re.S):
        for entry in filter(None, (part.strip() for part in body.split(","))):
            name, value = re.fullmatch(r"(FA_\w+) = (-?\d+)", entry).groups()
            header.constants[name] = int(value)
    header.scalars = {name: c_type for c_type, name in re.findall(r"^typedef (int32_t) (fa_\w+);", code, re.M)}
    header.callbacks = re.findall(r"^typedef void \(\*(fa_\w+)\)", code, re.M)

    for body, name in re.findall(r"^typedef struct fa_\w+ \{\n(.*?)^\} (fa_\w+);", text, re.M | re.S):
        fields = []
        for declaration, comment in re.findall(r"^\s*([^/\n][^;\n]*);\s*(?:/\*(.*?)\*/)?", body, re.M | re.S):
            c_type, field, length = _declared(declaration)
            fields.append(Field(field, c_type, length, re.sub(r"\s+", " ", comment).strip()))
        header.structs[name] = fields
    for declaration in re.findall(r"^FA_API (.*?);", code, re.M | re.S):
        result, name, parameters = re.fullmatch(r"(.*?)(\w+)\((.*)\)", declaration, re.S).groups()
        parts = [] if parameters.strip() == "void" else [_declared(part) for part in parameters.split(",")]
        header.functions[name] = Function(name, result.strip(), [(part[1], part[0]) for part in parts])
    return header
