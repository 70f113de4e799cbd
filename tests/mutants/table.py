"""The faults that are planted."""

from importlib import import_module
from pathlib import Path

from bindings import BINDINGS
from cpu import CPU, EXTREMES, REPAIR
from cuda import CUDA
from integrations import INTEGRATIONS
from interface import API
from rotated import ROTATED
from tool import TOOL
from trees import TREES

# Operations may have theirs in of_NAME.py.
OF_OPERATIONS = [mutant for file in sorted(Path(__file__).parent.glob("of_*.py")) for mutant in import_module(file.stem).MUTANTS]
MUTANTS = API + CPU + REPAIR + EXTREMES + TOOL + TREES + ROTATED + OF_OPERATIONS + CUDA + BINDINGS + INTEGRATIONS
