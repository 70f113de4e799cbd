/* Preloaded before libfa: an fa_forward that writes zeros, an fa_merge and an fa_append that write nothing, to see `fa
 * check` find them. */
#include <fa.h>
#include <string.h>

fa_status fa_forward(const fa_op *op, const fa_forward_args *args) {
  (void)op;
  if (args->out.shape[0] > 0 && args->out.shape[1] > 0 && args->out.dtype != FA_BOOL) {
    memset(args->out.data, 0, 2);
  }
  return FA_OK;
}

fa_status fa_merge(const fa_op *op, const fa_merge_args *args) {
  (void)op;
  (void)args;
  return FA_OK;
}

fa_status fa_append(const fa_op *op, const fa_append_args *args) {
  (void)op;
  (void)args;
  return FA_OK;
}
