"""The faults that are planted."""

from bindings import BINDINGS
from cuda import CUDA
from host import API, CPU, TOOL

MUTANTS = API + CPU + TOOL + CUDA + BINDINGS
