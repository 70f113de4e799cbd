# The lines of kernels/archs.inc for scripts (sourced, not run), with nothing but bash.

# each_arch: a line an architecture, newest first: its SM, its name for FA_ARCHS, whose code covers it, whether FA_ARCHS has
# it always or only when it is named, the KB of shared memory, and the reach of its code.
each_arch() {
  local line form='^FA_ARCH\(([0-9]+), ?([af]?), ([0-9]+[af]?), (always|named), ([0-9]+), (onward|family|itself), '
  while read -r line; do
    [[ ! $line =~ $form ]] ||
      echo "${BASH_REMATCH[1]} ${BASH_REMATCH[1]}${BASH_REMATCH[2]} ${BASH_REMATCH[3]} ${BASH_REMATCH[4]} ${BASH_REMATCH[5]} ${BASH_REMATCH[6]}"
  done <"$(dirname "${BASH_SOURCE[0]}")/../kernels/archs.inc"
}
