"""What the site adds to the pages of docs/, so that these read well on a forge too:

- A link that leaves docs/ leads to a page of the site, tree/PATH: a Markdown file as it is, another file as a listing, a folder
  as its README.md or a list of its files.
- include/fa.h is the pages of reference.py, and links to it lead there; python_reference.py and julia_reference.py make the pages of these
  packages, schema/generate.py that of sizes and offsets. rustdoc's pages, which FA_RUSTDOC names, are in rust/.
- After `<!-- include: PATH from "TEXT" to "TEXT" -->` come the lines of a file, from the one with the first text to the one with
  the second, both of which must be there ("^}": at the beginning of a line); without them, all lines.
- In the place of `<!-- plot: PATH -->` are the bars of a file of bench/results, by plots.py.
- An image `![...](FILE.svg)` of the tool or of perf/ is part of the page, whose colors its text has.
- Below a block of commands `fa draw` are their drawings, by the program that FA_TOOL names; without it there are none."""

import os
import pathlib
import posixpath
import re
import shlex
import shutil
import subprocess
import sys

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import julia_reference  # noqa: E402
import plots  # noqa: E402
import python_reference  # noqa: E402
import reference  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "schema"))
import generate  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^()\s]+)\)")
INCLUDE = re.compile(r'^<!-- include: (\S+)(?: from "(.*)" to "(.*)")? -->$', re.M)
PLOT = re.compile(r"^<!-- plot: (\S+) -->$", re.M)
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+[.]svg)\)")
DRAW = re.compile(r"^```sh\n((?:fa draw .*\n)+)```$", re.M)
FENCE = re.compile(r"^(```|~~~).*?^\1$", re.M | re.S)
LAYOUT = f"{reference.FOLDER}/layout.md"
LANGUAGES = {".h": "c", ".cu": "cpp", ".cuh": "cpp", ".inc": "cpp", ".def": "c", ".jl": "julia", ".f90": "fortran"}


def outside_code(text, change):
    """The text with change applied to all of it but fenced code."""
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join(parts) + change(text[end:])


def page_of(path):
    """The page of a file of the repository, as a path within docs/; None where there is no such file."""
    if path == "." or path.startswith(".."):
        return None
    if path == "include/fa.h":
        return f"{reference.FOLDER}/specification.md"
    if path == "schema/generate.py":
        return LAYOUT
    if path == "bindings/python/libfa":
        return python_reference.PAGE
    if path == "bindings/julia/src":
        return julia_reference.PAGE
    if (ROOT / path).is_dir():
        return page_of(f"{path}/README.md") or f"tree/{path}/index.md"
    if not (ROOT / path).is_file():
        return None
    if path.startswith("docs/"):
        return path[len("docs/") :]
    return f"tree/{path}" if path.endswith(".md") else f"tree/{path}.md"


def source_of(page):
    """The file, or the folder, that a page shows."""
    if page.startswith(f"{reference.FOLDER}/"):
        return "include/fa.h"
    if not page.startswith("tree/"):
        return f"docs/{page}"
    path = page[len("tree/") :]
    for candidate in (path, path.removesuffix(".md"), path.removesuffix("/index.md")):
        if (ROOT / candidate).exists():
            return candidate
    raise PluginError(f"{page} shows no file")


def targets(page, text):
    """The repository's paths of a page's links, with the rest of each link."""
    folder = posixpath.dirname(source_of(page))
    found = []

    def read(part):
        for link in LINK.findall(IMAGE.sub("", part)):
            path, mark, anchor = link.partition("#")
            if path and ":" not in path:
                found.append((link, posixpath.normpath(posixpath.join(folder, path)), mark + anchor))
        return part

    outside_code(text, read)
    return found


def content_of(page):
    """The Markdown of a page outside docs/."""
    path = source_of(page)
    if (ROOT / path).is_dir():
        names = sorted(entry.name for entry in (ROOT / path).iterdir() if not entry.name.startswith((".", "__")))
        return f"# {path}/\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    suffix = pathlib.Path(path).suffix
    fence = "````" if "```" in text else "```"
    language = LANGUAGES.get(suffix, suffix[1:] or "text")
    return f'# {path}\n\n{fence} {{.{language} linenums="1"}}\n{text}\n{fence}\n'


def on_files(files, config):
    """Adds the pages that others link to."""
    waiting = [
        (file.src_uri, (ROOT / "docs" / file.src_uri).read_text(encoding="utf-8")) for file in files.documentation_pages()
    ]
    waiting += [(page, content_of(page)) for page in ("tree/CONTRIBUTING.md", "tree/CHANGELOG.md")]
    known = {page for page, _ in waiting}
    made = {f"{reference.FOLDER}/{page}.md": text for page, text in reference.Reference().pages().items()}
    made[python_reference.PAGE] = python_reference.page()
    made[julia_reference.PAGE] = julia_reference.page()
    made[LAYOUT] = generate.layout()
    for page, content in made.items():
        known.add(page)
        files.append(File.generated(config, page, content=content))
    for page, _ in waiting:
        if page.startswith("tree/"):
            files.append(File.generated(config, page, content=dict(waiting)[page]))
    while waiting:
        page, text = waiting.pop()
        for _, path, _ in targets(page, text):
            target = page_of(path)
            if target is None or target in known:
                continue
            known.add(target)
            content = content_of(target)
            files.append(File.generated(config, target, content=content))
            if source_of(target).endswith(".md"):
                waiting.append((target, content))
    return files


def has(line, text):
    return line.startswith(text[1:]) if text.startswith("^") else text in line


def included(match):
    path, first, last = match.groups()
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    if first is not None:
        begins = [i for i, line in enumerate(lines) if has(line, first)]
        ends = [i for i, line in enumerate(lines) if begins and i >= begins[0] and has(line, last)]
        if not begins or not ends:
            raise PluginError(f"{match[0]}: no line of {path} has the text {last if begins else first!r}")
        lines = lines[begins[0] : ends[0] + 1]
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    suffix = pathlib.Path(path).suffix
    return "\n".join([f"```{LANGUAGES.get(suffix, suffix[1:])}", *(line[indent:] for line in lines), "```"])


def inlined(folder):
    """A function of a match of IMAGE on a page of this folder: the picture, without colors."""

    def picture(match):
        path = ROOT / folder / match[1]
        if not path.is_file():
            raise PluginError(f"{match[0]}: there is no {path.relative_to(ROOT)}")
        svg = re.sub(r"<style>.*?</style>", "", path.read_text(encoding="utf-8"), flags=re.S).replace("\n", "")
        return f'<div class="fa-drawings" data-search-exclude>{svg}</div>'

    return picture


def drawn(match):
    """The block, and the drawing of each of its commands, in which text has the page's color."""
    if not os.environ.get("FA_TOOL"):
        return match[0]
    drawings = []
    for command in match[1].splitlines():
        done = subprocess.run([os.environ["FA_TOOL"], *shlex.split(command)[1:], "--title", command], capture_output=True, text=True)
        if done.returncode != 0:
            raise PluginError(f"{command}: {done.stderr}")
        drawings.append(re.sub(r"<style>.*?</style>", "", done.stdout, flags=re.S).replace("\n", ""))
    return f'{match[0]}\n\n<div class="fa-drawings" data-search-exclude>{"".join(drawings)}</div>'


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    if uri.startswith(f"{reference.FOLDER}/"):
        return markdown
    markdown = outside_code(markdown, lambda part: IMAGE.sub(inlined(posixpath.dirname(source_of(uri))), part))
    pages = {link: (page_of(path), anchor) for link, path, anchor in targets(uri, markdown)}

    def relink(match):
        target, anchor = pages.get(match[1], (None, ""))
        if target is None:
            return match[0]  # mkdocs warns
        return f"]({os.path.relpath(target, posixpath.dirname(uri) or '.')}{anchor})"

    markdown = outside_code(markdown, lambda part: LINK.sub(relink, part))
    if uri.startswith("tree/") and not source_of(uri).endswith(".md"):
        page.meta["search"] = {"exclude": True}
    elif uri.startswith(("tree/perf/", "tree/emulator/", "tree/tests/")):
        page.meta["search"] = {"boost": 0.1}
    if uri == "guides/rust.md" and os.environ.get("FA_RUSTDOC"):
        markdown += '\n\n<a href="../rust/libfa/index.html">Types and functions of the crate</a>, by rustdoc.\n'
    markdown = PLOT.sub(lambda match: plots.plot(match[1]), markdown)
    return DRAW.sub(drawn, INCLUDE.sub(included, markdown))


def on_post_build(config):
    """Copies rustdoc's pages next to those of the site."""
    if os.environ.get("FA_RUSTDOC"):
        shutil.copytree(os.environ["FA_RUSTDOC"], pathlib.Path(config["site_dir"]) / "rust", dirs_exist_ok=True)
