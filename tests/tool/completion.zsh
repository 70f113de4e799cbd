# completion.zsh FA FOLDER: types a line with tabs into an interactive zsh, and looks at the program's arguments.
zmodload zsh/zpty
zpty shell env HOME=/nonexistent TERM=dumb zsh -f -i
zpty -w shell "fpath=($2 \$fpath); autoload -U compinit; compinit -u -D; fa() { print -r -- \"<\$*>\" }"
exit_status=0

# expect ARGUMENTS LINE
expect() {
  local line got=
  zpty -w -n shell "$2"$'\n'
  while zpty -r shell line; do
    [[ $line == *'<'*'>'* ]] || continue
    [[ $line == *'$*'* ]] && continue # the echo of the function above
    got=${${line##*<}%%>*}
    break
  done
  [[ $got == $1 ]] || { print -r -- "'$got' is given, '$1' is expected"; exit_status=1 }
}

expect 'check' $'fa ch\t'
expect 'append --dtype-kv=e4m3' $'fa app\t --dtype-kv=e4\t'
expect 'run --layout=bhsd --dtype=bf16 --alibi=x' $'fa run --layo\tbh\t --dtype=b\t --alib\tx'
expect 'bench --dtype=f16,bf16' $'fa bench --dtype=f16,b\t'
expect "run -o $2/_fa" $'fa run -o '"$2"$'/_\t'
expect 'info --json' $'fa info --j\t'
zpty -d shell
exit $exit_status
