// The C header as C++, and the C++ header over it.
#include "header.c"

#include <fa.hpp>
#include <type_traits>
#include <utility>

static_assert(!std::is_copy_constructible<fa::Op>::value, "an Op is moved, not copied");
static_assert(std::is_nothrow_move_constructible<fa::Op>::value, "moving an Op cannot fail");

void use_the_face(const float *q, float *out);
void use_the_face(const float *q, float *out) {
  fa::Desc desc;
  fa::Op op(desc), other(std::move(op));
  fa::ForwardArgs args;
  args.q = fa::strided(fa::tensor(q, 1, 2, 3, 4), 24, 12, 4, 1);
  args.out = fa::tensor(out, FA_F32, 1, 2, 3, 4);
  other(args);
}
