// Arrays in memory, and .npy files read into them.
#include "npy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "error.h"
#include "file.h"
#include "npy_header.h"
#include "reference/number.h"

namespace fa::tool {
namespace {

struct TypeFact {
  NpyType type;
  const char *name;
  const char *code;  // in a descr, behind the byte order
  size_t bytes;
  double (*load)(const void *element);
  void (*store)(void *element, double x) = nullptr;  // nothing is converted to the others
};

template <class T>
double load(const void *element) {
  return static_cast<double>(reference::read<T>(element));
}
template <fa_dtype dtype>
double load(const void *element) {
  return reference::load(element, dtype);
}
template <fa_dtype dtype>
void store(void *element, double x) {
  reference::store(element, dtype, x);
}

constexpr TypeFact facts[] = {
    {NpyType::f16, "float16", "f2", 2, load<FA_F16>, store<FA_F16>},
    {NpyType::bf16, "bfloat16", "V2", 2, load<FA_BF16>, store<FA_BF16>},
    {NpyType::f32, "float32", "f4", 4, load<FA_F32>, store<FA_F32>},
    {NpyType::f64, "float64", "f8", 8, load<double>, reference::write<double>},
    {NpyType::boolean, "bool", "b1", 1, load<FA_BOOL>},
    {NpyType::i8, "int8", "i1", 1, load<int8_t>},
    {NpyType::u8, "uint8", "u1", 1, load<uint8_t>},
    {NpyType::v8, "void8", "V1", 1, load<uint8_t>},
    {NpyType::v8, "void8", "f1", 1, load<uint8_t>},  // of ml_dtypes' float8_e5m2
    {NpyType::u16, "uint16", "u2", 2, load<uint16_t>},
    {NpyType::i32, "int32", "i4", 4, load<FA_I32>},
    {NpyType::i64, "int64", "i8", 8, load<int64_t>},
};

const TypeFact &fact(NpyType type) {
  return *std::find_if(std::begin(facts), std::end(facts), [type](const TypeFact &f) { return f.type == type; });
}

constexpr bool little = std::endian::native == std::endian::little;

/// The type that a descr names, and whether its bytes are in the other order.
NpyType parse_descr(std::string_view descr, std::string_view name, bool *swapped) {
  *swapped = false;
  if (descr == "bfloat16") return NpyType::bf16;
  std::string_view code = descr;
  if (!code.empty() && std::string_view("<>|=").find(code[0]) != code.npos) {
    *swapped = code[0] == (little ? '>' : '<');
    code.remove_prefix(1);
  }
  for (const TypeFact &f : facts) {
    if (code == f.code) return f.type;
  }
  bad_input(
      "{}: holds elements of type '{}'; float32, float16, bfloat16, float64, int32, int64, int8, uint8, uint16, bool "
      "and bytes of fp8 (V1) can be read",
      name, descr);
}

/// The number of elements, or BadInput where it or its bytes are beyond this machine.
int64_t checked_elements(std::span<const int64_t> shape, size_t element_bytes, std::string_view name) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t elements = 1, bytes = 0;
  bool overflow = false;
  for (const int64_t n : shape) overflow |= __builtin_mul_overflow(elements, n, &elements);
  overflow |= __builtin_mul_overflow(elements, static_cast<int64_t>(element_bytes), &bytes);
  if (overflow) bad_input("{}: shape {} does not fit in any memory", name, shape_text(shape));
  return elements;
}

void swap_bytes(std::vector<std::byte> &bytes, size_t element_bytes) {
  for (size_t i = 0; i + element_bytes <= bytes.size(); i += element_bytes) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i), bytes.begin() + static_cast<ptrdiff_t>(i + element_bytes));
  }
}

/// The bytes of a file with its array, or of its header while that is not all there.
size_t needed_bytes(std::span<const std::byte> file, std::string_view name) {
  const size_t header_bytes = npy_header_bytes(file, name);
  if (file.size() < header_bytes) return header_bytes;
  const NpyHeader header = parse_npy_header(file, name);
  bool swapped = false;
  const size_t element = npy_type_bytes(parse_descr(header.descr, name, &swapped));
  return header.data_offset + static_cast<size_t>(checked_elements(header.shape, element, name)) * element;
}

/// Reorders elements from first dimension fastest into last dimension fastest.
std::vector<std::byte> from_fortran(std::span<const std::byte> bytes, std::span<const int64_t> shape, size_t size) {
  std::vector<std::byte> result(bytes.size());
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t to = 0; to < bytes.size(); to += size) {
    size_t from = 0;
    for (size_t d = shape.size(); d-- > 0;) from = from * static_cast<size_t>(shape[d]) + static_cast<size_t>(index[d]);
    std::memcpy(&result[to], &bytes[from * size], size);
    for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
  return result;
}

}  // namespace

const char *npy_type_name(NpyType type) {
  return fact(type).name;
}
size_t npy_type_bytes(NpyType type) {
  return fact(type).bytes;
}

int64_t Array::elements() const {
  return static_cast<int64_t>(bytes.size() / npy_type_bytes(type));
}

double Array::value(int64_t i) const {
  const TypeFact &of = fact(type);
  return of.load(bytes.data() + static_cast<size_t>(i) * of.bytes);
}

Array make_array(NpyType type, std::vector<int64_t> shape) {
  const int64_t elements = checked_elements(shape, npy_type_bytes(type), "array");
  return {type, std::move(shape), std::vector<std::byte>(static_cast<size_t>(elements) * npy_type_bytes(type))};
}

std::string shape_text(std::span<const int64_t> shape) {
  return shape.size() == 1 ? fmt::format("({},)", shape[0]) : fmt::format("({})", fmt::join(shape, ", "));
}

std::string describe(const Array &array) {
  return fmt::format("{} {}", npy_type_name(array.type), shape_text(array.shape));
}

Array converted(Array array, NpyType type) {
  if (array.type == type) return array;
  const TypeFact &from = fact(array.type), &to = fact(type);
  if (to.store == nullptr) bad_input("{} cannot be converted to {}", from.name, to.name);
  Array result = make_array(type, array.shape);
  const std::byte *element = array.bytes.data();
  for (size_t at = 0; at < result.bytes.size(); at += to.bytes, element += from.bytes)
    to.store(result.bytes.data() + at, from.load(element));
  return result;
}

Array parse_npy(std::span<const std::byte> file, std::string_view name) {
  NpyHeader header = parse_npy_header(file, name);
  bool swapped = false;
  const NpyType type = parse_descr(header.descr, name, &swapped);
  const size_t size = npy_type_bytes(type);
  const size_t needed = static_cast<size_t>(checked_elements(header.shape, size, name)) * size;
  const std::span<const std::byte> data = file.subspan(header.data_offset);
  if (data.size() < needed) {
    bad_input("{}: truncated: {} {} needs {} bytes after the header, there are {}", name, npy_type_name(type),
              shape_text(header.shape), needed, data.size());
  }
  const std::span<const std::byte> used = data.first(needed);
  Array array{type, std::move(header.shape), {}};
  if (header.fortran_order && array.shape.size() > 1) {
    array.bytes = from_fortran(used, array.shape, size);
  } else {
    array.bytes.assign(used.begin(), used.end());
  }
  if (swapped) swap_bytes(array.bytes, size);
  return array;
}

Array read_npy(const std::string &path) {
  return parse_npy(read_file(path, [&](std::span<const std::byte> file) { return needed_bytes(file, path); }), path);
}

std::vector<std::byte> format_npy(const Array &array) {
  const TypeFact &f = fact(array.type);
  const char order = f.bytes == 1 ? '|' : little ? '<' : '>';
  const std::string header = format_npy_header(fmt::format("{}{}", order, f.code), array.shape);
  std::vector<std::byte> file(header.size() + array.bytes.size());
  std::memcpy(file.data(), header.data(), header.size());
  if (!array.bytes.empty()) std::memcpy(file.data() + header.size(), array.bytes.data(), array.bytes.size());
  return file;
}

}  // namespace fa::tool
