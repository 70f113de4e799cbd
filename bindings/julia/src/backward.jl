# The backward pass: fa_backward_args from arrays, and gradients into arrays of the caller or new ones.

const gradient_bits = (dq = C.FA_ACCUMULATE_DQ, dk = C.FA_ACCUMULATE_DK, dv = C.FA_ACCUMULATE_DV,
    dbias = C.FA_ACCUMULATE_DBIAS, dsinks = C.FA_ACCUMULATE_DSINKS)

function check_gradients(what, names)
    for name in names
        name in keys(gradient_bits) ||
            throw(InvalidArgument("$what has $(repr(name)); expected names of $(join(keys(gradient_bits), ", "))"))
    end
end

accumulate_bits(every::Bool) = every ? reduce(|, gradient_bits) : Int32(0) # bits of absent gradients mean nothing
function accumulate_bits(names)
    check_gradients("accumulate", names)
    return mapreduce(name -> gradient_bits[name], |, names; init = Int32(0))
end

"""
The fa_backward_args of a call, and the objects to keep alive while it is used. The keywords are those of
[`attention_backward!`](@ref).
"""
@optional_inputs function backward_arguments(gradients::NamedTuple, dout, out, lse, q, k, v; layout::Symbol = :dhsb, dlse = nothing,
    delta = nothing, accumulate = false, input_tensors..., input_arrays..., max_seqlen_q::Integer = 0,
    max_seqlen_k::Integer = 0, workspace = nothing, stream = nothing, unknown...)
    isempty(unknown) || throw_unknown(first(keys(unknown)), backward_arguments)
    check_gradients("gradients", keys(gradients))
    common_device(q, k, v, out, lse, dout, dlse, delta, input_tensors..., values(gradients)...)
    fields, arrays = inputs(q, k, v, layout, (; input_tensors...), (; input_arrays...), max_seqlen_q, max_seqlen_k, workspace, stream)
    rows(name, a) = optional_tensor(name, a, order_of_lse, 3, "at most 3, (Sq, H, B)")
    heads(name, a) = a === nothing ? absent : tensor(name, a, layout)
    gradient(name) = get(gradients, name, nothing)
    call = with(with(defaults(C.fa_backward_args_init, C.fa_backward_args), fields), (out = heads("out", out),
        lse = rows("lse", lse), dout = heads("dout", dout), dlse = rows("dlse", dlse), delta = rows("delta", delta),
        dq = heads("dq", gradient(:dq)), dk = heads("dk", gradient(:dk)), dv = heads("dv", gradient(:dv)),
        dbias = optional_tensor("dbias", gradient(:dbias), order_of_scores, 4, "at most 4, (Sk, Sq, H, B)"),
        dsinks = optional_tensor("dsinks", gradient(:dsinks), order_of_heads, 2, "1 or 2, (H) or (H, B)"),
        accumulate = accumulate_bits(accumulate)))
    return call, (gradients, dout, out, lse, q, k, v, dlse, delta, input_tensors..., arrays, workspace)
end

"""
    attention_backward!(gradients, dout, out, lse, q, k, v; keywords...) -> gradients
    attention_backward!(op, gradients, dout, out, lse, q, k, v; ...) -> gradients

The gradients of [`attention!`](@ref) from `dout`, that of `out`. `gradients` names the arrays that are written, and others are
not computed: `(dq = ..., dk = ..., dv = ..., dbias = ..., dsinks = ...)`, each shaped as its input, and of any type of
floating point. `out` and `lse` are those that `attention!` wrote for the same arguments. The keywords are
those of [`attention!`](@ref), less `lse` and `num_splits`, and

| keyword | size | meaning |
|---|---|---|
| `dlse` | as `lse` | the gradient of `lse` |
| `delta` | as `lse` | the dot product of `dout` and `out` of each row: then `out` is not read and may be `nothing` |
| `accumulate` | | `true`, or names as `(:dq, :dk)`: gradients are added to the contents of these arrays; `Float32` alone |

`dbias` and `dsinks` are summed over the dimensions that are 1. `lse` may be that of more keys than `k` has (ring attention): the
gradients are then the part of these keys. There are none with `block_table`. Rows that no sequence uses are not written.

Throws [`InvalidArgument`](@ref), [`Unsupported`](@ref), [`OutOfMemory`](@ref).
"""
@optional_inputs function attention_backward!(gradients::NamedTuple, dout, out, lse, q, k, v; layout::Symbol = :dhsb, dlse = nothing,
    delta = nothing, accumulate = false, input_tensors..., input_arrays..., max_seqlen_q::Integer = 0,
    max_seqlen_k::Integer = 0, workspace = nothing, stream = nothing, options...)
    for name in (:lse, :num_splits) # keywords of the forward pass alone
        haskey(options, name) && throw_unknown(name, backward_arguments)
    end
    call, roots = backward_arguments(gradients, dout, out, lse, q, k, v; layout = layout, dlse = dlse, delta = delta,
        accumulate = accumulate, input_tensors..., input_arrays..., max_seqlen_q = max_seqlen_q, max_seqlen_k = max_seqlen_k,
        workspace = workspace, stream = stream)
    op = op_of(describe(eltype(q), size(q, 1); head_dim_v = size(v, 1), kv_type = eltype(k),
        out_type = eltype(out === nothing ? dout : out), device = device(q), device_index = device_index(q), options...))
    run(C.fa_backward, op, call, roots)
    return gradients
end

function attention_backward!(op::Op, gradients::NamedTuple, arrays...; options...)
    call, roots = backward_arguments(gradients, arrays...; options...)
    run(C.fa_backward, op, call, roots)
    return gradients
end

"""
    attention_backward(dout, out, lse, q, k, v; wanted = (:dq, :dk, :dv), keywords...) -> (dq = ..., dk = ..., dv = ...)
    attention_backward(op, dout, out, lse, q, k, v; ...)

[`attention_backward!`](@ref) into new arrays, those that are `wanted`, each of the type and size of its input;
`:dbias` and `:dsinks` can be, too. Rows that no sequence uses are 0.

```julia
out, lse = attention(q, k, v; causal = true, return_lse = true)
dq, dk, dv = attention_backward(dout, out, lse, q, k, v; causal = true)
```
"""
attention_backward(dout, out, lse, q, k, v; wanted = (:dq, :dk, :dv), keywords...) =
    attention_backward!(room(wanted, q, k, v; keywords...), dout, out, lse, q, k, v; keywords...)

attention_backward(op::Op, dout, out, lse, q, k, v; wanted = (:dq, :dk, :dv), keywords...) =
    attention_backward!(op, room(wanted, q, k, v; keywords...), dout, out, lse, q, k, v; keywords...)

"Room for gradients, 0 where not every row is written."
function room(wanted, q, k, v; bias = nothing, sinks = nothing, keywords...)
    check_gradients("wanted", wanted)
    check_ranks(q, k, v)
    givens = (dq = q, dk = k, dv = v, dbias = bias, dsinks = sinks)
    left_out(names...) = any(name -> get(keywords, name, nothing) !== nothing, names)
    partly_q = left_out(:seqused_q, :cu_seqlens_q)
    partly_k = left_out(:seqused_k, :cu_seqlens_k, :leftpad_k, :kv_batch_idx)
    arrays = map(wanted) do name
        given = givens[name]
        given === nothing && throw(InvalidArgument("wanted has $(repr(name)), but the call has no $(string(name)[2:end])"))
        array = similar(given)
        (name === :dq ? partly_q : name in (:dk, :dv) && partly_k) && fill!(array, 0)
        return array
    end
    return NamedTuple{Tuple(wanted)}(Tuple(arrays))
end

"The bytes of workspace that a call needs; the arguments are those of [`attention_backward!`](@ref)."
function backward_workspace_size(op::Op, gradients::NamedTuple, arrays...; options...)
    call, roots = backward_arguments(gradients, arrays...; options...)
    bytes = Ref{Csize_t}(0)
    GC.@preserve op roots check(C.fa_backward_workspace_size(opened(op), Ref(call), bytes))
    return Int(bytes[])
end
