// Random programs: integer and f32 instructions over a few registers, guards, forward branches and loops, written as
// PTX and evaluated by plain C++, thread by thread. Every thread has different inputs, so that warps diverge.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "one_instruction.h"

namespace {

constexpr uint32_t words = 6, doubles = 3;

struct State {
  uint32_t r[words];
  uint64_t d[doubles];
  bool p[2];
};

float number(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
/// NaN is always the same one.
uint32_t bits(float value) {
  return value == value ? std::bit_cast<uint32_t>(value) : 0x7fffffff;
}

/// An instruction over r[i], r[j], r[k], d[i], d[j] and p[0].
struct Kind {
  const char *text;  // operands: Z = r[i], X = r[j], Y = r[k]; D = d[i], E = d[j]
  std::function<void(State &, uint32_t, uint32_t, uint32_t)> run;
};

#define WORD(expression)                                          \
  [](State &s, uint32_t i, uint32_t j, uint32_t k) {              \
    [[maybe_unused]] uint32_t z = s.r[i], x = s.r[j], y = s.r[k]; \
    s.r[i] = static_cast<uint32_t>(expression);                   \
  }
#define DOUBLE(expression)                                                \
  [](State &s, uint32_t i, uint32_t j, uint32_t k) {                      \
    [[maybe_unused]] uint64_t d = s.d[i % doubles], e = s.d[j % doubles]; \
    [[maybe_unused]] uint32_t x = s.r[j], y = s.r[k];                     \
    s.d[i % doubles] = static_cast<uint64_t>(expression);                 \
  }

const Kind kinds[] = {
    {"add.u32 Z, X, Y;", WORD(x + y)},
    {"sub.s32 Z, X, Y;", WORD(x - y)},
    {"mul.lo.s32 Z, X, Y;", WORD(x *y)},
    {"mul.hi.u32 Z, X, Y;", WORD(uint64_t{x} * y >> 32)},
    {"mad.lo.u32 Z, X, Y, Z;", WORD(x *y + z)},
    {"and.b32 Z, X, Y;", WORD(x &y)},
    {"xor.b32 Z, X, Y;", WORD(x ^ y)},
    {"not.b32 Z, X;", WORD(~x)},
    {"lop3.b32 Z, X, Y, Z, 0xe4;", WORD((z & x) | (~z & y))},
    {"shl.b32 Z, X, 5;", WORD(x << 5)},
    {"shr.s32 Z, X, 3;", WORD(static_cast<int32_t>(x) >> 3)},
    {"shf.l.wrap.b32 Z, X, Y, 9;", WORD(y << 9 | x >> 23)},
    {"min.s32 Z, X, Y;", WORD(std::min(static_cast<int32_t>(x), static_cast<int32_t>(y)))},
    {"max.u32 Z, X, Y;", WORD(std::max(x, y))},
    {"popc.b32 Z, X;", WORD(std::popcount(x))},
    {"clz.b32 Z, X;", WORD(std::countl_zero(x))},
    {"prmt.b32 Z, X, Y, 0x2705;", WORD((y >> 8 & 255) | (x & 255) << 8 | (y >> 24) << 16 | (x >> 16 & 255) << 24)},
    {"selp.b32 Z, X, Y, %p1;", [](State &s, uint32_t i, uint32_t j, uint32_t k) { s.r[i] = s.p[0] ? s.r[j] : s.r[k]; }},
    {"setp.lt.s32 %p1, X, Y;",
     [](State &s, uint32_t, uint32_t j, uint32_t k) {
       s.p[0] = static_cast<int32_t>(s.r[j]) < static_cast<int32_t>(s.r[k]);
     }},
    {"setp.hi.u32 %p2, X, Y;", [](State &s, uint32_t, uint32_t j, uint32_t k) { s.p[1] = s.r[j] > s.r[k]; }},
    {"setp.gt.xor.f32 %p1, X, Y, %p2;",
     [](State &s, uint32_t, uint32_t j, uint32_t k) { s.p[0] = (number(s.r[j]) > number(s.r[k])) != s.p[1]; }},
    {"and.pred %p1, %p1, !%p2;", [](State &s, uint32_t, uint32_t, uint32_t) { s.p[0] = s.p[0] && !s.p[1]; }},
    {"add.f32 Z, X, Y;", WORD(bits(number(x) + number(y)))},
    {"mul.f32 Z, X, Y;", WORD(bits(number(x) * number(y)))},
    {"fma.rn.f32 Z, X, Y, Z;", WORD(bits(std::fma(number(x), number(y), number(z))))},
    {"cvt.rn.f32.s32 Z, X;", WORD(bits(static_cast<float>(static_cast<int32_t>(x))))},
    {"cvt.rn.f32.u32 Z, X;", WORD(bits(static_cast<float>(x)))},
    {"mul.wide.u32 D, X, Y;", DOUBLE(uint64_t{x} * y)},
    {"mad.wide.s32 D, X, Y, D;",
     DOUBLE(d + static_cast<uint64_t>(int64_t{static_cast<int32_t>(x)} * static_cast<int32_t>(y)))},
    {"add.s64 D, D, E;", DOUBLE(d + e)},
    {"shr.u64 D, E, 7;", DOUBLE(e >> 7)},
    {"xor.b64 D, D, E;", DOUBLE(d ^ e)},
    {"mov.b64 D, {X, Y};", DOUBLE(uint64_t{y} << 32 | x)},
    {"cvt.u32.u64 Z, E;",
     [](State &s, uint32_t i, uint32_t j, uint32_t) { s.r[i] = static_cast<uint32_t>(s.d[j % doubles]); }},
};

/// A statement: an instruction with its registers, under a guard or not; or a block, skipped or repeated.
struct Statement {
  const Kind *kind = nullptr;
  uint32_t i = 0, j = 0, k = 0;
  int guard = 0;  // 1: @%p1, 2: @!%p2
  std::vector<Statement> block;
  bool loop = false;  // runs r[j] & 3 times more
};

std::vector<Statement> generate(std::mt19937 &random, int length, int depth) {
  std::vector<Statement> result;
  for (int n = 0; n < length; n++) {
    Statement statement;
    statement.i = random() % words, statement.j = random() % words, statement.k = random() % words;
    if (depth < 3 && random() % 8 == 0) {
      statement.loop = random() % 2;
      statement.block = generate(random, 4 + static_cast<int>(random() % 5), depth + 1);
    } else {
      statement.kind = &kinds[random() % std::size(kinds)];
      statement.guard = random() % 5 < 3 ? 0 : 1 + static_cast<int>(random() % 2);
    }
    result.push_back(std::move(statement));
  }
  return result;
}

std::string text_of(const std::vector<Statement> &program, int &labels) {
  std::string text;
  for (const Statement &s : program) {
    if (s.kind) {
      text += s.guard == 1 ? "@%p1 " : s.guard == 2 ? "@!%p2 " : "";
      for (const char *c = s.kind->text; *c; c++) {
        auto reg = [&](const char *prefix, uint32_t number) { text += prefix + std::to_string(number); };
        bool operand = c > s.kind->text && (c[-1] == ' ' || c[-1] == '{');
        if (operand && *c == 'Z')
          reg("%r", s.i);
        else if (operand && *c == 'X')
          reg("%r", s.j);
        else if (operand && *c == 'Y')
          reg("%r", s.k);
        else if (operand && *c == 'D')
          reg("%d", s.i % doubles);
        else if (operand && *c == 'E')
          reg("%d", s.j % doubles);
        else
          text += *c;
      }
      text += "\n";
      continue;
    }
    std::string number = std::to_string(labels++), body = text_of(s.block, labels);
    if (s.loop)
      text += "{ .reg .b32 n; .reg .pred q; and.b32 n, %r" + std::to_string(s.j) + ", 3;\nL" + number + ":\n" + body +
              "sub.u32 n, n, 1; setp.ge.s32 q, n, 0; @q bra L" + number + ";\n}\n";
    else
      text += "@%p1 bra M" + number + ";\n" + body + "M" + number + ":\n";
  }
  return text;
}

void evaluate(const std::vector<Statement> &program, State &state) {
  for (const Statement &s : program) {
    if (s.kind) {
      if (s.guard == 0 || (s.guard == 1 ? state.p[0] : !state.p[1])) s.kind->run(state, s.i, s.j, s.k);
      continue;
    }
    if (!s.loop) {
      if (!state.p[0]) evaluate(s.block, state);
      continue;
    }
    for (uint32_t left = (state.r[s.j] & 3) + 1; left > 0; left--) evaluate(s.block, state);
  }
}

TEST(Programs, AsEvaluatedThreadByThread) {
  for (uint32_t seed = 1; seed <= 60; seed++) {
    std::mt19937 random(seed);
    std::vector<Statement> program = generate(random, 40, 0);
    int labels = 0;
    std::string body =
        "mov.b32 %r3, %r0; xor.b32 %r4, %r1, %r2; shr.u32 %r5, %r2, 1; setp.ne.s32 %p1, %r0, %r0; setp.eq.s32 %p2, "
        "%r0, %r0;\n" +
        text_of(program, labels) +
        "mul.lo.u64 %d0, %d0, 3; add.u64 %d0, %d0, %d1; mul.lo.u64 %d0, %d0, 3; add.u64 %d7, %d0, %d2;\n";
    for (uint32_t i = 0; i < words; i++)
      body += "cvt.u64.u32 %d3, %r" + std::to_string(i) + "; mul.lo.u64 %d7, %d7, 31; add.u64 %d7, %d7, %d3;\n";
    emulated::Inputs inputs = emulated::random_inputs(200, seed);
    std::vector<uint64_t> got = emulated::run_over(body, 'd', inputs);
    for (size_t t = 0; t < inputs.size(); t++) {
      State state{};
      for (uint32_t i = 0; i < 3; i++) state.r[i] = static_cast<uint32_t>(inputs[t][i]), state.d[i] = inputs[t][i];
      state.r[3] = state.r[0], state.r[4] = state.r[1] ^ state.r[2], state.r[5] = state.r[2] >> 1;
      state.p[0] = false, state.p[1] = true;
      evaluate(program, state);
      uint64_t expected = (state.d[0] * 3 + state.d[1]) * 3 + state.d[2];
      for (uint32_t word : state.r) expected = expected * 31 + word;
      ASSERT_EQ(got[t], expected) << "seed " << seed << ", thread " << t << "\n" << body;
    }
  }
}

}  // namespace
