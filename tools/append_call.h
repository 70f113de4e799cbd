// From the options and files of `fa append` to one call of the library.
#pragma once

#include <fa.h>

#include <string>
#include <vector>

#include "append_options.h"
#include "cache_file.h"

namespace fa::tool {

/// Whether fa_append writes such a tensor.
bool is_written(schema::Access access, const AppendOptions &options);

/// Owns every array that desc and args point to.
class AppendCall {
 public:
  /// Reads the files, or makes the cache that the options ask for. Throws BadInput where one of them does not fit its
  /// option; how they fit together is left to the library.
  explicit AppendCall(const AppendOptions &options);
  AppendCall(const AppendCall &) = delete;
  AppendCall &operator=(const AppendCall &) = delete;

  fa_desc desc;
  fa_append_args args;
  // Empty where not given.
#define FA_TENSOR(name, ...) Array name;
  FA_APPEND_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR

  int64_t sequences() const { return batch_; }

  /// The bytes of new rows, read and written, with their scales.
  double bytes() const;

  /// A tensor that the call writes into a file.
  struct Output {
    const char *name;  // "k_cache"
    const std::string &path;
    const Array &array;
    fa_dtype dtype;
  };
  std::vector<Output> outputs(const AppendOptions &options) const;

 private:
  void read_rows_of(const AppendOptions &options);
  void read_caches(const AppendOptions &options);
  void make_caches(const AppendOptions &options);
  void make_factors(const AppendOptions &options, const fa_tensor &cache, const std::string &path, fa_tensor *tensor,
                    Array *array);
  void read_features(const AppendOptions &options);
  void describe_attention(const AppendOptions &options);
  int64_t tokens() const;

  const FileForm form_;
  const StoredAs as_k_, as_v_;
  int64_t batch_ = 0;
#define FA_ARRAY(name, ...) std::vector<int32_t> name##_;
  FA_APPEND_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
};

}  // namespace fa::tool
