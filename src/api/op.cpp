// The life of an op: create, its calls and their sizes, destroy.
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

template <class Call>
fa_status check_workspace_size(const Engine &engine, const Call &call) {
  size_t needed = 0;
  if (const fa_status status = engine.workspace_size(call, &needed)) return status;
  if (call.workspace_size >= needed) return FA_OK;
  return fail(FA_ERROR_INVALID_ARGUMENT,
              "args.workspace_size is %zu; expected at least %zu, which %s returns for these arguments",
              call.workspace_size, needed, OperationTraits<Call>::workspace_function);
}

/// fa_<operation>_workspace_size.
template <class Call>
fa_status workspace_size(const fa_op *op, const ArgsOf<Call> *args, size_t *bytes) {
  if (!op) return refuse_null("op", "an op from fa_create");
  if (!bytes) return refuse_null("bytes", "where to store the size");
  return guarded([=](CallerState &) -> fa_status {
    Call call;
    if (!read_args(op->attention, args, Purpose::size, &call)) return FA_ERROR_INVALID_ARGUMENT;
    *bytes = 0;
    return call.writes_nothing() ? FA_OK : op->prepared.engine->workspace_size(call, bytes);
  });
}

/// fa_<operation>.
template <class Call>
fa_status execute(const fa_op *op, const ArgsOf<Call> *args) {
  if (!op) return refuse_null("op", "an op from fa_create");
  return guarded([=](CallerState &caller) -> fa_status {
    Call call;
    call.caller = &caller;
    if (!read_args(op->attention, args, Purpose::run, &call)) return FA_ERROR_INVALID_ARGUMENT;
    if (call.writes_nothing()) return FA_OK;
    const Engine &engine = *op->prepared.engine;
    if (call.workspace) {
      if (const fa_status status = check_workspace_size(engine, call)) return status;
    }
    return engine.execute(call);
  });
}

}  // namespace
}  // namespace fa::api

fa_status fa_create(const fa_desc *desc, fa_op **op) {
  if (!op) return fa::api::refuse_null("op", "where to store the new op");
  *op = nullptr;
  return fa::api::guarded([=](fa::CallerState &) { return fa::api::create(desc, op); });
}

// fa_forward, fa_forward_workspace_size, and their like.
#define FA_ENTRY_POINTS(name, Name, FIELDS)                                                            \
  fa_status fa_##name##_workspace_size(const fa_op *op, const fa_##name##_args *args, size_t *bytes) { \
    return fa::api::workspace_size<fa::Name##Call>(op, args, bytes);                                   \
  }                                                                                                    \
  fa_status fa_##name(const fa_op *op, const fa_##name##_args *args) {                                 \
    return fa::api::execute<fa::Name##Call>(op, args);                                                 \
  }
FA_OPERATIONS(FA_ENTRY_POINTS)
#undef FA_ENTRY_POINTS

void fa_destroy(fa_op *op) {
  fa::in_default_state([=](fa::CallerState &) { delete op; });
}

const char *fa_op_kernel_name(const fa_op *op) {
  return op ? op->prepared.kernel->name : "";
}
