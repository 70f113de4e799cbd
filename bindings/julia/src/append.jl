# New keys and values, written into a cache.

"""
The fa_append_args of a call, and the objects to keep alive while it is used. The keywords are those of
[`attention_append!`](@ref).
"""
@optional_inputs function append_arguments(k_cache, v_cache, k, v; layout::Symbol = :dhsb, append_tensors..., append_arrays...,
    compute_scales::Bool = false, rotary_interleaved::Bool = false, rotary_tail::Bool = false, max_seqlen_new::Integer = 0,
    workspace = nothing, stream = nothing, unknown...)
    isempty(unknown) || throw_unknown(first(keys(unknown)), append_arguments)
    k_cache isa AbstractArray || throw_no_array("k_cache", k_cache)
    k isa AbstractArray || throw_no_array("k", k)
    common_device(k_cache, v_cache, k, v, append_tensors...)
    heads(name, a) = append_tensor(name, :rows, layout, a)
    tensors = each((name, form, a) -> append_tensor(name, form, layout, a), append_shapes, (; append_tensors...))
    k_tensor = heads("k", k)
    packed = cu_seqlens_new !== nothing
    packed && isempty(cu_seqlens_new) && throw_empty("cu_seqlens_new")
    count = packed ? length(cu_seqlens_new) - 1 : k_tensor.shape[1]
    arrays = each((name, more, a) -> indices(name, a, count + more), append_entries, (; append_arrays...))
    common_device(k_cache, values(arrays)...)
    fields = (k = k_tensor, v = heads("v", v), k_cache = heads("k_cache", k_cache), v_cache = heads("v_cache", v_cache),
        num_seqs = packed ? count : 0, max_seqlen_new = max_seqlen_new,
        flags = (compute_scales ? UInt32(C.FA_APPEND_COMPUTE_SCALES) : UInt32(0)) |
                (rotary_interleaved ? UInt32(C.FA_APPEND_ROTARY_INTERLEAVED) : UInt32(0)) |
                (rotary_tail ? UInt32(C.FA_APPEND_ROTARY_TAIL) : UInt32(0)))
    call = with(with(defaults(C.fa_append_args_init, C.fa_append_args), merge(fields, tensors, map(index_address, arrays))),
        memory_and_stream(k_cache, workspace, stream))
    return call, (k_cache, v_cache, k, v, append_tensors..., arrays, workspace)
end

append_tensor(name, form, layout, ::Nothing) = absent
append_tensor(name, form, layout, a) = throw_no_array(name, a)
function append_tensor(name, form, layout, a::AbstractArray)
    form === :table && return optional_tensor(name, a, order_of_table, 2, "2, (pairs, positions)")
    form === :places && return optional_tensor(name, a, order_of_places, 2, "1 or 2, (S) or (S, B)")
    form === :pages && return optional_tensor(name, a, order_of_pages, 2, "2, (pages, B)")
    return tensor(name, a, layout)
end

"""
    attention_append!(k_cache, v_cache, k, v; layout = :dhsb, keywords...) -> (k_cache, v_cache)
    attention_append!(op, k_cache, v_cache, k, v; ...) -> (k_cache, v_cache)

Writes new keys and values into a cache, in the cache's type: `k` and `v` are (D, H, new tokens, B) or, packed, (D, H, tokens);
`k_cache` and `v_cache` are (D, H, Sk, B), with `block_table` or `slot_mapping` (D, H, page size, pages). `v` and `v_cache` may
both be `nothing`. With `rotary_cos` and `rotary_sin` the keys are rotated on their way, and `q` into `q_out`, which may be `q`.
An `op` is that of [`attention!`](@ref) on the cache.

| keyword | size | meaning |
|---|---|---|
$(append_rows)
| `compute_scales` | | `true`: scales and zeros are written, one for each new token, head and group; `false`: they are read |
| `rotary_interleaved` | | `true`: pairs are neighbours; `false`: halves of the rotated elements |
| `rotary_tail` | | `true`: the last elements of a head are rotated; `false`: the first |
| `max_seqlen_new` | | as in fa.h |
| `workspace`, `stream` | | as in [`attention!`](@ref) |

Rows, positions, slots, sequences and pages are counted from 0. Without `cache_seqlens` rows begin at 0; without `positions` a
token's is its place in the sequence. Only rows of new tokens are written.

Throws [`InvalidArgument`](@ref), [`Unsupported`](@ref), [`OutOfMemory`](@ref), [`DriverError`](@ref).
"""
@optional_inputs function attention_append!(k_cache, v_cache, k, v; layout::Symbol = :dhsb, append_tensors..., append_arrays...,
    compute_scales::Bool = false, rotary_interleaved::Bool = false, rotary_tail::Bool = false, max_seqlen_new::Integer = 0,
    workspace = nothing, stream = nothing, options...)
    for name in keys(options)
        string(name) in keyword_names(describe) || throw_unknown(name, append_arguments)
    end
    call, roots = append_arguments(k_cache, v_cache, k, v; layout = layout, append_tensors..., append_arrays...,
        compute_scales = compute_scales, rotary_interleaved = rotary_interleaved, rotary_tail = rotary_tail,
        max_seqlen_new = max_seqlen_new, workspace = workspace, stream = stream)
    of_values = v_cache === nothing ? k_cache : v_cache
    quantised = is_quantised(eltype(k_cache)) || is_quantised(eltype(of_values))
    of_q, rope = eltype(q_out === nothing ? k : q_out), k_rope_cache === nothing ? 0 : size(k_rope_cache, 1)
    op = op_of(describe(of_q, size(k_cache, 1) + rope; head_dim_rope = rope,
        k_rope_type = k_rope_cache === nothing ? of_q : eltype(k_rope_cache),
        head_dim_v = size(of_values, 1), kv_type = eltype(k_cache),
        v_type = quantised ? eltype(of_values) : eltype(k_cache), device = device(k_cache),
        device_index = device_index(k_cache), options...))
    run(C.fa_append, op, call, roots)
    return k_cache, v_cache
end

function attention_append!(op::Op, k_cache, v_cache, k, v; options...)
    call, roots = append_arguments(k_cache, v_cache, k, v; options...)
    run(C.fa_append, op, call, roots)
    return k_cache, v_cache
end

"The bytes of workspace that a call needs, 0 in this version; the arguments are those of [`attention_append!`](@ref)."
function append_workspace_size(op::Op, k_cache, v_cache, k, v; options...)
    call, roots = append_arguments(k_cache, v_cache, k, v; options...)
    bytes = Ref{Csize_t}(0)
    GC.@preserve op roots check(C.fa_append_workspace_size(opened(op), Ref(call), bytes))
    return Int(bytes[])
end
