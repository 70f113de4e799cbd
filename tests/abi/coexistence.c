/* One process that uses Augeas, its libfa.so.1 and this libfa.so.0. */
#include <augeas.h>
#include <fa.h>
#include <stdio.h>
#include <string.h>

int neighbour_works(void);

static int ours_works(void) {
  float q[4] = {1, 2, 3, 4}, k[4] = {1, 1, 1, 1}, v[4] = {5, 6, 7, 8}, out[4] = {0, 0, 0, 0};
  fa_desc desc;
  fa_forward_args args;
  fa_op *op;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = 4;
  if (fa_create(&desc, &op) != FA_OK) return 0;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, 1, 1, 1, 4);
  fa_tensor_init(&args.k, k, FA_F32, 1, 1, 1, 4);
  fa_tensor_init(&args.v, v, FA_F32, 1, 1, 1, 4);
  fa_tensor_init(&args.out, out, FA_F32, 1, 1, 1, 4);
  int works = fa_forward(op, &args) == FA_OK;
  for (int d = 0; d < 4; ++d) works = works && out[d] - v[d] < 1e-5f && v[d] - out[d] < 1e-5f; /* one key: its value */
  fa_destroy(op);
  return works;
}

/* Both libraries are mapped. */
static int mapped(const char *name) {
  char line[4096];
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) found |= strstr(line, name) != NULL;
  if (maps != NULL) fclose(maps);
  return found;
}

int main(void) {
  int works = ours_works();
  augeas *tree = aug_init("/nonexistent", NULL, AUG_NO_LOAD | AUG_NO_MODL_AUTOLOAD);
  works = works && tree != NULL && aug_set(tree, "/a", "1") == 0;
  aug_close(tree);
  works = works && neighbour_works() && ours_works();
  works = works && mapped("/libfa.so.1") && mapped("/libfa.so.0");
  if (!works) fprintf(stderr, "failed: %s\n", fa_last_error());
  return !works;
}
