#include "tools/dxgkit/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "tools/dxgkit/options.h"

namespace dxgkit::tool {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/// Behind symbolic links: they stay, and the file that they name is replaced.
std::string real_path(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  return error ? path : real.string();
}

/// A device or a pipe takes the bytes itself: it must not be replaced by a file.
bool is_special(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
}

std::string temporary_of(const std::string& path) {
  return fmt::format("{}.{}.part", path, getpid());
}

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
  const std::string real = real_path(path);
  const bool special = is_special(real);
  const std::string temporary = special ? real : temporary_of(real);
  File file(std::fopen(temporary.c_str(), "wb"));
  if (file == nullptr) return system_error(path);
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  const bool flushed = std::fclose(file.release()) == 0;
  if (special) {
    if (!written || !flushed) return system_error(path);
    return {};
  }
  if (!written || !flushed || std::rename(temporary.c_str(), real.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    errno = error;
    return system_error(path);
  }
  return {};
}

bool write_output(const std::optional<std::string>& path, std::string_view text) {
  if (!path.has_value()) return true;
  if (*path == kToStdout) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  }
  const std::expected<void, std::string> written = write_file(*path, text);
  if (!written) fmt::print(stderr, "dxgkit: {}\n", written.error());
  return written.has_value();
}

std::expected<void, std::string> check_writable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return std::unexpected(fmt::format("{}: is a folder", path));
  const std::string real = real_path(path);
  if (is_special(real)) {
    if (access(real.c_str(), W_OK) != 0) return system_error(path);
    return {};
  }
  const std::string temporary = temporary_of(real);
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return system_error(path);
  close(file);
  std::remove(temporary.c_str());
  return {};
}

int exit_code_of_output(int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return code;
  return not_written(
      fmt::format("stdout: {}", flushed || errno == 0 ? "text was lost" : std::strerror(errno)));
}

}  // namespace dxgkit::tool
