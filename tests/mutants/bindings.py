"""Faults of the bindings, which the suites in their own languages see."""

from mutant import Mutant


def binding(language, folder, targets=("fa",)):
    def planted(name, file, old, new, tests):
        of, to_build = f"{language}_{name}", (*targets, "fa_dump_cases")
        return Mutant(of, f"bindings/{folder}/{file}", old, new, f"^{language}\\.{tests}$", "bindings", to_build)

    return planted


python = binding("python", "python/libfa", ("fa_python",))
rust = binding("rust", "rust/libfa/src")
julia = binding("julia", "julia/src")


BINDINGS = [
    python("lengths_of_leftpad", "fields.py", '"seqused_k": 0,\n    "leftpad_k": 0', '"seqused_k": 0,\n    "leftpad_k": 1', "(attention|cases)"),
    python("types_of_sinks", "fields.py", '"sinks": Rules("per_head", "f32")', '"sinks": Rules("per_head", "any_float")', "dtypes"),
    Mutant(
        "python_heads_first",
        "bindings/python/call.h",
        "tensor->stride[1] = tensor->stride[2];\n        tensor->shape[2] = heads",
        "tensor->stride[1] = step;\n        tensor->shape[2] = heads",
        r"^python\.(attention|cases)$",
        "bindings",
        ("fa_python", "fa_dump_cases"),
    ),
    Mutant(
        "python_bias_from_the_left",
        "bindings/python/call.h",
        "case SCORES:\n      return tensor_of_view(view, 4 - ndim",
        "case SCORES:\n      return tensor_of_view(view, 0",
        r"^python\.(attention|cases)$",
        "bindings",
        ("fa_python", "fa_dump_cases"),
    ),
    Mutant(
        "python_slopes_of_batches",
        "bindings/python/call.h",
        "tensor_of_view(view, ndim == 1,",
        "tensor_of_view(view, 0,",
        r"^python\.(attention|cases)$",
        "bindings",
        ("fa_python", "fa_dump_cases"),
    ),
    python("typestr_by_name", "arrays.py", 'name != "bfloat16" or typestr', "name not in BY_NAME and typestr", "dtypes"),
    python("words_of_dimensions", "words.py", "text = _SHAPE.sub(shape, text)", "", "errors"),
    python("negative_bit", "libraries.py", "if x.is_neg() or (", "if (", "lazy"),
    python("storage_of_zeros", "libraries.py", "x.storage_offset() * SIZES[dtype]", "0", "lazy"),
    python("version_of_what_is_written", "libraries.py", "if not x.is_inference():", "if False:", "lazy"),
    python("read_only_out", "tensors.py", "    if not seen[5]:", "    if seen[5] is None:", "(attention|errors)"),
    python(
        "masks_swapped",
        "scalars.py",
        'True: capi.FA_MASK_CAUSAL, "top_left": capi.FA_MASK_CAUSAL_TOP_LEFT',
        'True: capi.FA_MASK_CAUSAL_TOP_LEFT, "top_left": capi.FA_MASK_CAUSAL',
        "(attention|cases)",
    ),
    python(
        "transformers_window",
        "transformers_masks.py",
        '{"window": (sliding_window - 1, -1)}',
        '{"window": (sliding_window, -1)}',
        "transformers",
    ),
    python(
        "direct_gradients_swapped",
        "torch_direct.py",
        "dq, dk, dv, dbias, dsinks = wanted",
        "dk, dq, dv, dbias, dsinks = wanted",
        "torch",
    ),
    python("transformers_gaps", "transformers_masks.py", "if not is_gapless:", "if not is_gapless and chunk:", "transformers"),
    python(
        "lengths_of_a_cache",
        "flash_attn.py",
        "seqused_k=used,\n        kv_batch",
        "seqused_k=used if causal else None,\n        kv_batch",
        "flash_attn",
    ),
    python("new_keys_counted", "kvcache.py", "used + new[0].shape[1]", "used", "flash_attn"),
    python(
        "interleaved_pairs",
        "append.py",
        "FA_APPEND_ROTARY_INTERLEAVED if rotary_interleaved else 0",
        "FA_APPEND_ROTARY_INTERLEAVED",
        "(append|flash_attn)",
    ),
    python("queries_at_one_place", "kvcache.py", "        if not local:", "        if local:", "flash_attn"),
    python("slots_of_64_bits", "arrays.py", '"i8": capi.FA_I64}', '"i8": capi.FA_I32}', "append"),
    python(
        "gradients_of_heads_first", "backward.py", "*constant), heads_first, rest)", "*constant), False, rest)", "attention"
    ),
    python("gradients_wanted", "torch_operators.py", "[name in needed for", '[name in needed or name == "q" for', "torch"),
    python("gradient_of_lse", "torch_operators.py", "dlse=dlse, **asked", "dlse=None, **asked", "torch"),
    python("deterministic_gradients", "flash_attn.py", "attend, deterministic=deterministic)", "attend)", "torch"),
    rust("reach_of_strides", "tensor.rs", "(extent.max(&1) - 1) as i128", "*extent as i128", "(layer|cases)"),
    rust("outputs_overlap", "tensor.rs", "step as u128 <= reach", "(step as u128) < reach", "layer"),
    rust(
        "masks_swapped",
        "builder.rs",
        "Mask::Causal => FA_MASK_CAUSAL,",
        "Mask::Causal => FA_MASK_CAUSAL_TOP_LEFT,",
        "(layer|cases)",
    ),
    rust("flags_replace", "builder.rs", "self.desc.flags | $flag", "$flag", "(layer|cases|coverage)"),
    rust("task_twice", "parallel.rs", "Ordering::Relaxed) & bit == 0", "Ordering::Relaxed) & bit == bit + 1", "layer"),
    rust("lengths_of_packed", "inputs.rs", "entries as i64 - 1)", "entries as i64)", "(layer|cases)"),
    Mutant(
        "python_jax_types_of_buffers",
        "bindings/python/jax_buffers.h",
        "if (dtype != FA_DTYPE_DEFAULT && allowed(dtype, elements)) return dtype;",
        "if (allowed(dtype, elements) || buffer.size_bytes() > 0) return dtype;",
        r"^python\.jax_ffi$",
        "bindings",
        ("fa_python",),
    ),
    python("jax_types", "jax_arrays.py", "    if wide in types:", "    if wide.itemsize:", "jax_types"),
    python("jax_gradient_of_lse", "jax_calls.py", "if type(dlse) is not ad.Zero:", "if False:", "jax_gradients"),
    python("jax_gradients_wanted", "jax_calls.py", "[type(x) is not ad.Zero for x in tangents]", "[True] * 3", "jax_gradients"),
    python("jax_varying", "jax_calls.py", 'to="varying") if names else x', 'to="varying") if False else x', "jax_sharding"),
    python("jax_sums_of_devices", "jax_sharding.py", "astype(x.dtype) if shared else x", "astype(x.dtype) if 0 else x", "jax_sharding"),
    python("jax_not_split", "jax_sharding.py", "if math.prod(parts) != len(numpy.unique(starts)):", "if True:", "jax_sharding"),
    python("jax_samples_of_keys", "jax_batching.py", "steps = self.of_k * jnp.", "steps = 0 * jnp.", "jax_vmap"),
    python("jax_sums_of_samples", "jax_batching.py", "if batch != x.shape[1] else x", "if False else x", "jax_vmap"),
    python("jax_decode_window", "jax_decode.py", "(place - window)", "(place - window + 1)", "jax_distributed"),
    python("jax_decode_sinks", "jax_decode.py", "own, rank * heads, heads", "own, 0 * rank, heads", "jax_distributed"),
    python("jax_lengths_late", "jax_checks.py", "jax.block_until_ready(results)", "results", "jax_errors"),
    rust("flags_of_append", "append_args.rs", "self.raw.flags | $flag", "$flag", "layer"),
    rust("slots_of_64_bits", "dtype.rs", "DType::I64 => FA_I64", "DType::I64 => FA_I32", "layer"),
    rust("gradient_added", "backward_args.rs", "self.raw.accumulate |= $bit;", "", "(layer|coverage)"),
    julia("gradient_added", "backward.jl", "name -> gradient_bits[name]", "name -> Int32(0)", "(gradients|interface)"),
    julia("slots_of_64_bits", "elements.jl", "in append_indices ? C.FA_I64", "in append_indices ? C.FA_I32", "append"),
    julia("pairs_of_neighbours", "append.jl", "UInt32(C.FA_APPEND_ROTARY_INTERLEAVED)", "UInt32(0)", "(append|interface)"),
    julia("rows_of_gradients", "backward.jl", "&& fill!(array, 0)", "&& fill!(array, NaN)", "gradients"),
]
