# Gradients, as functions and as the rules of ChainRulesCore (a stand-in for it), against differences of attention in Float64.
include("support.jl")
using Random
pushfirst!(LOAD_PATH, joinpath(@__DIR__, "stand_ins"))
using ChainRulesCore: ChainRulesCore, AbstractThunk, NoTangent, Tangent, Thunk, ZeroTangent, rrule, unthunk
using NNlib: NNlib
include(joinpath(@__DIR__, "..", "ext", "LibFAChainRulesCoreExt.jl"))
include(joinpath(@__DIR__, "..", "ext", "LibFANNlibExt.jl"))

Random.seed!(3)
const D, Dv, H, Hkv, Sq, Sk, B = 6, 4, 4, 2, 5, 7, 2
const given = (q = randn(Float32, D, H, Sq, B), k = randn(Float32, D, Hkv, Sk, B), v = randn(Float32, Dv, Hkv, Sk, B),
    bias = randn(Float32, Sk, 1, H), sinks = randn(Float32, H))
const q, k, v, bias, sinks = given
const w, u = randn(Float32, Dv, H, Sq, B), randn(Float32, Sq, H, B)

"out and lse in Float64, of all that is given."
function wide(g; seen = trues(Sk, Sq), softcap = 0, biased = false, sink = false)
    out, lse = zeros(Dv, H, Sq, B), zeros(Sq, H, B)
    for b in 1:B, h in 1:H
        x = transpose(g.k[:, (h+1)÷2, :, b]) * g.q[:, h, :, b] ./ sqrt(D)
        softcap == 0 || (x = softcap .* tanh.(x ./ softcap))
        biased && (x = x .+ g.bias[:, :, h])
        p = ifelse.(seen, exp.(x), 0)
        l = vec(sum(p; dims = 1)) .+ (sink ? exp(g.sinks[h]) : 0)
        out[:, h, :, b] = g.v[:, (h+1)÷2, :, b] * p ./ transpose(l)
        lse[:, h, b] = log.(l)
    end
    return out, lse
end

"Whether gradients are those of sum(out .* w) [+ sum(lse .* u)], along a random direction of each input."
function right(found, with_lse; options...)
    exact = map(a -> Float64.(a), given)
    function loss(g)
        out, lse = wide(g; options...)
        return sum(out .* w) + (with_lse ? sum(lse .* u) : 0.0)
    end
    for name in (:q, :k, :v, :bias, :sinks)[1:length(found)]
        found[name] === nothing && continue
        along = randn(size(given[name]))
        moved(step) = loss(merge(exact, NamedTuple{(name,)}((exact[name] .+ step .* along,))))
        wanted = (moved(1e-5) - moved(-1e-5)) / 2e-5
        abs(sum(found[name] .* along) - wanted) < 2e-5 * (1 + sum(abs.(found[name] .* along))) ||
            (println("$name: $(sum(found[name] .* along)), expected $wanted"); return false)
    end
    return true
end

const causal = [j <= i + Sk - Sq for j in 1:Sk, i in 1:Sq]
const every = (softcap = 2, mask = Array(causal), num_splits = 2) # a mask that is causal

@testset "rules" begin
    out, pullback = rrule(attention, q, k, v; causal = true)
    @test out == attention(q, k, v; causal = true)
    none, dq, dk, dv = pullback(w)
    @test none === NoTangent() && right((q = dq, k = dk, v = dv), false; seen = causal)
    # Any array, thunk or zero is a cotangent.
    @test pullback(Float64.(w))[2] == dq && pullback(Thunk(() -> w))[3] == dk
    @test pullback(StridedMemory{Float32,4}(Vector{UInt8}(reinterpret(UInt8, vec(w))), 0, size(w), strides(w)))[4] == dv
    @test pullback(ZeroTangent()) === (NoTangent(), ZeroTangent(), ZeroTangent(), ZeroTangent())

    (out, lse), pullback = rrule(attention, q, k, v, bias, sinks; return_lse = true, every...)
    @test (out, lse) == attention(q, k, v; bias = bias, sinks = sinks, return_lse = true, every...)
    _, dq, dk, dv, dbias, dsinks = pullback(Tangent{Tuple}(w, u))
    @test dbias isa AbstractThunk
    found = (q = dq, k = dk, v = dv, bias = unthunk(dbias), sinks = dsinks)
    @test right(found, true; seen = causal, softcap = 2, biased = true, sink = true)
    @test pullback(Tangent{Tuple}(ZeroTangent(), u))[2] + pullback(Tangent{Tuple}(w, ZeroTangent()))[2] ≈ dq
    @test length(rrule(attention, q, k, v, bias)[2](w)) == 5
    @test rrule(attention, q, k, v, nothing, sinks)[2](w)[5] === NoTangent()

    @test throws(() -> rrule(attention, q, k, v; lse = lse), LibFA.InvalidArgument, "return_lse = true")
    @test throws(() -> attention(q, k, v, bias; bias = bias), LibFA.InvalidArgument, "bias is given as an argument and")
    @test throws(() -> rrule(attention_backward, w, out, lse, q, k, v)[2](dq), LibFA.Unsupported, "second derivatives")
end

@testset "rules in NNlib's shapes" begin
    joined(a) = reshape(a, :, size(a, 3), B)
    m = map(joined, (q, repeat(k; inner = (1, 2, 1, 1)), repeat(v; inner = (1, 2, 1, 1))))
    results, pullback = rrule(LibFA.dot_product_attention, m..., bias; nheads = H, mask = causal)
    @test results == LibFA.dot_product_attention(m..., bias; nheads = H, mask = causal)
    none, dq, dk, dv, dbias = pullback(Tangent{Tuple}(joined(w), ZeroTangent()))
    @test none === NoTangent() && map(size, (dq, dk, dv)) == map(size, m)
    group(d, dim) = dropdims(sum(reshape(d, dim, 2, Hkv, Sk, B); dims = 2); dims = 2)
    found = (q = reshape(dq, size(q)), k = group(dk, D), v = group(dv, Dv), bias = unthunk(dbias))
    @test right(found, false; seen = causal, biased = true)
    op = LibFA.Op(Float32, D; head_dim_v = Dv, causal = true)
    _, pullback = rrule(LibFA.in_heads, op, m..., bias, H, nothing, identity)
    tangents = pullback(Tangent{Tuple}(joined(w), ZeroTangent()))
    @test length(tangents) == 9 && tangents[2] === NoTangent() && tangents[3] ≈ dq && unthunk(tangents[6]) ≈ unthunk(dbias)
end

@testset "attention_backward" begin
    out, lse = attention(q, k, v; causal = true, return_lse = true)
    all_three = attention_backward(w, out, lse, q, k, v; causal = true)
    @test keys(all_three) == (:dq, :dk, :dv) && keys(attention_backward(w, out, lse, q, k, v; wanted = (:dk,))) == (:dk,)
    swap(a) = permutedims(a, (1, 3, 2, 4))
    swapped = attention_backward(map(swap, (w, out))..., lse, map(swap, (q, k, v))...; causal = true, layout = :dshb)
    @test map(swap, values(swapped)) == values(all_three)
    # delta in place of out, gradients of other types, and added to the old contents.
    delta = dropdims(sum(w .* out; dims = 1); dims = 1)
    delta = permutedims(delta, (2, 1, 3))
    op = LibFA.Op(Float32, D; head_dim_v = Dv, causal = true)
    dq, dk = fill(1f0, size(q)), zeros(Float16, size(k))
    call = (op, (dq = dq, dk = dk), w, nothing, lse, q, k, v)
    space = LibFA.workspace(LibFA.backward_workspace_size(call...; delta = delta))
    attention_backward!(call...; delta = delta, accumulate = (:dq,), workspace = space)
    @test dq ≈ 1 .+ all_three.dq && isapprox(dk, all_three.dk; rtol = 1e-2)
    # Rows that no sequence uses.
    out, lse = attention(q, k, v; seqused_q = [2, 5], seqused_k = [3, 7], return_lse = true)
    part = attention_backward(w, out, lse, q, k, v; seqused_q = [2, 5], seqused_k = [3, 7])
    @test all(iszero, part.dq[:, :, 3:5, 1]) && all(iszero, part.dk[:, :, 4:7, 1]) && all(iszero, part.dv[:, :, 4:7, 1])
    @test all(!iszero, part.dq[:, :, 1:2, 1]) && all(!iszero, part.dv[:, :, :, 2])

    invalid(f, words...) = throws(f, LibFA.InvalidArgument, words...)
    backward(more...; options...) = attention_backward(w, out, lse, q, k, v; options...)
    @test invalid(() -> backward(; wanted = (:dx,)), "wanted has :dx", "dq, dk, dv, dbias, dsinks")
    @test invalid(() -> backward(; wanted = (:dbias,)), "no bias")
    @test invalid(() -> backward(; accumulate = (:q,)), "accumulate has :q")
    @test invalid(() -> backward(; num_splits = 2), "unknown keyword `num_splits`", "dlse")
    @test invalid(() -> attention_backward(w[:, 1:3, :, :], out, lse, q, k, v), "args.dout.shape[2]")
    @test invalid(() -> attention_backward!((dq = dk,), w, out, lse, q, k, v; accumulate = true), "args.dq")
    @test invalid(() -> attention_backward!((dq = similar(k),), w, out, lse, q, k, v), "args.dq.shape")
    @test invalid(() -> attention_backward!((dq = dq,), w, nothing, lse, q, k, v), "args.out", "delta")
    @test invalid(() -> attention_backward(w, out, lse, q, k, v; block_table = Int32[0 1]), "args.block_table")
end
