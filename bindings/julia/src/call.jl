# One call: fa_forward_args from arrays, with everything that Julia alone can know checked: lengths of index arrays, devices, types.

"Arrays of one call must share a device. Returns it, of the first."
function common_device(q, rest...)
    expected = device(q), device_index(q)
    for array in rest
        array === nothing && continue
        found = device(array), device_index(array)
        found == expected && continue
        throw(InvalidArgument("arrays of one call are of several devices, $(typeof(q)) and $(typeof(array)); expected all " *
                              "on one"))
    end
    return expected
end

@noinline throw_counts(a, b) = throw(InvalidArgument("cu_seqlens_q has $a entries and cu_seqlens_k $b; expected as many"))
@noinline throw_empty(name) = throw(InvalidArgument("$name has no entries; expected one more than there are sequences"))

"The number of sequences: entries of cu_seqlens less one, else the batch of q."
function sequences(batch, cu_seqlens_q, cu_seqlens_k)
    cu_seqlens_q === nothing || !isempty(cu_seqlens_q) || throw_empty("cu_seqlens_q")
    cu_seqlens_k === nothing || !isempty(cu_seqlens_k) || throw_empty("cu_seqlens_k")
    cu_seqlens_q === nothing && return batch
    cu_seqlens_k === nothing || length(cu_seqlens_q) == length(cu_seqlens_k) ||
        throw_counts(length(cu_seqlens_q), length(cu_seqlens_k))
    return length(cu_seqlens_q) - 1
end

"The bytes that a tensor spans, as (first, end, gapless)."
function span(t::C.fa_tensor)
    prod(t.shape) == 0 && return UInt(0), UInt(0), false
    size = element_bytes[t.dtype]
    below = sum(map((n, s) -> min(0, (n - 1) * s), t.shape, t.stride))
    above = sum(map((n, s) -> max(0, (n - 1) * s), t.shape, t.stride))
    first = UInt(t.data) + Int(below * size) % UInt
    return first, first + Int((above - below + 1) * size) % UInt, above - below + 1 == prod(t.shape)
end

"Refuses a result that shares memory with another tensor, where that is certain: views may interleave without sharing."
@inline function check_apart(name, written::C.fa_tensor, other, t::C.fa_tensor)
    written.data == C_NULL || t.data == C_NULL || check_spans(name, span(written)..., other, span(t)...)
    return
end

function check_spans(name, first, last, gapless, other, a, b, other_gapless)
    gapless && other_gapless && a < last && first < b && throw(InvalidArgument(
        "$name and $other overlap, $(min(last, b) - max(first, a)) bytes of them; expected memory that no other array of " *
        "the call uses"))
    return
end

"The fields of a call's workspace and stream, which is that of an array unless one is given."
@inline memory_and_stream(array, workspace, stream) = (workspace = workspace === nothing ? C_NULL : address(workspace),
    workspace_size = workspace === nothing ? 0 : sizeof(eltype(workspace)) * length(workspace),
    stream = stream === nothing ? default_stream(array) : Ptr{Cvoid}(stream))

"""
The common part of the structures of both passes: the fields of the inputs, of their lengths and of the workspace, and the arrays of
indices, to be kept alive.
"""
@inline function inputs(q, k, v, layout, tensors::NamedTuple, arrays::NamedTuple, max_seqlen_q, max_seqlen_k, workspace, stream)
    q_tensor = tensor("q", q, layout)
    packed = arrays.cu_seqlens_q !== nothing || arrays.cu_seqlens_k !== nothing
    count = sequences(q_tensor.shape[1], arrays.cu_seqlens_q, arrays.cu_seqlens_k)
    arrays = each((name, more, a) -> indices(name, a, count + more), array_entries, arrays)
    common_device(q, values(arrays)...)
    fields = (q = q_tensor, k = tensor("k", k, layout), v = tensor("v", v, layout),
        num_seqs = packed ? count : 0, max_seqlen_q = max_seqlen_q, max_seqlen_k = max_seqlen_k)
    tensors = each(input_tensor, tensor_shapes, tensors)
    return merge(fields, memory_and_stream(q, workspace, stream), tensors, map(index_address, arrays)), arrays
end

"The named tuple of f(name, rule, x) for the rule and the value of each name."
@inline each(f, rules::NamedTuple{names}, given::NamedTuple{names}) where {names} =
    NamedTuple{names}(map(f, names, values(rules), values(given)))

input_tensor(name, shape, ::Nothing) = absent
@inline function input_tensor(name, shape, a)
    shape === :scores && return optional_tensor(name, a, order_of_scores, 4, "at most 4, (Sk, Sq, H, B)")
    shape === :pages && return optional_tensor(name, a, order_of_pages, 2, "2, (pages, B)")
    return optional_tensor(name, a, order_of_heads, 2, "1 or 2, (H) or (H, B)")
end

"""
The fa_forward_args of a call, and the objects to keep alive while it is used. The keywords are those of [`attention!`](@ref).
"""
@optional_inputs @inline function arguments(out, q, k, v; layout::Symbol = :dhsb, lse = nothing, input_tensors..., input_arrays...,
    k_scale = nothing, v_scale = nothing, k_zero = nothing, v_zero = nothing, tree_mask = nothing, tree_depth = nothing, k_rope = nothing,
    max_seqlen_q::Integer = 0, max_seqlen_k::Integer = 0, num_splits::Integer = 0, workspace = nothing, stream = nothing,
    unknown...)
    isempty(unknown) || throw_unknown(first(keys(unknown)), arguments)
    common_device(q, k, v, out, lse, k_scale, v_scale, k_zero, v_zero, tree_mask, tree_depth, k_rope, input_tensors...)
    fields, arrays = inputs(q, k, v, layout, (; input_tensors...), (; input_arrays...), max_seqlen_q, max_seqlen_k, workspace, stream)
    call = with(with(defaults(C.fa_forward_args_init, C.fa_forward_args), fields), (out = tensor("out", out, layout),
        lse = optional_tensor("lse", lse, order_of_lse, 3, "at most 3, (Sq, H, B)"), num_splits = num_splits,
        k_scale = factor_tensor("k_scale", k_scale, layout), v_scale = factor_tensor("v_scale", v_scale, layout),
        k_zero = factor_tensor("k_zero", k_zero, layout), v_zero = factor_tensor("v_zero", v_zero, layout),
        tree_mask = optional_tensor("tree_mask", tree_mask, order_of_scores, 4, "at most 4, (words, Sq, H, B)"),
        tree_depth = optional_tensor("tree_depth", tree_depth, order_of_places, 2, "1 or 2, (S) or (S, B)"),
        k_rope = factor_tensor("k_rope", k_rope, layout)))
    for (name, written) in (("out", call.out), ("lse", call.lse))
        check_apart(name, written, "q", call.q)
        check_apart(name, written, "k", call.k)
        check_apart(name, written, "v", call.v)
    end
    check_apart("out", call.out, "lse", call.lse)
    return call, (out, q, k, v, lse, k_scale, v_scale, k_zero, v_zero, tree_mask, tree_depth, k_rope, input_tensors..., arrays, workspace)
end

"Runs fa_forward or another operation; `roots` keep the targets of the call's pointers alive."
@inline function run(pass, op::Op, call, roots)
    GC.@preserve op roots begin
        handle = opened(op)
        # A callback into Julia must not be interrupted: C code is below it.
        status = op.desc.parallel_for == C_NULL ? pass(handle, Ref(call)) : disable_sigint(() -> pass(handle, Ref(call)))
        check(status)
    end
    return
end

"The bytes of workspace that a call needs; the arguments are those of [`attention!`](@ref)."
function workspace_size(op::Op, out, q, k, v; options...)
    call, roots = arguments(out, q, k, v; options...)
    bytes = Ref{Csize_t}(0)
    GC.@preserve op roots check(C.fa_forward_workspace_size(opened(op), Ref(call), bytes))
    return Int(bytes[])
end

"A vector of bytes for the keyword `workspace`, aligned as the library wants it."
function workspace(bytes::Integer)
    memory = Vector{UInt8}(undef, bytes + 255)
    first = mod(-Int(UInt(pointer(memory)) % 256), 256) + 1
    return view(memory, first:first+bytes-1)
end
