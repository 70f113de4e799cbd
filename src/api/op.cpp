// The life of an op: create, size, forward, destroy.
#include "api/op.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "api/args.h"
#include "api/boundary.h"
#include "api/desc.h"
#include "core/log.h"
#include "dispatch/table.h"

namespace fa::api {
namespace {

fa_status refuse_null(const char *name, const char *expected) {
  return fail(FA_ERROR_INVALID_ARGUMENT, "%s is NULL; expected %s", name, expected);
}

fa_status create(const fa_desc *desc, fa_op **result) {
  auto op = std::make_unique<fa_op>();
  if (!read_desc(desc, &op->attention)) return FA_ERROR_INVALID_ARGUMENT;
  op->kernel = dispatch::choose(op->attention);
  if (!op->kernel) return last_status();
  op->host_kernel = dispatch::beside(*op->kernel, op->attention);
  if (op->host_kernel) {
    op->host_engine.reset(op->host_kernel->create(*op->host_kernel, op->attention));
    if (!op->host_engine) return last_status();
  } else if (op->attention.device == FA_DEVICE_AUTO && std::strcmp(op->kernel->device, "cuda") == 0) {
    op->attention.device = FA_DEVICE_CUDA;  // by name: no other kernel may stand in
  }
  op->engine.reset(op->kernel->create(*op->kernel, op->attention));
  if (!op->engine) return last_status();
  *result = op.release();
  return FA_OK;
}

bool writes_nothing(const Problem &problem) {
  return problem.batch == 0 || problem.heads_q == 0 || problem.rows_q == 0;
}

/// Where the tensors live is not looked at: enough for either engine.
fa_status needed_workspace(const fa_op &op, const Problem &problem, size_t *bytes) {
  size_t on_host = 0;
  if (op.host_engine) {
    if (const fa_status status = op.host_engine->workspace_size(problem, &on_host)) return status;
  }
  const fa_status status = op.engine->workspace_size(problem, bytes);
  *bytes = std::max(*bytes, on_host);
  return status;
}

fa_status workspace_size(const fa_op *op, const fa_args *args, size_t *bytes) {
  Problem problem;
  if (!read_args(op->attention, args, Purpose::size, &problem)) return FA_ERROR_INVALID_ARGUMENT;
  *bytes = 0;
  return writes_nothing(problem) ? FA_OK : needed_workspace(*op, problem, bytes);
}

fa_status check_workspace_size(const fa_op &op, const Problem &problem) {
  size_t needed = 0;
  if (const fa_status status = needed_workspace(op, problem, &needed)) return status;
  if (problem.workspace_size >= needed) return FA_OK;
  return fail(FA_ERROR_INVALID_ARGUMENT,
              "args.workspace_size is %zu; expected at least %zu, which fa_workspace_size tells for these arguments",
              problem.workspace_size, needed);
}

fa_status forward(const fa_op *op, const fa_args *args) {
  Problem problem;
  if (!read_args(op->attention, args, Purpose::run, &problem)) return FA_ERROR_INVALID_ARGUMENT;
  if (writes_nothing(problem)) return FA_OK;
  if (problem.workspace) {
    if (const fa_status status = check_workspace_size(*op, problem)) return status;
  }
  const fa_status status = op->engine->forward(problem);
  if (status != not_here) return status;
  if (verbose_dispatch()) say("forward: the tensors are in memory of the host: %s serves", op->host_kernel->name);
  return op->host_engine->forward(problem);
}

}  // namespace
}  // namespace fa::api

fa_status fa_create(const fa_desc *desc, fa_op **op) {
  if (!op) return fa::api::refuse_null("op", "where to store the new op");
  *op = nullptr;
  return fa::api::guarded([=] { return fa::api::create(desc, op); });
}

fa_status fa_workspace_size(const fa_op *op, const fa_args *args, size_t *bytes) {
  if (!op) return fa::api::refuse_null("op", "an op from fa_create");
  if (!bytes) return fa::api::refuse_null("bytes", "where to store the size");
  return fa::api::guarded([=] { return fa::api::workspace_size(op, args, bytes); });
}

fa_status fa_forward(const fa_op *op, const fa_args *args) {
  if (!op) return fa::api::refuse_null("op", "an op from fa_create");
  return fa::api::guarded([=] { return fa::api::forward(op, args); });
}

void fa_destroy(fa_op *op) {
  delete op;
}

const char *fa_op_kernel(const fa_op *op) {
  return op ? op->kernel->name : "";
}
