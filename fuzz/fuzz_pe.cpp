// Any bytes as a PE driver: parsed, mapped, bound and read back as an unwinder would.
#include <cstring>

#include "base/arithmetic.h"
#include "fuzz/demand.h"
#include "loader/pe_image.h"

namespace {

using dxgkit::fuzz::demand;
using dxgkit::loader::ImportAnswer;
using dxgkit::loader::ImportRequest;
using dxgkit::loader::PeImage;
using dxgkit::loader::RuntimeFunction;

/// Reads the image with no other check than that every byte lies in it.
class Reader {
 public:
  explicit Reader(const PeImage& image) : image_(image) {}
  template <typename T>
  T at(uint64_t address) const {
    demand(dxgkit::range_within(address, sizeof(T), image_.size()));
    T value;
    std::memcpy(&value, image_.base() + address, sizeof(value));
    return value;
  }
  void unwind(RuntimeFunction function, uint32_t depth = 0) const {
    demand(depth <= 32);
    demand(function.begin < function.end && function.end <= image_.size());
    const auto version_and_flags = at<uint8_t>(function.unwind);
    const uint32_t codes = at<uint8_t>(function.unwind + 2);
    demand((version_and_flags & 7) == 1 || (version_and_flags & 7) == 2);
    for (uint32_t i = 0; i < codes; ++i) at<uint16_t>(function.unwind + 4ULL + i * 2ULL);
    const uint64_t after = function.unwind + 4ULL + (codes + 1) / 2 * 4ULL;
    if ((version_and_flags >> 3 & 4) != 0)
      unwind(at<RuntimeFunction>(after), depth + 1);
    else if ((version_and_flags >> 3 & 3) != 0)
      at<uint8_t>(at<uint32_t>(after));
  }

 private:
  const PeImage& image_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const uint64_t kAnything = 0;
  std::string message;
  const auto loaded = PeImage::load(
      {reinterpret_cast<const std::byte*>(data), size},
      [](const ImportRequest& request) -> ImportAnswer {
        demand(request.slot != nullptr && !request.library.empty());
        demand(request.name.empty() || request.ordinal == 0);
        return {&kAnything, 0};
      },
      &message);
  if (!loaded.has_value()) {
    demand(message.starts_with("Not a driver: ") && message.ends_with("."));
    for (const char c : message) demand(c >= ' ' && c <= '~');
    return 0;
  }
  const PeImage& image = **loaded;
  const Reader reader(image);
  uint32_t last = 0;
  for (const RuntimeFunction& function : image.functions()) {
    demand(function.begin >= last);
    last = function.end;
    reader.unwind(function);
  }
  for (uint32_t i = 0; i <= 64; ++i) image.symbol(image.size() / 64 * i);
  demand(image.imports().size() == image.plan().imports.size());
  for (const auto& entry : image.plan().exports)
    demand(entry.name.empty() || image.find(entry.name) != nullptr);
  const auto* entry = static_cast<const std::byte*>(image.entry());
  demand(entry > image.base() && entry < image.base() + image.size());
  return 0;
}
