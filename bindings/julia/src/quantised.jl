# Quantised keys and values: arrays of bytes that are codes, with their scales and zeros.

"A type of codes of quantised keys and values."
abstract type CodesType end

for (name, elements, bytes, text) in ((:I8, 1, 1, "8-bit signed integers"), (:E4M3, 1, 1, "float8_e4m3fn"), (:E5M2, 1, 1, "float8_e5m2"),
    (:I4, 2, 1, "two 4-bit signed integers a byte"), (:U4, 2, 1, "two 4-bit unsigned integers a byte"),
    (:Q8_0, 32, 34, "ggml's block_q8_0"), (:Q4_0, 32, 18, "ggml's block_q4_0"))
    @eval begin
        @doc $("Codes of quantised keys and values, given as [`codes`](@ref)`($name, bytes)`: $text.")
        struct $name <: CodesType end
        dtype(::Type{$name}) = $(GlobalRef(C, Symbol("FA_", name)))
        unit(::Type{$name}) = ($elements, $bytes)
    end
end

"""
    codes(T, bytes)

Bytes as codes of type `T`: `I8`, `E4M3`, `E5M2`, `I4`, `U4`, `Q8_0` or `Q4_0`. `bytes` is an array of `UInt8` or
`Int8` of size (bytes of a row, H, S, B), or in the order of `layout`.
"""
struct Codes{T<:CodesType,N,A<:AbstractArray{<:Union{UInt8,Int8},N}} <: AbstractArray{T,N}
    bytes::A
end

function codes(::Type{T}, bytes::AbstractArray{<:Union{UInt8,Int8},N}) where {T<:CodesType,N}
    elements, size_of_unit = unit(T)
    steps = element_strides("bytes", bytes)
    elements == 1 || (size(bytes, 1) % size_of_unit == 0 && steps[1] == 1 && all(s -> s % size_of_unit == 0, steps[2:end])) ||
        throw(InvalidArgument("bytes has size $(size(bytes)) and strides $steps; expected rows of whole $size_of_unit bytes, " *
                              "which $elements elements of $T have"))
    return Codes{T,N,typeof(bytes)}(bytes)
end

in_elements(::Type{T}, n) where {T} = n ÷ unit(T)[2] * unit(T)[1]
Base.size(c::Codes{T}) where {T} = (in_elements(T, size(c.bytes, 1)), size(c.bytes)[2:end]...)
Base.strides(c::Codes{T}) where {T} =
    unit(T)[1] == 1 ? strides(c.bytes) : (1, map(s -> in_elements(T, s), strides(c.bytes)[2:end])...)
address(c::Codes) = address(c.bytes)
device(c::Codes) = device(c.bytes)
device_index(c::Codes) = device_index(c.bytes)
default_stream(c::Codes) = default_stream(c.bytes)

"Whether k and v may be of two types."
is_quantised(::Type{T}) where {T} = T <: CodesType

factor_tensor(name, ::Nothing, layout) = absent
factor_tensor(name, a, layout) = tensor(name, a, layout)
