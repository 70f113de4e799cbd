# A newer release's header: each structure but the frozen fa_tensor has fields more.
s/^} \(fa_desc\|fa_forward_args\|fa_backward_args\|fa_merge_args\|fa_kernel\);/  int64_t future[3];\n&/
