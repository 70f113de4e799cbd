// The provider: a factory for one device, the CPU, and for each session an OrtEp that claims attention nodes and has
// their kernels.
#pragma once
#include "ort.h"

namespace fa_ort {

OrtEpFactory *make_factory();
void release_factory(OrtEpFactory *factory);

}  // namespace fa_ort
