/* Ring attention over processes, by MPI: each rank has a part of the queries, keys and values of one sequence. Keys and
 * values travel around the ring while ranks compute with those that they have, and partial results are merged
 * (fa_merge). In the backward pass gradients of keys and values follow them, until they are home. ring.c is the same in
 * one process.
 *
 * The sequence has 2 * ranks chunks, and rank r has the chunks r and 2 * ranks - 1 - r ("zigzag"): under a causal mask
 * the later chunk attends more keys, the earlier one fewer, and so all ranks have equal work.
 *
 *   mpicc ring_mpi.c $(pkg-config --cflags --libs fa) -lm && mpirun -n 4 ./a.out
 */
#include <fa.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { chunk = 64, heads = 4, kv_heads = 2, dim = 32, q_row = heads * dim, kv_row = kv_heads * dim };

typedef float queries[2][chunk][q_row]; /* both chunks of a rank */
typedef struct keys {
  float k[2][chunk][kv_row], v[2][chunk][kv_row];
} keys;
typedef struct results {
  float *out, *lse, *dq, *dk, *dv;
} results;

static int rank, ranks;
static double sent; /* bytes */
static const fa_op *op;

/* A rank that fails says why, and ends all others. */
static void check(fa_status status) {
  if (status == FA_OK) return;
  fprintf(stderr, "rank %d: %s\n", rank, fa_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* n queries, n keys, and the position of the first query less that of the first key. */
static void forward(int n, const int32_t *offset, float *q, float *k, float *v, float *out, float *lse) {
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.k, k, FA_F32, 1, n, kv_heads, dim);
  fa_tensor_init(&args.v, v, FA_F32, 1, n, kv_heads, dim);
  fa_tensor_init(&args.out, out, FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.lse, lse, FA_F32, 1, heads, n, 1);
  args.q_offset = offset;
  check(fa_forward(op, &args));
}

/* Adds the part that these keys have in the gradients. out and lse are those of all keys. */
static void backward(int n, const int32_t *offset, float *q, float *k, float *v, float *dout, results r) {
  fa_backward_args args;
  fa_backward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.k, k, FA_F32, 1, n, kv_heads, dim);
  fa_tensor_init(&args.v, v, FA_F32, 1, n, kv_heads, dim);
  fa_tensor_init(&args.out, r.out, FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.lse, r.lse, FA_F32, 1, heads, n, 1);
  fa_tensor_init(&args.dout, dout, FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.dq, r.dq, FA_F32, 1, n, heads, dim);
  fa_tensor_init(&args.dk, r.dk, FA_F32, 1, n, kv_heads, dim);
  fa_tensor_init(&args.dv, r.dv, FA_F32, 1, n, kv_heads, dim);
  args.accumulate = FA_ACCUMULATE_DQ | FA_ACCUMULATE_DK | FA_ACCUMULATE_DV;
  args.q_offset = offset;
  check(fa_backward(op, &args));
}

/* Merges a partial result into out and lse, which are 0 and -inf at first. */
static void merge(float *out, float *lse, float *part, float *part_lse) {
  fa_tensor outs[2], lses[2];
  fa_tensor_init(&outs[0], out, FA_F32, 1, chunk, heads, dim);
  fa_tensor_init(&outs[1], part, FA_F32, 1, chunk, heads, dim);
  fa_tensor_init(&lses[0], lse, FA_F32, 1, heads, chunk, 1);
  fa_tensor_init(&lses[1], part_lse, FA_F32, 1, heads, chunk, 1);
  fa_merge_args args;
  fa_merge_args_init(&args, sizeof args);
  args.outs = outs, args.lses = lses, args.num_parts = 2;
  args.out = outs[0], args.lse = lses[0]; /* in place */
  check(fa_merge(op, &args));
}

static int chunk_of(int of_rank, int half) {
  return half == 0 ? of_rank : 2 * ranks - 1 - of_rank;
}

/* Sends keys and values to the next rank and receives others from the previous one. Both are under way on return. */
static void pass_on(const keys *held, keys *coming, MPI_Request requests[2]) {
  const int floats = (int)(sizeof *held / sizeof(float));
  MPI_Irecv(coming, floats, MPI_FLOAT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(held, floats, MPI_FLOAT, (rank + 1) % ranks, 0, MPI_COMM_WORLD, &requests[1]);
  sent += sizeof *held;
}

/* blocks[0] has this rank's keys and values. In each step a rank has those of the owner, `step` ranks behind it. */
static void ring_forward(queries q, keys blocks[2], queries out, float lse[2][heads][chunk]) {
  static float part[chunk][q_row], part_lse[heads][chunk];
  for (int step = 0; step < ranks; ++step) {
    const int owner = (rank + ranks - step) % ranks;
    keys *held = &blocks[step % 2], *coming = &blocks[(step + 1) % 2];
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (step + 1 < ranks) pass_on(held, coming, requests);
    for (int pair = 0; pair < 4; ++pair) {
      const int i = pair / 2, j = pair % 2, behind = chunk_of(rank, i) - chunk_of(owner, j);
      const int32_t offset = behind * chunk;
      int done;
      if (behind < 0) continue; /* all keys come after the queries */
      forward(chunk, &offset, q[i][0], held->k[j][0], held->v[j][0], part[0], part_lse[0]);
      merge(out[i][0], lse[i][0], part[0], part_lse[0]);
      MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE); /* MPI moves data while one of its functions runs */
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
}

/* sums has the gradients of this rank's keys and values at the end, dq those of its queries; both are 0 at first. */
static void ring_backward(queries q, keys blocks[2], queries dout, queries out, float lse[2][heads][chunk], queries dq,
                          keys *sums) {
  for (int step = 0; step < ranks; ++step) {
    const int owner = (rank + ranks - step) % ranks;
    keys *held = &blocks[step % 2], *coming = &blocks[(step + 1) % 2];
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (step + 1 < ranks) pass_on(held, coming, requests);
    for (int pair = 0; pair < 4; ++pair) {
      const int i = pair / 2, j = pair % 2, behind = chunk_of(rank, i) - chunk_of(owner, j);
      const int32_t offset = behind * chunk;
      const results r = {out[i][0], lse[i][0], dq[i][0], sums->k[j][0], sums->v[j][0]};
      int done;
      if (behind < 0) continue;
      backward(chunk, &offset, q[i][0], held->k[j][0], held->v[j][0], dout[i][0], r);
      MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv_replace(sums, (int)(sizeof *sums / sizeof(float)), MPI_FLOAT, (rank + 1) % ranks, 1,
                         (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sent += sizeof *sums;
  }
}

/* Rows of random numbers, the same on every rank. */
static float *random_rows(int rows, int row, unsigned seed) {
  float *x = malloc(sizeof(float) * (size_t)rows * (size_t)row);
  if (!x) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 0; i < rows * row; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
  return x;
}

/* This rank's chunks of the whole. */
static void take(float *mine, const float *whole, int row) {
  for (int i = 0; i < 2; ++i)
    memcpy(mine + i * chunk * row, whole + chunk_of(rank, i) * chunk * row, sizeof(float) * chunk * (size_t)row);
}

/* The largest difference on any rank between its chunks and those of the whole. */
static float difference(const float *mine, const float *whole, int row) {
  float worst = 0, of_all;
  for (int i = 0; i < 2 * chunk * row; ++i) {
    const float d = fabsf(mine[i] - whole[chunk_of(rank, i / (chunk * row)) * chunk * row + i % (chunk * row)]);
    worst = d <= worst ? worst : d; /* a NaN stays */
  }
  MPI_Allreduce(&worst, &of_all, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  return of_all;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.mask = FA_MASK_CAUSAL;
  desc.num_threads = 1; /* here the ranks share a machine */
  fa_op *created;
  check(fa_create(&desc, &created));
  op = created;

  const int seq = 2 * ranks * chunk;
  float *q_all = random_rows(seq, q_row, 1), *k_all = random_rows(seq, kv_row, 2), *v_all = random_rows(seq, kv_row, 3);
  float *dout_all = random_rows(seq, q_row, 4);
  static queries q, dout, out, dq;
  static keys blocks[2], sums;
  static float lse[2][heads][chunk];
  take(q[0][0], q_all, q_row);
  take(dout[0][0], dout_all, q_row);
  take(blocks[0].k[0][0], k_all, kv_row);
  take(blocks[0].v[0][0], v_all, kv_row);
  for (int i = 0; i < 2 * heads * chunk; ++i) lse[i / (heads * chunk)][i / chunk % heads][i % chunk] = -INFINITY;

  ring_forward(q, blocks, out, lse);
  take(blocks[0].k[0][0], k_all, kv_row);
  take(blocks[0].v[0][0], v_all, kv_row);
  ring_backward(q, blocks, dout, out, lse, dq, &sums);

  /* The same in one process, on every rank. */
  const int32_t none = 0;
  results whole = {random_rows(seq, q_row, 0), random_rows(seq, heads, 0), calloc((size_t)seq, sizeof(float) * q_row),
                   calloc((size_t)seq, sizeof(float) * kv_row), calloc((size_t)seq, sizeof(float) * kv_row)};
  forward(seq, &none, q_all, k_all, v_all, whole.out, whole.lse);
  backward(seq, &none, q_all, k_all, v_all, dout_all, whole);
  fa_destroy(created);

  const float in_out = difference(out[0][0], whole.out, q_row), in_dq = difference(dq[0][0], whole.dq, q_row);
  const float in_dk = difference(sums.k[0][0], whole.dk, kv_row), in_dv = difference(sums.v[0][0], whole.dv, kv_row);
  double sent_by_all = 0;
  MPI_Reduce(&sent, &sent_by_all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%d ranks and one call differ by %.1e in out, %.1e in dq, %.1e in dk, %.1e in dv\n", ranks, (double)in_out,
           (double)in_dq, (double)in_dk, (double)in_dv);
    printf("%.0f bytes sent\n", sent_by_all);
  }
  float *const arrays[] = {q_all, k_all, v_all, dout_all, whole.out, whole.lse, whole.dq, whole.dk, whole.dv};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) free(arrays[i]);
  MPI_Finalize();
  return !(in_out < 2e-6f && in_dq < 2e-5f && in_dk < 2e-5f && in_dv < 2e-5f);
}
