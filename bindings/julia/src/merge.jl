# Results over different keys, merged into the result over all of them.

"""
The fa_merge_args of a call, and the objects to keep alive while it is used. The keywords are those of
[`attention_merge!`](@ref).
"""
function merge_arguments(out, outs, lses; layout::Symbol = :dhsb, lse = nothing, mask = nothing, base_2::Bool = false,
    workspace = nothing, stream = nothing, unknown...)
    isempty(unknown) || throw_unknown(first(keys(unknown)), merge_arguments)
    length(outs) == length(lses) ||
        throw(InvalidArgument("outs has $(length(outs)) arrays and lses $(length(lses)); expected as many of each"))
    common_device(out, outs..., lses..., lse, mask)
    rows(name, a) = optional_tensor(name, a, order_of_lse, 3, "at most 3, (Sq, H, B)")
    parts = C.fa_tensor[tensor("an array of outs", a, layout) for a in outs]
    sums = C.fa_tensor[rows("an array of lses", a) for a in lses]
    call = with(with(defaults(C.fa_merge_args_init, C.fa_merge_args), (outs = pointer(parts), lses = pointer(sums),
        num_parts = Int32(min(length(outs), typemax(Int32))), flags = base_2 ? UInt32(C.FA_MERGE_BASE_2) : UInt32(0),
        out = tensor("out", out, layout), lse = rows("lse", lse), mask = rows("mask", mask))),
        memory_and_stream(out, workspace, stream))
    return call, (out, outs, lses, lse, mask, workspace, parts, sums)
end

"""
    attention_merge!(out, outs, lses; layout = :dhsb, keywords...) -> out
    attention_merge!(op, out, outs, lses; ...)

Attention over all keys, from results over parts of them: `outs` and `lses` are those of `attention(...; return_lse = true)` for the
same queries, 1 to 32 of each, in the order in which they are merged. They may differ in type and strides. `out` may be
`outs[1]`, and `lse` `lses[1]`: in place.

| keyword | size | meaning |
|---|---|---|
| `lse` | (Sq, Hq, B) | written: the logarithms of the sums over all keys, `Float32` |
| `mask` | (Sq, Hq or 1, B or 1) | `Array{Bool}`: `false` makes the row that of the first part |
| `base_2` | | `true`: each lse, read or written, is a logarithm to base 2 |
| `workspace`, `stream` | | as in [`attention!`](@ref) |

A part whose lse is `-Inf` counts for nothing, whatever it holds. Errors of the library count parts from 0.

Throws [`InvalidArgument`](@ref), [`Unsupported`](@ref), [`OutOfMemory`](@ref).
"""
function attention_merge!(out, outs, lses; layout::Symbol = :dhsb, lse = nothing, mask = nothing, base_2::Bool = false,
    workspace = nothing, stream = nothing, options...)
    for name in keys(options)
        string(name) in keyword_names(describe) || throw_unknown(name, merge_arguments)
    end
    call, roots = merge_arguments(out, outs, lses; layout = layout, lse = lse, mask = mask, base_2 = base_2,
        workspace = workspace, stream = stream)
    op = op_of(describe(eltype(out), size(out, 1); device = device(out), device_index = device_index(out), options...))
    run(C.fa_merge, op, call, roots)
    return out
end

function attention_merge!(op::Op, out, outs, lses; options...)
    call, roots = merge_arguments(out, outs, lses; options...)
    run(C.fa_merge, op, call, roots)
    return out
end

"""
    attention_merge(outs, lses; out_type = eltype(outs[1]), return_lse = false, keywords...) -> out or (out, lse)

[`attention_merge!`](@ref) into new arrays, of the kind of `outs[1]`.

```julia
parts = [attention(q, k[:, :, keys, :], v[:, :, keys, :]; return_lse = true) for keys in (1:100, 101:128)]
out = attention_merge(first.(parts), last.(parts))
```
"""
function attention_merge(outs, lses; out_type::Type = eltype(first(outs)), return_lse::Bool = false, keywords...)
    out_type === eltype(first(outs)) || dtype_of_type("out_type", out_type)
    out = similar(first(outs), out_type)
    return_lse || return attention_merge!(out, outs, lses; keywords...)
    lse = similar(first(lses))
    attention_merge!(out, outs, lses; lse = lse, keywords...)
    return out, lse
end

"The bytes of workspace that a call needs, 0 in this version; the arguments are those of [`attention_merge!`](@ref)."
function merge_workspace_size(op::Op, out, outs, lses; options...)
    call, roots = merge_arguments(out, outs, lses; options...)
    bytes = Ref{Csize_t}(0)
    GC.@preserve op roots check(C.fa_merge_workspace_size(opened(op), Ref(call), bytes))
    return Int(bytes[])
end
