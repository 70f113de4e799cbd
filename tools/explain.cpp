// `fa explain`: which kernel runs an attention here, and why no better one does.
#include <fmt/format.h>

#include <span>

#include "attention_options.h"
#include "command.h"
#include "decision.h"
#include "error.h"
#include "file.h"
#include "library.h"
#include "text.h"

namespace fa::tool {
namespace {

struct ExplainOptions : MaskOptions {
  std::string dtype = "f32", dtype_kv, device = "auto", kernel, out;
  int64_t head_dim = 64, head_dim_v = 0;
  float softcap = 0;
  bool batch_invariant = false;
};

fa_desc desc_of(const ExplainOptions &options) {
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.device = device_of(options.device);
  desc.dtype_q = dtype_of_name(options.dtype);
  if (!options.dtype_kv.empty()) desc.dtype_kv = storage_of_name(options.dtype_kv);
  desc.head_dim = options.head_dim;
  if (options.head_dim_v) desc.head_dim_v = options.head_dim_v;
  set_mask(options, &desc);
  desc.softcap = options.softcap;
  if (options.batch_invariant) desc.flags |= FA_FLAG_BATCH_INVARIANT;
  return desc;
}

/// "bf16 over i8, head dimension 128, causal"
std::string question_of(const ExplainOptions &options) {
  std::string text = options.dtype;
  if (!options.dtype_kv.empty() && options.dtype_kv != options.dtype) text += " over " + options.dtype_kv;
  text += fmt::format(", head dimension {}", options.head_dim);
  if (options.head_dim_v && options.head_dim_v != options.head_dim)
    text += fmt::format(" ({} of v)", options.head_dim_v);
  if (options.causal) text += ", causal";
  if (!options.window.empty()) text += fmt::format(", window {}", options.window);
  if (options.chunk) text += fmt::format(", chunks of {}", options.chunk);
  if (options.softcap != 0) text += fmt::format(", softcap {:g}", options.softcap);
  if (options.batch_invariant) text += ", batch invariant";
  if (options.device != "auto") text += fmt::format(", on the {}", options.device == "cpu" ? "CPU" : "GPU");
  return text;
}

int explain(const ExplainOptions &options) {
  const Decision decision = decide(desc_of(options), question_of(options));
  if (options.out.empty()) {
    fmt::print("{}", decision_text(decision));
  } else {
    const std::string svg = decision_svg(decision);
    OutputFile file(options.out);
    file.write(std::as_bytes(std::span(svg)));
    file.commit();
    fmt::print("drawing    {} bytes -> {}\n", svg.size(), printable(options.out));
  }
  return decision.failure.empty() ? exit_ok : exit_failure;
}

void define_explain_options(Options *o, ExplainOptions *e) {
  o->group("Output");
  o->value("-o,--out", e->out, "FILE", "an SVG there, instead of text on the standard output");
  o->group("Attention");
  o->choice("--dtype", e->dtype, compute_dtypes(), "TYPE", "of q; default: f32");
  o->choice("--dtype-kv", e->dtype_kv, storage_dtypes(), "TYPE", "of k and v; default: --dtype's");
  o->value("--head-dim", e->head_dim, "N", "columns of q and k; default: 64", Range{1, 1e6});
  o->value("--head-dim-v", e->head_dim_v, "N", "columns of v; default: --head-dim", Range{1, 1e6});
  o->flag("--causal", e->causal, "causal");
  o->value("--window", e->window, "L,R", "keys before and after a query's position; -1: open");
  o->value("--chunk", e->chunk, "N", "attend within chunks of N positions");
  o->value("--softcap", e->softcap, "X", "limit scores to X tanh(score / X)");
  o->flag("--batch-invariant", e->batch_invariant, "results do not depend on the rest of the batch");
  o->group("Where");
  o->choice("--device", e->device, {"auto", "cpu", "gpu"}, "DEVICE", "default: auto, where the tensors are");
  o->value("--kernel", e->kernel, "NAME", "ask for this kernel (see `fa info`)");
  o->help("print this");
}

}  // namespace

Command explain_command() {
  Command command{};
  command.name = "explain";
  command.summary = "which kernel runs an attention here, and why no better one";
  command.usage = "[-o FILE] [options]";
  command.details =
      "Asks the library for an attention of these types and dimensions, and prints its choice as a tree: each kernel "
      "in the order in which the library considers them, best first, with the reason why it was not taken, and the "
      "chosen one at the end. Where there is a GPU, a second branch has the choice for tensors in the memory of the "
      "host.\n"
      "\n"
      "The reasons are the library's own, those of FA_VERBOSE=dispatch, and the environment counts: FA_MAX_ARCH, "
      "FA_FORCE_KERNEL. With --out the tree is an SVG, legible on light and dark pages. The exit code is 1 where "
      "nothing runs the attention.";
  command.examples = {{"Why a GPU does not run it:", "fa explain --dtype bf16 --head-dim 128 --device gpu"},
                      {"As a picture:", "fa explain --dtype bf16 --causal -o choice.svg"}};
  command.define = define_command<ExplainOptions, define_explain_options, explain>;
  return command;
}

}  // namespace fa::tool
