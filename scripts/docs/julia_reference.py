"""The Julia package's functions and types as a page of the site, from their docstrings. Julia is not needed."""

import html
import pathlib
import re

PACKAGE = pathlib.Path(__file__).parents[2] / "bindings" / "julia" / "src"
PAGE = "reference/julia.md"
DOCSTRING = re.compile(r'^"""\n(.*?)\n"""\n(.*)$|^"(?!"")([^"]*)"\n(.*)$', re.M | re.S)
DEFINED = re.compile(r"(?:@\w+ )*(?:function |macro |const |(?:mutable )?struct |abstract type )?(?:\w+\.)*([\w!]+)")
CALLED = re.compile(r" {4}(?:LibFA\.)?([\w!]+)\(")
REFERENCE = re.compile(r"\[`([\w.!]+)`\]\(@ref\)")


def sources():
    """The files that LibFA.jl includes, in order; C.jl is fa.h, which the site shows elsewhere."""
    package = (PACKAGE / "LibFA.jl").read_text(encoding="utf-8")
    return [
        package,
        *(
            (PACKAGE / f"{name}.jl").read_text(encoding="utf-8")
            for name in re.findall(r'^include\("(\w+)\.jl"\)', package, re.M)
            if name != "C"
        ),
    ]


def package_docstring():
    return re.match(r'"""\n(.*?)\n"""', sources()[0], re.S)[1]


def exported():
    names = re.search(r"^export (.*?)\n\n", sources()[0], re.M | re.S)[1]
    return {name.strip() for name in names.split(",")}


def documented():
    """The docstring of each name, in the order of the sources."""
    found = {}
    for text in sources()[1:]:
        constants = dict(re.findall(r'^const (\w+) = """\n(.*?)"""', text, re.M | re.S))
        found.update({f"$({name})": rows for name, rows in constants.items()})
    docstrings = {}
    for text in sources()[1:]:
        place = 0
        while match := DOCSTRING.search(text, place):
            place = match.end(1) + 5 if match[1] is not None else match.end(3) + 2
            docstring, definition = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
            name = CALLED.match(docstring) or DEFINED.match(definition.split("\n")[0])
            for constant, rows in found.items():
                docstring = docstring.replace(constant, rows)
            if name:
                docstrings.setdefault(name[1], docstring)
    return docstrings


def public(docstrings):
    """The exported names, those whose docstrings begin with their call, and the names to which these docstrings refer."""
    called = [name for name, text in docstrings.items() if CALLED.match(text)]  # which a macro of the package's own is not
    names = [name for name in docstrings if name in exported()]
    names += [name for name in called if name not in names]
    for text in [package_docstring(), *map(docstrings.get, names)]:
        names += [there for there in dict.fromkeys(references(text)) if there in docstrings and there not in names]
    return names


def references(docstring):
    return [name.removeprefix("LibFA.") for name in REFERENCE.findall(docstring)]


def shown(docstring, names):
    """A docstring as Markdown of the site: a call is a block of code, and references are links."""
    lines = docstring.split("\n")
    call = [line[4:] for line in lines[: next((i for i, line in enumerate(lines) if not line.startswith("    ")), len(lines))]]
    text = "\n".join(lines[len(call) :]).strip()

    def link(match):
        name = match[1].removeprefix("LibFA.")
        return f'<a href="#{html.escape(name)}"><code>{match[1]}</code></a>' if name in names else f"`{match[1]}`"

    parts = ["```julia\n" + "\n".join(call) + "\n```"] if call else []
    return "\n\n".join([*parts, REFERENCE.sub(link, text).replace("\\`", "`")])


def page():
    docstrings = documented()
    names = public(docstrings)
    parts = ["# Julia", shown(package_docstring(), names)]
    for name in names:
        parts += [f"## {name} {{#{name}}}", shown(docstrings[name], names)]
    return "\n\n".join(parts) + "\n"
