// Any bytes as the ELF form of a driver: parsed, mapped and bound.
#include <cstdlib>

#include "loader/elf_image.h"

using dxgkit::loader::ElfImage;
using dxgkit::loader::ImportAnswer;
using dxgkit::loader::ImportRequest;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const uint64_t kAnything = 0;
  std::string message;
  const auto loaded = ElfImage::load(
      {reinterpret_cast<const std::byte*>(data), size},
      [](const ImportRequest& request) -> ImportAnswer {
        return {&kAnything, request.name.size() % 2 == 0 ? uint32_t{sizeof(kAnything)} : 0};
      },
      &message);
  if (!loaded.has_value()) {
    if (message.empty()) std::abort();
    return 0;
  }
  const ElfImage& image = **loaded;
  for (uint32_t i = 0; i <= 64; ++i) image.symbol(image.size() / 64 * i);
  image.imports();
  image.entry();
  return 0;
}
