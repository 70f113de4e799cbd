# A newer release's header: each structure but the frozen fa_tensor has fields more.
/^} fa_tensor;/!s/^} fa_[a-z_]*;/  int64_t future[3];\n&/
