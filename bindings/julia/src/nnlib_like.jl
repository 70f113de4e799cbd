# The shapes of NNlib.dot_product_attention, for code that is written for it.

"""
    LibFA.dot_product_attention(q, k, v, bias = nothing; nheads = 1, mask = nothing, keywords...) -> out, lse

As `NNlib.dot_product_attention`: q is (D * nheads, Sq, batch...), k and v alike, `bias` and `mask` (true: attended) broadcast to
(Sk, Sq, nheads, batch). But the second result is not the scores, which are never stored: it is the logarithms of the softmax's
denominators, (Sq, nheads, batch). `fdrop` other than `identity` raises [`Unsupported`](@ref). Other keywords, as `causal`, are
those of [`attention!`](@ref).
"""
dot_product_attention(q, k, v, bias = nothing; nheads::Integer = 1, mask = nothing, fdrop = identity, keywords...) =
    in_heads((out, a, b, c; more...) -> attention!(out, a, b, c; more..., keywords...), q, k, v, bias, nheads, mask, fdrop)

function in_heads(run, q, k, v, bias, nheads, mask, fdrop)
    fdrop === identity || throw(Unsupported("fdrop is $fdrop; expected identity: libfa has no dropout"))
    for (name, a) in (("q", q), ("k", k), ("v", v))
        ndims(a) >= 2 || throw_dimensions(name, a, "2 at least, (D * nheads, S, batch...)")
        nheads > 0 && size(a, 1) % nheads == 0 ||
            throw(InvalidArgument("size($name, 1) is $(size(a, 1)); expected a multiple of nheads, which is $nheads"))
    end
    heads = map(a -> split_heads(a, nheads), (q, k, v))
    out, lse = results(heads[1], heads[3], eltype(q), :dhsb, false)
    run(out, heads...; bias = bias, mask = plain_mask(mask), lse = lse)
    return reshape(out, size(v, 1), size(q)[2:end]...), lse
end

"(D * nheads, S, batch...) as (D, nheads, S, B)."
split_heads(a, nheads) = reshape(a, size(a, 1) ÷ nheads, nheads, size(a, 2), :)

plain_mask(mask) = mask
plain_mask(mask::BitArray) = Array(mask)
