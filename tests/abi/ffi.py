"""ffi.py SOURCE [LIBRARY]: docs/ffi.md describes fa.h as it is, with the offsets of layout.c, which the compiler checks; and its
example, run with the library, computes the stated result. [F2]"""

import pathlib
import re
import subprocess
import sys

source = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(source / "schema"))
import generate  # noqa: E402

fa = generate.FA
document = (source / "docs/ffi.md").read_text()

if generate.docs() + "\n" != document:
    sys.exit("docs/ffi.md does not have the tables of fa.h's structures as they are: run scripts/generate-bindings.sh docs")

expected = "\n".join(generate.functions())
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
