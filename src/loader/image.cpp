#include "loader/image.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "loader/elf_image.h"
#include "loader/pe_image.h"

namespace dxgkit::loader {
namespace {

/// No driver is larger. A larger file is not read.
constexpr uint64_t kFileBytesMax = uint64_t{256} << 20;

}  // namespace

Result<std::unique_ptr<Image>> load_image(std::span<const std::byte> file,
                                          const ImportResolver& resolve, std::string* message,
                                          const LoadOptions& options) {
  if (file.size() >= 2 && file[0] == std::byte{'M'} && file[1] == std::byte{'Z'}) {
    Result<std::unique_ptr<PeImage>> image = PeImage::load(file, resolve, message, options);
    if (!image.has_value()) return Error(image.error());
    return std::unique_ptr<Image>(std::move(*image));
  }
  Result<std::unique_ptr<ElfImage>> image = ElfImage::load(file, resolve, message);
  if (!image.has_value()) return Error(image.error());
  return std::unique_ptr<Image>(std::move(*image));
}

Result<std::vector<std::byte>> read_image_file(const std::string& path, std::string* message) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    *message = fmt::format("{} cannot be opened: {}.", path, std::strerror(errno));
    return Error(Status::kObjectNameNotFound);
  }
  struct stat info {};
  std::vector<std::byte> bytes;
  bool good = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
              static_cast<uint64_t>(info.st_size) <= kFileBytesMax;
  if (good) {
    bytes.resize(static_cast<size_t>(info.st_size));
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = read(fd, bytes.data() + done, bytes.size() - done);
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    good = done == bytes.size();
  }
  close(fd);
  if (!good) {
    *message =
        fmt::format("{} is not a regular file of at most {} MiB.", path, kFileBytesMax >> 20);
    return Error(Status::kInvalidImageFormat);
  }
  return bytes;
}

}  // namespace dxgkit::loader
