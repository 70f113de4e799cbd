"""promises.py SOURCE: every promise of fa.h, which ends in a tag ([F12]), has a test that names the tag, and every tag that a
test names is one of fa.h.

A tag in a GoogleTest source is above a test, within one, or on a row of a table that the file uses. In a program or
script of tests/abi it is in the comment at the head. The file itself is named in its folder's CMakeLists.txt, or by the operation
that it tests, where that takes them by fa_files_of_operations (cmake/operations.cmake)."""

import pathlib
import re
import sys

TAG = re.compile(r"\[F(\d+)\]")
TEST = re.compile(r"(?:TYPED_)?TEST(?:_F|_P)?\((\w+), (\w+)\)")
TABLE = re.compile(r"^(?:static )?const(?:expr)? .*?(\w+)(?:\[\])? = \{$")
SOURCES = (".cpp", ".c", ".py", ".sh")
RETIRED = {"30"}  # they promised too much: their numbers are not used again


def tests_of(lines):
    """For each line with tags: the tags, and the test or the table that they belong to, or why they belong to nothing."""
    inside = ""  # the test or table whose lines these are
    above = []  # tags of a comment whose next line of code is still to come
    for line in lines:
        test, table = TEST.match(line), TABLE.match(line)
        if test or table:
            inside = f"{test[1]}.{test[2]}" if test else f"table {table[1]}"
            yield from ((tag, inside if test else "") for tag in above)
            above = []
        tags = TAG.findall(line)
        comment = line.startswith("//")
        if tags and comment and not inside:
            above += tags
        elif tags:
            yield from ((tag, inside) for tag in tags)
        if not comment and above:  # code that is no test
            yield from ((tag, "") for tag in above)
            above = []
        if line.startswith("}"):
            inside = ""
    yield from ((tag, "") for tag in above)


def is_built(path, source):
    """Whether the CMakeLists.txt of the file's folder names it."""
    built = (path.parent / "CMakeLists.txt").read_text(encoding="utf-8")
    operations = re.findall(r"OPERATION\((\w+), \w+, FA_", (source / "schema/ops.def").read_text(encoding="utf-8"))
    of_operations = re.findall(r'fa_files_of_operations\(\w+ "" (\S+)\)', built)
    if path.name in {operation + suffix for operation in operations for suffix in of_operations}:
        return True
    return re.search(rf"(?<![\w.]){re.escape(path.name)}(?!\w)", built) is not None


def named_in(path, source):
    """(tag, where, fault) for each tag in a file of the tests."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(source)
    if not TAG.search(text) or path.name == pathlib.Path(__file__).name:
        return
    listed = "" if is_built(path, source) else "which its CMakeLists.txt does not name"
    lines = text.splitlines()
    if any(TEST.match(line) or TABLE.match(line) for line in lines):
        for tag, place in tests_of(lines):
            fault = listed or ("" if place else "which is above no test, in none, and on no row of a table")
            if "DISABLED_" in place:
                fault = "whose test is disabled"
            if place.startswith("table ") and len(re.findall(rf"\b{place[6:]}\b", text)) < 2:
                fault = f"whose {place} is unused"
            yield tag, f"{name}: {place}", fault
    else:
        head = re.match(r"(?:#!.*\n)?(?:/\*.*?\*/|\"\"\".*?\"\"\"|(?:(?:#|//).*\n)+)", text, re.S)
        in_head = TAG.findall(head[0]) if head else []
        for tag in TAG.findall(text):
            yield tag, str(name), listed or ("" if tag in in_head else "which is not in the comment at its head")


def main(source):
    header = (source / "include/fa.h").read_text(encoding="utf-8")
    promised = TAG.findall(header)
    faults = [f"fa.h has [F{tag}] twice" for tag in sorted(set(promised)) if promised.count(tag) > 1]
    faults += [f"fa.h has [F{tag}], which is retired" for tag in sorted(RETIRED & set(promised))]
    tested = set()
    for path in sorted((source / "tests").rglob("*")):
        if path.suffix not in SOURCES:
            continue
        for tag, where, fault in named_in(path, source):
            if fault:
                faults.append(f"{where} names [F{tag}], {fault}")
            elif tag not in promised:
                faults.append(f"{where} names [F{tag}], which fa.h does not promise")
            else:
                tested.add(tag)
    faults += [f"fa.h promises [F{tag}], which no test names" for tag in promised if tag not in tested]
    if not promised:
        faults.append("fa.h has no tags")
    print("\n".join(faults) or f"{len(promised)} promises, each with a test")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
