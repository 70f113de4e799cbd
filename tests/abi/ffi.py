"""ffi.py SOURCE [LIBRARY]: the numbers of fa.h that schema/generate.py prints are all of the header's, with the offsets of layout.c,
which the compiler checks; and the program of docs/ffi.md, run with the library, computes the right result. [F2]"""

import pathlib
import re
import subprocess
import sys

source = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(source / "schema"))
import generate  # noqa: E402

fa = generate.FA
page = generate.layout()

printed = {name: int(value) for name, value in re.findall(r"^(FA_\w+) (-?\d+)$", page, re.M)}
if printed != {name: value for name, value in fa.constants.items() if "VERSION" not in name} or len(printed) < 40:
    sys.exit(f"schema/generate.py layout prints other constants: {printed}")

rows = re.findall(r"^### (\w+): \d+ bytes|^\| \d+ \| `(\w+)` \| (?:[iu]\d+|f32|ptr|fa_tensor)", page, re.M)
fields = {}
for structure, field in rows:
    fields.setdefault(structure or max(fields, key=list(fields).index), []).extend([field] if field else [])
if fields != {name: [field.name for field in declared] for name, declared in fa.structs.items()}:
    sys.exit(f"schema/generate.py layout prints other fields: {fields}")

for line in ("fa_task(ptr ctx, i64 i)", "fa_parallel_for(ptr user, ptr task, ptr ctx, i64 n)", "fa_log(ptr user, ptr text)",
             "fa_create(ptr desc, ptr op) -> i32", "fa_kernel_info(i32 index, ptr info) -> i32"):  # fmt: skip
    if f"\n{line}\n" not in page:
        sys.exit(f"schema/generate.py layout does not print: {line}")

if len(sys.argv) > 2:
    program = source / "tests/clients/by_numbers.py"
    run = subprocess.run([sys.executable, "-B", program, sys.argv[2]], text=True, capture_output=True)
    if (run.returncode, run.stdout) != (0, "[1.0, 1.5, 2.0, 2.5]\n[2.083, 1.083, 0.583, 0.25]\n"):
        sys.exit(f"{program}: {run}")
