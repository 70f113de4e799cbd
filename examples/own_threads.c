/* A program with a thread pool lends it to the library through parallel_for, and the library starts no
 * thread. Here the "pool" is one pthread for each task but the first. The result has the bits that the library's own
 * threads give. */
#include <fa.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { threads = 4, seq = 200, heads = 4, dim = 64, elements = seq * heads * dim };

struct pool {
  int64_t tasks; /* handed out so far */
};

struct job {
  fa_task task;
  void *ctx;
  int64_t i;
};

static void *run(void *argument) {
  struct job *job = (struct job *)argument;
  job->task(job->ctx, job->i);
  return NULL;
}

/* The hook: calls task(ctx, i) once for every i below n, here n <= threads, and returns when all have returned. */
static void parallel_for(void *host, fa_task task, void *ctx, int64_t n) {
  pthread_t workers[threads];
  struct job jobs[threads];
  int started[threads] = {0};
  ((struct pool *)host)->tasks += n;
  for (int64_t i = 1; i < n; ++i) {
    jobs[i].task = task;
    jobs[i].ctx = ctx;
    jobs[i].i = i;
    started[i] = pthread_create(&workers[i], NULL, run, &jobs[i]) == 0;
    if (!started[i]) run(&jobs[i]); /* any thread will do, this one too */
  }
  task(ctx, 0);
  for (int64_t i = 1; i < n; ++i) {
    if (started[i]) pthread_join(workers[i], NULL);
  }
}

static float q[elements], k[elements], v[elements], ours[elements], theirs[elements];

static int attention(const fa_desc *desc, float *out) {
  fa_op *op;
  if (fa_create(desc, &op) != FA_OK) return 0;
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, 1, seq, heads, dim);
  fa_tensor_init(&args.k, k, FA_F32, 1, seq, heads, dim);
  fa_tensor_init(&args.v, v, FA_F32, 1, seq, heads, dim);
  fa_tensor_init(&args.out, out, FA_F32, 1, seq, heads, dim);
  fa_status status = fa_forward(op, &args);
  fa_destroy(op);
  return status == FA_OK;
}

int main(void) {
  for (int i = 0; i < elements; ++i) {
    q[i] = (float)(i * 37 % 101) / 50 - 1;
    k[i] = (float)(i * 53 % 103) / 50 - 1;
    v[i] = (float)(i * 71 % 107) / 50 - 1;
  }

  struct pool pool = {0};
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.dtype_q = FA_F32;
  desc.head_dim = dim;
  desc.num_threads = threads;
  if (!attention(&desc, theirs)) {
    fprintf(stderr, "%s\n", fa_last_error());
    return 1;
  }
  desc.parallel_for = parallel_for;
  desc.parallel_for_user = &pool;
  if (!attention(&desc, ours)) {
    fprintf(stderr, "%s\n", fa_last_error());
    return 1;
  }

  int same = memcmp(ours, theirs, sizeof ours) == 0;
  printf("%lld tasks on our own threads: %s\n", (long long)pool.tasks, same ? "the same bits" : "DIFFERENT bits");
  return !same || pool.tasks == 0;
}
