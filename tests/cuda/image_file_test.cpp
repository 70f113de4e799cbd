// Images in files: those that are missing, damaged, of another build or of a newer toolkit are errors with a text.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cuda/child.h"
#include "cuda/fixture.h"

namespace cuda_test {
namespace {

namespace fs = std::filesystem;

/// A folder with the images of this build, some of which a test damages.
class Images {
 public:
  /// Why no test can damage one, or "".
  static std::string unavailable_reason() {
    return fs::exists(fs::path(TEST_KERNELS) / name()) ? "" : "FA_ARCHS leaves out 80: there is no " + name();
  }

  Images() : folder_(fs::temp_directory_path() / ("fa-images-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    for (const auto &file : fs::directory_iterator(TEST_KERNELS))
      if (file.path().extension() == ".fatbin") fs::copy(file.path(), folder_ / file.path().filename());
  }
  ~Images() { fs::remove_all(folder_); }
  Images(const Images &) = delete;
  Images &operator=(const Images &) = delete;

  static std::string name() { return "sm_80.simt.f32.64.fatbin"; }
  std::string folder() const { return folder_.string(); }
  std::string path() const { return (folder_ / name()).string(); }

  std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string &bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

  /// fa_create's status with these images, on an SM 80; its text has all words.
  int create(fa_status expected, const std::vector<std::string> &words) const {
    return in_child({{"FA_KERNEL_PATH", folder_.c_str()}, {"FA_EMU_DEVICE", "sm_80"}, {"FA_EMU_QUIET", "1"}}, [&] {
      const Op op(desc_of(small_case()));
      if (op.status != expected) return bad(std::string(fa_status_string(op.status)) + ": " + fa_last_error());
      const std::string lacks = expected == FA_OK ? "" : last_error_lacks(words);
      return lacks.empty() ? int(fine) : bad(lacks);
    });
  }

 private:
  fs::path folder_;
};

class Image : public OnTheEmulator {
 protected:
  void SetUp() override {
    OnTheEmulator::SetUp();
    if (IsSkipped()) return;
    if (!Images::unavailable_reason().empty()) GTEST_SKIP() << Images::unavailable_reason();
  }
};

// [F62]
TEST_F(Image, FromAFolder) {
  EXPECT_EQ(Images().create(FA_OK, {}), fine);
}

// [F71]
TEST_F(Image, Missing) {
  const Images images;
  fs::remove(images.path());
  EXPECT_EQ(images.create(FA_ERROR_NO_DEVICE, {images.path() + " cannot be opened: No such file", "FA_KERNEL_PATH"}),
            fine);
}

TEST_F(Image, Truncated) {
  const Images images;
  const std::string bytes = images.bytes();
  for (const size_t size :
       {size_t{0}, size_t{3}, size_t{15}, size_t{16}, size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    images.write(bytes.substr(0, size));
    EXPECT_EQ(images.create(FA_ERROR_NO_DEVICE, {size < 16 ? "no fatbin" : "cut off"}), fine) << size;
  }
}

TEST_F(Image, OfAnImpossibleSize) {
  const Images images;
  std::string bytes = images.bytes();
  for (size_t at = 8; at < 16; ++at) bytes[at] = char(at == 8 ? 0xff - 15 : 0xff);  // with its header less than that
  images.write(bytes);
  EXPECT_EQ(images.create(FA_ERROR_NO_DEVICE, {"cut off"}), fine);
}

TEST_F(Image, Damaged) {
  const Images images;
  std::string bytes = images.bytes();
  for (size_t at = 100; at < bytes.size(); at += 97) bytes[at] = char(bytes[at] ^ 0x55);
  images.write(bytes);
  EXPECT_EQ(images.create(FA_ERROR_DRIVER, {"cuLibrary", "CUDA_ERROR_", "sm_80.simt"}), fine);
}

TEST_F(Image, OfAnotherBuild) {
  const Images images;
  std::ifstream other(TEST_OTHER_FATBIN, std::ios::binary);
  images.write({std::istreambuf_iterator<char>(other), {}});
  EXPECT_EQ(images.create(FA_ERROR_NO_DEVICE, {"another build", "fa_build_"}), fine);
}

/// PTX of CUDA 13.9, which a driver of 13.0 cannot compile: machine code would run.
TEST_F(Image, OfANewerToolkit) {
  const Images images;
  std::string bytes = images.bytes();
  // Entries are behind the container's header of 16 bytes, each behind its own.
  const auto at = [&](size_t offset, auto value) {
    std::memcpy(&value, &bytes[offset], sizeof value);
    return value;
  };
  constexpr uint16_t is_ptx = 1;
  for (size_t entry = 16; entry + 28 <= bytes.size(); entry += at(entry + 4, uint32_t{}) + at(entry + 8, uint64_t{}))
    if (at(entry, uint16_t{}) == is_ptx) bytes[entry + 24] = 9;  // the minor version of 9.0
  images.write(bytes);
  EXPECT_EQ(images.create(FA_OK, {}), fine) << "machine code needs no PTX";
  const std::string folder = images.folder();
  const Variables on_its_ptx = {{"FA_KERNEL_PATH", folder.c_str()},
                                {"FA_EMU_DEVICE", "sm_90"},
                                {"FA_FORCE_KERNEL", "cuda.sm_80.simt"},
                                {"FA_EMU_QUIET", "1"}};
  const int outcome = in_child(on_its_ptx, [] {
    const Op op(desc_of(small_case()));
    if (op.status != FA_ERROR_NO_DEVICE) return bad(std::string(fa_status_string(op.status)) + ": " + fa_last_error());
    const std::string lacks = last_error_lacks(
        {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "sm_80.simt", "for CUDA 13.0", "update the driver", "FA_ARCHS"});
    return lacks.empty() ? int(fine) : bad(lacks);
  });
  EXPECT_EQ(outcome, fine);
}

TEST_F(Image, OfAnotherKernel) {
  const Images images;
  fs::copy_file(fs::path(images.folder()) / "sm_80.combine.f32.576.fatbin", images.path(),
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(images.create(FA_ERROR_NO_DEVICE, {"another build", "fa_build_"}), fine)
      << "each family has a separate hash";
}

}  // namespace
}  // namespace cuda_test
