"""Faults of the doors of other programs."""

from mutant import Mutant

MASK = r"^integrations\.ggml\.mask$"
NODES = r"^integrations\.onnxruntime\.(nodes|wrong)$"


def onnxruntime(name, file, old, new, tests=NODES):
    """A fault of the provider, whose tests build it against an installed libfa."""
    return Mutant(name, f"integrations/onnxruntime/{file}.cpp", old, new, tests, targets=("fa",))


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
    onnxruntime(
        "onnx_pairs_of_rotation_swapped",
        "group_query",
        "interleaved_ ? FA_APPEND_ROTARY_INTERLEAVED : 0",
        "interleaved_ ? 0 : FA_APPEND_ROTARY_INTERLEAVED",
    ),
    onnxruntime(
        "onnx_past_one_too_long",
        "group_query",
        "result.past[b] = int32_t(keys - queries)",
        "result.past[b] = int32_t(keys - queries + (queries < rows))",
    ),
    onnxruntime(
        "onnx_new_keys_one_too_early",
        "group_query",
        "append.cache_seqlens = n.past;",
        "append.cache_seqlens = n.past;\n  if (n.past[0] > 1) --n.past[0];",
    ),
    onnxruntime(
        "onnx_window_without_the_key_of_a_query", "group_query", "window_ > 0 ? window_ - 1 : -1", "window_ > 0 ? window_ : -1"
    ),
    onnxruntime("onnx_scale_of_nodes_unread", "group_query", "desc.softmax_scale = scale_;", ""),
    onnxruntime("onnx_softcap_of_nodes_unread", "group_query", "desc.softcap = softcap_;", ""),
    onnxruntime("onnx_softcap_of_another_size", "attention", "desc.softcap = softcap_;", "desc.softcap = softcap_ * 2;"),
    onnxruntime(
        "onnx_values_in_place_of_packed_keys",
        "group_query",
        'heads_of("key", k, heads_, kv_heads_)',
        'heads_of("key", k, heads_ + kv_heads_, kv_heads_)',
    ),
    onnxruntime(
        "onnx_first_heads_alone",
        "layout",
        "(of_heads > 1 ? head * group * t.stride[dimension_of_heads] : 0)",
        "(of_heads > 1 ? head * t.stride[dimension_of_heads] : 0)",
    ),
    onnxruntime("onnx_nibbles_from_seven", "group_query", "static const float eight = 8;", "static const float eight = 7;"),
    onnxruntime(
        "onnx_sinks_left_out", "group_query", "if (smooth_ || sink) forward.sinks", "if (smooth_ && sink) forward.sinks"
    ),
    onnxruntime("onnx_smooth_softmax_of_one", "group_query", "sink.dtype(), h) : 0.0F", "sink.dtype(), h) : 1.0F"),
    onnxruntime(
        "onnx_every_position_of_a_first_prompt",
        "group_query",
        "if (rows != longest || call->input(query_seqlens)) return given;",
        "if (rows == longest) return given;",
    ),
    onnxruntime("onnx_new_rows_over_the_past", "layout", "joined.all.shape[1] - joined.fresh.shape[1], b, h", "0, b, h"),
    onnxruntime("onnx_mask_of_the_first_sequence", "multi_head", "shown[b * keys + j] > 0", "shown[j] > 0"),
    onnxruntime(
        "onnx_negative_masks_shown",
        "multi_head",
        "shown[(b * rows + r) * keys + j] > 0",
        "shown[(b * rows + r) * keys + j] != 0",
    ),
    onnxruntime(
        "onnx_bias_of_queries_for_values", "multi_head", "sum.as<float>() + 2 * heads_ * dim", "sum.as<float>() + heads_ * dim"
    ),
    onnxruntime("onnx_causal_last_query_too", "multi_head", "i == rows - 1 || j <= past + i", "j <= past + i"),
    onnxruntime("onnx_lengths_unread", "attention", "if (used) args.seqused_k = lengths;", "if (used) args.q_offset = offset;"),
    onnxruntime(
        "onnx_attention_bias_of_other_batches",
        "multi_head",
        "{added.shape[0] == 1 ? 1 : batch,",
        "{added.shape[0] <= batch ? -1 : batch,",
        r"^integrations\.onnxruntime\.host$",
    ),
    onnxruntime(
        "onnx_values_of_other_batches",
        "layout",
        "if (of_v != of_k) {",
        "if (of_v[1] != of_k[1]) {",
        r"^integrations\.onnxruntime\.wrong$",
    ),
]
