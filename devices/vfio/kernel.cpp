#include "devices/vfio/kernel.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

namespace dxgkit::vfio {
namespace {

std::unexpected<int> last_error() { return std::unexpected(errno); }

/// True if the limit of locked memory does not hold for this process.
bool may_lock_anything() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (syscall(SYS_capget, &header, sets.data()) != 0) return false;
  return (sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

class Linux final : public Kernel {
 public:
  Answer<int> open(const std::string& path, int flags) override {
    const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
    if (descriptor < 0) return last_error();
    return descriptor;
  }
  void close(int descriptor) override { ::close(descriptor); }
  Answer<int> control(int descriptor, unsigned long request, uintptr_t argument) override {
    const int answer = ioctl(descriptor, request, argument);
    if (answer < 0) return last_error();
    return answer;
  }
  Answer<size_t> read_at(int descriptor, std::span<std::byte> out, uint64_t offset) override {
    const ssize_t count = pread(descriptor, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0) return last_error();
    return static_cast<size_t>(count);
  }
  Answer<size_t> write_at(int descriptor, std::span<const std::byte> in, uint64_t offset) override {
    const ssize_t count = pwrite(descriptor, in.data(), in.size(), static_cast<off_t>(offset));
    if (count < 0) return last_error();
    return static_cast<size_t>(count);
  }
  Answer<size_t> read_next(int descriptor, std::span<std::byte> out) override {
    const ssize_t count = read(descriptor, out.data(), out.size());
    if (count < 0) return last_error();
    return static_cast<size_t>(count);
  }
  Answer<void> skip_to_end(int descriptor) override {
    if (lseek(descriptor, 0, SEEK_END) < 0) return last_error();
    return {};
  }
  Answer<std::string> link_target(const std::string& path) override {
    std::array<char, PATH_MAX> target;
    const ssize_t length = readlink(path.c_str(), target.data(), target.size());
    if (length < 0) return last_error();
    const std::string whole(target.data(), static_cast<size_t>(length));
    return whole.substr(whole.rfind('/') + 1);  // npos + 1: all of it
  }
  Answer<std::vector<std::string>> list(const std::string& path) override {
    DIR* const folder = opendir(path.c_str());
    if (folder == nullptr) return last_error();
    std::vector<std::string> names;
    while (const dirent* entry = readdir(folder)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    closedir(folder);
    std::ranges::sort(names);
    return names;
  }
  uint64_t lock_limit_bytes() override {
    rlimit limit{};
    if (may_lock_anything() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return UINT64_MAX;
    return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
  }
};

}  // namespace

std::shared_ptr<Kernel> linux_kernel() {
  static const std::shared_ptr<Kernel> kernel = std::make_shared<Linux>();
  return kernel;
}

std::string error_text(int error) {
  std::array<char, 256> room{};
  return std::string(strerror_r(error, room.data(), room.size())) + " (" + std::to_string(error) +
         ")";
}

}  // namespace dxgkit::vfio
