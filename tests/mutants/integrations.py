"""Faults of the doors of other programs."""

from mutant import Mutant

MASK = r"^integrations\.ggml\.mask$"

INTEGRATIONS = [
    Mutant(
        "keys_behind_a_row_unread",
        "integrations/ggml/mask.cpp",
        "|| !all(row + span.end, row + mask.keys, hidden)",
        "",
        MASK,
    ),
    Mutant(
        "attended_keys_unread",
        "integrations/ggml/mask.cpp",
        "if (!all(row + span.begin, row + span.end, 0))",
        "if (false)",
        MASK,
    ),
    Mutant(
        "windows_of_two_widths",
        "integrations/ggml/mask.cpp",
        "window != pattern->window_left",
        "window < 0",
        MASK,
    ),
    Mutant(
        "windows_never_reached",
        "integrations/ggml/mask.cpp",
        "pattern->window_left >= 0 && offset + queries - 1 > pattern->window_left",
        "false",
        MASK,
    ),
    Mutant("distances_that_are_rounded", "integrations/ggml/mask.cpp", "longest = 2048", "longest = 4096", MASK),
]
