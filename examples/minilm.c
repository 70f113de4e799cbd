/* Attention on real input: layers 0 and 5 of all-MiniLM-L6-v2 on the three paragraphs of the Gettysburg
 * Address (see data/README.md), packed one after another and computed in one call; compared with the exact results that
 * are next to them.
 *
 *   minilm data */
#include <fa.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { tokens = 335, heads = 12, dim = 32, elements = tokens * heads * dim, sequences = 3 };

static uint16_t q[elements], k[elements], v[elements]; /* float16 */
static float out[elements], reference[elements];
static int32_t cu_seqlens[sequences + 1];

/* Reads the elements of a .npy file of format 1, whose header says how long it is. */
static void read_npy(const char *folder, const char *name, void *data, size_t bytes) {
  char path[4096];
  unsigned char start[10];
  snprintf(path, sizeof path, "%s/%s.npy", folder, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL || fread(start, 1, sizeof start, file) != sizeof start ||
      fseek(file, start[8] + 256L * start[9], SEEK_CUR) != 0 || fread(data, 1, bytes, file) != bytes) {
    fprintf(stderr, "%s: cannot be read; the argument is the folder examples/data\n", path);
    exit(1);
  }
  fclose(file);
}

static void fail(void) {
  fprintf(stderr, "%s\n", fa_last_error());
  exit(1);
}

static float layer_error(const fa_op *op, const char *folder, const char *layer) {
  static const char *names[] = {"q", "k", "v"};
  uint16_t *inputs[] = {q, k, v};
  char name[32];
  for (int i = 0; i < 3; ++i) {
    snprintf(name, sizeof name, "%s_%s", layer, names[i]);
    read_npy(folder, name, inputs[i], sizeof q);
  }
  snprintf(name, sizeof name, "%s_out", layer);
  read_npy(folder, name, reference, sizeof reference);

  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F16, 1, tokens, heads, dim);
  fa_tensor_init(&args.k, k, FA_F16, 1, tokens, heads, dim);
  fa_tensor_init(&args.v, v, FA_F16, 1, tokens, heads, dim);
  fa_tensor_init(&args.out, out, FA_F32, 1, tokens, heads, dim);
  args.num_seqs = sequences;
  args.cu_seqlens_q = args.cu_seqlens_k = cu_seqlens;
  if (fa_forward(op, &args) != FA_OK) fail();

  float worst = 0;
  for (int i = 0; i < elements; ++i) {
    float error = fabsf(out[i] - reference[i]);
    if (!(error <= worst) && worst == worst) worst = error; /* a NaN stays */
  }
  return worst;
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "data";
  read_npy(folder, "cu_seqlens", cu_seqlens, sizeof cu_seqlens);

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F16;
  desc.dtype_out = FA_F32;
  desc.head_dim = dim;
  fa_op *op;
  if (fa_create(&desc, &op) != FA_OK) fail();
  float first = layer_error(op, folder, "layer0"), last = layer_error(op, folder, "layer5");
  printf("%d paragraphs, %d tokens, by %s: largest error %.1e in layer 0, %.1e in layer 5\n", sequences, tokens,
         fa_op_kernel_name(op), first, last);
  fa_destroy(op);
  return first < 2e-3f && last < 2e-3f ? 0 : 1;
}
