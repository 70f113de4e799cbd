// The parser's state. parser_module.cpp reads the text outside of function bodies, parser_body.cpp statements,
// parser_operand.cpp operands.
#pragma once

#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/cursor.h"
#include "ptx/module.h"

namespace fa::emu::ptx {

class Parser {
 public:
  explicit Parser(Module &module) : module_(module), at_(module.source) {}
  void module();

 private:
  /// The scope of { }: names declared inside hide the same names outside (inline asm does that).
  struct Scope {
    std::unordered_map<std::string_view, Index> registers;  // single ones
    std::unordered_map<std::string_view, Index> runs;       // "%r" of "%r<90>": Function::runs
    std::unordered_map<std::string_view, Index> variables;
    std::unordered_map<std::string_view, Index> labels;
    std::vector<Index> unresolved;  // operands (Function::operands) whose name may be a label
  };
  struct Linkage {
    bool external = false;
  };

  // Outside of bodies.
  void directive();
  void version();
  void file();
  void entry_or_function(bool entry);
  std::vector<Index> parameter_list();
  void function_directives(Function &function);
  void three(uint32_t (&values)[3]);
  /// Reads a declaration behind its state space up to, not including, its end.
  Variable variable(Space space, bool external);
  void initialiser(Variable &variable);
  InitialValue initial_address();
  Index add_variable(Variable variable);

  // Bodies.
  void body();
  void statement();
  void body_directive();
  void declare_registers();
  void declare_registers(Type type);
  void open_scope() { scopes_.emplace_back(); }
  void close_scope();
  std::array<uint32_t, 3> position();
  void location();
  void instruction();
  void operands_of(std::string_view opcode, Instruction instruction);
  Index intern(std::string_view opcode);

  // Operands.
  Operand operand();
  Operand named_operand();
  Operand address();
  void children(Operand &parent, char end);
  int64_t displacement();
  bool find_register(std::string_view name, Operand &operand) const;
  bool find_symbol(std::string_view name, Operand &operand) const;
  Index push(const std::vector<Operand> &operands);

  Module &module_;
  Cursor at_;
  Function *function_ = nullptr;
  Index function_number_ = none;
  std::vector<Scope> scopes_;
  SourceLine source_;
  std::map<std::array<uint32_t, 3>, Index> lines_;  // file, line and column -> the newest such of Module::lines
  std::unordered_map<std::string_view, Index> opcode_index_;
  std::unordered_map<std::string_view, Index> special_index_;
  std::vector<Operand> pending_;  // operands of the instruction and of vectors being read: a stack
  int depth_ = 0;                 // of operands inside operands
};

}  // namespace fa::emu::ptx
