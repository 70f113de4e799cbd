"""include/fa.h as pages of the site, from the comments that man pages are made of too: the introduction, the constants, the
structures and the functions. Tags of promises become small anchors, names links; no text is left out (tests/docs/reference.py)."""

import html
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bindings"))
import header  # noqa: E402

FOLDER = "reference"
PAGES = {"specification": "fa.h", "functions": "Functions", "structures": "Structures", "constants": "Constants"}
SECTIONS = {
    "constants": "constants",
    "structures": "structures",
    "attention": "functions",
    "errors and information": "functions",
}


def unframed(comment):
    """The lines of a comment, without /*, * and */."""
    lines = comment.strip().removeprefix("/*").removesuffix("*/").rstrip().splitlines()
    return [lines[0].strip(), *(re.sub(r"^ \*( |$)", "", line).rstrip() for line in lines[1:])]


class Chunk:
    """A comment and the declarations below it."""

    def __init__(self, section, comment, code):
        self.section, self.comment, self.code = section, comment, code
        kinds = {
            "functions": r"^FA_API .*?(\w+)\(",
            "structures": r"^typedef struct \w+ (?:\{.*?\} )?(\w+);|^typedef void \(\*(\w+)\)",
            "constants": r"^typedef int32_t (\w+);",
        }
        found = re.search(kinds[SECTIONS[section]], code, re.M | re.S)
        self.name = next(filter(None, found.groups())) if found else self.family()

    def values(self):
        """(name, value, comment) of its enumeration."""
        body = re.search(r"enum \{(.*?)\};", self.code, re.S)
        return re.findall(r"(FA_\w+) = (-?\d+),?[ \t]*(?:/\*(.*?)\*/)?", body[1], re.S) if body else []

    def family(self):
        """The common name of an enumeration without a type: FA_FLAG_*."""
        names = [name for name, _, _ in self.values()]
        common = os.path.commonprefix(names) if len(names) > 1 else names[0][: names[0].index("_", len("FA_")) + 1]
        return re.sub(r"[^_]*$", "", common) + "*"

    @property
    def anchor(self):
        return self.name.rstrip("*").rstrip("_")


def chunks(text):
    """The declarations of the header."""
    section, comment, code, depth = None, None, [], 0
    lines = iter(text[text.index("/* ---- constants") : text.rindex("#ifdef __cplusplus")].splitlines())
    for line in lines:
        heading = re.fullmatch(r"/\* -+ (.*?) -+ \*/", line)
        if heading or (not line and not depth):
            if code:
                yield Chunk(section, comment, "\n".join(code))
            section, comment, code = heading[1] if heading else section, None, []
        elif line.startswith("/*") and not code:
            while not line.endswith("*/"):
                line += "\n" + next(lines)
            comment = line
        else:
            code.append(line)
            depth += line.count("{") - line.count("}")
    if code:
        yield Chunk(section, comment, "\n".join(code))


def introduction(text):
    """(heading, lines) of each section of the first comment; the first has no heading."""
    sections = [(None, [])]
    for line in unframed(text[: text.index("*/") + 2]):
        if re.fullmatch(r"[A-Z][A-Z, ]{3,}", line):
            sections.append((line.capitalize(), []))
        else:
            sections[-1][1].append(line)
    return sections


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


class Reference:
    def __init__(self, path=ROOT / "include" / "fa.h"):
        self.text = path.read_text(encoding="utf-8")
        self.header = header.read(path)
        self.chunks = list(chunks(self.text))
        self.sections = introduction(self.text)
        self.places = {}  # of names and tags: page and anchor
        for chunk in self.chunks:
            page = SECTIONS[chunk.section]
            for name in [chunk.name, *re.findall(r"\(\*(\w+)\)|^typedef int32_t (\w+);", chunk.code, re.M)]:
                for part in [name] if isinstance(name, str) else filter(None, name):
                    self.places[part] = (page, chunk.anchor)
            for name, _, _ in chunk.values():
                self.places[name] = (page, name)
        for heading, lines in self.sections:
            self.place_tags("specification", "\n".join(lines))
        for chunk in self.chunks:
            self.place_tags(SECTIONS[chunk.section], f"{chunk.comment}\n{chunk.code}")

    def place_tags(self, page, text):
        for tag in re.findall(r"\[(F\d+)\]", text):
            self.places[tag] = (page, tag)

    def link(self, name, page, shown):
        if name not in self.places:
            return shown
        there, anchor = self.places[name]
        return f'<a href="{"" if there == page else there + ".html"}#{anchor}">{shown}</a>'

    def inline(self, text, page):
        """Text as HTML, with anchors for tags, and links for names, sections and pages."""

        def replaced(found):
            tag, mention, name, section, document = found.groups()
            if tag:
                return f'<a class="fa-tag" id="{tag}" href="#{tag}" title="A promise that tests name">{tag}</a>'
            if mention:
                return self.link(mention, page, mention)
            if name:
                return self.link(re.split(r"[.(]", name)[0], page, f"<code>{name}</code>")
            if section:
                there = "" if page == "specification" else "specification.html"
                return f'<a href="{there}#{slug(section)}">{section.capitalize()}</a>'
            return f'<a href="../{document}.html">{document}</a>'

        pattern = r"\[(F\d+)\]|\b(F\d+)\b|\b((?:fa_\w+|FA_[A-Z0-9_]+\*?)(?:\.\w+)?(?:\(\))?)|&quot;([A-Z][A-Z ]{5,})&quot;|docs/(\w+)\.md"
        return re.sub(pattern, replaced, html.escape(text))

    def block(self, lines, page):
        """Lines without a blank one among them, or of equal shape, as HTML."""
        if not lines[0].startswith("  "):
            return f"<p>{self.inline(' '.join(lines), page)}</p>"
        indent = min(len(line) - len(line.lstrip()) for line in lines if line)
        lines = [line[indent:] for line in lines]
        if lines[0].startswith("- "):
            items = re.split(r"(?:^|\n)- ", "\n".join(lines))[1:]
            return "<ul>" + "".join(f"<li>{self.inline(' '.join(item.split()), page)}</li>" for item in items) + "</ul>"
        language = {"#": "c", "c": "sh"}.get(lines[0][0]) if lines[0].startswith(("#include", "cc ")) else None
        if language:
            return "\n".join([f"```{language}", *lines, "```"])
        return f'<pre class="fa-text">{self.inline(chr(10).join(lines), page)}</pre>'

    def blocks(self, lines, page):
        """Paragraphs and shaped blocks, in which blank lines may be."""
        found, current = [], []
        for line in [*lines, ""]:
            shaped = line.startswith("  ")
            if current and ((not line and not current[0].startswith("  ")) or (line and shaped != current[0].startswith("  "))):
                found.append(current)
                current = []
            if line or current:
                current.append(line)
        found.append(current)
        trimmed = ["\n".join(block).rstrip("\n").split("\n") for block in found if any(block)]
        return "\n\n".join(self.block(block, page) for block in trimmed)

    def specification(self):
        parts = [f"# {PAGES['specification']}"]
        for heading, lines in self.sections:
            if heading:
                parts.append(f"## {heading}")
            parts.append(self.blocks(lines, "specification"))
        return parts

    def described(self, chunk, page):
        """A chunk's comment: text, errors, notes."""
        if not chunk.comment:
            return ""
        text = "\n".join(unframed(chunk.comment))
        notes = []
        for note in (r"\s*\b(Thread-safe\.)", r"\s*\b(Since \d+\.\d+\.)"):
            found = re.search(note, text)
            if found and page == "functions":
                notes.append(found[1])
                text = text[: found.start()] + text[found.end() :]
        text, _, errors = text.partition("Errors: ")
        shown = self.blocks(text.splitlines(), page)
        if errors:
            shown += f"\n\n<p><strong>Errors</strong>: {self.inline(' '.join(errors.split()), page)}</p>"
        if notes:
            shown += f'\n\n<p class="fa-notes">{" ".join(notes)}</p>'
        return shown

    def table(self, head, rows):
        cells = "".join(f"<th>{name}</th>" for name in head)
        body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
        return f"<table><thead><tr>{cells}</tr></thead>\n<tbody>{body}</tbody></table>"

    def declaration(self, chunk, page):
        if page == "structures" and "{" in chunk.code:
            rows = []
            for field in self.header.structs[chunk.name]:
                kind = html.escape(field.type) + (f"[{field.length}]" if field.length else "")
                name = f'<code id="{chunk.name}.{field.name}">{field.name}</code>'
                rows.append((name, self.link(field.type, page, f"<code>{kind}</code>"), self.inline(field.comment, page)))
            return self.table(("field", "type", "meaning"), rows)
        if page == "constants" and chunk.values():
            rows = [
                (f'<code id="{name}">{name}</code>', value, self.inline(" ".join(comment.split()), page))
                for name, value, comment in chunk.values()
            ]
            return self.table(("name", "value", "meaning"), rows)
        return f"```c\n{chunk.code.replace('FA_API ', '')}\n```"

    def declarations(self, page):
        parts = [f"# {PAGES[page]}"]
        for chunk in self.chunks:
            if SECTIONS[chunk.section] == page:
                declared = self.declaration(chunk, page)
                order = (
                    [declared, self.described(chunk, page)] if page == "functions" else [self.described(chunk, page), declared]
                )
                parts += [f"## {chunk.name.replace('*', chr(92) + '*')} {{#{chunk.anchor}}}", *filter(None, order)]
        if page == "constants":
            rows = [(f"<code>{name}</code>", value, "") for name, value in self.header.constants.items() if "VERSION" in name]
            parts += ["## Version", self.table(("name", "value", "meaning"), rows)]
        return parts

    def pages(self):
        """The Markdown of each page."""
        names = {page: self.declarations(page) for page in PAGES if page != "specification"}
        names["specification"] = self.specification()
        return {page: "\n\n".join(parts) + "\n" for page, parts in names.items()}
