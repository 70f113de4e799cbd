"""options.py SOURCE: the table of docs/building.md has every option of the CMake sources, no other, and their defaults where these
are constants."""

import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
FOLDERS = ["cmake", "src", "kernels", "tools", "bindings", "integrations", "tests", "bench", "perf", "examples", "reference"]
scripts = [source / "CMakeLists.txt"]
for folder in FOLDERS:
    scripts += [*(source / folder).rglob("CMakeLists.txt"), *(source / folder).rglob("*.cmake")]
scripts = [script for script in scripts if "tests/install/" not in str(script)]  # projects that use libfa

defaults = {}  # of each option: a constant, or None
for script in scripts:
    text = re.sub(r"^\s*#.*", "", script.read_text(), flags=re.M)
    for name, default in re.findall(r'\boption\(\s*(\w+)\s+"[^"]*"\s+(\S+?)\s*\)', text):
        defaults[name] = default if default in ("ON", "OFF") else None
    for name, value in re.findall(r"\bset\(\s*(\w+)\s+([^()]*?)\s+CACHE\s+(?:STRING|BOOL|PATH|FILEPATH)\b", text):
        defaults.setdefault(name, value.strip('"') if "$" not in value else None)
    for name in re.findall(r"\bfind_program\(\s*(FA_NVCC)\b", text):
        defaults[name] = None
defaults["CMAKE_BUILD_TYPE"] = defaults["BUILD_SHARED_LIBS"] = None  # of the top level alone

rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", (source / "docs/building.md").read_text(), re.M))
wrong = [f"docs/building.md lacks {name}, an option of the CMake sources" for name in sorted(defaults.keys() - rows.keys())]
wrong += [
    f"docs/building.md has {name}, which is no option of the CMake sources" for name in sorted(rows.keys() - defaults.keys())
]
for name, default in defaults.items():
    said = rows.get(name)
    if default is not None and said is not None and said.split("; as a subproject")[0] != (default or "empty"):
        wrong.append(f"docs/building.md says that {name} is {said!r} by default, and it is {default or 'empty'!r}")
if wrong:
    sys.exit("\n".join(wrong))
print(f"{len(rows)} options")
