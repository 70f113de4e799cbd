// `fa append`: new keys and values, written into a cache in .npy files.
#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <utility>
#include <vector>

#include "append_call.h"
#include "append_options.h"
#include "command.h"
#include "device_call.h"
#include "error.h"
#include "file.h"
#include "library.h"
#include "run_options.h"
#include "text.h"

namespace fa::tool {
namespace {

/// The files that the call replaces must be no inputs, and not the same.
void check_files(const AppendOptions &options) {
  std::vector<const std::string *> inputs;
  std::vector<std::pair<std::string, const std::string *>> outputs;
  const auto add = [&](const char *name, schema::Access access, const std::string *path) {
    if (path->empty()) return;
    if (!is_written(access, options)) return inputs.push_back(path);
    for (const auto &[other, same] : outputs) {
      std::error_code none;  // of a file that is not there
      if (*path == *same || std::filesystem::equivalent(*path, *same, none))
        bad_input("{} and {} are the same file, {}", other, option_of(name), *path);
    }
    outputs.emplace_back(option_of(name), path);
  };
#define FA_PATH(name, access, ...) add(#name, schema::Access::access, &options.name);
  FA_APPEND_FIELDS(FA_PATH, FA_NOTHING, FA_NOTHING)
#undef FA_PATH
#define FA_PATH(name, ...) add(#name, schema::Access::read, &options.name);
  FA_APPEND_FIELDS(FA_NOTHING, FA_PATH, FA_NOTHING)
#undef FA_PATH
  std::vector<const std::string *> paths;
  for (const auto &[option, path] : outputs) paths.push_back(path);
  check_outputs_are_no_inputs(paths, inputs);
}

void check_pair(const char *one, const std::string &path, const char *other, const std::string &other_path) {
  if (path.empty() == other_path.empty()) return;
  const bool first = other_path.empty();
  bad_input("{} is given without {}; expected both or neither", first ? one : other, first ? other : one);
}

void check_usage(const AppendOptions &options) {
  for (const auto &[path, option] : {std::pair(&options.k, "--k"), {&options.k_cache, "--k-cache"}}) {
    if (path->empty())
      bad_input("{} is missing; the shortest call is: fa append --k K.npy --v V.npy --k-cache KC.npy --v-cache VC.npy",
                option);
  }
  check_pair("--v", options.v, "--v-cache", options.v_cache);
  check_pair("--k-rope", options.k_rope, "--k-rope-cache", options.k_rope_cache);
  check_pair("--q", options.q, "--q-out", options.q_out);
  if (options.new_cache.empty() || !options.compute_scales) {
    const char *const needed = "--new-cache and --compute-scales: it is about files of scales that are made";
    if (options.groups) bad_input("--groups needs {}", needed);
    if (!options.scale_dtype.empty()) bad_input("--scale-dtype needs {}", needed);
  }
  check_files(options);
}

int append_files(const AppendOptions &options) {
  check_usage(options);
  AppendCall call(options);
  const std::vector<AppendCall::Output> outputs = call.outputs(options);
  std::deque<OutputFile> files;  // created before the work, so that a place that cannot be written is found early
  for (const AppendCall::Output &output : outputs) files.emplace_back(output.path);

  const Op op = create_op(call.desc);
  fmt::print("kernel     {}\n", fa_op_kernel_name(op.get()));
  fmt::print("k{}       {}{}; {} sequence{}\n", call.args.v.data ? ", v" : "   ", describe(call.k),
             call.args.v.data ? ", " + describe(call.v) : "", call.sequences(), call.sequences() == 1 ? "" : "s");
  time_on_device("time", options.repeat, {call.bytes(), "GB/s"}, fa_append, op, call.args, call.sequences(),
                 call.desc.device_index);

  for (size_t i = 0; i < outputs.size(); ++i) files[i].write(format_npy(outputs[i].array));
  for (OutputFile &file : files) file.commit();
  for (const AppendCall::Output &output : outputs) {
    fmt::print("{:<10} {} -> {}\n", output.name, describe(output.array, output.dtype), printable(output.path));
  }
  return exit_ok;
}

}  // namespace

Command append_command() {
  Command command{};
  command.name = "append";
  command.summary = "write new keys and values into a cache in .npy files";
  command.usage = "--k FILE --v FILE --k-cache FILE --v-cache FILE [options]";
  command.details =
      "Reads keys and values of new tokens, and writes them into the files of a cache, in its type: rotated where "
      "rotary tables are given, quantised where the cache holds codes. Nothing else in these files changes. fa-run(1) "
      "computes attention on them. Prints the kernel that ran, the time, and the files that it wrote.\n"
      "\n"
      "New keys and values are (batch, sequence, heads, dim), or (total, heads, dim) of one sequence, or of those "
      "whose beginnings --cu-seqlens-new gives. The cache is (batch, rows, heads, dim), where a sequence's new tokens "
      "follow the --cache-seqlens rows that it has, or pages, (pages, rows, heads, dim), which --block-table or "
      "--slot-mapping chooses. --layout bhsd has heads before rows in all of them.\n"
      "\n"
      "--new-cache makes the files of the cache, and with --compute-scales those of its scales and zeros, instead of "
      "reading them: N entries, or pages, of ROWS rows, all 0. Existing files are replaced.\n"
      "\n"
      "Codes of a quantised cache are in int8 (i8), in uint8 or ml_dtypes' float8 (e4m3, e5m2), two a byte of uint8 "
      "(i4, u4), or in ggml's blocks in uint8 (q8_0, q4_0), the last dimension being the bytes of a row. --dtype-kv "
      "says which; int8 is i8 by itself. Those but blocks have scales: with --compute-scales the call writes one for "
      "each new token, head and group of channels into --k-scale and --v-scale, which have the cache's first three "
      "dimensions, and for u4 a zero as well; without it they are read, and each dimension may be 1 or left out at "
      "the front.\n"
      "\n"
      "--rotary-cos and --rotary-sin rotate the keys, by each token's place in its sequence or by --positions, and "
      "with --q and --q-out queries.\n"
      "\n"
      "A file appears whole or not at all: it is written next to its destination and renamed, and removed when the "
      "command fails or is interrupted. A call that fails leaves every file as it was.\n"
      "\n"
      "libfa(3) specifies each option, under the name of the field that it sets.";
  command.examples = {{"A new int8 cache of 4096 rows with a scale for each token and head:",
                       "fa append --k k.npy --v v.npy --k-cache kc.npy --v-cache vc.npy \\\n"
                       "  --k-scale ks.npy --v-scale vs.npy --compute-scales \\\n"
                       "  --new-cache 1,4096 --dtype-kv i8"},
                      {"More tokens behind the rows that n.npy counts:",
                       "fa append --k k.npy --v v.npy --k-cache kc.npy --v-cache vc.npy \\\n"
                       "  --k-scale ks.npy --v-scale vs.npy --compute-scales --cache-seqlens n.npy"},
                      {"Attention on the first rows of it, as used.npy counts them:",
                       "fa run --q q.npy --k kc.npy --v vc.npy --k-scale ks.npy --v-scale vs.npy \\\n"
                       "  --seqused-k used.npy --causal -o out.npy"}};
  command.define = define_command<AppendOptions, define_append_options, append_files>;
  return command;
}

}  // namespace fa::tool
