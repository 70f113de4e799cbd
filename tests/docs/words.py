"""words.py SOURCE: docs/ has at most 12,000 words, code, formulas, comments and addresses of links apart."""

import pathlib
import re
import sys

MOST = 12_000
APART = (
    r"(?s:^```.*?^```$)",  # blocks of code
    r"(?s:^<!--.*?-->$)",
    r"(?:(?<=\n\n)|\A)(?:    .*\n|\n(?=    ))+",  # blocks that are indented: formulas
    r"`[^`]*`",
    r"(?<=\])\([^)]*\)",
)


def words_of(text: str) -> int:
    for pattern in APART:
        text = re.sub(pattern, " ", text, flags=re.M)
    return sum(re.search(r"\w", word) is not None for word in text.split())


pages = sorted((pathlib.Path(sys.argv[1]) / "docs").rglob("*.md"))
counts = {page: words_of(page.read_text()) for page in pages}
total = sum(counts.values())
if total > MOST:
    longest = sorted(counts, key=lambda page: -counts[page])[:5]
    sys.exit(f"docs/ has {total} words, expected at most {MOST}; " + ", ".join(f"{page.name} {counts[page]}" for page in longest))
print(f"{total} words in {len(pages)} pages")
