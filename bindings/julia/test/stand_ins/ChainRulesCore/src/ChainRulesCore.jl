# A stand-in for ChainRulesCore: the function that rules are methods of, and the tangents that ours return and are given.
module ChainRulesCore

function rrule end

abstract type AbstractTangent end
abstract type AbstractZero <: AbstractTangent end
struct NoTangent <: AbstractZero end
struct ZeroTangent <: AbstractZero end

abstract type AbstractThunk <: AbstractTangent end
struct Thunk{F} <: AbstractThunk
    f::F
end
macro thunk(body)
    return :(Thunk(() -> $(esc(body))))
end
unthunk(x) = x
unthunk(x::AbstractThunk) = x.f()

"A tangent of a tuple, whose elements are any tangents."
struct Tangent{P,T} <: AbstractTangent
    backing::T
end
Tangent{P}(elements...) where {P} = Tangent{P,typeof(elements)}(elements)
Base.getindex(t::Tangent, i::Int) = unthunk(t.backing[i])

end
