// From the options and files of `fa run` to one call of the library.
#pragma once

#include <fa.h>

#include <vector>

#include "npy.h"
#include "run_options.h"
#include "tensor_file.h"

namespace fa::tool {

/// Owns every array that desc and args point to.
class RunCall {
 public:
  /// Reads the files. Throws BadInput where one of them does not fit its option; how they fit together is
  /// left to the library, which says it better.
  explicit RunCall(const RunOptions &options);
  RunCall(const RunCall &) = delete;
  RunCall &operator=(const RunCall &) = delete;

  fa_desc desc;
  fa_forward_args args;
  // In the order of their files; empty where not given.
#define FA_TENSOR(name, ...) Array name;
  FA_FORWARD_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR

  int64_t sequences() const { return batch_; }

  /// A 4-D array in the layout asked for, or a packed 3-D one, as (batch, sequence, heads, dim).
  fa_tensor view(Array *array) const;

 private:
  void read_tensors(const RunOptions &options);
  void describe_attention(const RunOptions &options);
  void make_outputs(const RunOptions &options);
  void read_features(const RunOptions &options);
  void read_sequences(const RunOptions &options);

  const FileForm form_;
  int64_t batch_ = 0;
#define FA_ARRAY(name, ...) std::vector<int32_t> name##_;
  FA_INPUT_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
};

}  // namespace fa::tool
