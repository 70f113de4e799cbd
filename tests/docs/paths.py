"""paths.py SOURCE: every file and folder that a document names in backticks, or a comment of a source by its whole path, exists."""

import re
import subprocess
import sys
from pathlib import Path

source = Path(sys.argv[1])
listed = subprocess.run(["git", "ls-files"], check=False, cwd=source, capture_output=True, text=True)
if listed.returncode != 0:
    sys.exit(77)  # a source package
FILES = listed.stdout.split("\n")[:-1]
FOLDERS = {file.split("/")[0] for file in FILES if "/" in file}
PATH = r"(?<![\w/.~$}<>-])(?:" + "|".join(map(re.escape, sorted(FOLDERS))) + r")/[\w./*{},+-]*[\w/*}]"
EXTENSION = re.compile(r"\.(?:md|sh|py|h|c|cu|jl|rs|cpp|cuh|inc|def|txt|hpp)$")
COMMENTS = {**dict.fromkeys((".h", ".cpp", ".cu", ".cuh", ".inc", ".def", ".hpp", ".rs", ".c"), r"//(.*)|^ ?\*(.*)|/\*(.*)"),
            **dict.fromkeys((".py", ".sh", ".cmake", ".txt", ".jl"), r'#(.*)|"""(.*)')}  # fmt: skip
ELSEWHERE = {  # of the build tree, of an installation, or of other projects
    "include/libfa", "include/libfa/fa.h", "include/ggml.h", "kernels/built.inc", "kernels/tile.cuh",
    "tests/test_flash_attn.py",
}  # fmt: skip


def exists(path: str, file: str) -> bool:
    if path in ELSEWHERE or re.search(r"NAME|LANGUAGE", path):
        return True
    braces = re.search(r"\{([^}]*)\}", path)
    every = [path.replace(braces[0], part) for part in braces[1].split(",")] if braces else [path]
    folders = [source, *(source / parent for parent in Path(file).parents)]
    return all(any(any(folder.glob(each.rstrip("/") + end)) for folder in folders for end in ("", ".*")) for each in every)


wrong = []
count = 0
for file in FILES:
    suffix = Path(file).suffix
    if suffix != ".md" and (suffix not in COMMENTS or "third_party" in file):
        continue
    for number, line in enumerate((source / file).read_text(errors="replace").split("\n"), 1):
        if suffix == ".md":
            named = [m[0] for span in re.findall(r"`([^`]+)`", line) if (m := re.match(PATH + r"(?=$| )", span))]
        else:
            comment = re.search(COMMENTS[suffix], line)
            words = re.findall(PATH, next(filter(None, comment.groups()), "")) if comment else []
            named = [word for word in words if EXTENSION.search(word)]
        count += len(named)
        wrong += [f"{file}:{number} names {path}, which does not exist" for path in named if not exists(path, file)]
if wrong:
    sys.exit("\n".join(wrong))
print(f"{count} paths")
