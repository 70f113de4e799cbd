"""
Fused attention (FlashAttention) through libfa: [`attention`](@ref) and [`attention!`](@ref) on arrays, without copies, and its
gradients, [`attention_backward`](@ref). [`attention_merge`](@ref) combines results over different keys, and
[`attention_append!`](@ref) writes new keys and values into a cache.
[`Op`](@ref) holds an attention for many calls, [`kernels`](@ref) and [`info`](@ref) list what this machine has, and
`LibFA.C` is the C interface as it is.
"""
module LibFA

import Libdl

export attention, attention!, attention_backward, attention_backward!, attention_merge, attention_merge!,
    attention_append!

include("library.jl")
include("C.jl")
include("errors.jl")
include("suggestion.jl")
include("log.jl")
include("elements.jl")
include("tensors.jl")
include("quantised.jl")
include("fields.jl")
include("keywords.jl")
include("threads.jl")
include("op.jl")
include("call.jl")
include("attention.jl")
include("backward.jl")
include("merge.jl")
include("append.jl")
include("nnlib_like.jl")
include("information.jl")

function __init__()
    open_library()
    parallel_for_address[] = @cfunction(run_on_julia_threads, Cvoid, (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Int64))
    log_address[] = @cfunction(keep_message, Cvoid, (Ptr{Cvoid}, Cstring))
    return
end

end
