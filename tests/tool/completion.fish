# completion.fish FA FOLDER: loads the completion as fish does, and asks it.
source $argv[2]/fa.fish
set status_code 0

# expect COMPLETIONS LINE: the words that are offered behind the line, without their descriptions
function expect
    set got (complete -C $argv[2] | string replace -r '\t.*' '' | sort | string join ' ')
    if test "$got" != "$argv[1]"
        echo "$argv[2]: '$got' is offered, '$argv[1]' is expected"
        set -g status_code 1
    end
end

expect 'append bench check draw explain info run' 'fa '
expect --version 'fa --v'
expect --block-table 'fa run --bl'
expect 'bf16 f16 f32' 'fa run --dtype '
expect 'f16,bf16' 'fa bench --dtype f16,b'
expect '--causal --causal-top-left' 'fa run --causal'
expect 'q4_0 q8_0' 'fa append --dtype-kv q'
expect '' 'fa run --threads '
expect $argv[2]/fa.fish "fa run --q $argv[2]/"

for command in info run append draw explain check bench
    for option in ($argv[1] $command --help | string match -r -- '^  (?:-[a-z], )?--[a-z0-9-]+(?:, --[a-z0-9-]+)*' | string match -rag -- '(--[a-z0-9-]+)')
        if not contains -- $option (complete -C "fa $command $option" | string replace -r '\t.*' '')
            echo "fa $command: $option is not offered"
            set status_code 1
        end
    end
end
exit $status_code
