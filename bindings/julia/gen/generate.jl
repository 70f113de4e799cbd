# Writes src/C.jl, fa.h in Julia: constants, structures, functions, and their comments as documentation. It reads the C that
# fa.h is written in and no more; an unknown construct stops it, so that nothing of the header can be left out silently.
#
#   julia gen/generate.jl [--check] HEADER OUTPUT      --check: writes nothing, and fails when OUTPUT is not up to date

struct Statement
    text::String      # without comments, blanks collapsed
    comment::String   # the one before it
    body::String      # between its outermost braces, comments included; "" without
end

struct Member
    declaration::String
    comment::String
end

"The words of a C comment, one paragraph a line. Promises lose their tags, which are for fa.h's own tests."
function words(comment)
    comment = replace(comment, r" \[F\d+\]" => "")
    lines = [replace(strip(line), r"^(/\*|\*)\s?" => "") for line in split(replace(comment, r"\*/\s*$" => ""), '\n')]
    paragraphs = split(join(rstrip.(lines), "\n"), r"\n\s*\n")
    strip(join((join(strip.(split(p, '\n')), " ") for p in paragraphs), "\n\n"))
end

"Statements of a header: its text up to each ; outside of all braces."
function statements(header)
    found = Statement[]
    text = comment = body = ""
    depth = 0
    for piece in eachmatch(r"/\*.*?\*/|\"[^\"]*\"|[{};]|[^{};\"/]+|/"s, header)
        token = piece.match
        if startswith(token, "/*")
            depth > 0 ? (body *= token) : (comment = token)
        elseif token == "{"
            depth > 0 && (body *= token)
            depth += 1
        elseif token == "}"
            depth -= 1
            depth > 0 && (body *= token)
        elseif token == ";" && depth == 0
            push!(found, Statement(strip(replace(text, r"\s+" => " ")), words(comment), body))
            text = comment = body = ""
        elseif depth > 0
            body *= token
        else
            text *= token
        end
    end
    depth == 0 && isempty(strip(text)) || error("the header ends within: $text")
    found
end

"The members of a struct or an enum, each with the comment that follows it on its line, else with the one before it."
function members(body, separator)
    found = Member[]
    declaration = comment = ""
    line_has_member = false
    tidy(text) = strip(replace(text, r"\s+" => " "))
    for piece in eachmatch(Regex("/\\*.*?\\*/|\\n|[^$separator/\\n]+|$separator", "s"), body)
        token = piece.match
        if startswith(token, "/*")
            if line_has_member && isempty(strip(declaration))
                found[end] = Member(found[end].declaration, words(token))
            else
                comment = words(token)
            end
        elseif token == separator
            push!(found, Member(tidy(declaration), comment))
            declaration = comment = ""
            line_has_member = true
        elseif token == "\n"
            line_has_member = false
            declaration *= " "
        else
            declaration *= token
        end
    end
    isempty(strip(declaration)) || push!(found, Member(tidy(declaration), comment)) # an enum's last one
    found
end

const plain = Dict("void" => "Cvoid", "char" => "Cchar", "float" => "Cfloat", "double" => "Cdouble",
    "size_t" => "Csize_t", "int32_t" => "Int32", "uint32_t" => "UInt32", "int64_t" => "Int64",
    "uint64_t" => "UInt64", "uint8_t" => "UInt8")

"A C type in Julia. known: the names that the header has defined so far."
function julia_type(c, known)
    c = strip(replace(replace(c, r"\bconst\b" => ""), r"\s+" => " "))
    c in ("char *", "char*") && return "Cstring"
    endswith(c, "*") && return "Ptr{" * julia_type(strip(c[1:end-1]), known) * "}"
    haskey(plain, c) && return plain[c]
    c in known && return c
    error("a type that this generator does not know: $c")
end

"\"const fa_desc *desc\" -> (\"desc\", \"Ptr{fa_desc}\"), \"int64_t shape[4]\" -> (\"shape\", \"NTuple{4,Int64}\")"
function declared(c, known)
    m = match(r"^(.*?[\s*])(\w+)(?:\[(\d+)\])?$", c)
    m === nothing && error("a declaration that this generator does not know: $c")
    type = julia_type(m[1], known)
    (m[2], m[3] === nothing ? type : "NTuple{$(m[3]),$type}")
end

quoted(text) = replace(replace(text, "\\" => "\\\\"), r"([\"$])" => s"\\\1")

"Text in lines of at most 118 columns; lines after the first of an item are indented."
function wrapped(text)
    lines = String[]
    for line in split(text, '\n')
        if startswith(line, "    ")
            push!(lines, line)
            continue
        end
        indent = startswith(line, "- ") ? "  " : ""
        current = ""
        for word in split(line, ' ')
            if length(current) + length(word) > 117
                push!(lines, current)
                current = indent * word
            else
                current = isempty(current) ? word : "$current $word"
            end
        end
        push!(lines, current)
    end
    join(lines, "\n")
end

function document(out, text)
    isempty(text) && return
    single = length(text) < 116 && !occursin("\n", text)
    println(out, single ? "\"$(quoted(text))\"" : "\"\"\"\n$(quoted(wrapped(text)))\n\"\"\"")
end
function document_constant(out, name, value, comment)
    document(out, comment)
    println(out, "const $name = $value")
end

function structure(out, name, s, known)
    fields = [(declared(m.declaration, known)..., m.comment) for m in members(s.body, ";")]
    lines = ["- `$field`: " * replace(comment, r"\s+" => " ") for (field, _, comment) in fields if comment != ""]
    document(out, join(filter(!isempty, [s.comment, join(lines, "\n")]), "\n\n"))
    println(out, "struct $name")
    foreach(((field, type, _),) -> println(out, "    $field::$type"), fields)
    println(out, "end\n")
end

function enumeration(out, s)
    s.comment == "" || println(out, "# ", replace(s.comment, r"\s+" => " "))
    next = 0
    for m in members(s.body, ",")
        parts = match(r"^(\w+)(?: = (-?\d+))?$", m.declaration)
        parts === nothing && error("an enumerator that this generator does not know: $(m.declaration)")
        value = parts[2] === nothing ? next : parse(Int, parts[2])
        next = value + 1
        document_constant(out, parts[1], "Int32($value)", m.comment)
    end
    println(out)
end

function wrapper(out, s, known)
    m = match(r"^FA_API (.*?[\s*])(\w+)\((.*)\)$", s.text)
    result, name = julia_type(m[1], known), m[2]
    arguments = m[3] == "void" ? Tuple{String,String}[] : [declared(strip(a), known) for a in split(m[3], ",")]
    names = join(first.(arguments), ", ")
    typed = join(("$n::$t" for (n, t) in arguments), ", ")
    println(out, "const _$name = Ref{Ptr{Cvoid}}(C_NULL)")
    document(out, strip("    $name($names)\n\n" * s.comment, '\n'))
    call = "    @ccall \$(address(_$name, :$name))($typed)::$result"
    length(call) <= 120 || (call = replace(call, "($typed)" => "(\n        $typed)"))
    println(out, "$name($names) =\n$call\n")
    name
end

function generate(header)
    # Left out: the header's include guard, and C++.
    macros = [m.captures for m in eachmatch(r"^#define (FA_\w+) (\d+|\"[^\"]*\")$"m, header)]
    for m in eachmatch(r"^#define (\w+)(.*)$"m, header)
        m[1] in ("LIBFA_FA_H", "FA_API") || any(x -> x[1] == m[1], macros) ||
            error("a macro that is no plain value: $(m.match)")
    end
    code = replace(header, r"^#ifdef __cplusplus\n.*?^#endif\n"ms => "")
    code = replace(code, r"^/\*[^\n]*-----[^\n]*\*/\n"m => "")
    code = replace(code, r"^#.*\n"m => "")
    code = replace(code, r"\A\s*/\*.*?\*/"s => "") # the introduction

    out = IOBuffer()
    print(out, """
        # fa.h in Julia. Written by gen/generate.jl from include/fa.h: `scripts/generate-bindings.sh julia` rewrites it.

        \"\"\"
        The C interface as it is: the names, structures and functions of fa.h, documented as they are there. A structure
        is passed as a `Ref`, and the caller keeps the targets of its pointers alive.
        \"\"\"
        module C

        import ..LibFA: address

        """)
    foreach(((name, value),) -> println(out, "const $name = $value"), macros)
    println(out)
    known = String[]
    functions = String[]
    for s in statements(code)
        if (m = match(r"^typedef (u?int\d+_t) (\w+)$", s.text)) !== nothing
            document_constant(out, m[2], plain[m[1]], s.comment)
            push!(known, m[2])
        elseif (m = match(r"^typedef struct (\w+) \1$", s.text)) !== nothing && isempty(s.body)
            document(out, s.comment)
            println(out, "struct $(m[1]) end\n")
            push!(known, m[1])
        elseif (m = match(r"^typedef struct (\w+) +\1$", s.text)) !== nothing
            structure(out, m[1], s, known)
            push!(known, m[1])
        elseif (m = match(r"^typedef void \(\*(\w+)\)\((.*)\)$", s.text)) !== nothing
            document_constant(out, m[1], "Ptr{Cvoid}", strip("`void (*)($(m[2]))`. " * s.comment))
            println(out)
            push!(known, m[1])
        elseif s.text == "enum"
            enumeration(out, s)
        elseif startswith(s.text, "FA_API ")
            push!(functions, wrapper(out, s, known))
        else
            error("a statement that this generator does not know: $(s.text)")
        end
    end
    println(out, "const functions = (")
    foreach(name -> println(out, "    (:$name, _$name),"), functions)
    println(out, ")\n\nend")
    String(take!(out))
end

function main(arguments)
    check = "--check" in arguments
    header, output = filter(!=("--check"), arguments)
    text = generate(replace(read(header, String), "\r\n" => "\n"))
    check || (write(output, text); return 0)
    isfile(output) && read(output, String) == text && return 0
    println(stderr, "$output is not up to date with $header; scripts/generate-bindings.sh julia rewrites it")
    1
end

abspath(PROGRAM_FILE) == @__FILE__() && exit(main(ARGS))
