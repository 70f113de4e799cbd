# NNlib.dot_product_attention with an op of ours as its first argument, so that no method of NNlib's own changes.
module LibFANNlibExt

import LibFA, NNlib

"""
    NNlib.dot_product_attention(op::LibFA.Op, q, k, v, bias = nothing; nheads = 1, mask = nothing) -> out, lse

[`LibFA.dot_product_attention`](@ref) by an op that holds the type, the head dimension and the mask.
"""
NNlib.dot_product_attention(op::LibFA.Op, q, k, v, bias = nothing; nheads::Integer = 1, mask = nothing, fdrop = identity) =
    LibFA.in_heads(op, q, k, v, bias, nheads, mask, fdrop)

end
