# Every element type in the place of every argument: the types of the argument work, all else is refused by its name.
include("support.jl")

# Types as those of other packages: eight and sixteen bits, and two of floating point in one.
primitive type Float8_E4M3 <: AbstractFloat 8 end
primitive type Posit16 <: AbstractFloat 16 end
Float8_E4M3(x::Real) = reinterpret(Float8_E4M3, x % UInt8)
Posit16(x::Real) = reinterpret(Posit16, x % UInt16)
struct Dual
    value::Float32
    partial::Float32
end
Dual(x::Real) = Dual(x, 0)

const types = [Float32, Float16, LibFA.BFloat16, Float64, BigFloat, Bool, Int8, Int16, Int32, Int64, Int128, UInt8, UInt16, UInt32,
    UInt64, UInt128, BigInt, Char, Complex{Float16}, ComplexF32, Complex{Bool}, Rational{Int32}, Any, Real,
    Union{Missing,Float32}, Union{Nothing,Int32}, Float8_E4M3, Posit16, Dual, Ptr{Cvoid}, NTuple{2,Float16}]
const floats = [Float32, Float16, LibFA.BFloat16]
const integers = filter(T -> T <: Integer && T !== Bool, types)

one_of(::Type{T}) where {T} = T(1)
one_of(::Type{NTuple{2,Float16}}) = (Float16(1), Float16(1))
one_of(::Type{Ptr{Cvoid}}) = Ptr{Cvoid}(1)
one_of(::Type{Char}) = 'a'
one_of(::Type{Any}) = 1
one_of(::Type{Real}) = 1
one_of(::Type{Union{Missing,Float32}}) = 1.0f0
one_of(::Type{Union{Nothing,Int32}}) = Int32(1)
filled(::Type{T}, sizes) where {T} = fill!(Array{T}(undef, sizes...), one_of(T))

# Sizes of a call of one sequence with one query and one key.
const rows, scores, of_lse, heads = (8, 2, 1, 1), (1, 1, 1, 1), (1, 2, 1), (2,)
const forward = (out = rows, q = rows, k = rows, v = rows)
const backward = (dout = rows, out = rows, lse = of_lse, q = rows, k = rows, v = rows)

"Gives `name` each type, all else its usual one; the call works with those in `supported`."
function sweep(call, name, sizes, supported)
    for T in types
        e = thrown(() -> call(filled(T, sizes)))
        if T in supported
            e === nothing || println("$name of $T: ", sprint(showerror, e))
            @test e === nothing
        else
            text = e === nothing ? "no error" : sprint(showerror, e)
            good = e isa LibFA.InvalidArgument && occursin(Regex("(^|: )(args\\.)?$name\\b"), text)
            good || println("$name of $T: $text")
            @test good
        end
    end
end

usual(sizes) = map(size -> filled(Float32, size), sizes)

@testset "forward" begin
    for name in keys(forward)
        sweep(name, forward[name], [Float32]) do given
            LibFA.Op(Float32, 8)(values(merge(usual(forward), NamedTuple{(name,)}((given,))))...)
        end
    end
    for (name, sizes, supported) in ((:lse, of_lse, [Float32]), (:bias, scores, floats), (:mask, scores, [Bool]),
        (:alibi_slopes, heads, [Float32]), (:sinks, heads, [Float32]), (:seqused_q, (1,), integers),
        (:seqused_k, (1,), integers), (:leftpad_k, (1,), integers), (:q_offset, (1,), integers))
        sweep(given -> attention!(values(usual(forward))...; (name => given,)...), name, sizes, supported)
    end
    # Two sequences that are packed, two pages, two entries of k and v.
    packed = fill(1.0f0, 8, 2, 2)
    for name in (:cu_seqlens_q, :cu_seqlens_k)
        sweep(name, (3,), integers) do given
            eltype(given) in integers && (given .= 0:2)
            attention(packed, packed, packed; merge((cu_seqlens_q = 0:2, cu_seqlens_k = 0:2), NamedTuple{(name,)}((given,)))...)
        end
    end
    pair = fill(1.0f0, 8, 2, 1, 2)
    one = filled(Float32, rows)
    sweep(given -> attention(one, pair, pair; block_table = given), :block_table, (1, 1), [Int32])
    sweep(given -> attention(one, pair, pair; kv_batch_idx = given), :kv_batch_idx, (1,), integers)
    for T in setdiff(types, floats)
        q = filled(T, rows)
        @test throws(() -> attention(q, q, q), LibFA.InvalidArgument, T in (Bool, Int32) ? "dtype_q" : "q has elements of type $T")
        @test throws(() -> attention(one, one, one; out_type = T), LibFA.InvalidArgument, T in (Bool, Int32) ? "out" : "out_type is $T")
    end
end

@testset "backward" begin
    for name in keys(backward)
        sweep(name, backward[name], name === :dout ? floats : [Float32]) do given
            arrays = merge(usual(backward), NamedTuple{(name,)}((given,)))
            attention_backward!(LibFA.Op(Float32, 8), (dq = filled(Float32, rows),), values(arrays)...)
        end
    end
    for (name, sizes, supported) in ((:dlse, of_lse, [Float32]), (:delta, of_lse, [Float32]), (:bias, scores, floats),
        (:mask, scores, [Bool]), (:alibi_slopes, heads, [Float32]), (:sinks, heads, [Float32]), (:seqused_q, (1,), integers),
        (:seqused_k, (1,), integers), (:leftpad_k, (1,), integers), (:q_offset, (1,), integers))
        sweep(name, sizes, supported) do given
            attention_backward!((dq = filled(Float32, rows),), values(usual(backward))...; (name => given,)...)
        end
    end
    for (name, sizes, supported, input) in ((:dq, rows, floats, NamedTuple()), (:dk, rows, floats, NamedTuple()),
        (:dv, rows, floats, NamedTuple()), (:dbias, scores, [Float32], (bias = filled(Float32, scores),)),
        (:dsinks, heads, [Float32], (sinks = filled(Float32, heads),)))
        sweep(name, sizes, supported) do given
            attention_backward!(NamedTuple{(name,)}((given,)), values(usual(backward))...; input...)
        end
    end
end

@testset "ops" begin
    for T in setdiff(types, floats)
        @test throws(() -> LibFA.Op(T, 8), LibFA.InvalidArgument, T in (Bool, Int32) ? "dtype_q" : "T is $T; expected Float32")
        @test throws(() -> LibFA.Op(Float32, 8; kv_type = T), LibFA.InvalidArgument, T in (Bool, Int32) ? "dtype_kv" : "kv_type is $T")
        @test throws(() -> LibFA.Op(Float32, 8; out_type = T), LibFA.InvalidArgument, T in (Bool, Int32) ? "dtype_out" : "out_type is $T")
    end
end
