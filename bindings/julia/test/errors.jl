# Bad input: Julia's own kind of error with the library's text in it, and never a crash; first one by one, then at random.
include("support.jl")
using Random

const q, k, v = randn(Float32, 16, 4, 5, 3), randn(Float32, 16, 2, 7, 3), randn(Float32, 16, 2, 7, 3)
invalid(f, words...) = throws(f, LibFA.InvalidArgument, words...)

@testset "tensors" begin
    @test invalid(() -> attention(Float64.(q), k, v), "q has elements of type Float64", "Float32.(q)")
    @test invalid(() -> attention(q, Float64.(k), v), "k has elements of type Float64")
    @test invalid(() -> attention(q, k, Float16.(v)), "args.v", "dtype")
    @test invalid(() -> attention(q[:, :, :, 1:2], k, v), "args.k.shape[0]", "3", "2")
    @test invalid(() -> attention(q[1:8, :, :, :], k, v), "args.k.shape[3]", "16", "8", "Julia's in the other order")
    @test invalid(() -> attention(q[:, 1:3, :, :], k, v), "args.k.shape[2]", "divisor")
    @test invalid(() -> attention(q, k, v[:, :, 1:6, :]), "args.v.shape[1]")
    @test invalid(() -> attention(vec(q), k, v), "q has 1 dimension, size (960,); expected 4, or 3 without a batch")
    @test invalid(() -> attention(q, k, "v"), "v is of type String, not an array")
    @test invalid(() -> attention(q, k, v; sinks = 0.5), "sinks is of type Float64, not an array")
    @test invalid(() -> attention(q, k, v; layout = :bshd), "layout is :bshd", ":dhsb", ":dshb")
    @test invalid(() -> attention(view(q, [1, 3, 5, 7, 9, 11, 13, 15, 2, 4, 6, 8, 10, 12, 14, 16], :, :, :), k, v), "strides")
    bytes = StridedMemory{Float32,4}(zeros(UInt8, 4 * length(q) + 4), 2, size(q), strides(q))
    @test invalid(() -> attention!(similar(q), bytes, k, v), "args.q.data", "multiple of its elements' 4 bytes")
    @test invalid(() -> attention(q, k, v; mask = trues(7, 5)), "BitArray", "Array(mask)")
    @test invalid(() -> attention(q, k, v; mask = ones(Float32, 7, 5)), "args.mask", "dtype")
    @test invalid(() -> attention(q, k, v; mask = [1 0]), "mask has elements of type Int64; expected Bool, as Bool.(mask)")
    @test invalid(() -> attention(q, k, v; block_table = [0 1 2]), "expected Int32, as Int32.(block_table) gives")
    @test invalid(() -> attention(q, k, v; sinks = zeros(4)), "expected Float32, as Float32.(sinks) gives")
    @test invalid(() -> attention(q, k, v; bias = randn(Float32, 6, 5)), "args.bias.shape[3]", "7")
    @test invalid(() -> attention(q, k, v; sinks = randn(Float32, 3)), "args.sinks.shape[1]")
    @test invalid(() -> attention(q, k, v; sinks = randn(Float32, 4, 3, 1)), "sinks has 3 dimensions")
end

@testset "outputs" begin
    @test invalid(() -> attention!(q, q, k, v), "overlap")
    both = zeros(Float32, 2 * length(q))
    a, b = reshape(view(both, 1:length(q)), size(q)), reshape(view(both, 17:16+length(q)), size(q))
    @test invalid(() -> attention!(a, b, k, v), "overlap")
    @test invalid(() -> attention!(q[:, :, 1:4, :], q, k, v), "args.out.shape[1]")
    repeated = StridedMemory{Float32,4}(zeros(UInt8, 4096), 0, size(q), (1, 16, 0, 64))
    @test invalid(() -> attention!(repeated, q, k, v), "args.out.stride")
    @test invalid(() -> attention!(similar(q), q, k, v; lse = zeros(Float32, 4, 5, 3)), "args.lse.shape")
    @test invalid(() -> attention!(similar(q), q, k, v; lse = zeros(5, 4, 3)), "Float64")
end

@testset "arrays of indices" begin
    rows(a) = reshape(a, 16, size(a, 2), :)
    packed(starts_q, starts_k) = attention(rows(q), rows(k), rows(v); cu_seqlens_q = starts_q, cu_seqlens_k = starts_k)
    @test invalid(() -> packed([0, 5, 15], [0, 7]), "cu_seqlens_q has 3 entries and cu_seqlens_k 2")
    @test invalid(() -> packed(Int32[], Int32[]), "cu_seqlens_q", "no entries")
    @test invalid(() -> packed([0, 16], [0, 7]), "cu_seqlens_q", "16")
    @test invalid(() -> attention(q, k, v; seqused_k = [7, 7]), "seqused_k has 2 entries; expected 3")
    @test invalid(() -> attention(q, k, v; seqused_k = [7, 8, 7]), "seqused_k", "8")
    @test invalid(() -> attention(q, k, v; seqused_k = [7, 2^40, 7]), "seqused_k", "32-bit")
    @test invalid(() -> attention(q, k, v; seqused_k = [7.0, 7, 7]), "seqused_k", "integers")
    @test invalid(() -> attention(q, k, v; kv_batch_idx = [0, 1, 3]), "kv_batch_idx", "3")
    @test invalid(() -> attention(q, k, v; block_table = Int32[0 0 0], cu_seqlens_k = [0, 7, 14, 21]), "block_table")
end

@testset "keywords" begin
    @test invalid(() -> attention(q, k, v; scale = 2),
        "unknown keyword `scale`; did you mean `softmax_scale`, `k_scale` or `v_scale`?", "seqused_k")
    @test invalid(() -> attention!(similar(q), q, k, v; causel = true), "unknown keyword `causel`; did you mean `causal`?")
    @test invalid(() -> LibFA.Op(Float32, 16; chunk = 4), "unknown keyword `chunk`; did you mean `attention_chunk`?")
    @test invalid(() -> LibFA.Op(Float32, 16; sink = 4), "unknown keyword `sink`; did you mean `sinks`?")
    @test invalid(() -> attention(q, k, v; dropout_p = 0), "unknown keyword `dropout_p`; an op or attention takes head_dim_v, ",
        "; a call takes layout, ")
    op = LibFA.Op(Float32, 16)
    @test invalid(() -> op(similar(q), q, k, v; causal = true), "`causal` describes an op", "LibFA.Op(T, head_dim; causal = ...)")
    @test invalid(() -> LibFA.Op(Float32, 16; mask = nothing), "`mask` belongs to a call", "op(out, q, k, v; mask = ...)")
    @test invalid(() -> LibFA.workspace_size(op, similar(q), q, k, v; splits = 2), "did you mean `num_splits`?")
end

@testset "ops" begin
    @test invalid(() -> LibFA.Op(Int, 16), "Int64")
    @test invalid(() -> LibFA.Op(Bool, 16), "desc.dtype_q")
    @test invalid(() -> LibFA.Op(Float32, 0), "desc.head_dim", "576")
    @test invalid(() -> LibFA.Op(Float32, 16; causal = :left), ":left", ":top_left")
    @test invalid(() -> LibFA.Op(Float32, 16; softcap = NaN), "desc.softcap")
    @test invalid(() -> LibFA.Op(Float32, 16; softcap = 1e-60), "softcap is 1.0e-60, which Float32 holds as 0")
    @test invalid(() -> LibFA.Op(Float32, 16; softmax_scale = -1e-60), "softmax_scale is -1.0e-60")
    @test invalid(() -> LibFA.Op(Float32, 16; num_threads = 5000), "desc.num_threads")
    @test invalid(() -> LibFA.Op(Float32, 16; device = :gpu), ":gpu", ":cuda")
    @test thrown(() -> LibFA.Op(Float32, 16; device = :cuda, device_index = 99)) isa LibFA.Error
    op = LibFA.Op(Float32, 16)
    @test isopen(op) && LibFA.kernel(op) in [kernel.name for kernel in LibFA.kernels()]
    close(op)
    close(op)
    @test !isopen(op) && repr(op) == "LibFA.Op(closed)"
    @test invalid(() -> op(similar(q), q, k, v), "closed")
    @test invalid(() -> LibFA.kernel(op), "closed")
    @test invalid(() -> LibFA.workspace_size(op, similar(q), q, k, v), "closed")
    op = LibFA.Op(Float32, 16)
    @test invalid(() -> op(similar(q), q, k, v; workspace = LibFA.workspace(0)), "workspace")
    @test invalid(() -> LibFA.kernel_info(-1), "index")
    # Finalizers end the ops that close has not.
    foreach(_ -> LibFA.Op(Float32, 16), 1:1000)
    GC.gc()
    # A status that is unknown here, and each that is known.
    @test LibFA.status_string(77) == "unknown fa_status"
    for (status, E) in ((1, LibFA.InvalidArgument), (2, LibFA.Unsupported), (3, LibFA.NoDevice), (4, LibFA.OutOfMemory),
        (5, LibFA.DriverError), (77, LibFA.UnknownError))
        @test thrown(() -> LibFA.check(Int32(status))) isa E
    end
end

# Calls that are right but for random changes. Exceptions must be Julia's or ours, and only out may be written.
const rng = MersenneTwister(parse(Int, get(ENV, "FA_SEED", "20")))
pick(list) = list[rand(rng, 1:length(list))]
const numbers = Any[0, -1, 1, 2, 7, 577, 2^31, -2^40, typemax(Int), 0.5, -1.0, NaN, Inf, 1e300]

"A random array: of a wrong or right type, of any sizes, perhaps a view that runs backwards, is permuted, or skips."
function any_array(sizes)
    T = pick([Float32, Float32, Float32, Float16, LibFA.BFloat16, Float64, Int32, Bool])
    sizes = map(n -> rand(rng) < 0.03 ? rand(rng, 0:9) : n, sizes)
    kind = rand(rng, 1:8)
    kind == 1 && return view(ones(T, (sizes .* 2)...), map(n -> 2n:-2:2, sizes)...)
    kind == 2 && return PermutedDimsArray(ones(T, reverse(sizes)...), Tuple(length(sizes):-1:1))
    kind == 3 && return view(ones(T, (sizes .+ 1)...), map(n -> shuffle(rng, collect(1:n)), sizes)...)
    return ones(T, sizes...)
end

any_indices(n) = pick(Any[fill(3, n), fill(Int32(2), n), Int32.(0:n-1), rand(rng, -9:9, n), Int32[], fill(2^33, n),
    fill(1.5, n), 3, nothing])

function any_keyword(name)
    name in (:seqused_q, :seqused_k, :leftpad_k, :kv_batch_idx, :q_offset) && return any_indices(pick([3, 3, 3, 2]))
    name in (:cu_seqlens_q, :cu_seqlens_k) && return any_indices(4)
    name === :lse && return any_array((5, 4, 3))
    name in (:bias, :mask) && return any_array(pick([(7, 5, 4, 3), (7, 5), (1, 1, 1, 3), (7,)]))
    name in (:sinks, :alibi_slopes) && return any_array(pick([(4,), (4, 3), (3, 4)]))
    name === :block_table && return rand(rng, Int32(-1):Int32(3), 1, 3)
    name === :workspace && return LibFA.workspace(pick([0, 100, 100000]))
    name in (:causal, :deterministic, :batch_invariant, :bias_before_softcap) && return pick(Any[true, false, :top_left, :no, 3])
    name === :window && return (pick(numbers), pick(numbers))
    name === :layout && return pick([:dhsb, :dshb, :other])
    return pick(numbers)
end

const names = [:seqused_q, :seqused_k, :leftpad_k, :kv_batch_idx, :q_offset, :cu_seqlens_q, :cu_seqlens_k, :lse, :bias, :mask,
    :sinks, :alibi_slopes, :block_table, :workspace, :causal, :deterministic, :batch_invariant, :bias_before_softcap,
    :window, :layout, :softmax_scale, :softcap, :attention_chunk, :num_threads, :num_splits, :max_seqlen_q, :max_seqlen_k]

@testset "fuzz" begin
    counts = Dict{Any,Int}()
    for i in 1:parse(Int, get(ENV, "FA_FUZZ_CALLS", "250"))
        memory = fill(0x7b, 4 * length(q) + 512)
        out = StridedMemory{Float32,4}(memory, 256, size(q), strides(q))
        three = map(a -> rand(rng) < 0.3 ? any_array(size(a)) : copy(a), (q, k, v))
        # One keyword type for all calls: the code that Julia compiles for one works for the next.
        keywords = Dict{Symbol,Any}(name => any_keyword(name) for name in rand(rng, names, rand(rng, 0:2)))
        error = thrown(() -> Base.invokelatest(attention!, out, three...; keywords...))
        good = error === nothing || error isa Union{LibFA.Error,MethodError,TypeError,InexactError,ArgumentError,DimensionMismatch}
        good || println("call $i: $(typeof.(three)), $(size.(three)), $keywords: ", sprint(showerror, error))
        @test good
        @test all(==(0x7b), memory[1:256]) && all(==(0x7b), memory[end-255:end])
        counts[typeof(error)] = get(counts, typeof(error), 0) + 1
    end
    println(counts)
    @test min(counts[Nothing], counts[LibFA.InvalidArgument]) > 20
end
