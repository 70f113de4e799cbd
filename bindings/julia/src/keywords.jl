# The optional inputs of both passes (fields.jl) as keywords, which functions pass on to each other.

"`x` with `input_tensors...` and `input_arrays...` spelled out, in a definition's keywords with the default `nothing`."
function spelled_out(x, declares = false)
    x isa Expr || return x
    if x.head === :function
        return Expr(:function, spelled_out(x.args[1], true), spelled_out.(x.args[2:end])...)
    end
    args = Any[]
    for a in x.args
        names = a == :(input_tensors...) ? keys(tensor_shapes) : a == :(input_arrays...) ? keys(array_entries) : nothing
        if names === nothing
            push!(args, spelled_out(a, declares))
        elseif x.head === :parameters
            append!(args, [Expr(:kw, name, declares ? :nothing : name) for name in names])
        else
            append!(args, names)
        end
    end
    return Expr(x.head, args...)
end

"""
    @optional_inputs function f(a; input_tensors..., input_arrays...) ... end

Makes a keyword of each optional input. In the body, `input_tensors...` and `input_arrays...` are all of them: as keywords of a
call or of a named tuple by their names, elsewhere one after another.
"""
macro optional_inputs(definition)
    return esc(spelled_out(definition))
end
