// The ONNX Runtime that has loaded this provider: its functions, found at their places in its tables.
#pragma once
#include <string>

#include "ort.h"

namespace fa_ort {

struct Host {
#define FA_ORT_API(place, result, name, arguments) result(*name) arguments;
#define FA_ORT_EP_API FA_ORT_API
#include "entries.inc"
#undef FA_ORT_API
#undef FA_ORT_EP_API
};

// The functions, which CreateEpFactories finds before all else here is called.
Host &host();

// Fills *host from the tables of an ONNX Runtime. Returns "", or the reason why it cannot be used.
std::string find_host(const OrtApiBase *base, Host *host);

// An error for ONNX Runtime, which owns it.
OrtStatus *error(OrtErrorCode code, const std::string &text);

// Throws std::runtime_error with the text of an error of ONNX Runtime, and releases it.
void check(OrtStatus *status);

}  // namespace fa_ort
