// A PTX module as parsed: names resolved, nothing interpreted. Everything is an index into a flat array of the module
// or of the function, so that parsing ten thousand lines makes few allocations; texts are views into Module::source.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/type.h"

namespace fa::emu::ptx {

using Index = uint32_t;
constexpr Index none = UINT32_MAX;

enum class Space : uint8_t { generic, global, shared, local, param, constant };

/// "mma.sync.aligned...": one entry for every opcode text of the module, split once.
struct Opcode {
  std::string_view text;                    // as written
  std::string_view name;                    // up to the first dot
  std::vector<std::string_view> modifiers;  // the words after it, without dots
  std::vector<Type> types;                  // those modifiers that are types, in order

  bool has(std::string_view modifier) const {
    for (std::string_view m : modifiers)
      if (m == modifier) return true;
    return false;
  }
  /// Type number i as written, none where there are fewer.
  Type type(size_t i = 0) const { return i < types.size() ? types[i] : Type::none; }
};

enum class OperandKind : uint8_t {
  reg,        // index: the function's register; second: the register behind '|'
  special,    // index: position in special_register_names
  immediate,  // value: its bits; type: none (an integer), f32 or f64
  variable,   // index: Module::variables; value: displacement
  function,   // index: Module::functions
  label,      // index: instruction after the label
  name,       // text: any other name (a .callprototype's, for example)
  address,    // children[0]: base (reg, immediate, variable); value: displacement; more children: coordinates
  vector,     // { children }
  list,       // ( children ): arguments of a call
  sink,       // _
};

struct Operand {
  OperandKind kind = OperandKind::sink;
  bool negated = false;  // !predicate
  Type type = Type::none;
  Index index = none;
  Index second = none;    // reg only; none also for a sink behind '|'
  Index first_child = 0;  // in Function::operands
  uint32_t child_count = 0;
  int64_t value = 0;
  std::string_view text;  // as written, for names and messages
};

/// A line of source code, by .loc and .file; file 0: unknown.
struct SourceLine {
  uint32_t file = 0;
  uint32_t line = 0;
  Index inlined_at = none;  // Module::lines: the call that was inlined there
};

struct Instruction {
  Index opcode = 0;  // Module::opcodes
  Index first_operand = 0;
  uint32_t operand_count = 0;
  Index guard = none;  // predicate register
  bool guard_negated = false;
  uint32_t line = 0;  // of the PTX text, from 1
  SourceLine source;
};

/// One value of an initialiser: bits, or the address of a variable or function plus bits.
struct InitialValue {
  int64_t value = 0;
  std::string_view symbol;       // empty: a number
  bool generic = false;          // generic(symbol)
  uint64_t mask = ~uint64_t{0};  // 0xff00(symbol): only these bits of it, moved down to bit 0
  uint32_t line = 0;
};

struct Variable {
  std::string_view name;
  Space space = Space::global;
  Type type = Type::b8;
  uint32_t align = 1;
  uint64_t size = 0;      // bytes; 0: an unsized .extern .shared array
  Index function = none;  // the function that declares it; none: the module
  bool external = false;
  bool managed = false;
  uint32_t line = 0;
  std::vector<InitialValue> values;
};

/// Registers come in runs: "%r<90>" is one, "%SP" one of length 1.
struct RegisterRun {
  std::string_view prefix;
  bool numbered = false;
  Index first = 0;
  uint32_t count = 0;
};

/// Performance directives of an entry; 0: not given.
struct EntryLimits {
  uint32_t max_threads[3] = {0, 0, 0};
  uint32_t required_threads[3] = {0, 0, 0};
  uint32_t cluster[3] = {0, 0, 0};
  uint32_t max_cluster_rank = 0;
  uint32_t min_ctas = 0;
  uint32_t max_registers = 0;
  bool explicit_cluster = false;
};

struct Function {
  std::string_view name;
  bool entry = false;
  bool defined = false;
  bool noreturn = false;
  uint32_t line = 0;
  std::vector<Index> parameters;  // variables of space param
  std::vector<Index> results;
  std::vector<Index> variables;  // those declared in its body
  EntryLimits limits;
  std::vector<Type> registers;  // type of each
  std::vector<RegisterRun> runs;
  std::vector<Instruction> instructions;
  std::vector<Operand> operands;

  std::span<const Operand> operands_of(const Instruction &instruction) const {
    return {operands.data() + instruction.first_operand, instruction.operand_count};
  }
  std::span<const Operand> children_of(const Operand &operand) const {
    return {operands.data() + operand.first_child, operand.child_count};
  }
  /// "%r17", for messages.
  std::string register_name(Index reg) const;
};

struct Module {
  std::string source;
  uint32_t version_major = 0, version_minor = 0;
  std::string_view target;  // "sm_90a"
  std::vector<Opcode> opcodes;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::unordered_map<uint32_t, std::string_view> files;        // .file number -> path
  std::vector<SourceLine> lines;                               // a line comes behind the one that it is inlined at
  std::unordered_map<std::string_view, Index> variable_index;  // of the module's scope
  std::unordered_map<std::string_view, Index> function_index;

  /// The text of a line (from 1) without surrounding blanks, for messages.
  std::string_view text_of_line(uint32_t line) const;

  /// "common/tile.cuh:12, inlined at mma/forward.cuh:88, mma/kernel.cu:20": files with the last folder of their path;
  /// empty where the line is unknown.
  std::string name_of(const SourceLine &line) const;
};

struct Error {
  uint32_t line = 0;
  std::string message;  // without the line
  std::string text;     // the line as written

  /// "PTX line 12: the error | the line"
  std::string what() const;
};

/// Names of special registers without the percent sign; an operand holds a position in this list.
std::span<const std::string_view> special_register_names();

}  // namespace fa::emu::ptx
