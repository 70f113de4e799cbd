"""schema.py SOURCE COMPILER: schema/fields.def and schema/ops.def describe fa.h as it is: its operations, the fields of their
structures, and of each field the kind, the presence, the types, the shape and the tag that its comment names. A field that one
of the two lacks does not compile."""

import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
source = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(source / "bindings"), str(source / "schema")]
import header  # noqa: E402
import definitions  # noqa: E402

fa = header.read(source / "include/fa.h")
listed = definitions.read()
faults = []
comments = {(struct, field.name): field.comment for struct, fields in fa.structs.items() for field in fields}


def expect(condition, text):
    if not condition:
        faults.append(text)


def comment_of(struct, name):
    """A field's comment with those of the fields that it refers to: "as k", "shaped as q", "as fa_forward_args.q", "the same
    types" as the one before it."""
    text = comments[struct, name]
    names = [field.name for field in fa.structs[struct]]
    if "the same types" in text:
        text += " " + comments[struct, names[names.index(name) - 1]]
    for other, field in re.findall(r"\bas (?:(fa_\w+_args)\.)?(\w+)", text):
        if (other or struct, field) in comments and (other or struct, field) != (struct, name):
            text += " " + comment_of(other or struct, field)
    return text


def check_tensor(struct, field, where):
    own, full = comments[struct, field.name], comment_of(struct, field.name)
    expect((field.presence == "optional") == ("absent" in own), f"{where}: {field.presence}, and fa.h says: {own}")
    if own == "must be absent":
        return
    names = re.findall(r"`(\w+)`", listed.types[field.type])
    expect(names and all(name in full for name in names), f"{where}: of types {names}, and fa.h says: {full}")
    shape = re.match(r"\(.*?\)|as \w", listed.shapes[field.shape])[0]
    expect(shape.replace("Dv)", "D)") in full.replace("Dv)", "D)"), f"{where}: of shape {shape}, and fa.h says: {full}")
    expect(("Dv" in shape) <= ("Dv" in full), f"{where}: of shape {shape}, and fa.h says: {full}")


expect(
    [f"fa_{op}_args" for op in listed.operations] == [name for name in fa.structs if name.endswith("_args")],
    f"schema/ops.def has the operations {', '.join(listed.operations)}, and fa.h the structures {', '.join(fa.structs)}",
)
for op, fields in listed.operations.items():
    struct = f"fa_{op}_args"
    for function in (f"fa_{op}", f"{struct}_init", f"fa_{op}_workspace_size"):
        expect(function in fa.functions, f"fa.h has no {function}")
    declared = {field.name: field for field in fa.structs.get(struct, []) if field.name != "struct_size"}
    names = [field.name for field in fields]
    expect(sorted(names) == sorted(declared), f"{op}: not in both lists: {sorted(set(names) ^ set(declared))}")
    for field in (field for field in fields if field.name in declared):
        where = f"schema/fields.def, {field.name} of {op}"
        kind = {"fa_tensor": "tensor", "const int32_t *": "array"}.get(declared[field.name].type, "other")
        expect(field.kind == kind, f"{where}: listed as {field.kind}, but of type {declared[field.name].type}")
        expect(field.text, f"{where}: has no text")
        tags = re.findall(r"\[(F\d+)\]", comments["fa_forward_args" if field.shared else struct, field.name])
        expect(tags[:1] == [field.promise] * bool(field.promise), f"{where}: promise {field.promise or 'none'}, in fa.h {tags}")
        if kind == "tensor":
            check_tensor(struct, field, where)



def compiles_without(path, line):
    """Whether src/core/fields.h compiles where the line has gone from schema/fields.def or from include/fa.h."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("include/fa.h", "schema/fields.def", "schema/ops.def", "schema/schema.h"):
            copy = pathlib.Path(folder, name)
            copy.parent.mkdir(exist_ok=True)
            text = (source / name).read_text(encoding="utf-8")
            copy.write_text(text.replace(line, "", 1) if name == path else text, encoding="utf-8")
        folders = [f"-I{folder}", f"-I{folder}/include", f"-I{source}/src"]
        command = [sys.argv[2], "-std=c++20", "-fsyntax-only", "-x", "c++", *folders, "-"]
        return subprocess.run(command, input='#include "core/fields.h"\n', text=True, capture_output=True).returncode == 0


expect(compiles_without("schema/fields.def", ""), "src/core/fields.h does not compile as it is")
fields_def = (source / "schema/fields.def").read_text(encoding="utf-8")
for name in ("sinks", "kv_batch_idx", "stream", "lse", "num_splits", "dsinks", "accumulate", "num_parts"):
    line = re.search(rf"^  \w+\({name}, .*\\?\n", fields_def, re.M)[0]
    expect(not compiles_without("schema/fields.def", line), f"schema/fields.def compiles without {name}")
lines = ("  fa_tensor sinks;", "  const int32_t *kv_batch_idx;", "  int32_t num_splits;", "  uint32_t accumulate;", "  int32_t num_parts;")
for line in lines:
    expect(not compiles_without("include/fa.h", line), f"fa.h compiles without {line}")

sys.exit("\n".join(faults) or 0)
