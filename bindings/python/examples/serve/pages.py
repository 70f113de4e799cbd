"""Pages of the cache: who has which, and which prefixes of texts they hold."""

from collections import OrderedDict

PAGE_SIZE = 16


class OutOfPages(Exception):
    pass


class Pages:
    """A page that holds a whole block of a text is found again by the text up to its end, and shared. When nobody uses it, it keeps
    its contents until its memory is needed, the longest unused first."""

    def __init__(self, count: int) -> None:
        self._users = [0] * count
        self._unused = OrderedDict.fromkeys(range(count))
        self._page_of: dict[tuple[int, ...], int] = {}
        self._text_of: dict[int, tuple[int, ...]] = {}

    def take(self) -> int:
        """An empty page."""
        if not self._unused:
            raise OutOfPages
        page, _ = self._unused.popitem(last=False)
        self._page_of.pop(self._text_of.pop(page, ()), None)
        self._users[page] = 1
        return page

    def prefix(self, text: list[int]) -> list[int]:
        """The pages that hold the longest prefix of the text, now used by the caller too; at least one token is left out."""
        pages: list[int] = []
        while (end := (len(pages) + 1) * PAGE_SIZE) < len(text) and (page := self._page_of.get(tuple(text[:end]))) is not None:
            self._users[page] += 1
            self._unused.pop(page, None)
            pages.append(page)
        return pages

    def filled(self, page: int, text: list[int]) -> None:
        """The page has the last block of the text: let others find it, unless they have one with the same."""
        if tuple(text) not in self._page_of and page not in self._text_of:
            self._page_of[tuple(text)], self._text_of[page] = page, tuple(text)

    def give_back(self, pages: list[int]) -> None:
        for page in pages:
            self._users[page] -= 1
            if self._users[page] == 0:
                self._unused[page] = None
