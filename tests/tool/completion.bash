# completion.bash FA FOLDER: loads the completion as bash does, and asks it.
fa=$1
source "$2/fa"
status=0

# offered WORD...: the completions of the last word, on one line
offered() {
  COMP_WORDS=(fa "$@") COMP_CWORD=$#
  _fa
  echo "${COMPREPLY[*]}"
}

# expect COMPLETIONS WORD...
expect() {
  local completions=$1 got
  shift
  got=$(offered "$@")
  [[ $got == "$completions" ]] || { echo "fa $*: '$got' is offered, '$completions' is expected" && status=1; }
}

cd "$(mktemp -d)" && trap 'rm -r "$PWD"' EXIT
touch 'a q.npy' b.npy

[[ $(complete -p fa) == "complete -F _fa fa" ]] || { echo "nothing is registered for fa" && status=1; }
expect "info run append draw explain check bench -h --help --version" ""
expect "run" r
expect "--version" --v
expect "f32 f16 bf16" run --dtype ""
expect "bf16" run --dtype b
expect "bf16" run --dtype = b
expect "f32 f16 bf16" run --dtype =
expect "f16,bf16" bench --dtype f16,b
expect "i8 i4" bench --dtype-kv i
expect "--append" bench --app
expect "--k --k-cache --k-rope --k-rope-cache --k-scale --k-zero --kv-batch-idx --kernel" append --k
expect "q8_0 q4_0" run --dtype-v q
expect "b.npy" append --slot-mapping b
expect "--causal --causal-top-left" run --q b.npy --causal
expect "a q.npy" run --q a
expect "b.npy" run -o b
expect "b.npy" run --q = b
expect "" run --threads ""
expect "--json" info --j
expect "b.npy" draw --mask b
expect "--causal --causal-top-left" draw --ca
expect "b.npy" bench --json b

# Every option that the parser knows, and no other.
for command in info run append draw explain check bench; do
  known=$("$fa" "$command" --help | grep -oE '^  (-[a-z], )?--[a-z0-9-]+(, --[a-z0-9-]+)*' | grep -oE -- '-+[a-z0-9-]+' | sort)
  [[ -n $known && $known == "$(offered $command "" | tr ' ' '\n' | sort)" ]] || { echo "fa $command: other options than --help lists" && status=1; }
done
exit $status
