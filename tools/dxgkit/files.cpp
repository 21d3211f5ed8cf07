#include "tools/dxgkit/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace dxgkit::tool {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::unexpected<std::string> system_error(const std::string& path) {
  return std::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
}

}  // namespace

std::expected<std::string, std::string> read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return std::unexpected(fmt::format("{}: is a folder", path));
  File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return system_error(path);
  std::string bytes;
  char block[1 << 16];
  while (const size_t count = std::fread(block, 1, sizeof(block), file.get()))
    bytes.append(block, count);
  if (std::ferror(file.get()) != 0) return system_error(path);
  return bytes;
}

std::expected<void, std::string> write_file(const std::string& path, std::string_view bytes) {
  const std::string temporary = fmt::format("{}.{}.part", path, getpid());
  File file(std::fopen(temporary.c_str(), "wb"));
  if (file == nullptr) return system_error(path);
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  const bool flushed = std::fclose(file.release()) == 0;
  if (!written || !flushed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    errno = error;
    return system_error(path);
  }
  return {};
}

bool write_output(const std::optional<std::string>& path, std::string_view text) {
  if (!path.has_value()) return true;
  if (*path == "-") {
    fmt::print("{}", text);
    return true;
  }
  const std::expected<void, std::string> written = write_file(*path, text);
  if (!written) fmt::print(stderr, "dxgkit: {}\n", written.error());
  return written.has_value();
}

std::expected<void, std::string> check_writable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return std::unexpected(fmt::format("{}: is a folder", path));
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0) return system_error(path);
  return {};
}

}  // namespace dxgkit::tool
