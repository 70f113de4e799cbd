# An older release's header: each structure ends some fields earlier.
/^  uint32_t flags; .*FA_FLAG/,/^  int64_t head_dim_rope;/d
/^  int64_t num_seqs; /,/^  void \*stream; /d
/^typedef struct fa_forward_args/,/^} fa_forward_args;/{
  /^  fa_tensor k_scale;/,/^  fa_tensor k_rope;/d
}
/^typedef struct fa_append_args/,/^} fa_append_args;/{
  /^  fa_tensor k_rope;/,/^  fa_tensor k_rope_cache;/d
}
/^  const char \*unavailable_reason;/d
