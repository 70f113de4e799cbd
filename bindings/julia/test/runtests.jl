# `] test LibFA`: the tests that need neither a compiler nor the build tree; ctest runs all of it (label julia).
for file in ("arrays.jl", "errors.jl", "extensions.jl", "readme.jl")
    include(file)
end
