# Results over parts of the keys, merged, are those over all of them; and merges that are refused.
include("support.jl")
using Random

Random.seed!(5)
const D, H, Sq, Sk, B = 8, 4, 5, 40, 2
const q = randn(Float32, D, H, Sq, B)
const k, v = randn(Float32, D, H, Sk, B), randn(Float32, D, H, Sk, B)
close_to(a, b, most = 2e-6) = maximum(abs.(a .- b)) < most

"(outs, lses) of attention over ranges of the keys."
function parts_over(ranges; keywords...)
    parts = [attention(q, view(k, :, :, keys, :), view(v, :, :, keys, :); return_lse = true, keywords...) for keys in ranges]
    return first.(parts), last.(parts)
end

@testset "parts of the keys are the whole" begin
    whole, whole_lse = attention(q, k, v; return_lse = true)
    for ranges in ((1:Sk,), (1:1, 2:Sk), (1:13, 14:20, 21:39, 40:40))
        outs, lses = parts_over(ranges)
        out, lse = attention_merge(outs, lses; return_lse = true)
        @test close_to(out, whole) && close_to(lse, whole_lse)
        @test attention_merge(Tuple(outs), Tuple(lses)) == out
    end
    outs, lses = parts_over((1:7, 8:Sk))
    op = LibFA.Op(Float32, D)
    out = similar(q)
    @test LibFA.merge_workspace_size(op, out, outs, lses) == 0
    @test attention_merge!(op, out, outs, lses) === out
    @test close_to(out, whole)
    turned = [permutedims(out, (1, 3, 2, 4)) for out in outs]
    @test attention_merge(turned, lses; layout = :dshb) == permutedims(out, (1, 3, 2, 4))
end

@testset "in place, rows of a mask, types and bases" begin
    outs, lses = parts_over((1:7, 8:Sk))
    mask = rand(Bool, Sq, H, B)
    merged, before = attention_merge(outs, lses), copy(outs[1])
    @test attention_merge!(outs[1], outs, lses; lse = lses[1], mask = mask) === outs[1]
    @test all(close_to(outs[1][:, h, i, b], mask[i, h, b] ? merged[:, h, i, b] : before[:, h, i, b]) for i in 1:Sq, h in 1:H, b in 1:B)
    outs, lses = parts_over((1:7, 8:Sk))
    mixed = [Float16.(outs[1]), outs[2]]
    half = attention_merge(mixed, lses; out_type = Float16)
    @test eltype(half) === Float16 && close_to(half, merged, 4e-3)
    two = attention_merge(outs, [lse ./ log(2.0f0) for lse in lses]; base_2 = true)
    @test close_to(two, merged)
    empty = attention_merge([fill(NaN32, D, H, Sq, B), outs[2]], [fill(-Inf32, Sq, H, B), lses[2]])
    @test empty == outs[2]
end

@testset "refusals" begin
    outs, lses = parts_over((1:7, 8:Sk))
    refused(words...; out = similar(q), o = outs, l = lses, keywords...) =
        throws(() -> attention_merge!(out, o, l; keywords...), LibFA.InvalidArgument, words...)
    @test refused("outs has 2 arrays and lses 1"; l = lses[1:1])
    @test refused("args.num_parts is 33", "1 .. 32"; o = fill(outs[1], 33), l = fill(lses[1], 33))
    @test refused("args.num_parts is 0"; o = Array{Float32,4}[], l = Array{Float32,3}[])
    @test refused("args.outs[1].shape[1] is 4", "expected 5"; o = [outs[1], outs[2][:, :, 1:4, :]])
    @test refused("args.lses[0].shape[1] is 2", "expected 4"; l = [lses[1][:, 1:2, :], lses[2]])
    @test refused("args.out overlaps args.outs[1]"; out = outs[2])
    @test refused("an array of outs", "Float64"; o = [outs[1], Float64.(outs[2])])
    @test refused("unknown keyword `bse_2`", "base_2"; bse_2 = true)
    @test refused("mask is a BitArray"; mask = trues(Sq, H, B))
end
