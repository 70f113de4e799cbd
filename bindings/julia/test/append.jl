# New keys and values in a dense and in a paged cache, against values computed here; and appends that are refused.
include("support.jl")
using Random

Random.seed!(6)
const D, H, Hq, S, B = 8, 2, 4, 3, 2
const k, v, q = randn(Float32, D, H, S, B), randn(Float32, D, H, S, B), randn(Float32, D, Hq, S, B)
const positions = 20
const angles = 3 .* rand(D ÷ 2, positions)
const cosines, sines = Float32.(cos.(angles)), Float32.(sin.(angles))

"A head's elements rotated: pairs (i, j) of elements by column `position` of the tables, counted from 0."
function rotated(x, position, pairs)
    y = Float64.(x)
    for (pair, (i, j)) in enumerate(pairs)
        c, s = cosines[pair, position+1], sines[pair, position+1]
        y[i], y[j] = x[i] * c - x[j] * s, x[i] * s + x[j] * c
    end
    return y
end

const halves = [(j, j + D ÷ 2) for j in 1:D÷2]
const neighbours = [(2j - 1, 2j) for j in 1:D÷2]
const last_neighbours = [(5, 6), (7, 8)] # of the last four elements

close_to(a, b, most = 2e-6) = maximum(abs.(Float64.(a) .- b)) < most

"Whether rows, (row, entry) each, are all that differs."
function untouched(cache, before, rows)
    left = trues(size(cache)[3:4])
    foreach(row -> left[row...] = false, rows)
    return all(cache[:, :, i, b] == before[:, :, i, b] for i in axes(left, 1), b in axes(left, 2) if left[i, b])
end

@testset "a dense cache, with rotary embedding of k and q" begin
    Sk, used, left = 12, [5, 9], [2, 0]
    for T in (Float32, Float16)
        k_cache, v_cache = T.(randn(D, H, Sk, B)), T.(randn(D, H, Sk, B))
        before = copy(k_cache), copy(v_cache)
        q_out = similar(q)
        given = (q = q, q_out = q_out, rotary_cos = cosines, rotary_sin = sines, cache_seqlens = used, leftpad_k = left)
        @test attention_append!(k_cache, v_cache, k, v; given...) === (k_cache, v_cache)
        for b in 1:B, i in 1:S
            row, position = used[b] + i, used[b] + i - 1 - left[b]
            @test v_cache[:, :, row, b] == T.(v[:, :, i, b])
            @test all(close_to(k_cache[:, h, row, b], rotated(k[:, h, i, b], position, halves), T === Float32 ? 2e-6 : 4e-3) for h in 1:H)
            @test all(close_to(q_out[:, h, i, b], rotated(q[:, h, i, b], position, halves)) for h in 1:Hq)
        end
        rows = [(used[b] + i, b) for b in 1:B for i in 1:S]
        @test untouched(k_cache, before[1], rows) && untouched(v_cache, before[2], rows)

        # By an op, which then attends the cache; with heads before rows; and in place.
        op = LibFA.Op(Float32, D; kv_type = T)
        again = copy.(before)
        @test LibFA.append_workspace_size(op, again..., k, v; given...) == 0
        attention_append!(op, again..., k, v; given...)
        @test again == (k_cache, v_cache)
        turn(a) = permutedims(a, (1, 3, 2, 4))
        turned, turned_q = turn.(before), turn(q)
        attention_append!(turned..., turn(k), turn(v); given..., layout = :dshb, q = turned_q, q_out = turned_q)
        @test turned == turn.((k_cache, v_cache)) && turned_q == turn(q_out)
    end
end

@testset "pages, by a table and by slots" begin
    page_size, pages, used = 4, 6, [6, 0]
    table = Int32[3 5; 0 1; 4 2] # (pages of a sequence, B)
    packed_k, packed_v = randn(Float32, D, H, 5), randn(Float32, D, H, 5)
    starts, sequence, place = [0, 3, 5], [1, 1, 1, 2, 2], [6, 7, 8, 0, 1]
    slots = [table[place[i]÷page_size+1, sequence[i]] * page_size + place[i] % page_size for i in 1:5]
    at(cache, slot) = cache[:, :, slot%page_size+1, slot÷page_size+1]
    room() = (zeros(Float32, D, H, page_size, pages), zeros(Float32, D, H, page_size, pages))
    rotary = (rotary_cos = cosines[1:2, :], rotary_sin = sines[1:2, :], rotary_interleaved = true, rotary_tail = true)

    k_cache, v_cache = room()
    attention_append!(k_cache, v_cache, packed_k, packed_v; block_table = table, cu_seqlens_new = starts, cache_seqlens = used,
        max_seqlen_new = 3, rotary...)
    for i in 1:5
        @test at(v_cache, slots[i]) == packed_v[:, :, i]
        @test all(close_to(at(k_cache, slots[i])[:, h], rotated(packed_k[:, h, i], place[i], last_neighbours)) for h in 1:H)
    end
    @test count(!iszero, v_cache) == length(packed_v)

    # The same places by slots, of both types, one of them skipped, and positions that the call gives.
    chosen = [7, 0, 19, 3, 3]
    for T in (Int32, Int64)
        by_slot = room()
        attention_append!(by_slot..., packed_k, packed_v; slot_mapping = T[slots[1:4]; -1], positions = T.(chosen),
            rotary_cos = cosines, rotary_sin = sines, rotary_interleaved = true)
        @test all(close_to(at(by_slot[1], slots[i])[:, h], rotated(packed_k[:, h, i], chosen[i], neighbours)) for i in 1:4, h in 1:H)
        @test count(!iszero, by_slot[2]) == 4 * D * H
    end

    # Keys alone, of entries of the cache, and fewer new tokens than there is room for.
    alone = zeros(Float32, D, H, 7, 4)
    @test attention_append!(alone, nothing, k, nothing; kv_batch_idx = [3, 1], seqused_new = [2, 0]) === (alone, nothing)
    @test alone[:, :, 1:2, 4] == k[:, :, 1:2, 1] && count(!iszero, alone) == 2 * D * H
end

@testset "scales that are computed" begin
    bytes, scales = zeros(Int8, D, H, 12, B), fill(7f0, 1, H, 12, B)
    keys = LibFA.codes(LibFA.I8, bytes)
    @test attention_append!(keys, nothing, k, nothing; k_scale = scales, compute_scales = true, cache_seqlens = [2, 5])[1] === keys
    for (b, held) in ((1, 2), (2, 5)), i in 1:S, h in 1:H
        step = scales[1, h, held + i, b]
        @test step == maximum(abs, k[:, h, i, b]) / 127f0
        @test all(abs.(bytes[:, h, held + i, b] .* step .- k[:, h, i, b]) .<= 0.51f0 * step)
    end
    @test count(!=(7f0), scales) == H * S * B
end

@testset "refusals" begin
    cache() = zeros(Float32, D, H, 12, B)
    refused(words...; keys = cache(), values = cache(), keywords...) =
        throws(() -> attention_append!(keys, values, k, v; keywords...), LibFA.InvalidArgument, words...)
    @test refused("args.cache_seqlens[1] is 10"; cache_seqlens = [0, 10])
    @test refused("cache_seqlens has 3 entries; expected 2"; cache_seqlens = [0, 0, 0])
    @test refused("cu_seqlens_new has no entries"; cu_seqlens_new = Int[])
    @test refused("args.rotary_sin"; rotary_cos = cosines)
    @test refused("args.q_out"; q = q, rotary_cos = cosines, rotary_sin = sines)
    @test refused("args.v_cache"; values = nothing)
    both = cache()
    @test refused("args.v_cache", "overlap"; keys = both, values = both)
    @test refused("k_cache is of type Nothing, not an array"; keys = nothing)
    @test refused("positions is of type Int64, not an array"; positions = 3)
    @test refused("positions has elements of type Float64; expected Int32 or Int64, as Int32.(positions) gives"; positions = zeros(S, B))
    @test refused("rotary_cos has elements of type Int64"; rotary_cos = zeros(Int, 4, 20))
    @test refused("rotary_cos has 3 dimensions", "(pairs, positions)"; rotary_cos = zeros(Float32, 4, 20, 2))
    @test refused("unknown keyword `rotary_tails`", "rotary_tail"; rotary_tails = true)
    @test refused("unknown keyword `seqused_k`"; seqused_k = [1, 2])
    op = LibFA.Op(Float32, D)
    @test throws(() -> attention_append!(op, cache(), cache(), k, v; causal = true), LibFA.InvalidArgument, "`causal` describes an op")
end
