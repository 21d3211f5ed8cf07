// The calls that a VFIO device makes to Linux.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dxgkit::vfio {

/// A value, or the error number of Linux.
template <typename T>
using Answer = std::expected<T, int>;

/// One function for each call, so that a test can answer in the place of Linux. Any thread.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// A new descriptor, which the caller closes.
  virtual Answer<int> open(const std::string& path, int flags) = 0;
  virtual void close(int descriptor) = 0;
  /// The answer of the request, 0 or more. `argument` is a pointer or a number, as it wants.
  virtual Answer<int> control(int descriptor, unsigned long request, uintptr_t argument) = 0;
  /// At an offset; the number of bytes may be less than asked for.
  virtual Answer<size_t> read_at(int descriptor, std::span<std::byte> out, uint64_t offset) = 0;
  virtual Answer<size_t> write_at(int descriptor, std::span<const std::byte> in,
                                  uint64_t offset) = 0;
  /// The next bytes of a stream. EAGAIN: none are there yet.
  virtual Answer<size_t> read_next(int descriptor, std::span<std::byte> out) = 0;
  /// Skips what a stream holds already.
  virtual Answer<void> skip_to_end(int descriptor) = 0;
  /// The last part of the path that a symbolic link leads to.
  virtual Answer<std::string> link_target(const std::string& path) = 0;
  /// The names in a folder, sorted.
  virtual Answer<std::vector<std::string>> list(const std::string& path) = 0;
  /// Bytes of memory that this process may lock; UINT64_MAX: any number.
  virtual uint64_t lock_limit_bytes() = 0;
};

/// The system that this process runs on.
std::shared_ptr<Kernel> linux_kernel();

/// Why a device cannot be had: one sentence without a full stop.
inline std::unexpected<std::string> wrong(std::string text) {
  return std::unexpected(std::move(text));
}
/// "No such file or directory (2)".
std::string error_text(int error);

}  // namespace dxgkit::vfio
