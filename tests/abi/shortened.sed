# An older release's header: each structure ends some fields earlier.
/^  uint32_t flags; .*FA_FLAG/,/^  int32_t reserved;/d
/^  int64_t num_seqs; /,/^  void \*stream; /d
/^typedef struct fa_forward_args/,/^} fa_forward_args;/{
  /^  fa_tensor k_scale;/,/^  fa_tensor tree_depth;/d
}
/^  const char \*unavailable_reason;/d
