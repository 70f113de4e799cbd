# Views of arrays as fa_tensor. Julia's first dimension is the fastest and C's the last, so an array of size (D, H, S, B) is a
# contiguous (batch, sequence, heads, dim), and any other order is a matter of strides: nothing is copied.

const absent = C.fa_tensor(C_NULL, (0, 0, 0, 0), (0, 0, 0, 0), C.FA_DTYPE_DEFAULT, 0)

"A layout is the array's dimensions for C's (batch, sequence, heads, dim)."
function dimensions(layout::Symbol)
    layout === :dhsb && return (4, 3, 2, 1)
    layout === :dshb && return (4, 2, 3, 1)
    throw(InvalidArgument("layout is $(repr(layout)); expected :dhsb, arrays of size (D, H, S, B), or :dshb, of size " *
                          "(D, S, H, B); for any other order pass PermutedDimsArray(array, order)"))
end

@noinline function throw_dimensions(name, a, expected)
    count = ndims(a) == 1 ? "1 dimension" : "$(ndims(a)) dimensions"
    throw(InvalidArgument("$name has $count, size $(size(a)); expected $expected"))
end

@noinline throw_no_array(name, given) = throw(InvalidArgument("$name is of type $(typeof(given)), not an array"))

"Strides in elements. Throws where an array has none."
element_strides(name, a::DenseArray) = strides(a)
function element_strides(name, a::AbstractArray)
    steps = try
        strides(a)
    catch
        nothing
    end
    steps === nothing && throw(InvalidArgument("$name is of type $(typeof(a)), which has no strides; expected an Array, a " *
                                               "view with ranges, or another strided array: collect($name) gives one"))
    return steps
end

"The size and stride of dimension i, 1 and that of nothing where the array has fewer."
@inline one_dimension(a, steps, i) = i <= ndims(a) ? (size(a, i), steps[i]) : (1, 1)

"An array as a tensor whose dimensions 0 to 3 are those of `order`. `name` is for errors."
@inline function tensor(name, a::AbstractArray{T}, order::NTuple{4,Int}) where {T}
    type = dtype_of_array(name, T)
    steps = element_strides(name, a)
    d = map(i -> one_dimension(a, steps, i), order)
    return C.fa_tensor(address_of(name, a), map(first, d), map(last, d), type, 0)
end

@inline address_of(name, a::DenseArray) = address(a)
function address_of(name, a)
    try
        return address(a)
    catch e
        throw(InvalidArgument("$name is of type $(typeof(a)), which has no address ($(sprint(showerror, e))); expected an " *
                              "Array, a view with ranges, or an array of a device whose package is loaded"))
    end
end

"A tensor of q, k, v or out: of four dimensions, or of three where the batch is one."
@inline function tensor(name, a::AbstractArray, layout::Symbol)
    3 <= ndims(a) <= 4 || throw_dimensions(name, a, "4, (D, H, S, B) with layout = :dhsb, or 3 without a batch")
    return tensor(name, a, dimensions(layout))
end

"Which dimensions of an optional array are C's 0 to 3, as fa.h lists them; 5 means one that is 1."
const order_of_scores = (4, 3, 2, 1) # bias, mask: (Sk, Sq, H, B)
const order_of_lse = (3, 2, 1, 5)    # (Sq, H, B)
const order_of_heads = (2, 1, 5, 5)  # alibi_slopes, sinks: (H) or (H, B)
const order_of_pages = (2, 1, 5, 5)  # block_table: (pages, B)
const order_of_places = (2, 1, 5, 5) # positions, q_positions, slot_mapping: (S) or (S, B)
const order_of_table = (5, 2, 5, 1)  # rotary_cos, rotary_sin: (pairs, positions)

optional_tensor(name, ::Nothing, order, most, sizes) = absent
@inline function optional_tensor(name, a::AbstractArray, order, most, sizes)
    ndims(a) <= most || throw_dimensions(name, a, sizes)
    return tensor(name, a, order)
end
optional_tensor(name, a, order, most, sizes) = throw_no_array(name, a)
optional_tensor(name, a::BitArray, order, most, sizes) =
    throw(InvalidArgument("$name is a BitArray, which packs eight elements in a byte; expected an Array{Bool}: Array($name)"))

"An array of indices, counted from 0 as in fa.h, as `Int32`s of stride 1; with the length that it must have."
indices(name, ::Nothing, count) = nothing
function indices(name, a::AbstractVector{<:Integer}, count::Integer)
    length(a) == count || throw(InvalidArgument("$name has $(length(a)) entries; expected $count"))
    return plain_indices(name, a)
end
indices(name, a::AbstractVector{Bool}, count::Integer) = throw_no_indices(name, a)
indices(name, a, count) = throw_no_indices(name, a)
@noinline throw_no_indices(name, a) = throw(InvalidArgument("$name is of type $(typeof(a)); expected a vector of integers"))

plain_indices(name, a::DenseVector{Int32}) = a
function plain_indices(name, a::AbstractVector)
    device(a) == C.FA_DEVICE_CPU || throw(InvalidArgument("$name is of type $(typeof(a)); expected Int32s of stride 1"))
    try
        return convert(Vector{Int32}, a)
    catch
        throw(InvalidArgument("$name has an entry that is not a 32-bit integer"))
    end
end

index_address(::Nothing) = Ptr{Int32}(C_NULL)
index_address(a) = Ptr{Int32}(address(a))
