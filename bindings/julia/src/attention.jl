# The common case: attention of arrays, into an array of the caller's or a new one.

"""
    attention!(out, q, k, v; layout = :dhsb, lse = nothing, keywords...) -> out
    op(out, q, k, v; ...) -> out

`out = softmax(scale * q k', masked) v` for every batch entry and head, without storing the scores and without copying: arrays
of size (D, H, S, B), or (D, S, H, B) with `layout = :dshb`, of any strides; of three dimensions where there is no batch. The
heads of k and v divide those of q. The keywords are those of [`Op`](@ref), unless one is given, and

| keyword | size | meaning |
|---|---|---|
| `lse` | (Sq, Hq, B) | written: the logarithms of the softmax's denominators, `Float32` |
$(input_rows)
| `k_scale`, `v_scale`, `k_zero`, `v_zero` | (G, H, S, B), each may be 1 | of [`codes`](@ref): (code - zero) * scale |
| `tree_mask` | (words, Sq, H, B), `Int32`, H and B may be 1 | bits of the new keys that each query attends |
| `tree_depth` | (Sq) or (Sq, B), `Int32` | each new token's depth in its tree |
| `k_rope` | (D of q less that of k, H, S, B) | the last elements of keys where k lacks them, of a type of their own |
| `max_seqlen_q`, `max_seqlen_k`, `num_splits` | | as in fa.h |
| `workspace` | | [`workspace`](@ref)`(bytes)`: then nothing is allocated by the library |
| `stream` | | the CUDA stream; that of CUDA.jl when its arrays are given |

Places, sequences and pages are counted from 0. With `block_table`, k and v are (D, H, page size, pages).

Throws [`InvalidArgument`](@ref), [`Unsupported`](@ref), [`OutOfMemory`](@ref), [`DriverError`](@ref).
"""
@optional_inputs function attention!(out, q, k, v; layout::Symbol = :dhsb, lse = nothing, input_tensors..., input_arrays...,
    k_scale = nothing, v_scale = nothing, k_zero = nothing, v_zero = nothing, tree_mask = nothing, tree_depth = nothing, k_rope = nothing,
    max_seqlen_q::Integer = 0, max_seqlen_k::Integer = 0, num_splits::Integer = 0, workspace = nothing, stream = nothing,
    options...)
    call, roots = arguments(out, q, k, v; layout = layout, lse = lse, input_tensors..., input_arrays...,
        k_scale = k_scale, v_scale = v_scale, k_zero = k_zero, v_zero = v_zero, tree_mask = tree_mask, tree_depth = tree_depth,
        k_rope = k_rope, max_seqlen_q = max_seqlen_q, max_seqlen_k = max_seqlen_k, num_splits = num_splits, workspace = workspace, stream = stream)
    v_type = is_quantised(eltype(k)) || is_quantised(eltype(v)) ? eltype(v) : eltype(k)
    op = op_of(describe(eltype(q), size(q, 1); head_dim_v = size(v, 1), kv_type = eltype(k), v_type = v_type, out_type = eltype(out),
        k_rope_type = k_rope === nothing ? eltype(q) : eltype(k_rope), head_dim_rope = k_rope === nothing ? 0 : size(k_rope, 1),
        device = device(q), device_index = device_index(q), options...))
    run(C.fa_forward, op, call, roots)
    return out
end

# Creating an op takes longer than a small call: those that were used are kept, by description.
const ops = Dict{C.fa_desc,Op}()
const ops_lock = ReentrantLock()
const most_ops = 64

function op_of(desc::C.fa_desc)
    lock(ops_lock)
    try
        op = get(ops, desc, nothing)
        op === nothing || return op
        length(ops) < most_ops || empty!(ops)
        return ops[desc] = Op(desc)
    finally
        unlock(ops_lock)
    end
end

function (op::Op)(out, q, k, v; options...)
    call, roots = arguments(out, q, k, v; options...)
    run(C.fa_forward, op, call, roots)
    return out
end

"Room for a result. Rows that no sequence uses are not written: there out is 0 and lse -Inf."
function results(q, v, out_type, layout, partly)
    out = similar(q, out_type, (size(v, 1), size(q)[2:end]...))
    heads, rows = layout === :dshb ? (3, 2) : (2, 3)
    lse = similar(q, Float32, (size(q, rows), size(q, heads), size(q)[4:end]...))
    partly && (fill!(out, 0); fill!(lse, -Inf32))
    return out, lse
end

"""
    attention(q, k, v; layout = :dhsb, out_type = eltype(q), return_lse = false, keywords...) -> out or (out, lse)
    attention(q, k, v, bias, sinks = nothing; keywords...)

[`attention!`](@ref) into a new array, of the kind of `q`. `bias` and `sinks` as arguments are those of the keywords: automatic
differentiation, for which there are rules with ChainRulesCore, sees arguments alone.

```julia
q, k, v = (randn(Float32, 64, 8, 128, 2) for _ in 1:3)     # (D, H, S, B)
out = attention(q, k, v; causal = true)
```
"""
function attention(q, k, v; layout::Symbol = :dhsb, out_type::Type = eltype(q), return_lse::Bool = false, keywords...)
    check_ranks(q, k, v)
    out_type === eltype(q) || dtype_of_type("out_type", out_type)
    partly = haskey(keywords, :seqused_q) || haskey(keywords, :cu_seqlens_q)
    out, lse = results(q, v, out_type, layout, partly)
    return_lse || return attention!(out, q, k, v; layout = layout, keywords...)
    attention!(out, q, k, v; layout = layout, lse = lse, keywords...)
    return out, lse
end

function attention(q, k, v, bias, sinks = nothing; keywords...)
    for (name, given) in ((:bias, bias), (:sinks, sinks))
        given === nothing || !haskey(keywords, name) ||
            throw(InvalidArgument("$name is given as an argument and as a keyword; expected one of them"))
    end
    return attention(q, k, v; bias = bias, sinks = sinks, keywords...)
end

function check_ranks(q, k, v)
    for (name, a) in (("q", q), ("k", k), ("v", v))
        a isa AbstractArray || throw_no_array(name, a)
        3 <= ndims(a) <= 4 || throw_dimensions(name, a, "4, or 3 without a batch")
    end
end
