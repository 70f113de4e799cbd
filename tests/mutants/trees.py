"""Faults of trees of new tokens."""

from mutant import Mutant

ARGUMENTS = r"^api\.tree"
ENGINE = r"^tree\.f32\.(avx2|generic)$"

TREES = [
    Mutant(
        "tree_without_a_causal_mask",
        "src/api/args.cpp",
        "args.tree_mask.data && attention.mask",
        "false && attention.mask",
        ARGUMENTS,
    ),
    Mutant("words_of_all_rows", "src/api/tensors.cpp", "{words(call_.max_seqlen_q),", "{words(call_.rows_q),", ARGUMENTS),
    Mutant("tree_first_word", "src/cpu/tree.h", "token / 32 * keys.word_step)", "0 * keys.word_step)", ENGINE),
    Mutant(
        "tree_bits_past_the_last",
        "src/cpu/tree_rows.cpp",
        "std::min(s.queries, s.keys",
        "std::min(s.queries + 9, s.keys",
        ENGINE,
    ),
    Mutant("tree_window_by_place", "src/cpu/tree.h", "= position_of(keys, token);", "= keys.first + token;", ENGINE),
    Mutant("tree_distance_by_place", "src/cpu/tree.h", "is_new ? position_of(tile.new_keys, token) : key", "key", ENGINE),
    Mutant(
        "tree_position_by_place",
        "src/cpu/worker.cpp",
        "if (call_.tree_mask) set_position(row, tile_.tree[i].position);",
        "",
        ENGINE,
    ),
    Mutant(
        "tree_in_whole_blocks",
        "src/cpu/kernel/prefill.h",
        "t.full_high[v] = smaller(t.full_high[v], tile.new_keys.first);",
        "",
        ENGINE,
    ),
    Mutant(
        "tree_in_whole_groups",
        "src/cpu/kernel/group.h",
        "g.full_high = smaller(g.full_high, tile.new_keys.first);",
        "",
        ENGINE,
    ),
    Mutant(
        "tree_of_the_first_row",
        "src/cpu/kernel/decode.h",
        "pairs.row[i] = smaller(g.first + i % rows, g.last);",
        "pairs.row[i] = g.first;",
        ENGINE,
    ),
    Mutant(
        "tree_of_values_not_finite",
        "src/cpu/nonfinite.cpp",
        "attends_in_tree(tile, static_cast<int>(&row - tile.row), j) &&",
        "",
        ENGINE,
    ),
    Mutant("tree_words_passed_over", "src/cpu/tree_rows.cpp", "(low / 32 + 1) * 32", "(low / 32 + 2) * 32", ENGINE),
    Mutant("tree_first_key", "src/cpu/tree_rows.cpp", "low < high ? low : tokens.low + keys.first", "low", ENGINE),
    Mutant("tree_chunk", "src/cpu/tree_rows.cpp", "row.high = std::min(row.high, begin + a.chunk);", "", ENGINE),
    Mutant("tree_depth_of_the_next", "src/cpu/tree_rows.cpp", "depth < s.queries)", "depth <= s.queries)", ENGINE),
]
