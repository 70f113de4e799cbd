/* The header alone, as C and as C++: it includes its own needs, and no name in it is a keyword anywhere. [F1] */
#include <fa.h>

int use_every_type(void);
int use_every_type(void) {
  fa_status status = FA_OK;
  fa_dtype dtype = FA_BF16;
  fa_device device = FA_DEVICE_CPU;
  fa_mask mask = FA_MASK_CAUSAL;
  fa_op *op = NULL;
  fa_parallel_for parallel_for = NULL;
  fa_log log = NULL;
  fa_tensor tensor;
  fa_kernel kernel;
  fa_desc desc;
  fa_forward_args args;
  fa_backward_args backward;
  return status + dtype + device + mask + (op == NULL) + (parallel_for == NULL) + (log == NULL) +
         (int)(sizeof tensor + sizeof kernel + sizeof desc + sizeof args + sizeof backward) + FA_MAX_HEAD_DIM + FA_MAX_THREADS +
         FA_MAX_SPLITS + FA_FLAG_NONDETERMINISTIC + FA_FLAG_BATCH_INVARIANT + FA_FLAG_BIAS_BEFORE_SOFTCAP + FA_FLAG_HADAMARD_K +
         FA_FLAG_HADAMARD_V + FA_FLAG_DEVICE_POINTERS + FA_ACCUMULATE_DQ + FA_VERSION_MAJOR;
}
