"""errors.py SOURCE: each text in docs/troubleshooting.md is a message of the sources, with any values in it. Python's texts for an argument of the C call are made by words.py; the page quotes those of C."""

import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
VALUE = "\0"
LITERAL = r'"((?:[^"\\\n]|\\.)*)"'
KINDS = {  # which files, and the values in their strings
    ("src", "*.cpp"): r"%[#0-9.]*(?:ll|z)?[sdxgpu]",
    ("src", "*.h"): r"%[#0-9.]*(?:ll|z)?[sdxgpu]",
    ("bindings/python/libfa", "*.py"): r"\{[^{}]*\}",
    ("cmake", "*.cmake"): r"\$\{\w+\}",
    (".", "CMakeLists.txt"): r"\$\{\w+\}",
    ("kernels", "CMakeLists.txt"): r"\$\{\w+\}",
    ("tests", "CMakeLists.txt"): r"\$\{\w+\}",
}


def messages():
    """The strings of the sources, neighbours joined as compilers do, values replaced."""
    for (folder, pattern), value in KINDS.items():
        for path in (source / folder).glob(pattern) if pattern == "CMakeLists.txt" else (source / folder).rglob(pattern):
            for run in re.finditer(rf"f?{LITERAL}(?:\s*f?{LITERAL})*", path.read_text()):
                joined = "".join(re.findall(LITERAL, run[0])).replace('\\"', '"')
                yield re.sub(value, VALUE, joined)


patterns = {}
for message in set(messages()):
    parts = re.split(f"({VALUE})", message)
    pattern = re.compile("".join(".+?" if part == VALUE else re.escape(part) for part in parts), re.S)
    patterns[pattern] = len(message.replace(VALUE, ""))


def printed(text):
    """Whether a message, a quarter of which at least is not a value, has this text."""
    return any(constant >= max(15, len(text) / 4) and pattern.fullmatch(text) for pattern, constant in patterns.items())


quoted = re.findall(r"^```text\n(.*?)\n```$", (source / "docs/troubleshooting.md").read_text(), re.M | re.S)
strange = [text for text in quoted if not printed(text)]
if strange or len(quoted) < 20:
    sys.exit("\n".join([f"{len(quoted)} texts in docs/troubleshooting.md, of which libfa prints none of these:", *strange]))
print(f"{len(quoted)} texts")
