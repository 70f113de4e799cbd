# Julia's threads lent to the library: the same bits as the library's threads give, none of which is started, from many tasks at
# once, and with ops ended and garbage collected meanwhile.
include("support.jl")

threads_of_process() = length(readdir("/proc/self/task"))

@testset "threads" begin
    @test Threads.nthreads() > 1 # of the four asked for, those that there are CPUs for
    q, k, v = (randn(Float32, 64, 4, 300, 2) for _ in 1:3)
    before = threads_of_process()
    lent, lse = attention(q, k, v; causal = true, julia_threads = true, return_lse = true)
    @test threads_of_process() == before
    @test LibFA.describe(Float32, 64; julia_threads = true).num_threads == Threads.nthreads()
    @test (lent, lse) == attention(q, k, v; causal = true, num_threads = 4, return_lse = true)
    @test threads_of_process() > before # the library's own
    LibFA.shutdown()
    @test threads_of_process() == before

    # Every task exactly once. The first is the caller's, and here it holds on to its thread until another has done one.
    ran = zeros(Int, 100)
    elsewhere = Threads.Atomic{Bool}(false)
    function counted(ctx::Ptr{Cvoid}, i::Int64)::Cvoid
        ran[i+1] += 1
        Threads.threadid() == 1 || (elsewhere[] = true)
        start = time()
        while ctx != C_NULL && i == 0 && !elsewhere[] && time() - start < 60
        end
        return
    end
    task = @cfunction($counted, Cvoid, (Ptr{Cvoid}, Int64))
    GC.@preserve task for n in (0, 1, 2, 7, 100)
        fill!(ran, 0)
        LibFA.run_on_julia_threads(C_NULL, Base.unsafe_convert(Ptr{Cvoid}, task), Ptr{Cvoid}(UInt(n > 1)), n)
        @test ran == [ones(Int, n); zeros(Int, 100 - n)]
    end
    @test elsewhere[]

    # Many tasks on one op, each lending all threads, while others create and drop ops.
    op = LibFA.Op(Float32, 64; causal = true, julia_threads = true)
    results = [similar(q) for _ in 1:16]
    @sync for out in results
        Threads.@spawn begin
            op(out, q, k, v)
            foreach(_ -> LibFA.Op(Float32, 64), 1:20)
            GC.gc()
        end
    end
    @test all(==(lent), results)

    # An error is that of the task whose call failed.
    texts = fetch.([Threads.@spawn thrown(() -> op(results[1], q[1:i, :, :, :], k, v)).text for i in 1:8])
    @test all(occursin("is $i;", replace(text, "," => ";")) for (i, text) in enumerate(texts))
end
