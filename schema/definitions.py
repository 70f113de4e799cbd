"""Reads schema/fields.def and schema/ops.def, for the generators and for the comparison with fa.h."""

import dataclasses
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Field:
    kind: str  # "tensor", "array" or "other"
    name: str
    promise: str  # "F96", or ""
    text: str
    access: str = ""  # these four: of tensors
    presence: str = ""
    type: str = ""
    shape: str = ""
    more: int = 0  # of an array: entries in addition to one for each sequence
    shared: bool = False  # it is one of FA_INPUT_FIELDS


@dataclasses.dataclass
class Schema:
    operations: dict  # name ("forward") -> list of Field
    types: dict  # rule -> text
    shapes: dict
    forms: dict  # rule of shape -> form


_COLUMNS = {
    "TENSOR": ("name", "access", "presence", "type", "shape", "promise", "text"),
    "ARRAY": ("name", "more", "promise", "text"),
    "OTHER": ("name", "promise", "text"),
}


def _field(kind, row):
    values = [value.strip().strip('"') for value in row.split(",", len(_COLUMNS[kind]) - 1)]
    field = Field(kind.lower(), **dict(zip(_COLUMNS[kind], values, strict=True)))
    field.more = int(field.more)
    field.promise = field.promise.removeprefix("none")
    return field


def read():
    text = (FOLDER / "fields.def").read_text(encoding="utf-8")
    lists = dict(re.findall(r"^#define (\w+)\([^)]*\)\s*\\\n((?:.*\\\n)*.*\n)", text, re.M))
    types = dict(re.findall(r'RULE\((\w+), "(.*)"\)', lists["FA_TYPE_RULES"]))
    rules = re.findall(r'RULE\((\w+), (\w+), "(.*)"\)', lists["FA_SHAPE_RULES"])
    shapes, forms = {name: text for name, _, text in rules}, {name: form for name, form, _ in rules}

    def fields(name):
        found = []
        for line in lists[name].splitlines():
            line = line.rstrip("\\ ").strip()
            if included := re.match(r"(FA_\w+)\(", line):
                found += [dataclasses.replace(field, shared=included[1] == "FA_INPUT_FIELDS") for field in fields(included[1])]
            elif row := re.fullmatch(r"(\w+)\((.*)\)", line):
                found.append(_field(row[1], row[2]))
            elif line:
                raise ValueError(f"schema/fields.def: not a field: {line}")
        return found

    operations = re.findall(r"^ +OPERATION\((\w+), \w+, (\w+)\)", (FOLDER / "ops.def").read_text(encoding="utf-8"), re.M)
    return Schema({op: fields(name) for op, name in operations}, types, shapes, forms)
