// Integer and bit instructions over random and special inputs, each against a plain formula.
#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "one_instruction.h"

namespace {

using emulated::Inputs;
using emulated::random_inputs;
using emulated::run_over;

__extension__ typedef __int128 Wide;

using U = uint32_t;
using L = uint64_t;

struct Case {
  const char *text;
  char result;
  std::function<uint64_t(uint64_t, uint64_t, uint64_t)> expected;
};

int64_t s32(uint64_t a) {
  return static_cast<int32_t>(a);
}
int64_t s64(uint64_t a) {
  return static_cast<int64_t>(a);
}
uint64_t clamp32(int64_t a) {
  return static_cast<U>(a > INT32_MAX ? INT32_MAX : a < INT32_MIN ? INT32_MIN : a);
}
int64_t low24(uint64_t a, bool sign) {
  int64_t v = static_cast<int64_t>(a & 0xffffff);
  return sign && v >= 1 << 23 ? v - (1 << 24) : v;
}
int64_t byte(uint64_t a, int i, bool sign) {
  return sign ? int64_t{static_cast<int8_t>(a >> 8 * i)} : static_cast<int64_t>(a >> 8 * i & 255);
}
int64_t half(uint64_t a, int i, bool sign) {
  return sign ? int64_t{static_cast<int16_t>(a >> 16 * i)} : static_cast<int64_t>(a >> 16 * i & 65535);
}

/// Byte number k of the eight of b:a.
uint64_t pick(uint64_t a, uint64_t b, uint64_t k) {
  return (k & 4 ? b : a) >> 8 * (k & 3) & 255;
}
uint64_t four(std::function<uint64_t(uint64_t)> f) {
  return f(0) | f(1) << 8 | f(2) << 16 | f(3) << 24;
}

int64_t top_bit(uint64_t a, int bits, bool sign) {
  bool negative = sign && a >> (bits - 1) & 1;
  for (int i = bits - 1; i >= 0; i--)
    if ((a >> i & 1) != (negative ? 1u : 0u)) return i;
  return -1;
}

void check(const std::vector<Case> &cases) {
  Inputs inputs = random_inputs(6000, 31);
  for (size_t i = 0; i < 2000; i++) inputs[i][2] %= 70;  // counts and positions
  for (size_t i = 1000; i < 3000; i++) inputs[i][1] %= 40;
  for (const Case &c : cases) {
    std::vector<uint64_t> got = run_over(c.text, c.result, inputs);
    uint64_t bits = c.result == 'd' ? UINT64_MAX : c.result == 'r' ? UINT32_MAX : c.result == 'h' ? 0xffff : 1;
    for (size_t i = 0; i < inputs.size(); i++) {
      auto [a, b, d] = inputs[i];
      ASSERT_EQ(got[i], c.expected(a, b, d) & bits) << c.text << std::hex << " of " << a << " " << b << " " << d;
    }
  }
}

TEST(Integers, Products) {
  check({
      {"mul.lo.u32 %r7, %r0, %r1;", 'r', [](L a, L b, L) { return a * b; }},
      {"mul.hi.u32 %r7, %r0, %r1;", 'r', [](L a, L b, L) { return L{U(a)} * U(b) >> 32; }},
      {"mul.hi.s32 %r7, %r0, %r1;", 'r', [](L a, L b, L) { return L(s32(a) * s32(b)) >> 32; }},
      {"mul.wide.s32 %d7, %r0, %r1;", 'd', [](L a, L b, L) { return L(s32(a) * s32(b)); }},
      {"mul.wide.u32 %d7, %r0, %r1;", 'd', [](L a, L b, L) { return L{U(a)} * U(b); }},
      {"mul.wide.s16 %r7, %h0, %h1;", 'r', [](L a, L b, L) { return L(half(a, 0, true) * half(b, 0, true)); }},
      {"mul.wide.u16 %r7, %h0, %h1;", 'r', [](L a, L b, L) { return L(half(a, 0, false) * half(b, 0, false)); }},
      {"mul.hi.u64 %d7, %d0, %d1;", 'd', [](L a, L b, L) { return L(Wide(a) * Wide(b) >> 64); }},
      {"mul.hi.s64 %d7, %d0, %d1;", 'd', [](L a, L b, L) { return L(Wide(s64(a)) * s64(b) >> 64); }},
      {"mad.lo.s32 %r7, %r0, %r1, %r2;", 'r', [](L a, L b, L c) { return a * b + c; }},
      {"mad.hi.u32 %r7, %r0, %r1, %r2;", 'r', [](L a, L b, L c) { return (L{U(a)} * U(b) >> 32) + c; }},
      {"mad.hi.sat.s32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) { return clamp32((s32(a) * s32(b) >> 32) + s32(c)); }},
      {"mad.wide.s32 %d7, %r0, %r1, %d2;", 'd', [](L a, L b, L c) { return L(s32(a) * s32(b)) + c; }},
      {"mad.wide.u16 %r7, %h0, %h1, %r2;", 'r',
       [](L a, L b, L c) { return L(half(a, 0, false) * half(b, 0, false)) + c; }},
      {"mul24.lo.u32 %r7, %r0, %r1;", 'r', [](L a, L b, L) { return L(low24(a, false) * low24(b, false)); }},
      {"mul24.hi.u32 %r7, %r0, %r1;", 'r', [](L a, L b, L) { return L(low24(a, false) * low24(b, false)) >> 16; }},
      {"mul24.lo.s32 %r7, %r0, %r1;", 'r', [](L a, L b, L) { return L(low24(a, true) * low24(b, true)); }},
      {"mul24.hi.s32 %r7, %r0, %r1;", 'r', [](L a, L b, L) { return L(low24(a, true) * low24(b, true) >> 16); }},
      {"mad24.lo.s32 %r7, %r0, %r1, %r2;", 'r', [](L a, L b, L c) { return L(low24(a, true) * low24(b, true)) + c; }},
      {"mad24.hi.sat.s32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) { return clamp32((low24(a, true) * low24(b, true) >> 16) + s32(c)); }},
  });
}

TEST(Integers, SumsAndDotProducts) {
  check({
      {"add.sat.s32 %r7, %r0, %r1;", 'r', [](L a, L b, L) { return clamp32(s32(a) + s32(b)); }},
      {"sub.sat.s32 %r7, %r0, %r1;", 'r', [](L a, L b, L) { return clamp32(s32(a) - s32(b)); }},
      {"sad.u32 %r7, %r0, %r1, %r2;", 'r', [](L a, L b, L c) { return (U(a) > U(b) ? a - b : b - a) + c; }},
      {"sad.s32 %r7, %r0, %r1, %r2;", 'r', [](L a, L b, L c) { return L(std::abs(s32(a) - s32(b))) + c; }},
      {"abs.s32 %r7, %r0;", 'r', [](L a, L, L) { return L(std::abs(s32(a))); }},
      {"min.relu.s32 %r7, %r0, %r1;", 'r',
       [](L a, L b, L) { return L(std::max<int64_t>(0, std::min(s32(a), s32(b)))); }},
      {"max.s16x2 %r7, %r0, %r1;", 'r',
       [](L a, L b, L) {
         return L(std::max(half(a, 0, true), half(b, 0, true)) & 65535) |
                L(std::max(half(a, 1, true), half(b, 1, true)) & 65535) << 16;
       }},
      {"add.u16x2 %r7, %r0, %r1;", 'r',
       [](L a, L b, L) { return ((a + b) & 65535) | ((a >> 16 & 65535) + (b >> 16 & 65535)) << 16; }},
      {"dp4a.s32.u32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) {
         for (int i = 0; i < 4; i++) c += L(byte(a, i, true) * byte(b, i, false));
         return c;
       }},
      {"dp4a.u32.u32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) {
         for (int i = 0; i < 4; i++) c += L(byte(a, i, false) * byte(b, i, false));
         return c;
       }},
      {"dp2a.lo.s32.s32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) { return c + L(half(a, 0, true) * byte(b, 0, true) + half(a, 1, true) * byte(b, 1, true)); }},
      {"dp2a.hi.u32.s32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) {
         return c + L(half(a, 0, false) * byte(b, 2, true) + half(a, 1, false) * byte(b, 3, true));
       }},
  });
}

TEST(Integers, CarriesAcrossWords) {
  auto pair = [](L low, L high) { return L{U(low)} | high << 32; };
  check({
      {"{ .reg .b32 l, h, x, y; mov.b64 {x, y}, %d0; mov.b64 {l, h}, %d1; add.cc.u32 x, x, l; addc.u32 y, y, h;"
       " mov.b64 %d7, {x, y}; }",
       'd', [](L a, L b, L) { return a + b; }},
      {"{ .reg .b32 l, h, x, y; mov.b64 {x, y}, %d0; mov.b64 {l, h}, %d1; sub.cc.u32 x, x, l; subc.u32 y, y, h;"
       " mov.b64 %d7, {x, y}; }",
       'd', [](L a, L b, L) { return a - b; }},
      {"{ .reg .b32 z; mov.u32 z, 0; add.cc.u64 %d7, %d0, %d1; addc.u64 %d7, 0, 0; }", 'd',
       [](L a, L b, L) { return L{a + b < a}; }},
      {"sub.cc.u64 %d7, %d0, %d1; subc.cc.u64 %d7, 0, 0; subc.u64 %d7, %d2, 0;", 'd',
       [](L a, L b, L c) { return c - L{a < b}; }},
      {"mad.lo.cc.u32 %r3, %r0, %r1, %r2; madc.hi.u32 %r4, %r0, %r1, 0; mov.b64 %d7, {%r3, %r4};", 'd',
       [](L a, L b, L c) { return L{U(a)} * U(b) + U(c); }},
      {"add.cc.u32 %r3, %r0, %r1; addc.cc.u32 %r4, %r1, %r2; addc.u32 %r5, 0, 0; mov.b64 %d7, {%r4, %r5};", 'd',
       [pair](L a, L b, L c) {
         L sum = L{U(b)} + U(c) + ((L{U(a)} + U(b)) >> 32);
         return pair(sum, sum >> 32);
       }},
  });
}

TEST(Integers, BitsAndBytes) {
  check({
      {"popc.b64 %r7, %d0;", 'r', [](L a, L, L) { return L(std::popcount(a)); }},
      {"clz.b32 %r7, %r0;", 'r', [](L a, L, L) { return L(31 - top_bit(U(a), 32, false)); }},
      {"brev.b32 %r7, %r0;", 'r',
       [](L a, L, L) {
         L r = 0;
         for (int i = 0; i < 32; i++) r |= (a >> i & 1) << (31 - i);
         return r;
       }},
      {"bfind.u32 %r7, %r0;", 'r', [](L a, L, L) { return L(top_bit(U(a), 32, false)); }},
      {"bfind.s32 %r7, %r0;", 'r', [](L a, L, L) { return L(top_bit(U(a), 32, true)); }},
      {"bfind.s64 %r7, %d0;", 'r', [](L a, L, L) { return L(top_bit(a, 64, true)); }},
      {"bfind.shiftamt.u64 %r7, %d0;", 'r', [](L a, L, L) { return a ? L(63 - top_bit(a, 64, false)) : UINT32_MAX; }},
      {"bmsk.clamp.b32 %r7, %r0, %r2;", 'r',
       [](L a, L, L c) {
         L r = 0;
         for (L i = U(a); i < 32 && i < L{U(a)} + U(c); i++) r |= L{1} << i;
         return r;
       }},
      {"bmsk.wrap.b32 %r7, %r0, %r2;", 'r',
       [](L a, L, L c) {
         L r = 0;
         for (L i = a & 31; i < 32 && i < (a & 31) + (c & 31); i++) r |= L{1} << i;
         return r;
       }},
      {"szext.clamp.s32 %r7, %r0, %r2;", 'r',
       [](L a, L, L c) { return U(c) == 0    ? 0
                                : U(c) >= 32 ? a
                                             : L(s64(a << (64 - U(c))) >> (64 - U(c))); }},
      {"szext.wrap.u32 %r7, %r0, %r2;", 'r', [](L a, L, L c) { return a & ((L{1} << (c & 31)) - 1); }},
      {"bfe.u32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) {
         L r = 0;
         for (L i = 0; i < (c & 255) && i < 32; i++) r |= ((b & 255) + i < 32 ? U(a) >> ((b & 255) + i) & 1 : 0) << i;
         return r;
       }},
      {"bfe.s32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) {
         if ((c & 255) == 0) return L{0};
         L last = std::min<L>((b & 255) + (c & 255) - 1, 31), sign = U(a) >> last & 1, r = 0;
         for (L i = 0; i < 32; i++)
           r |= (i < (c & 255) && (b & 255) + i < 32 ? U(a) >> ((b & 255) + i) & 1 : sign) << i;
         return r;
       }},
      {"bfi.b32 %r7, %r0, %r1, %r2, 7;", 'r',
       [](L a, L b, L c) {
         for (L i = 0; i < 7; i++)
           if ((c & 255) + i < 32) b = (b & ~(L{1} << ((c & 255) + i))) | (a >> i & 1) << ((c & 255) + i);
         return b;
       }},
      {"cnot.b32 %r7, %r0;", 'r', [](L a, L, L) { return L{U(a) == 0}; }},
      {"shl.b32 %r7, %r0, %r2;", 'r', [](L a, L, L c) { return U(c) > 31 ? 0 : a << U(c); }},
      {"shr.s32 %r7, %r0, %r2;", 'r', [](L a, L, L c) { return L(s32(a) >> std::min<U>(U(c), 31)); }},
      {"shr.u64 %d7, %d0, %r2;", 'd', [](L a, L, L c) { return U(c) > 63 ? 0 : a >> U(c); }},
      {"shf.l.clamp.b32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) { return U(c) >= 32  ? a
                                  : U(c) == 0 ? b
                                              : (b << U(c)) | U(a) >> (32 - U(c)); }},
      {"shf.r.wrap.b32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) { return (c & 31) == 0 ? a : U(a) >> (c & 31) | b << (32 - (c & 31)); }},
      {"prmt.b32 %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) {
         return four([&](L i) {
           L s = c >> 4 * i & 15, v = pick(a, b, s & 7);
           return s & 8 ? (v >> 7) * 255 : v;
         });
       }},
      {"prmt.b32.f4e %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) { return four([&](L i) { return pick(a, b, (c & 3) + i); }); }},
      {"prmt.b32.b4e %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) { return four([&](L i) { return pick(a, b, ((c & 3) + 8 - i) % 8); }); }},
      {"prmt.b32.rc8 %r7, %r0, %r1, %r2;", 'r', [](L a, L, L c) { return (a >> 8 * (c & 3) & 255) * 0x01010101; }},
      {"prmt.b32.ecl %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) { return four([&](L i) { return pick(a, b, std::max(c & 3, i)); }); }},
      {"prmt.b32.ecr %r7, %r0, %r1, %r2;", 'r',
       [](L a, L b, L c) { return four([&](L i) { return pick(a, b, std::min(c & 3, i)); }); }},
      {"prmt.b32.rc16 %r7, %r0, %r1, %r2;", 'r', [](L a, L, L c) { return (a >> 16 * (c & 1) & 65535) * 0x10001; }},
      {"fns.b32 %r7, %r0, %r1, 2;", 'r',
       [](L a, L b, L) {
         int left = 2;
         for (L i = U(b); i < 32; i++)
           if ((a >> i & 1) && --left == 0) return i;
         return L{UINT32_MAX};
       }},
      {"fns.b32 %r7, %r0, %r1, -1;", 'r',
       [](L a, L b, L) {
         for (int i = U(b) > 31 ? -1 : int(U(b)); i >= 0; i--)
           if (a >> i & 1) return L(i);
         return L{UINT32_MAX};
       }},
  });
}

TEST(Integers, PredicatesAndSelection) {
  check({
      {"{ .reg .pred q; setp.ne.u32 q, %r2, 0; lop3.or.b32 %r6|%p7, %r0, %r1, %r2, 0x96, q; }", 'p',
       [](L a, L b, L c) { return L{U(a ^ b ^ c) != 0 || U(c) != 0}; }},
      {"{ .reg .pred q; setp.lt.u32 q, %r2, 9; lop3.and.b32 %r7|%p7, %r0, %r1, %r2, 0xe8, !q; }", 'p',
       [](L a, L b, L c) { return L{U((a & b) | (a & c) | (b & c)) != 0 && U(c) >= 9}; }},
      {"lop3.b32 %r7, %r0, %r1, %r2, 0xca;", 'r', [](L a, L b, L c) { return (a & b) | (~a & c); }},
      {"set.lt.u32.s32 %r7, %r0, %r1;", 'r', [](L a, L b, L) { return s32(a) < s32(b) ? UINT32_MAX : 0; }},
      {"set.ge.f32.u64 %r7, %d0, %d1;", 'r', [](L a, L b, L) { return a >= b ? 0x3f800000 : 0; }},
      {"slct.u32.s32 %r7, %r0, %r1, %r2;", 'r', [](L a, L b, L c) { return s32(c) >= 0 ? a : b; }},
      {"slct.b64.f32 %d7, %d0, %d1, %r2;", 'd', [](L a, L b, L c) { return std::bit_cast<float>(U(c)) >= 0 ? a : b; }},
      {"testp.finite.f32 %p7, %r0;", 'p', [](L a, L, L) { return L{(U(a) & 0x7f800000) != 0x7f800000}; }},
      {"testp.subnormal.f32 %p7, %r0;", 'p',
       [](L a, L, L) { return L{(U(a) & 0x7f800000) == 0 && (U(a) & 0x7fffffff)}; }},
      {"testp.notanumber.f32 %p7, %r0;", 'p', [](L a, L, L) { return L{(U(a) & 0x7fffffff) > 0x7f800000}; }},
      {"setp.lo.u32 %p7, %r0, %r1;", 'p', [](L a, L b, L) { return L{U(a) < U(b)}; }},
      {"{ .reg .pred q; setp.gt.s32 q, %r2, 5; setp.le.and.s32 %p6|%p7, %r0, %r1, q; }", 'p',
       [](L a, L b, L c) { return L{!(s32(a) <= s32(b)) && s32(c) > 5}; }},
      {"setp.lt.f16x2 %p6|%p7, %r0, %r1;", 'p',
       [](L a, L b, L) {
         auto value = [](L x) { return static_cast<int>(x & 0x7fff) * (x & 0x8000 ? -1 : 1); };
         L x = a >> 16, y = b >> 16;
         bool nan = (x & 0x7fff) > 0x7c00 || (y & 0x7fff) > 0x7c00;
         return L{!nan && value(x) < value(y)};
       }},
      {"set.geu.bf16x2.bf16x2 %r7, %r0, %r1;", 'r',
       [](L a, L b, L) {
         L r = 0;
         for (int shift : {0, 16}) {
           float x = std::bit_cast<float>(U(a >> shift << 16)), y = std::bit_cast<float>(U(b >> shift << 16));
           r |= (x < y ? L{0} : L{0x3f80}) << shift;
         }
         return r;
       }},
  });
}

}  // namespace
