"""The faults that are planted."""

from importlib import import_module
from pathlib import Path

from bindings import BINDINGS
from cuda import CUDA
from host import API, CPU, EXTREMES, REPAIR, TOOL
from integrations import INTEGRATIONS
from rotated import ROTATED
from trees import TREES

# Operations may have theirs in of_NAME.py.
OF_OPERATIONS = [mutant for file in sorted(Path(__file__).parent.glob("of_*.py")) for mutant in import_module(file.stem).MUTANTS]
MUTANTS = API + CPU + REPAIR + EXTREMES + TOOL + TREES + ROTATED + OF_OPERATIONS + CUDA + BINDINGS + INTEGRATIONS
