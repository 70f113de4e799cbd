# A stand-in for NNlib: dot_product_attention as its documentation defines it, with all scores in memory.
module NNlib

function dot_product_attention(q, k, v, bias = nothing; nheads = 1, mask = nothing, fdrop = identity)
    split(a) = reshape(a, size(a, 1) ÷ nheads, nheads, size(a, 2), :)
    qs, ks, vs = split(q), split(k), split(v)
    scores = zeros(size(k, 2), size(q, 2), nheads, size(qs, 4))
    out = zeros(size(vs, 1), nheads, size(q, 2), size(qs, 4))
    for b in 1:size(qs, 4), h in 1:nheads
        x = transpose(Float64.(ks[:, h, :, b])) * qs[:, h, :, b] ./ sqrt(size(qs, 1))
        bias === nothing || (x = x .+ view(bias, :, :, min(h, size(bias, 3)), min(b, size(bias, 4))))
        mask === nothing || (x = ifelse.(view(mask, :, :, min(h, size(mask, 3)), min(b, size(mask, 4))), x, -Inf))
        p = exp.(x .- maximum(x; dims = 1))
        p = p ./ sum(p; dims = 1)
        scores[:, :, h, b] = p
        out[:, h, :, b] = vs[:, h, :, b] * p
    end
    return reshape(out, size(v, 1), size(q)[2:end]...), scores
end

end
