# Attention under automatic differentiation: its gradients are those of fa_backward.
module LibFAChainRulesCoreExt

import ChainRulesCore, LibFA
using ChainRulesCore: AbstractZero, NoTangent, ZeroTangent, @thunk, unthunk

"A cotangent as an array that libfa takes, of the kind of the result that it belongs to; nothing where it is zero."
plain(::AbstractZero, result) = nothing
plain(cotangent, result) =
    cotangent isa DenseArray{eltype(result)} && size(cotangent) == size(result) ? cotangent : (similar(result) .= cotangent)

"The cotangents of out and lse, nothing where they are zero."
function cotangents(Δ, out, lse, with_lse)
    Δ = unthunk(Δ)
    Δ isa AbstractZero && return nothing, nothing
    with_lse || return plain(Δ, out), nothing
    return plain(unthunk(Δ[1]), out), plain(unthunk(Δ[2]), lse)
end

"""
The tangents of q, k, v, and of bias and sinks where they are given. `backward(dout, dlse, wanted)` computes gradients by name.
A bias that is a constant is the common case, and its gradient costs extra: it is computed when it is asked for.
"""
function tangents(backward, dout, dlse, bias, sinks)
    dout === nothing && return ntuple(_ -> ZeroTangent(), 5)
    found = backward(dout, dlse, sinks === nothing ? (:dq, :dk, :dv) : (:dq, :dk, :dv, :dsinks))
    dbias = bias === nothing ? NoTangent() : @thunk(backward(dout, dlse, (:dbias,)).dbias)
    return found.dq, found.dk, found.dv, dbias, sinks === nothing ? NoTangent() : found.dsinks
end

"Where lse alone has a cotangent, that of out is an array of zeros."
function both(Δ, out, lse, with_lse)
    dout, dlse = cotangents(Δ, out, lse, with_lse)
    return dout === nothing && dlse !== nothing ? fill!(similar(out), 0) : dout, dlse
end

# Drops the keywords of the forward pass alone.
for_backward(keywords) = filter(keyword -> !(first(keyword) in (:num_splits, :out_type, :workspace)), collect(pairs(keywords)))

function ChainRulesCore.rrule(::typeof(LibFA.attention), q, k, v, more...; return_lse::Bool = false, keywords...)
    haskey(keywords, :lse) && throw(LibFA.InvalidArgument(
        "lse is written by a call that is differentiated; expected return_lse = true, which returns a new one"))
    out, lse = LibFA.attention(q, k, v, more...; return_lse = true, keywords...)
    bias, sinks = (more..., nothing, nothing)
    given = Dict{Symbol,Any}(for_backward(keywords))
    bias === nothing || (given[:bias] = bias)
    sinks === nothing || (given[:sinks] = sinks)
    function attention_pullback(Δ)
        dout, dlse = both(Δ, out, lse, return_lse)
        backward(dout, dlse, wanted) =
            LibFA.attention_backward(dout, out, lse, q, k, v; wanted = wanted, dlse = dlse, given...)
        return (NoTangent(), tangents(backward, dout, dlse, bias, sinks)[1:3+length(more)]...)
    end
    return return_lse ? (out, lse) : out, attention_pullback
end

"The pullback of attention in NNlib's shapes; `backward` is LibFA.attention_backward, of an op or not."
function in_heads_pullback(backward, results, q, k, v, bias, nheads, mask)
    out, lse = results
    heads(a) = LibFA.split_heads(a, nheads)
    function pullback(Δ)
        dout, dlse = both(Δ, out, lse, true)
        of_heads(dout, dlse, wanted) = backward(heads(dout), heads(out), lse, heads(q), heads(k), heads(v); wanted = wanted,
            dlse = dlse, bias = bias, mask = LibFA.plain_mask(mask))
        dq, dk, dv, dbias, _ = tangents(of_heads, dout, dlse, bias, nothing)
        like(d, a) = d isa AbstractZero ? d : reshape(d, size(a))
        return like(dq, q), like(dk, k), like(dv, v), dbias
    end
    return pullback
end

function ChainRulesCore.rrule(::typeof(LibFA.dot_product_attention), q, k, v, bias...; nheads::Integer = 1, mask = nothing,
    fdrop = identity, keywords...)
    results = LibFA.dot_product_attention(q, k, v, bias...; nheads = nheads, mask = mask, fdrop = fdrop, keywords...)
    given = for_backward(keywords)
    backward(arrays...; more...) = LibFA.attention_backward(arrays...; more..., given...)
    pullback = in_heads_pullback(backward, results, q, k, v, (bias..., nothing)[1], nheads, mask)
    return results, Δ -> (NoTangent(), pullback(Δ)[1:3+length(bias)]...)
end

# The rule of NNlib.dot_product_attention of an op.
function ChainRulesCore.rrule(::typeof(LibFA.in_heads), op::LibFA.Op, q, k, v, bias, nheads, mask, fdrop)
    results = LibFA.in_heads(op, q, k, v, bias, nheads, mask, fdrop)
    backward(arrays...; more...) = LibFA.attention_backward(op, arrays...; more...)
    pullback = in_heads_pullback(backward, results, q, k, v, bias, nheads, mask)
    return results, Δ -> (NoTangent(), NoTangent(), pullback(Δ)..., NoTangent(), NoTangent(), NoTangent())
end

function ChainRulesCore.rrule(::typeof(LibFA.attention_backward), arguments...; keywords...)
    no_pullback(_) = throw(LibFA.Unsupported("libfa computes no second derivatives; expected attention to be differentiated once"))
    return LibFA.attention_backward(arguments...; keywords...), no_pullback
end

end
