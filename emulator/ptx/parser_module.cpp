// The text outside of function bodies: directives, variables with their initialisers, headers of functions.
#include <algorithm>
#include <bit>

#include "ptx/parser.h"
#include "ptx/parser_impl.h"

namespace fa::emu::ptx {

void Parser::module() {
  auto specials = special_register_names();
  for (size_t i = 0; i < specials.size(); i++) special_index_[specials[i]] = static_cast<Index>(i);
  while (!at_.at_end()) {
    at_.expect('.');
    directive();
  }
  if (module_.version_major == 0) at_.fail("no .version: this is no PTX");
}

void Parser::directive() {
  bool external = false;
  std::string_view word = at_.word();
  while (word == "visible" || word == "extern" || word == "weak" || word == "common") {
    external |= word == "extern";
    at_.expect('.');
    word = at_.word();
  }
  if (word == "version") return version();
  if (word == "target") {
    module_.target = at_.word();
    while (at_.accept(',')) at_.word();
    return;
  }
  if (word == "address_size") {
    if (at_.unsigned_integer() != 64) at_.fail("only 64-bit addresses are executed");
    return;
  }
  if (word == "file") return file();
  if (word == "loc") return location();
  if (word == "section") {
    at_.expect('.');
    at_.word();
    at_.expect('{');
    return at_.skip_braces();
  }
  if (word == "entry" || word == "func") return entry_or_function(word == "entry");
  if (word == "pragma") {
    at_.quoted();
    return at_.expect(';');
  }
  if (word == "alias") at_.fail(".alias is not executed");
  Space space = word == "global"   ? Space::global
                : word == "const"  ? Space::constant
                : word == "shared" ? Space::shared
                                   : Space::generic;
  if (space == Space::generic) at_.fail("unknown directive ." + std::string(word));
  do {
    Index number = add_variable(variable(space, external));
    module_.variable_index[module_.variables[number].name] = number;
  } while (at_.accept(','));
  at_.expect(';');
}

void Parser::version() {
  if (!at_.at_number()) at_.fail(".version needs a number such as 9.0");
  Literal number = at_.number();
  if (number.type != Type::f64) at_.fail(".version needs a number such as 9.0");
  int tenths = static_cast<int>(std::bit_cast<double>(number.bits) * 10 + 0.5);
  if (tenths < 10 || tenths > 1000) at_.fail("an unknown .version");
  module_.version_major = static_cast<uint32_t>(tenths / 10);
  module_.version_minor = static_cast<uint32_t>(tenths % 10);
}

void Parser::file() {
  uint32_t number = static_cast<uint32_t>(at_.unsigned_integer());
  module_.files[number] = at_.quoted();
  at_.skip_line();  // its time stamp and size
}

Index Parser::add_variable(Variable variable) {
  module_.variables.push_back(std::move(variable));
  return static_cast<Index>(module_.variables.size() - 1);
}

Variable Parser::variable(Space space, bool external) {
  Variable variable;
  variable.space = space;
  variable.external = external;
  variable.function = function_number_;
  variable.line = at_.line();
  uint64_t elements = 1;
  Type type = Type::none;
  uint32_t align = 0;
  while (at_.accept('.')) {
    std::string_view word = at_.word();
    if (word == "align") {
      uint64_t value = at_.unsigned_integer();
      if (value == 0 || value > (1u << 20) || (value & (value - 1)))
        at_.fail("an alignment that is not a power of two");
      align = static_cast<uint32_t>(value);
    } else if (word == "v2" || word == "v4" || word == "v8") {
      elements = static_cast<uint64_t>(word[1] - '0');
    } else if (word == "attribute") {
      at_.expect('(');
      at_.expect('.');
      std::string_view attribute = at_.word();
      variable.managed |= attribute == "managed";
      if (at_.accept('(')) {
        while (at_.peek() != ')') at_.unsigned_integer(), at_.accept(',');
        at_.expect(')');
      }
      at_.expect(')');
    } else if (word == "ptr") {
      align = 0;
      while (at_.peek() == '.') {
        at_.expect('.');
        if (at_.word() == "align") at_.unsigned_integer();
      }
    } else if (Type named = type_of(word); named != Type::none) {
      type = named;
    } else {
      at_.fail("unknown attribute ." + std::string(word) + " of a variable");
    }
  }
  if (type == Type::none || type == Type::pred) at_.fail("a variable of unknown type");
  variable.type = type;
  variable.name = at_.word();
  bool unsized = false;
  while (at_.accept('[')) {
    if (at_.peek() == ']') {
      unsized = true;
    } else {
      uint64_t extent = at_.unsigned_integer();
      if (extent > (uint64_t{1} << 40) / std::max<uint64_t>(elements, 1)) at_.fail("a variable that is too large");
      elements *= extent;
    }
    at_.expect(']');
  }
  variable.align = std::max(align, bytes_of(type));
  variable.size = unsized ? 0 : elements * bytes_of(type);
  if (at_.accept('=')) {
    initialiser(variable);
    if (unsized) variable.size = variable.values.size() * bytes_of(type);
    if (variable.values.size() * bytes_of(type) > variable.size) at_.fail("more initial values than elements");
  }
  return variable;
}

InitialValue Parser::initial_address() {
  InitialValue value;
  value.line = at_.line();
  value.symbol = at_.word();
  if (value.symbol == "generic") {
    at_.expect('(');
    value.symbol = at_.word();
    value.generic = true;
    at_.expect(')');
  }
  value.value = displacement();
  return value;
}

void Parser::initialiser(Variable &variable) {
  int depth = 0;
  for (;;) {
    if (at_.accept('{')) {
      if (++depth > 64) at_.fail("initial values nested too deeply");
      if (!at_.accept('}')) continue;
      depth--;
    } else if (at_.at_number()) {
      Literal literal = at_.number();
      if (at_.accept('(')) {  // a byte of an address, in arrays of bytes
        if (literal.type != Type::none || literal.bits == 0)
          at_.fail("the mask of an address must be an integer, not 0");
        InitialValue value = initial_address();
        value.mask = static_cast<uint64_t>(literal.bits);
        at_.expect(')');
        variable.values.push_back(value);
      } else {
        if (literal.type == Type::f64 && variable.type == Type::f32) {
          float narrow = static_cast<float>(std::bit_cast<double>(literal.bits));
          literal.bits = std::bit_cast<int32_t>(narrow);
        }
        InitialValue value;
        value.value = literal.bits;
        variable.values.push_back(value);
      }
    } else {
      variable.values.push_back(initial_address());
    }
    while (depth > 0 && at_.accept('}')) depth--;
    if (depth == 0) return;
    at_.expect(',');
  }
}

std::vector<Index> Parser::parameter_list() {
  std::vector<Index> parameters;
  at_.expect('(');
  if (at_.accept(')')) return parameters;
  do {
    at_.expect('.');
    if (at_.word() != "param") at_.fail("only .param parameters are executed");
    parameters.push_back(add_variable(variable(Space::param, false)));
  } while (at_.accept(','));
  at_.expect(')');
  return parameters;
}

void Parser::three(uint32_t (&values)[3]) {
  values[0] = values[1] = values[2] = 1;
  for (int i = 0; i < 3; i++) {
    values[i] = static_cast<uint32_t>(at_.unsigned_integer());
    if (!at_.accept(',')) return;
  }
}

void Parser::function_directives(Function &function) {
  EntryLimits &limits = function.limits;
  auto one = [&](uint32_t &value) { value = static_cast<uint32_t>(at_.unsigned_integer()); };
  while (at_.accept('.')) {
    std::string_view word = at_.word();
    if (word == "maxntid")
      three(limits.max_threads);
    else if (word == "reqntid")
      three(limits.required_threads);
    else if (word == "reqnctapercluster")
      three(limits.cluster);
    else if (word == "minnctapersm" || word == "maxnctapersm")
      one(limits.min_ctas);
    else if (word == "maxnreg")
      one(limits.max_registers);
    else if (word == "maxclusterrank")
      one(limits.max_cluster_rank);
    else if (word == "explicitcluster")
      limits.explicit_cluster = true;
    else if (word == "noreturn")
      function.noreturn = true;
    else if (word == "pragma")
      at_.quoted(), at_.expect(';');
    else if (word == "attribute")
      at_.fail(".attribute of a function is not executed");
    else if (word != "blocksareclusters" && word != "abi_preserve" && word != "unified")
      at_.fail("unknown directive ." + std::string(word) + " of a function");
  }
}

void Parser::entry_or_function(bool entry) {
  Function function;
  function.entry = entry;
  function.line = at_.line();
  // The number that the function will have: a declaration before it keeps its own.
  function_number_ = static_cast<Index>(module_.functions.size());
  if (at_.peek() == '(') function.results = parameter_list();
  function.name = at_.word();
  auto [found, added] = module_.function_index.try_emplace(function.name, function_number_);
  function_number_ = found->second;
  if (at_.peek() == '(') function.parameters = parameter_list();
  function_directives(function);
  if (added)
    module_.functions.push_back(std::move(function));
  else if (module_.functions[function_number_].defined)
    at_.fail("function " + std::string(function.name) + " twice");
  else
    module_.functions[function_number_] = std::move(function);
  function_ = &module_.functions[function_number_];
  for (const auto &list : {function_->parameters, function_->results})
    for (Index parameter : list) module_.variables[parameter].function = function_number_;
  if (at_.accept(';')) {
    function_number_ = none;
    return;
  }
  function_->defined = true;
  source_ = {};
  body();
  function_number_ = none;
}

Parsed parse(std::string text) {
  Parsed parsed;
  parsed.module = std::make_unique<Module>();
  parsed.module->source = std::move(text);
  // A driver takes text with a terminating zero, and some callers count it.
  while (!parsed.module->source.empty() && parsed.module->source.back() == '\0') parsed.module->source.pop_back();
  try {
    Parser(*parsed.module).module();
  } catch (const Failure &failure) {
    std::string line(parsed.module->text_of_line(failure.line));
    parsed.error = Error{failure.line, failure.message, std::move(line)};
    parsed.module.reset();
  }
  return parsed;
}

}  // namespace fa::emu::ptx
