// Context-local storage: values that the CUDA runtime keeps with a context, and wants back when the context ends.
#pragma once

namespace fa::emu::driver {

struct Context;

/// Hands all values of a context back to who stored them. Call it without the lock, before the context is dismantled.
void give_back_storage(Context &context);

}  // namespace fa::emu::driver
