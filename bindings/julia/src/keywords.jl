# The optional inputs of calls (fields.jl) as keywords, which functions pass on to each other.

"Groups of inputs: of both passes, and of appending to a cache."
const optional_groups = (input_tensors = tensor_shapes, input_arrays = array_entries, append_tensors = append_shapes,
    append_arrays = append_entries)

"The names of a group where `x` is that group's, spelled `input_tensors...`; else `nothing`."
names_of_group(x) = x isa Expr && x.head === :... && x.args[1] isa Symbol && haskey(optional_groups, x.args[1]) ?
                    keys(optional_groups[x.args[1]]) : nothing

"`x` with each group, such as `input_tensors...`, spelled out, in a definition's keywords with the default `nothing`."
function spelled_out(x, declares = false)
    x isa Expr || return x
    if x.head === :function
        return Expr(:function, spelled_out(x.args[1], true), spelled_out.(x.args[2:end])...)
    end
    args = Any[]
    for a in x.args
        names = names_of_group(a)
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

Makes a keyword of each input of the groups. In the body, `input_tensors...` and `input_arrays...` are all of them: as keywords of a
call or of a named tuple by their names, elsewhere one after another.
"""
macro optional_inputs(definition)
    return esc(spelled_out(definition))
end
