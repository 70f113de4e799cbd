"""reference.py SOURCE: the pages that scripts/docs/reference.py makes of fa.h have every word of its comments, every promise once, every
name; their links lead to anchors; and that python_reference.py's page and julia_reference.py's have every name of their packages."""

import html
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(source / "scripts" / "docs"))
import julia_reference  # noqa: E402
import python_reference  # noqa: E402
import reference  # noqa: E402

made = reference.Reference(source / "include" / "fa.h")
pages = made.pages()
wrong = []


def words(text):
    return re.findall(r"\w+", text.lower())


shown = html.unescape(
    re.sub(r"</?(?:a|code|p|pre|ul|li|table|thead|tbody|tr|th|td|strong)\b[^>]*>", " ", "\n".join(pages.values()))
)
have = {}
for word in words(shown):
    have[word] = have.get(word, 0) + 1
comments = re.findall(r"/\*(.*?)\*/", made.text[: made.text.rindex("#ifdef __cplusplus")], re.S)
comments = [comment for comment in comments if "----" not in comment]  # headings of parts
for word in words(re.sub(r"^ \*|\bdocs/|\.md\b", " ", "\n".join(comments), flags=re.M)):
    have[word] = have.get(word, 0) - 1
    if have[word] == -1:
        wrong.append(f"the word {word!r} of fa.h's comments is on no page, or not as often")

anchors = {page: re.findall(r'\bid="([^"]+)"|\{#([^}]+)\}$', text, re.M) for page, text in pages.items()}
anchors = {page: ["".join(pair) for pair in found] for page, found in anchors.items()}
anchors["specification"] += [reference.slug(heading) for heading, _ in made.sections if heading]
for page, found in anchors.items():
    wrong += [f"{page} has the anchor {name} twice" for name in {name for name in found if found.count(name) > 1}]
everywhere = [name for found in anchors.values() for name in found]
for tag in set(re.findall(r"\[(F\d+)\]", made.text)):
    if everywhere.count(tag) != 1:
        wrong.append(f"{tag} is {everywhere.count(tag)} anchors: expected one")
for name in [
    *made.header.functions,
    *made.header.structs,
    *made.header.scalars,
    *made.header.constants,
    *made.header.callbacks,
]:
    if not re.search(rf"\b{name}\b", shown):
        wrong.append(f"{name} is on no page")
for name in [*made.header.functions, *made.header.structs]:
    if name not in everywhere:
        wrong.append(f"{name} has no anchor")
for page, text in pages.items():
    for there, anchor in re.findall(r'href="(\w*)(?:\.html)?#([^"]+)"', text):
        if anchor not in anchors[there or page]:
            wrong.append(f"{page} links to {there}#{anchor}, which is not there")
python = python_reference.page()
for name in python_reference.exported("__init__"):
    if f"{{#libfa.{name}}}" not in python:
        wrong.append(f"{name} of libfa.__all__ is not on the page of Python")
julia = julia_reference.page()
names = re.findall(r"^## ([\w!]+) \{#\1\}$", julia, re.M)
wrong += [f"{name}, which LibFA.jl exports, is not on the page of Julia" for name in julia_reference.exported() - {*names}]
docstrings = julia_reference.documented()
for name in names:
    there = [there for there in julia_reference.references(docstrings[name]) if there not in names]
    wrong += [f"the docstring of Julia's {name} refers to {other}, which has none" for other in there]
wrong += [f"the page of Julia has {name} twice" for name in {name for name in names if names.count(name) > 1}]
wrong += [f"the page of Julia has {left}, which is no text" for left in re.findall(r"\$\(\w+\)|@ref", julia)]
wrong += [
    f"the page of Julia links to {name}, which is not there"
    for name in re.findall(r'href="#([^"]+)"', julia)
    if name not in names
]
if wrong:
    sys.exit("\n".join(wrong))
print(f"{len(everywhere)} anchors on {len(pages)} pages, {len(names)} names of Julia")
