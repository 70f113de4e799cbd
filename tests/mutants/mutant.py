"""A fault that is planted: the text that it replaces, and the tests of which one must then fail."""

from dataclasses import dataclass


@dataclass
class Mutant:
    name: str
    file: str
    old: str  # once in the file
    new: str
    tests: str  # a regular expression of ctest's
    build: str = "host"  # of scratch.py
    targets: tuple = ()  # to be built in addition to the tests' programs

    def __post_init__(self):
        assert self.old != self.new, self.name
