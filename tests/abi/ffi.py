"""ffi.py SOURCE [LIBRARY]: docs/ffi.md describes fa.h as it is, at the offsets that layout.c holds the compiler to; and its
example, run with the library, computes what it says. [F2]"""

import pathlib
import re
import subprocess
import sys

source = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(source / "bindings"))
import header  # noqa: E402

fa = header.read(source / "include/fa.h")
layout = (source / "tests/abi/layout.c").read_text()
document = (source / "docs/ffi.md").read_text()

SCALARS = {"int64_t": "i64", "int32_t": "i32", "uint32_t": "u32", "size_t": "u64", "float": "f32", "void": ""}
SCALARS.update(dict.fromkeys(fa.scalars, "i32"))


def plain(c_type):
    """The type as an FFI knows it: u64, ptr, fa_tensor."""
    return "ptr" if "*" in c_type or c_type in fa.callbacks else SCALARS.get(c_type, c_type)


def structure(name):
    offsets = re.findall(rf"AT\({name}, (\w+), (\d+)\)", layout)
    if [field for field, _ in offsets] != [field.name for field in fa.structs[name]]:
        sys.exit(f"layout.c does not have the fields of {name} in order")
    size = re.search(rf"sizeof\({name}\) == (\d+)", layout)[1]
    lines = [f"### {name}: {size} bytes, aligned to 8", "", "| offset | field | type |", "|---:|---|---|"]
    for (field, offset), declared in zip(offsets, fa.structs[name]):
        of = f"[{declared.length}]" if declared.length else ""
        lines.append(f"| {offset} | `{field}` | {plain(declared.type)}{of} |")
    return lines


def functions():
    for name, function in fa.functions.items():
        parameters = ", ".join(f"{plain(c_type)} {parameter}" for parameter, c_type in function.parameters)
        result = plain(function.result)
        yield f"{name}({parameters})" + (f" -> {result}" if result else "")


for name in fa.structs:
    expected = "\n".join(structure(name))
    if f"{expected}\n\n" not in document:
        sys.exit(f"docs/ffi.md does not have the table of {name} as it is:\n{expected}")

expected = "\n".join(functions())
if f"```\n{expected}\n```" not in document:
    sys.exit(f"docs/ffi.md does not have the functions as they are:\n{expected}")

described = {name: int(value) for name, value in re.findall(r"`(FA_\w+)` (\d+)", document)}
constants = {name: value for name, value in fa.constants.items() if "VERSION" not in name}
if described != constants:
    sys.exit(f"docs/ffi.md has other constants: {sorted(set(described.items()) ^ set(constants.items()))}")

if len(sys.argv) > 2:
    example = re.search(r"```python\n(.*?)```", document, re.S)[1]
    run = subprocess.run([sys.executable, "-", sys.argv[2]], input=example, text=True, capture_output=True)
    if (run.returncode, run.stdout) != (0, "[1.0, 1.5, 2.0, 2.5]\n[2.083, 1.083, 0.583, 0.25]\n"):
        sys.exit(f"the example: {run}")
