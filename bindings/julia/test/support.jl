# Shared by the tests: LibFA, and arrays of any strides over bytes.
using LibFA, Test
const C = LibFA.C

"An array over a vector of bytes: element (1, 1, ...) is `first` bytes in, strides are in elements and of any sign."
struct StridedMemory{T,N} <: AbstractArray{T,N}
    memory::Vector{UInt8}
    first::Int
    size::NTuple{N,Int}
    strides::NTuple{N,Int}
end
Base.size(a::StridedMemory) = a.size
Base.strides(a::StridedMemory) = a.strides
Base.unsafe_convert(::Type{Ptr{T}}, a::StridedMemory{T}) where {T} = Ptr{T}(pointer(a.memory) + a.first)
byte_of(a::StridedMemory{T}, index) where {T} = a.first + sum((index .- 1) .* a.strides) * sizeof(T)
function Base.getindex(a::StridedMemory{T,N}, index::Vararg{Int,N}) where {T,N}
    at = byte_of(a, index)
    return reinterpret(T, a.memory[at+1:at+sizeof(T)])[1]
end

"The exception that f throws; nothing when it throws none."
function thrown(f)
    try
        f()
    catch e
        return e
    end
    return nothing
end

"Whether f throws an exception of type E with all words in its text."
function throws(f, E, words...)
    e = thrown(f)
    text = e === nothing ? "no error" : sprint(showerror, e)
    good = e isa E && all(word -> occursin(word, text), words)
    good || println("expected a $E with $words, got: $text")
    return good
end
