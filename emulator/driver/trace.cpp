// Writing a trace so that the file is whole after every launch.
#include "driver/trace.h"

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <utility>

#include "check/timeline.h"
#include "driver/json.h"
#include "driver/settings.h"

namespace fa::emu::driver {
namespace {

using check::BlockTimeline;
using check::Span;

constexpr const char *head = "{\"otherData\":{\"time\":\"1 us is an instruction of a warp\"},\"traceEvents\":[\n";
constexpr const char *tail = "\n]}\n";

struct Writer {
  std::mutex mutex;
  FILE *file = nullptr;
  bool failed = false, any = false;
  uint64_t blocks = 0, asynchronous = 0;
  pid_t owner = getpid();

  /// The file is that of the process that began it, not of its children.
  bool open() {
    if (getpid() != owner) return false;
    if (file || failed) return !failed;
    file = std::fopen(settings().timeline.c_str(), "w");
    failed = !file || std::fputs(head, file) < 0;
    if (failed) std::fprintf(stderr, "fa-emu: FA_EMU_TIMELINE: '%s' cannot be written\n", settings().timeline.c_str());
    return !failed;
  }
  void event(const std::string &text) {
    std::fprintf(file, "%s{%s}", std::exchange(any, true) ? ",\n" : "", text.c_str());
  }
};

Writer &writer() {
  static Writer *const instance = new Writer;
  return *instance;
}

std::string field(const char *name, uint64_t value) {
  return std::string(",\"") + name + "\":" + std::to_string(value);
}

void write(Writer &to, const Launch &launch, const Span &span) {
  const Program &program = *launch.program;
  const ptx::Instruction &source = program.source(span.pc);
  std::string common = "\"name\":" + quoted(program.opcode(span.pc)) + ",\"cat\":" + quoted(check::name_of(span.role)) +
                       field("pid", to.blocks) + field("tid", span.warp);
  std::string arguments = ",\"args\":{\"ptx_line\":" + std::to_string(source.line) +
                          ",\"source\":" + quoted(program.module->name_of(source.source)) +
                          ",\"instructions\":" + std::to_string(span.instructions) + "}";
  if (!span.asynchronous)
    return to.event(common + ",\"ph\":\"X\"" + field("ts", span.begin) + field("dur", span.end - span.begin) +
                    arguments);
  common += field("id", ++to.asynchronous);
  to.event(common + ",\"ph\":\"b\"" + field("ts", span.begin) + arguments);
  to.event(common + ",\"ph\":\"e\"" + field("ts", span.end));
}

void write(Writer &to, const Launch &launch, const BlockTimeline &block) {
  std::string name = readable_name(launch.program->name) + ", launch " + std::to_string(launch.grid_number) +
                     ", block " + triple(block.block);
  to.event("\"name\":\"process_name\",\"ph\":\"M\"" + field("pid", ++to.blocks) +
           ",\"args\":{\"name\":" + quoted(name) + "}");
  const uint32_t threads = launch.shape.block[0] * launch.shape.block[1] * launch.shape.block[2];
  for (uint32_t warp = 0; warp < (threads + lanes - 1) / lanes; warp++)
    to.event("\"name\":\"thread_name\",\"ph\":\"M\"" + field("pid", to.blocks) + field("tid", warp) +
             ",\"args\":{\"name\":\"warp " + std::to_string(warp) + "\"}");
  for (const Span &span : block.spans) write(to, launch, span);
}

}  // namespace

void write_timeline(const Launch &launch) {
  Writer &to = writer();
  std::lock_guard lock(to.mutex);
  if (!to.open()) return;
  uint64_t left_out = 0;
  for (const BlockTimeline &block : launch.timeline->blocks()) {
    write(to, launch, block);
    left_out += block.left_out;
  }
  if (left_out > 0 && !settings().quiet)
    std::fprintf(stderr, "fa-emu: FA_EMU_TIMELINE: kernel %s: %llu spans are left out, of blocks with more than %zu\n",
                 readable_name(launch.program->name).c_str(), static_cast<unsigned long long>(left_out),
                 check::Timeline::max_spans);
  // The next launch goes on in the tail's place.
  std::fputs(tail, to.file);
  std::fflush(to.file);
  std::fseek(to.file, -static_cast<long>(std::char_traits<char>::length(tail)), SEEK_CUR);
}

}  // namespace fa::emu::driver
