/* Greedy decoding by stock llama.cpp: a prompt of fixed pseudo-random tokens, then the likeliest token a step.
 * Usage: decode BACKENDS MODEL PROMPT STEPS THREADS FLASH TYPE_K TYPE_V LOGITS; numbers of ggml's types; FLASH 0 or 1.
 * Prints the seconds of the prompt, of the steps, and of the processor for each, then the tokens, and writes each
 * step's logits to LOGITS. */
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void quiet(enum ggml_log_level level, const char *text, void *user) {
  (void)user;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int argc, char **argv) {
  if (argc != 10) return 2;
  const int prompt = atoi(argv[3]), steps = atoi(argv[4]);
  llama_log_set(quiet, NULL);
  ggml_backend_load_all_from_path(argv[1]);
  struct llama_model *model = llama_model_load_from_file(argv[2], llama_model_default_params());
  if (!model) return 3;
  struct llama_context_params parameters = llama_context_default_params();
  parameters.n_ctx = (uint32_t)(prompt + steps);
  parameters.n_threads = parameters.n_threads_batch = atoi(argv[5]);
  parameters.flash_attn_type = atoi(argv[6]) ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  parameters.type_k = (enum ggml_type)atoi(argv[7]);
  parameters.type_v = (enum ggml_type)atoi(argv[8]);
  struct llama_context *context = llama_init_from_model(model, parameters);
  if (!context) return 4;
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  const int batch = (int)llama_n_batch(context);
  FILE *file = fopen(argv[9], "wb");
  llama_token *tokens = malloc(sizeof *tokens * (size_t)prompt);
  if (!file || !tokens) return 5;
  unsigned random = 1;
  for (int i = 0; i < prompt; ++i) {
    random = random * 1664525u + 1013904223u;
    tokens[i] = (llama_token)(random >> 8) % vocabulary;
  }

  const double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < prompt; i += batch) {
    const int count = prompt - i < batch ? prompt - i : batch;
    if (llama_decode(context, llama_batch_get_one(tokens + i, count)) != 0) return 6;
  }
  const double wall_prompt = seconds(CLOCK_MONOTONIC), processor_prompt = seconds(CLOCK_PROCESS_CPUTIME_ID);
  llama_token *chosen = malloc(sizeof *chosen * (size_t)(steps + 1));
  for (int step = 0; step < steps; ++step) {
    const float *logits = llama_get_logits_ith(context, -1);
    if (!logits || !chosen) return 7;
    llama_token best = 0;
    for (llama_token t = 1; t < vocabulary; ++t) best = logits[t] > logits[best] ? t : best;
    fwrite(logits, sizeof *logits, (size_t)vocabulary, file);
    chosen[step] = best;
    if (llama_decode(context, llama_batch_get_one(chosen + step, 1)) != 0) return 8;
  }
  printf("%.6f %.6f %.6f %.6f\n", wall_prompt - wall, seconds(CLOCK_MONOTONIC) - wall_prompt,
         processor_prompt - processor, seconds(CLOCK_PROCESS_CPUTIME_ID) - processor_prompt);
  for (int step = 0; step < steps; ++step) printf("%d ", chosen[step]);
  printf("\n");
  fclose(file);
  free(chosen);
  free(tokens);
  llama_free(context);
  llama_model_free(model);
  return 0;
}
