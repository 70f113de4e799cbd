"""python -m fa_emu is fa-emu."""

from . import main

main()
