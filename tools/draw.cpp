// `fa draw`: the mask of a call, as SVG.
#include <fmt/format.h>

#include <span>

#include "command.h"
#include "draw_call.h"
#include "file.h"
#include "library.h"
#include "text.h"

namespace fa::tool {
namespace {

int draw(const DrawOptions &options) {
  const std::string svg = mask_svg(drawing_of(options));
  if (options.out.empty()) {
    fmt::print("{}", svg);
    return 0;
  }
  std::vector<const std::string *> inputs = {&options.cu_seqlens};
#define FA_PATH(name, ...) inputs.push_back(&options.name);
  FA_DRAW_FIELDS(FA_PATH, FA_PATH, FA_NOTHING)
#undef FA_PATH
  check_outputs_are_no_inputs({&options.out}, inputs);
  OutputFile file(options.out);
  file.write(std::as_bytes(std::span(svg)));
  file.commit();
  fmt::print("drawing    {} bytes -> {}\n", svg.size(), printable(options.out));
  return 0;
}

}  // namespace

Command draw_command() {
  Command command{};
  command.name = "draw";
  command.summary = "draw the mask of a call as SVG";
  command.usage = "[-o FILE] [options]";
  command.details =
      "Draws which keys each query attends: a row for each query, a column for each key, a filled square where the "
      "query attends the key. With a bias, ALiBi slopes or sinks, squares are shaded and numbered by their weights in "
      "percent, of equal scores before them, and a column shows the weight of the sink.\n"
      "\n"
      "The picture shows results of the library, not of a second formula: fa calls it with zeros for the queries and "
      "keys, and with values from which each weight can be read. So it also shows whether options mean the mask that "
      "you have in mind.\n"
      "\n"
      "Options are those of fa-run(1). Arrays are .npy files, or their numbers, with commas between them and a slash "
      "between rows: --mask 1,0/1,1, --alibi 0.5, --cu-seqlens 0,3,8. Several sequences that are not packed, and "
      "several heads, are drawn next to each other. Rows of queries past --seqused-q are empty.\n"
      "\n"
      "The SVG has no background and takes the color of text around it, so it is legible on light and dark pages.";
  command.examples = {{"A causal mask with a window of two keys before each query:",
                       "fa draw --queries 6 --causal --window 2,0 -o mask.svg"},
                      {"Packed sequences of 3 and 5 tokens:", "fa draw --cu-seqlens 0,3,8 --causal -o packed.svg"}};
  command.define = define_command<DrawOptions, define_draw_options, draw>;
  return command;
}

}  // namespace fa::tool
