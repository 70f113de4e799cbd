# The case list of the C tests (tests/bindings/dump_cases.cpp describes its files) through attention!: each feature of fa.h, over
# all element types, in either layout, against the oracle's results; and the cases that fa.h refuses.
include("support.jl")

struct CaseTensor
    shape::NTuple{4,Int}
    stride::NTuple{4,Int}
    dtype::Int32
    memory::Vector{UInt8}
    first::Int
end

mutable struct Case
    name::String
    text::String
    desc::Dict{Symbol,Float64}
    args::Dict{Symbol,Int}
    tensors::Dict{Symbol,CaseTensor}
    arrays::Dict{Symbol,Vector{Int32}}
    workspace::Bool
    refused::Vector{String}
    want::Dict{Symbol,Tuple{Vector{Float64},Vector{Float64}}}
end

function read_cases(folder)
    bytes = read(joinpath(folder, "cases.bin"))
    take(T, offset, count) = collect(reinterpret(T, bytes[offset+1:offset+count*sizeof(T)]))
    cases = Case[]
    for line in eachline(joinpath(folder, "cases.txt"))
        key, rest = (split(line, ' '; limit = 2)..., "")
        w = split(rest)
        key == "case" && push!(cases, Case(rest, "", Dict(), Dict(), Dict(), Dict(), false, [], Dict()))
        c = cases[end]
        if key == "text"
            c.text = rest
        elseif key == "desc"
            c.desc[Symbol(w[1])] = parse(Float64, w[2])
        elseif key == "args"
            c.args[Symbol(w[1])] = parse(Int, w[2])
        elseif key == "tensor"
            n = parse.(Int, w[2:end])
            c.tensors[Symbol(w[1])] = CaseTensor(Tuple(n[2:5]), Tuple(n[6:9]), n[1], take(UInt8, n[10], n[11]), n[12])
        elseif key == "array"
            c.arrays[Symbol(w[1])] = take(Int32, parse(Int, w[2]), parse(Int, w[3]))
        elseif key == "workspace"
            c.workspace = true
        elseif key == "refused"
            c.refused = w
        elseif key == "want"
            both = take(Float64, parse(Int, w[2]), 2 * parse(Int, w[3]))
            half = length(both) ÷ 2
            c.want[Symbol(w[1])] = (both[1:half], both[half+1:end])
        end
    end
    cases
end

const element = Dict(C.FA_F32 => Float32, C.FA_F16 => Float16, C.FA_BF16 => LibFA.BFloat16, C.FA_BOOL => Bool, C.FA_I32 => Int32)

"A tensor of a case as an array whose dimensions are C's `order` (from 0)."
view_of(t::CaseTensor, order) =
    StridedMemory{element[t.dtype],length(order)}(t.memory, t.first, Tuple(t.shape[i+1] for i in order),
        Tuple(t.stride[i+1] for i in order))

const order_of = Dict(:lse => (2, 1, 0), :tree_mask => (3, 2, 1, 0), :tree_depth => (1, 0),
    (name => shape === :scores ? (3, 2, 1, 0) : (1, 0) for (name, shape) in pairs(LibFA.tensor_shapes))...)

"fa_desc's fields in the keywords of Op; those that follow from arrays are left out."
function options_of(c::Case)
    d(name, default) = get(c.desc, name, default)
    flags = Int32(d(:flags, 0))
    mask = Int32(d(:mask, 0))
    options = Dict{Symbol,Any}(:num_threads => Int(d(:num_threads, 0)), :softmax_scale => d(:softmax_scale, 0),
        :softcap => d(:softcap, 0), :attention_chunk => Int(d(:attention_chunk, 0)),
        :window => (Int(d(:window_left, -1)), Int(d(:window_right, -1))),
        :causal => mask == C.FA_MASK_CAUSAL_TOP_LEFT ? :top_left : mask == C.FA_MASK_CAUSAL,
        :deterministic => flags & C.FA_FLAG_NONDETERMINISTIC == 0,
        :batch_invariant => flags & C.FA_FLAG_BATCH_INVARIANT != 0,
        :bias_before_softcap => flags & C.FA_FLAG_BIAS_BEFORE_SOFTCAP != 0,
        :hadamard_k => flags & C.FA_FLAG_HADAMARD_K != 0, :hadamard_v => flags & C.FA_FLAG_HADAMARD_V != 0)
end

"Runs a case in a layout; returns the first error in its results, or \"\"."
function failure(c::Case, layout)
    order = layout === :dhsb ? (3, 2, 1, 0) : (3, 1, 2, 0)
    before = Dict(name => copy(t.memory) for (name, t) in c.tensors)
    q, k, v, out = (view_of(c.tensors[name], order) for name in (:q, :k, :v, :out))
    call = Dict{Symbol,Any}(name => view_of(t, order_of[name]) for (name, t) in c.tensors if haskey(order_of, name))
    merge!(call, c.arrays)
    for name in (:max_seqlen_q, :max_seqlen_k, :num_splits)
        haskey(c.args, name) && (call[name] = c.args[name])
    end
    call[:layout] = layout
    options = options_of(c)
    if !isempty(c.refused)
        text = try
            attention!(out, q, k, v; call..., options...)
            "no error"
        catch e
            e isa LibFA.InvalidArgument ? e.text : rethrow()
        end
        for word in c.refused
            occursin(word, text) || return "\"$text\" does not name $word"
        end
        all(t.memory == before[name] for (name, t) in c.tensors) || return "memory was written by a call that was refused"
        return ""
    end
    if c.workspace # the caller's own op, too
        op = LibFA.Op(eltype(q), size(q, 1); head_dim_v = size(v, 1), kv_type = eltype(k), out_type = eltype(out), options...)
        call[:workspace] = LibFA.workspace(LibFA.workspace_size(op, out, q, k, v; call...))
        op(out, q, k, v; call...)
        close(op)
    else
        attention!(out, q, k, v; call..., options...)
    end
    # C's index order is Julia's of the reversed dimensions.
    judged = compare("out", view_of(c.tensors[:out], (3, 2, 1, 0)), c.want[:out])
    judged == "" && haskey(c.want, :lse) && (judged = compare("lse", view_of(c.tensors[:lse], (3, 2, 1, 0)), c.want[:lse]))
    judged == "" || return judged
    for (name, t) in c.tensors
        kept = trues(length(t.memory))
        haskey(c.want, name) && forget_written!(kept, view_of(t, (3, 2, 1, 0)), c.want[name][2])
        t.memory[kept] == before[name][kept] || return "$name: memory that the call must not write was written"
    end
    return ""
end

function compare(name, found, (values, bounds))
    for (i, x) in enumerate(found)
        bounds[i] < 0 && continue
        same = isnan(values[i]) ? isnan(x) : isinf(values[i]) ? Float64(x) == values[i] : abs(Float64(x) - values[i]) <= bounds[i]
        same || return "$name at $i is $x; expected $(values[i]) within $(bounds[i])"
    end
    return ""
end

"Strikes out the bytes that a call is to write."
function forget_written!(kept, a::StridedMemory{T}, bounds) where {T}
    for (i, index) in enumerate(CartesianIndices(a))
        at = byte_of(a, Tuple(index))
        bounds[i] < 0 || (kept[at+1:at+sizeof(T)] .= false)
    end
end

const cases = read_cases(ARGS[1])
@testset "case list" begin
    @test length(cases) > 200
    @test any(c -> !isempty(c.refused), cases)
    for (i, c) in enumerate(cases), layout in (isodd(i) ? (:dhsb,) : (:dshb,))
        text = try
            failure(c, layout)
        catch e
            sprint(showerror, e)
        end
        text == "" || println("case $(c.name), layout $layout: $text\n  fa run --case '$(c.text)'")
        @test text == ""
    end
end
