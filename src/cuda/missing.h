// The errors of calls for which a build lacks kernels: FA_IMAGE_FILTER left out images that every call can take.
#pragma once

#include "cuda/image.h"

namespace fa::cuda {

/// Of a backward call. last: an image that has the entry point, and the reason why it does not support the call;
/// nullptr where there is none.
fa_status missing_backward(kernels::Entry entry, const Image *last, const char *why);

/// Of a forward call, which no image of the op supports: the last one, and its reason.
fa_status missing_forward(const Image &last, const char *why);

/// Of a forward call that is split.
fa_status missing_combine(int64_t splits);

}  // namespace fa::cuda
