"""The faults that are planted."""

from bindings import BINDINGS
from cuda import CUDA
from host import API, CPU, EXTREMES, REPAIR, TOOL
from integrations import INTEGRATIONS
from rotated import ROTATED
from trees import TREES

MUTANTS = API + CPU + REPAIR + EXTREMES + TOOL + TREES + ROTATED + CUDA + BINDINGS + INTEGRATIONS
