"""Trees of tokens that may follow, and their masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Tree:
    """Tokens, each behind its parent; the root, the last token that is certain, is its own parent."""

    tokens: list[int]
    parents: list[int]

    @staticmethod
    def chain(tokens: list[int]) -> Tree:
        return Tree(tokens, [max(i - 1, 0) for i in range(len(tokens))])

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def depth(self) -> np.ndarray:
        """Steps from the root to each token."""
        depth = np.zeros(len(self), np.int32)
        for node in range(1, len(self)):
            depth[node] = depth[self.parents[node]] + 1
        return depth

    def mask(self, words: int) -> np.ndarray:
        """(tokens, words): bit j of a token's row, counted from the lowest bit of its first word: it attends token j."""
        bits = np.zeros((len(self), 32 * words), bool)
        for node, parent in enumerate(self.parents):
            bits[node] = bits[parent]
            bits[node, node] = True
        return np.packbits(bits, axis=1, bitorder="little").view("<i4")

    def verified(self, best: np.ndarray) -> list[int]:
        """The nodes from the root on whose tokens are the best ones after their parents."""
        path = [0]
        for node in range(1, len(self)):
            if self.parents[node] == path[-1] and self.tokens[node] == best[path[-1]]:
                path.append(node)
        return path


def draft(text: list[int], branches: int, depth: int) -> Tree:
    """Prompt lookup: each branch is what followed an earlier occurrence of the last token, the latest first."""
    tree = Tree(text[-1:], [0])
    places = [place for place in range(len(text) - 2, -1, -1) if text[place] == text[-1]]
    for place in places[:branches]:
        parent = 0
        for token in text[place + 1 : place + 1 + depth]:
            known = [node for node in range(1, len(tree)) if tree.parents[node] == parent and tree.tokens[node] == token]
            if not known:
                tree.tokens.append(token)
                tree.parents.append(parent)
            parent = known[0] if known else len(tree) - 1
    return tree
