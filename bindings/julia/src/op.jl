# An attention, described and ready to run: fa_desc from Julia's words, and the owner of an fa_op.

"A copy of a structure with some fields replaced."
@generated function with(s::S, new::NamedTuple{names}) where {S,names}
    unknown = setdiff(names, fieldnames(S))
    isempty(unknown) || return :(throw(ArgumentError($("$(nameof(S)) has no field $(join(unknown, ", "))"))))
    return Expr(:call, S, (f in names ? :(new.$f) : :(s.$f) for f in fieldnames(S))...)
end

function defaults(init, ::Type{S}) where {S}
    s = Ref{S}()
    init(s, sizeof(S))
    return s[]
end

function device_of(name::Symbol)
    name === :auto && return C.FA_DEVICE_AUTO
    name === :cpu && return C.FA_DEVICE_CPU
    name === :cuda && return C.FA_DEVICE_CUDA
    throw(InvalidArgument("device is $(repr(name)); expected :auto, :cpu or :cuda"))
end
device_of(value::Int32) = value

function mask_of(causal::Union{Bool,Symbol})
    causal isa Bool && return causal ? C.FA_MASK_CAUSAL : C.FA_MASK_NONE
    causal === :bottom_right && return C.FA_MASK_CAUSAL
    causal === :top_left && return C.FA_MASK_CAUSAL_TOP_LEFT
    throw(InvalidArgument("causal is $(repr(causal)); expected true (as :bottom_right, the last query attends every " *
                          "key), :top_left or false"))
end

"The names of a function's keywords."
keyword_names(f) = [string(name) for name in Base.kwarg_decl(first(methods(f))) if !endswith(string(name), "...")]

"Refuses a keyword that the call does not have, with those that there are."
@noinline function throw_unknown(name, call)
    of_op, of_call = keyword_names(describe), keyword_names(call)
    string(name) in of_op && throw(InvalidArgument("keyword `$name` describes an op, which is made by then; expected it in " *
                                                   "LibFA.Op(T, head_dim; $name = ...)"))
    string(name) in of_call && throw(InvalidArgument("keyword `$name` belongs to a call, not to an op; expected it in " *
                                                     "op(out, q, k, v; $name = ...)"))
    throw(InvalidArgument("unknown keyword `$name`$(suggestion(string(name), vcat(of_op, of_call))); an op or attention " *
                          "takes $(join(of_op, ", ")); a call takes $(join(of_call, ", "))"))
end

"A number of a field of fa_desc, where 0 has a special meaning: only 0 becomes 0."
function single(value::Real, name)
    number = Cfloat(value)
    number == 0 && value != 0 && throw(InvalidArgument("$name is $value, which Float32 holds as 0; expected 0 or a number " *
                                                       "from $(nextfloat(0.0f0)) on"))
    return number
end

"The fa_desc of an attention; the keywords are those of [`Op`](@ref)."
function describe(::Type{T}, head_dim::Integer; head_dim_v::Integer = 0, kv_type::Type = T, v_type::Type = kv_type,
    k_rope_type::Type = T, head_dim_rope::Integer = 0, out_type::Type = T,
    causal::Union{Bool,Symbol} = false, window::Tuple{Integer,Integer} = (-1, -1), attention_chunk::Integer = 0,
    softmax_scale::Real = 0, softcap::Real = 0, deterministic::Bool = true, batch_invariant::Bool = false,
    bias_before_softcap::Bool = false, hadamard_k::Bool = false, hadamard_v::Bool = false,
    device_pointers::Bool = false, num_threads::Integer = 0, julia_threads::Bool = false,
    device::Union{Symbol,Int32} = :auto, device_index::Integer = 0, unknown...) where {T}
    isempty(unknown) || throw_unknown(first(keys(unknown)), arguments)
    flags = (deterministic ? Int32(0) : C.FA_FLAG_NONDETERMINISTIC) |
            (batch_invariant ? C.FA_FLAG_BATCH_INVARIANT : Int32(0)) |
            (bias_before_softcap ? C.FA_FLAG_BIAS_BEFORE_SOFTCAP : Int32(0)) |
            (hadamard_k ? C.FA_FLAG_HADAMARD_K : Int32(0)) |
            (hadamard_v ? C.FA_FLAG_HADAMARD_V : Int32(0)) |
            (device_pointers ? C.FA_FLAG_DEVICE_POINTERS : Int32(0))
    threads = julia_threads && num_threads == 0 ? min(Threads.nthreads(), C.FA_MAX_THREADS) : num_threads
    return with(defaults(C.fa_desc_init, C.fa_desc), (device = device_of(device), device_index = device_index,
        dtype_q = dtype_of_type("T", T), dtype_kv = dtype_of_type("kv_type", kv_type),
        dtype_v = v_type === kv_type ? C.FA_DTYPE_DEFAULT : dtype_of_type("v_type", v_type),
        dtype_k_rope = dtype_of_type("k_rope_type", k_rope_type), head_dim_rope = head_dim_rope,
        dtype_out = dtype_of_type("out_type", out_type), mask = mask_of(causal),
        head_dim = head_dim, head_dim_v = head_dim_v, window_left = window[1], window_right = window[2],
        attention_chunk = attention_chunk, softmax_scale = single(softmax_scale, :softmax_scale),
        softcap = single(softcap, :softcap), flags = flags, num_threads = threads,
        parallel_for = julia_threads ? parallel_for_address[] : C_NULL, parallel_for_user = C_NULL))
end

"""
    Op(T, head_dim; keywords...)

An attention of queries of type `T` (`Float32`, `Float16`, `BFloat16`) and this head dimension, ready to be called any number
of times, from any thread: `op(out, q, k, v; ...)`, see [`attention!`](@ref). Ended by `close`, or when nothing uses it.

| keyword | default | meaning |
|---|---|---|
| `causal` | `false` | `true`: the last query attends every key; `:top_left`: the first query attends the first key |
| `window` | `(-1, -1)` | keys before and after the query's position that it attends; -1: all |
| `attention_chunk` | 0 | queries attend keys of their own chunk of this many positions |
| `softmax_scale` | 0 | of the scores; 0: 1 / sqrt(head_dim) |
| `softcap` | 0 | x = softcap * tanh(x / softcap); 0: none |
| `bias_before_softcap` | `false` | adds the bias before the softcap rather than after it |
| `head_dim_v` | 0 | head dimension of v and out; 0: `head_dim` |
| `head_dim_rope`, `k_rope_type` | 0, `T` | of `k_rope`: the last elements of keys, which k lacks, and their type |
| `kv_type`, `out_type` | `T` | element types of k and v, and of out |
| `v_type` | `kv_type` | that of v, where it is another than that of k |
| `deterministic` | `true` | `false` allows results that differ from run to run, for speed |
| `batch_invariant` | `false` | a query's bits do not depend on the rest of the call |
| `hadamard_k`, `hadamard_v` | `false` | [`attention_append!`](@ref) rotates keys, values, by a Hadamard matrix; calls rotate queries, results back |
| `num_threads` | 0 | 0: FA_NUM_THREADS, else all CPUs (with `julia_threads`: `Threads.nthreads()`) |
| `julia_threads` | `false` | runs on Julia's threads rather than on the library's own |
| `device`, `device_index` | `:auto`, 0 | `:cpu`, `:cuda` |
| `device_pointers` | `false` | with `:cuda`: promises that the GPU may use all memory of a call, which costs less time on the host |

Throws [`InvalidArgument`](@ref), [`Unsupported`](@ref), [`NoDevice`](@ref), [`OutOfMemory`](@ref).
"""
mutable struct Op
    handle::Ptr{C.fa_op}
    desc::C.fa_desc

    function Op(desc::C.fa_desc)
        handle = Ref{Ptr{C.fa_op}}(C_NULL)
        check(C.fa_create(Ref(desc), handle))
        return finalizer(close, new(handle[], desc))
    end
end

Op(::Type{T}, head_dim::Integer; options...) where {T} = Op(describe(T, head_dim; options...))

"Ends an op, which no call may be using; a closed one is closed already."
function Base.close(op::Op)
    handle, op.handle = op.handle, C_NULL
    handle == C_NULL || C.fa_destroy(handle)
    return
end

Base.isopen(op::Op) = op.handle != C_NULL

function opened(op::Op)
    isopen(op) || throw(InvalidArgument("the op is closed; expected one that close has not been called on"))
    return op.handle
end

"The name of the kernel that an op runs: \"cpu.avx2\"."
kernel(op::Op) = GC.@preserve op unsafe_string(C.fa_op_kernel_name(opened(op)))

Base.show(io::IO, op::Op) = print(io, "LibFA.Op(", isopen(op) ? kernel(op) : "closed", ")")
