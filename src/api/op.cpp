// The life of an op: create, size, forward, backward, destroy.
#include "api/op.h"

#include <memory>

#include "api/args.h"
#include "api/boundary.h"
#include "api/desc.h"
#include "core/status.h"

namespace fa::api {
namespace {

fa_status refuse_null(const char *name, const char *expected) {
  return fail(FA_ERROR_INVALID_ARGUMENT, "%s is NULL; expected %s", name, expected);
}

fa_status create(const fa_desc *desc, fa_op **result) {
  auto op = std::make_unique<fa_op>();
  if (!read_desc(desc, &op->attention)) return FA_ERROR_INVALID_ARGUMENT;
  if (const fa_status status = dispatch::prepare(op->attention, &op->prepared)) return status;
  *result = op.release();
  return FA_OK;
}

bool writes_nothing(const ForwardCall &problem) {
  return problem.batch == 0 || problem.heads_q == 0 || problem.rows_q == 0;
}

/// Without queries there are still zeros to write.
bool writes_nothing(const BackwardCall &call) {
  return !call.dq && !call.dk && !call.dv && !call.dbias && !call.dsinks;
}

template <class Call, class Args>
fa_status workspace_size(const fa_op *op, const Args *args, size_t *bytes) {
  Call call;
  if (!read_args(op->attention, args, Purpose::size, &call)) return FA_ERROR_INVALID_ARGUMENT;
  *bytes = 0;
  return writes_nothing(call) ? FA_OK : op->prepared.engine->workspace_size(call, bytes);
}

template <class Call>
fa_status check_workspace_size(const Engine &engine, const Call &call, const char *sized_by) {
  size_t needed = 0;
  if (const fa_status status = engine.workspace_size(call, &needed)) return status;
  if (call.workspace_size >= needed) return FA_OK;
  return fail(FA_ERROR_INVALID_ARGUMENT,
              "args.workspace_size is %zu; expected at least %zu, which %s returns for these arguments",
              call.workspace_size, needed, sized_by);
}

/// sized_by: the function that says how large the workspace is.
template <class Call, class Args>
fa_status compute(const fa_op *op, const Args *args, const char *sized_by, HostState &host) {
  Call call;
  call.host = &host;
  if (!read_args(op->attention, args, Purpose::run, &call)) return FA_ERROR_INVALID_ARGUMENT;
  if (writes_nothing(call)) return FA_OK;
  const Engine &engine = *op->prepared.engine;
  if (call.workspace) {
    if (const fa_status status = check_workspace_size(engine, call, sized_by)) return status;
  }
  return engine.compute(call);
}

}  // namespace
}  // namespace fa::api

fa_status fa_create(const fa_desc *desc, fa_op **op) {
  if (!op) return fa::api::refuse_null("op", "where to store the new op");
  *op = nullptr;
  return fa::api::guarded([=](fa::HostState &) { return fa::api::create(desc, op); });
}

fa_status fa_forward_workspace_size(const fa_op *op, const fa_forward_args *args, size_t *bytes) {
  if (!op) return fa::api::refuse_null("op", "an op from fa_create");
  if (!bytes) return fa::api::refuse_null("bytes", "where to store the size");
  return fa::api::guarded([=](fa::HostState &) { return fa::api::workspace_size<fa::ForwardCall>(op, args, bytes); });
}

fa_status fa_forward(const fa_op *op, const fa_forward_args *args) {
  if (!op) return fa::api::refuse_null("op", "an op from fa_create");
  return fa::api::guarded([=](fa::HostState &host) {
    return fa::api::compute<fa::ForwardCall>(op, args, "fa_forward_workspace_size", host);
  });
}

fa_status fa_backward_workspace_size(const fa_op *op, const fa_backward_args *args, size_t *bytes) {
  if (!op) return fa::api::refuse_null("op", "an op from fa_create");
  if (!bytes) return fa::api::refuse_null("bytes", "where to store the size");
  return fa::api::guarded([=](fa::HostState &) { return fa::api::workspace_size<fa::BackwardCall>(op, args, bytes); });
}

fa_status fa_backward(const fa_op *op, const fa_backward_args *args) {
  if (!op) return fa::api::refuse_null("op", "an op from fa_create");
  return fa::api::guarded([=](fa::HostState &host) {
    return fa::api::compute<fa::BackwardCall>(op, args, "fa_backward_workspace_size", host);
  });
}

void fa_destroy(fa_op *op) {
  fa::in_default_state([=](fa::HostState &) { delete op; });
}

const char *fa_op_kernel_name(const fa_op *op) {
  return op ? op->prepared.kernel->name : "";
}
