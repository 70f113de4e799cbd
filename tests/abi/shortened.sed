# An older release's header: each structure ends some fields earlier.
/^  uint32_t flags; .*FA_FLAG/,/^  void \*parallel_for_user;/d
/^  int64_t num_seqs; /,/^  void \*stream; /d
/^  const char \*unavailable_reason;/d
