# Element types, and the devices of arrays, by methods that other packages' arrays have.

@static if isdefined(Core, :BFloat16)
    const BFloat16 = Core.BFloat16
else
    "bfloat16, the upper half of a Float32, for storing and converting; rounds to nearest, ties to even."
    primitive type BFloat16 <: AbstractFloat 16 end

    function BFloat16(x::Float32)
        bits = reinterpret(UInt32, x)
        isnan(x) && return reinterpret(BFloat16, (bits >> 16) % UInt16 | 0x0040)
        return reinterpret(BFloat16, ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) % UInt16)
    end
    BFloat16(x::Real) = BFloat16(Float32(x))
    BFloat16(x::BFloat16) = x
    Base.Float32(x::BFloat16) = reinterpret(Float32, UInt32(reinterpret(UInt16, x)) << 16)
    (::Type{T})(x::BFloat16) where {T<:Union{Float16,Float64}} = T(Float32(x))
    Base.promote_rule(::Type{BFloat16}, ::Type{T}) where {T<:Union{Float32,Float64}} = T
    Base.promote_rule(::Type{BFloat16}, ::Type{Float16}) = Float32
    Base.show(io::IO, x::BFloat16) = print(io, "BFloat16(", Float32(x), ")")
end

"""
The fa_dtype of an element type, `nothing` for other types. A package with another bfloat16 may add a method.
"""
dtype(::Type{Float32}) = C.FA_F32
dtype(::Type{Float16}) = C.FA_F16
dtype(::Type{BFloat16}) = C.FA_BF16
dtype(::Type{Bool}) = C.FA_BOOL
dtype(::Type{Int32}) = C.FA_I32
dtype(::Type{T}) where {T} = isbitstype(T) && sizeof(T) == 2 && nameof(T) === :BFloat16 ? C.FA_BF16 : nothing # BFloat16s.jl's

"Bytes of an element, by the number of its fa_dtype."
const element_bytes = (4, 2, 2, 1, 4, 8, 1, 1, 1, 1 // 2, 1 // 2, 17 // 16, 9 // 16)

function expected_elements(name::AbstractString)
    name == "mask" && return "Bool"
    name == "block_table" && return "Int32"
    name in append_indices && return "Int32 or Int64"
    name in ("lse", "dlse", "delta", "alibi_slopes", "sinks", "dsinks") && return "Float32"
    return "Float32, Float16 or BFloat16"
end

@noinline function throw_elements(name, T)
    expected = expected_elements(string(name))
    throw(InvalidArgument("$name has elements of type $T; expected $expected, as $(first(split(expected, (',', ' ')))).($name) gives"))
end

"The fa_dtype of the elements of an array; `name` is for errors."
@inline function dtype_of_array(name, ::Type{T}) where {T}
    found = dtype(T)
    found === nothing && throw_elements(name, T)
    return found
end

dtype_of_array(name, ::Type{Int64}) = string(name) in append_indices ? C.FA_I64 : throw_elements(name, Int64)

"The fa_dtype of a type that the caller names."
function dtype_of_type(name, ::Type{T}) where {T}
    found = dtype(T)
    found === nothing && throw(InvalidArgument("$name is $T; expected Float32, Float16 or BFloat16"))
    return found
end

# Arrays that are views of others live where those live; extensions add methods for the arrays of their devices.
const Wrapper = Union{SubArray,PermutedDimsArray,Base.ReshapedArray,Base.ReinterpretArray}

"The fa_device whose memory holds an array."
device(array) = C.FA_DEVICE_CPU
device(array::Wrapper) = device(parent(array))

"The index of that device, from 0."
device_index(array) = Int32(0)
device_index(array::Wrapper) = device_index(parent(array))

"The stream, as a pointer, that work on such an array is to be enqueued on."
default_stream(array) = C_NULL
default_stream(array::Wrapper) = default_stream(parent(array))

"The address of an array's first element."
address(a::AbstractArray{T}) where {T} = Ptr{Cvoid}(Base.unsafe_convert(Ptr{T}, a))
address(a::PermutedDimsArray) = address(parent(a))
function address(a::SubArray{T}) where {T}
    root = parent(a)
    steps = strides(root)
    offset = 0
    # Indices that are no ranges have no stride either: element_strides refuses them.
    for (dimension, index) in enumerate(parentindices(a))
        offset += (first(index) - first(axes(root, dimension))) * steps[dimension]
    end
    return address(root) + offset * sizeof(T)
end
