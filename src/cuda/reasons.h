// Why a row of the dispatch table cannot run on a device, or does not support an attention.
#pragma once

#include "core/engine.h"
#include "cuda/rows.h"

namespace fa::cuda {

/// Prints a text into *buffer, and returns it.
[[gnu::format(printf, 2, 3)]] const char *reason(MessageBuffer *buffer, const char *format, ...);

/// The reason why a row does not run on a device, and the thing that it lacks.
enum class Missing { hardware, driver, files };
struct Obstacle {
  Missing missing;
  const char *reason;  // nullptr where the row runs
};

Obstacle unavailable_on(const Row &row, const Device &device, MessageBuffer *buffer);

/// True where only files are missing for a device: no row runs there, and rows that would have no image.
bool lacks_files_alone(const Device &device);

/// A reason that lasts as long as the library: the first one of its kind that the row had.
const char *lasting_reason(size_t row, const Obstacle &obstacle);

/// Why a row's images do not support the attention on a device that runs them; nullptr when one does.
const char *unsupported_reason(const Row &row, const Attention &attention, const Device &device, MessageBuffer *buffer);

/// The error of a device index without a device.
const char *no_such_device(int32_t index, const Machine &machine, MessageBuffer *buffer);

}  // namespace fa::cuda
