# Which word was meant.

"The number of edits of one letter from a to b."
function edits(a::AbstractString, b::AbstractString)
    row = collect(0:length(b))
    for (i, x) in enumerate(a)
        diagonal, row[1] = row[1], i
        for (j, y) in enumerate(b)
            diagonal, row[j+1] = row[j+1], min(row[j+1] + 1, row[j] + 1, diagonal + (x != y))
        end
    end
    return row[end]
end

"""
"; did you mean `causal`?" where a name is near: at most two edits away, and one for each three letters; or up to three names
that contain the word. "" where none is.
"""
function suggestion(word::AbstractString, names)
    nearest = isempty(names) ? "" : names[argmin(map(name -> edits(word, name), names))]
    edits(word, nearest) <= clamp(length(word) ÷ 3, 1, 2) && return "; did you mean `$nearest`?"
    holding = length(word) < 4 ? String[] : filter(name -> occursin(word, name), names)
    1 <= length(holding) <= 3 || return ""
    return "; did you mean $(join(map(name -> "`$name`", holding), ", ", " or "))?"
end
