"""Continuous batching: each step computes the next tokens of all running requests in one packed call a layer, prompts in chunks,
and verifies drafts of the others as trees.
"""

from dataclasses import dataclass, field

import model as llama
import numpy as np
from drafts import Tree, draft
from pages import PAGE_SIZE, OutOfPages, Pages

import libfa

CHUNK = 32  # tokens of a prompt that one step computes


@dataclass
class Request:
    name: str
    prompt: list[int]
    count: int
    tokens: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    cached: int = 0  # tokens whose keys and values are in the cache

    @property
    def text(self) -> list[int]:
        return self.prompt + self.tokens

    @property
    def done(self) -> bool:
        return len(self.tokens) >= self.count


class Cache:
    """8-bit codes of the keys and values of one layer, and a scale for each token and head."""

    def __init__(self, pages: int, sizes: llama.Sizes) -> None:
        shape = (pages, PAGE_SIZE, sizes.kv_heads)
        self.k, self.v = np.zeros((*shape, sizes.dim), np.int8), np.zeros((*shape, sizes.dim), np.int8)
        self.k_scale, self.v_scale = np.zeros((*shape, 1), np.float32), np.zeros((*shape, 1), np.float32)

    def move(self, source: tuple[np.ndarray, np.ndarray], target: tuple[np.ndarray, np.ndarray]) -> None:
        """Rows, each a page and its row, to others."""
        for part in (self.k, self.v, self.k_scale, self.v_scale):
            part[target] = part[source]


class Engine:
    def __init__(self, model: llama.Model, pages: int, branches: int = 2, depth: int = 4) -> None:
        self._model, self._branches, self._depth = model, branches, depth
        self._pages, self._caches = Pages(pages), [Cache(pages, model.sizes) for _ in model.layers]
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.statistics = dict.fromkeys(("steps", "computed", "shared", "drafted", "accepted", "preempted"), 0)

    @property
    def idle(self) -> bool:
        return not (self.waiting or self.running)

    def step(self) -> list[Request]:
        """Computes one batch; the requests that it completed."""
        self._admit()
        trees = self._schedule()
        if not trees:
            raise OutOfPages
        rows = self._compute(trees)
        self.statistics["steps"] += 1
        for request, tree in trees:
            self._accept(request, tree, rows[: len(tree)])
            rows = rows[len(tree) :]
        completed = [request for request in self.running if request.done]
        for request in completed:
            self._release(request)
        return completed

    def _admit(self) -> None:
        """Requests join at any step; a prefix that is in the cache is not computed again."""
        while self.waiting:
            request = self.waiting.pop(0)
            request.pages = self._pages.prefix(request.text)
            request.cached = len(request.pages) * PAGE_SIZE
            self.statistics["shared"] += request.cached
            self.running.append(request)

    def _schedule(self) -> list[tuple[Request, Tree]]:
        """The new tokens of each running request. Where pages run out, the latest requests wait again."""
        trees: list[tuple[Request, Tree]] = []
        for request in list(self.running):
            if request not in self.running:
                continue
            missing = request.text[request.cached :]
            if len(missing) > 1:
                tree = Tree.chain(missing[:CHUNK])
            else:
                tree = draft(request.text, self._branches, min(self._depth, request.count - len(request.tokens) - 1))
            while not self._reserve(request, len(tree)):
                latest = self.running[-1]
                self.statistics["preempted"] += 1
                self._release(latest)
                self.waiting.insert(0, latest)
                if latest is request:
                    break
            else:
                trees.append((request, tree))
        return trees

    def _reserve(self, request: Request, tokens: int) -> bool:
        try:
            while len(request.pages) * PAGE_SIZE < request.cached + tokens:
                request.pages.append(self._pages.take())
        except OutOfPages:
            return False
        return True

    def _release(self, request: Request) -> None:
        self.running.remove(request)
        self._pages.give_back(request.pages)
        request.pages, request.cached = [], 0

    def _compute(self, trees: list[tuple[Request, Tree]]) -> np.ndarray:
        """The most likely token after each new one. New tokens of all requests are packed one after another."""
        model = self._model
        starts = np.cumsum([0, *(len(tree) for _, tree in trees)], dtype=np.int32)
        cached = np.array([request.cached for request, _ in trees], np.int32)
        table = np.zeros((len(trees), max(len(request.pages) for request, _ in trees)), np.int32)
        for row, (request, _) in zip(table, trees):
            row[: len(request.pages)] = request.pages
        depth = np.concatenate([tree.depth for _, tree in trees])
        longest = max(len(tree) for _, tree in trees)
        mask = np.concatenate([tree.mask((longest + 31) // 32) for _, tree in trees])
        places = dict(block_table=table, cu_seqlens_new=starts, cache_seqlens=cached)
        rotary = dict(rotary_cos=model.cos, rotary_sin=model.sin, positions=np.repeat(cached, np.diff(starts)) + depth)
        view = dict(block_table=table, cu_seqlens_q=starts, seqused_k=cached + np.diff(starts))
        view.update(causal=True, tree_mask=mask, max_seqlen_q=longest)

        x = model.embedding[np.concatenate([tree.tokens for _, tree in trees])]
        self.statistics["computed"] += len(x)
        for layer, cache in zip(model.layers, self._caches):
            q, k, v = layer.heads(x)
            scales = dict(k_scale=cache.k_scale, v_scale=cache.v_scale)
            q = libfa.append(k, v, cache.k, cache.v, q=q, compute_scales=True, **scales, **places, **rotary)
            x = layer.rest(x, libfa.attention(q, cache.k, cache.v, **scales, **view))
        return model.logits(x).argmax(-1)

    def _accept(self, request: Request, tree: Tree, best: np.ndarray) -> None:
        """Follows the tree from its root as long as it has the model's own token, and moves what was verified together."""
        first = request.cached
        if len(request.text) - first > 1:  # of a prompt all tokens are known
            path = list(range(len(tree)))
            request.cached += len(tree)
            if request.cached == len(request.text):
                request.tokens.append(int(best[-1]))
        else:
            path = tree.verified(best)
            request.cached += len(path)
            request.tokens += [int(best[node]) for node in path]
            self.statistics["drafted"] += len(tree) - 1
            self.statistics["accepted"] += len(path) - 1
            pages = np.array(request.pages)
            rows = np.arange(first, request.cached), first + np.array(path)
            target, source = ((pages[row // PAGE_SIZE], row % PAGE_SIZE) for row in rows)
            for cache in self._caches:
                cache.move(source, target)
        for end in range(first // PAGE_SIZE + 1, request.cached // PAGE_SIZE + 1):
            self._pages.filled(request.pages[end - 1], request.text[: end * PAGE_SIZE])
