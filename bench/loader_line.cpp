// loader.: a driver file into the process.
#include "base/check.h"
#include "bench/harness.h"
#include "loader/pe_image.h"
#include "loader/testdata/tiny_pe.h"

namespace dxgkit::bench {
namespace {

namespace tiny = loader::tiny_pe;

/// 1 MiB of driver: the small test image whose last section has been grown and holds 32 pointers to
/// relocate per page.
std::vector<std::byte> make_driver() {
  constexpr uint32_t kFileBytes = 1 << 20, kPointersPerPage = 32, kTableBytes = 0x5000;
  constexpr uint32_t kPage = 4096;
  std::vector<std::byte> file = tiny::make();
  tiny::put<uint32_t>(file, tiny::kFileHeader + 8, 0);  // no symbols
  const auto start = static_cast<uint32_t>(tiny::at(tiny::kReloc));
  const uint32_t size = kFileBytes - start;
  file.resize(kFileBytes);
  const uint32_t image_size = (tiny::kReloc + size + kPage - 1) / kPage * kPage;
  tiny::put(file, tiny::kOptional + 56, image_size);
  tiny::put(file, tiny::section(3) + 8, size);
  tiny::put(file, tiny::section(3) + 16, size);
  uint32_t at = 0;
  for (uint32_t page = tiny::kReloc + kTableBytes; page + kPage <= tiny::kReloc + size;
       page += kPage) {
    tiny::put(file, start + at, page);
    tiny::put(file, start + at + 4, uint32_t{8 + kPointersPerPage * 2});
    for (uint32_t i = 0; i < kPointersPerPage; ++i) {
      const auto entry = static_cast<uint16_t>(0xA000 + i * (kPage / kPointersPerPage));
      tiny::put(file, start + at + 8 + i * 2, entry);
    }
    at += 8 + kPointersPerPage * 2;
  }
  DXGKIT_CHECK(at <= kTableBytes);
  tiny::put(file, tiny::directory(5) + 4, at);
  return file;
}

struct Load {
  std::vector<std::byte> file = make_driver();
  std::vector<std::byte> copy = std::vector<std::byte>(file.size());
  uint64_t import = 0;
};

Line load_line(const char* name) {
  const auto load = std::make_shared<Load>();
  Line line;
  line.name = name;
  line.what = "parse, map, relocate, bind and protect a .sys of 1 MiB, and unmap it / memcpy";
  line.unit = Unit::kGigabytesPerSecond;
  line.fixture = load;
  line.ours.batch = [load] {
    std::string message;
    const auto image = loader::PeImage::load(
        load->file,
        [&](const loader::ImportRequest&) -> loader::ImportAnswer {
          return {&load->import, 0};
        },
        &message);
    DXGKIT_CHECK(image.has_value());
    keep((*image)->base());
  };
  line.ours.operations = static_cast<double>(load->file.size());
  line.reference = Side{.batch =
                            [load] {
                              std::memcpy(load->copy.data(), load->file.data(), load->file.size());
                              keep(load->copy.data());
                            },
                        .operations = static_cast<double>(load->file.size())};
  return line;
}

}  // namespace

void add_loader_line(std::vector<Maker>& lines) {
  lines.push_back({"loader.pe_1mib", [] { return load_line("loader.pe_1mib"); }});
}

}  // namespace dxgkit::bench
