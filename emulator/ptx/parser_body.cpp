// Statements of a function body: scopes, declarations, labels, instructions.
#include "ptx/parser_impl.h"

namespace fa::emu::ptx {
namespace {

constexpr uint32_t max_registers = 1u << 22;  // of one function: far above anything that compiles

Space space_of(std::string_view word) {
  if (word == "shared") return Space::shared;
  if (word == "local") return Space::local;
  if (word == "param") return Space::param;
  if (word == "global") return Space::global;
  if (word == "const") return Space::constant;
  return Space::generic;
}

}  // namespace

void Parser::body() {
  at_.expect('{');
  scopes_.clear();
  open_scope();
  for (Index parameter : function_->parameters) scopes_.back().variables[module_.variables[parameter].name] = parameter;
  for (Index result : function_->results) scopes_.back().variables[module_.variables[result].name] = result;
  open_scope();
  while (scopes_.size() > 1) statement();
  close_scope();
}

void Parser::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (Index number : scope.unresolved) {
    Operand &operand = function_->operands[number];
    if (auto found = scope.labels.find(operand.text); found != scope.labels.end()) {
      operand.kind = OperandKind::label;
      operand.index = found->second;
    } else if (!scopes_.empty()) {
      scopes_.back().unresolved.push_back(number);
    }
  }
}

void Parser::statement() {
  switch (at_.peek()) {
    case '\0':
      at_.fail("the text ends inside of function " + std::string(function_->name));
    case '{':
      at_.expect('{');
      if (scopes_.size() > 1000) at_.fail("scopes nested too deeply");
      return open_scope();
    case '}':
      at_.expect('}');
      return close_scope();
    case ';':
      return at_.expect(';');
    case '.':
      at_.expect('.');
      return body_directive();
    default:
      return instruction();
  }
}

void Parser::body_directive() {
  std::string_view word = at_.word();
  if (word == "reg") return declare_registers();
  if (word == "loc") return location();
  if (word == "file") return file();
  // A separate instruction, which the label before it names and brx.idx looks at.
  if (word == "branchtargets") return operands_of(word, Instruction{});
  if (word == "pragma" || word == "callprototype" || word == "calltargets") {
    while (at_.peek() != ';') {
      if (at_.at_end()) at_.fail("a directive that never ends");
      if (at_.peek() == '"')
        at_.quoted();
      else
        at_.expect(at_.peek());
    }
    return at_.expect(';');
  }
  Space space = space_of(word);
  if (space == Space::generic) at_.fail("unknown directive ." + std::string(word) + " in a function");
  do {
    Index number = add_variable(variable(space, false));
    scopes_.back().variables[module_.variables[number].name] = number;
    function_->variables.push_back(number);
  } while (at_.accept(','));
  at_.expect(';');
}

void Parser::declare_registers() {
  Type type = Type::none;
  uint32_t vector = 1;
  while (at_.accept('.')) {
    std::string_view word = at_.word();
    if (word == "v2" || word == "v4")
      vector = 0;
    else
      type = type_of(word);
  }
  if (vector == 0) at_.fail("registers of vector type are not executed; declare their elements");
  if (type == Type::none) at_.fail("registers of unknown type");
  do {
    std::string_view name = at_.word();
    RegisterRun run{name, false, static_cast<Index>(function_->registers.size()), 1};
    if (at_.accept('<')) {
      uint64_t count = at_.unsigned_integer();
      at_.expect('>');
      if (count + function_->registers.size() > max_registers) at_.fail("too many registers");
      run.numbered = true;
      run.count = static_cast<uint32_t>(count);
      scopes_.back().runs[name] = static_cast<Index>(function_->runs.size());
    } else {
      scopes_.back().registers[name] = run.first;
    }
    function_->runs.push_back(run);
    function_->registers.insert(function_->registers.end(), run.count, type);
  } while (at_.accept(','));
  at_.expect(';');
}

/// File, line and column.
std::array<uint32_t, 3> Parser::position() {
  std::array<uint32_t, 3> result;
  for (uint32_t &number : result) number = static_cast<uint32_t>(at_.unsigned_integer());
  return result;
}

/// .loc file line column {, function_name label {+ number}, inlined_at file line column} (PTX ISA 11.6).
void Parser::location() {
  std::array<uint32_t, 3> here = position();
  SourceLine line{here[0], here[1], none};
  while (at_.accept(',')) {
    if (at_.word() != "inlined_at") {
      at_.word();
      if (at_.accept('+')) at_.unsigned_integer();
      continue;
    }
    std::array<uint32_t, 3> call = position();
    auto [found, added] = lines_.try_emplace(call, static_cast<Index>(module_.lines.size()));
    if (added) module_.lines.push_back({call[0], call[1], none});
    line.inlined_at = found->second;
  }
  if (line.line == 0) return;  // code of the compiler's own: it belongs to the line before
  source_ = line;
  lines_[here] = static_cast<Index>(module_.lines.size());
  module_.lines.push_back(line);
}

Index Parser::intern(std::string_view text) {
  auto [found, added] = opcode_index_.try_emplace(text, static_cast<Index>(module_.opcodes.size()));
  if (!added) return found->second;
  Opcode opcode;
  opcode.text = text;
  opcode.name = text.substr(0, text.find('.'));
  for (size_t dot = opcode.name.size(); dot < text.size();) {
    size_t end = std::min(text.find('.', dot + 1), text.size());
    std::string_view modifier = text.substr(dot + 1, end - dot - 1);
    if (modifier.empty()) at_.fail("an opcode with an empty modifier: " + std::string(text));
    opcode.modifiers.push_back(modifier);
    if (Type type = type_of(modifier); type != Type::none) opcode.types.push_back(type);
    dot = end;
  }
  module_.opcodes.push_back(std::move(opcode));
  return found->second;
}

void Parser::instruction() {
  Instruction instruction;
  if (at_.accept('@')) {
    instruction.guard_negated = at_.accept('!');
    Operand guard = named_operand();
    if (guard.kind != OperandKind::reg || guard.type != Type::pred)
      at_.fail("the guard " + std::string(guard.text) + " is no predicate");
    instruction.guard = guard.index;
  }
  std::string_view text = at_.opcode();
  instruction.line = at_.line();
  if (at_.peek() == ':' && instruction.guard == none) {
    at_.expect(':');
    Index here = static_cast<Index>(function_->instructions.size());
    if (!scopes_.back().labels.try_emplace(text, here).second) at_.fail("label " + std::string(text) + " twice");
    return;
  }
  operands_of(text, instruction);
}

void Parser::operands_of(std::string_view text, Instruction instruction) {
  if (instruction.line == 0) instruction.line = at_.line();
  instruction.opcode = intern(text);
  instruction.source = source_;
  size_t first = pending_.size();
  while (at_.peek() != ';') {
    Operand next = operand();
    pending_.push_back(next);
    if (!at_.accept(',')) break;
  }
  at_.expect(';');
  instruction.first_operand = static_cast<Index>(function_->operands.size());
  instruction.operand_count = static_cast<uint32_t>(pending_.size() - first);
  for (size_t i = first; i < pending_.size(); i++) {
    if (pending_[i].kind == OperandKind::name)
      scopes_.back().unresolved.push_back(static_cast<Index>(function_->operands.size()));
    function_->operands.push_back(pending_[i]);
  }
  pending_.resize(first);
  function_->instructions.push_back(instruction);
}

}  // namespace fa::emu::ptx
