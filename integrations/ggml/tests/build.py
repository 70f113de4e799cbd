"""Builds libggml-fa.so as a person does who has installed libfa, against the headers of stock.py's ggml, into a folder.

Usage: build.py CMAKE LIBFA_BUILD FOLDER COMPILER
"""
import pathlib
import sys

import stock
from plugins import build


def main(*given):
    build(*given, pathlib.Path(__file__).parents[1], f"-DFA_GGML_INCLUDE={stock.fetch()[0]}")


if __name__ == "__main__":
    stock.or_skip(main, *sys.argv[1:])
