"""The faults that are planted."""

from bindings import BINDINGS
from cuda import CUDA
from host import API, CPU, EXTREMES, REPAIR, TOOL

MUTANTS = API + CPU + REPAIR + EXTREMES + TOOL + CUDA + BINDINGS
