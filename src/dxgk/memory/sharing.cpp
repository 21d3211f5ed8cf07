#include "dxgk/memory/sharing.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/arithmetic.h"
#include "dxgk/memory/memory_floor.h"
#include "dxgk/sync/keyed_mutex.h"
#include "dxgk/sync/protected_session.h"
#include "dxgk/sync/sync_object.h"

namespace dxgkit::dxgk {

SharedResource::SharedResource(MemoryFloor& floor)
    : Object(kType), floor_(floor), adapter_(floor.keep_adapter()) {}

SharedResource::~SharedResource() = default;

Result<uint32_t> total_private_bytes(std::span<const uint64_t> sizes) {
  uint64_t total = 0;
  for (const uint64_t size : sizes) {
    if (!checked_add(total, size, &total)) return Error(Status::kIntegerOverflow);
  }
  if (total > std::numeric_limits<uint32_t>::max()) return Error(Status::kIntegerOverflow);
  return static_cast<uint32_t>(total);
}

NtHandles::Named::Named() = default;
NtHandles::Named::~Named() = default;
NtHandles::Named::Named(const Named&) = default;
NtHandles::Named& NtHandles::Named::operator=(const Named&) = default;
NtHandles::Named::Named(Ref<SharedResource> resource_in, Access access_in)
    : resource(std::move(resource_in)), access(access_in) {}

NtHandles::~NtHandles() {
  for (const Entry& entry : entries_) close(entry.kept);
}

Result<int> NtHandles::create(Named named, std::u16string name) {
  const auto same = [](const Named& one, const Named& other) {
    return one.resource.get() == other.resource.get() && one.sync.get() == other.sync.get() &&
           one.mutex.get() == other.mutex.get() && one.session.get() == other.session.get();
  };
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return Error(Status::kNoMemory);
  // Not 0: that is no handle. Not 1 or 2: clients print there.
  constexpr int kLowest = 3;
  const int given = fcntl(ends[1], F_DUPFD_CLOEXEC, kLowest);
  close(ends[1]);
  struct stat identity = {};
  if (given < 0 || fstat(given, &identity) != 0) {
    if (given >= 0) close(given);
    close(ends[0]);
    return Error(Status::kNoMemory);
  }
  runtime::MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (name.empty() || entry.name != name || same(entry.named, named)) continue;
    close(given);
    close(ends[0]);
    return Error(kObjectNameCollision);
  }
  entries_.push_back(
      {ends[0], identity.st_dev, identity.st_ino, std::move(named), std::move(name)});
  return given;
}

Result<NtHandles::Named> NtHandles::find(int fd) const {
  struct stat identity = {};
  if (fstat(fd, &identity) != 0) return Error(Status::kInvalidHandle);
  runtime::MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.device == identity.st_dev && entry.inode == identity.st_ino) return entry.named;
  }
  return Error(kObjectTypeMismatch);
}

Result<NtHandles::Named> NtHandles::find(std::u16string_view name) const {
  runtime::MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (!entry.name.empty() && entry.name == name) return entry.named;
  }
  return Error(Status::kObjectNameNotFound);
}

std::vector<NtHandles::Named> NtHandles::take_closed() {
  std::vector<Named> closed;
  runtime::MutexLock lock(mutex_);
  std::erase_if(entries_, [&](Entry& entry) {
    pollfd state{entry.kept, POLLIN, 0};
    if (poll(&state, 1, 0) <= 0 || (state.revents & POLLHUP) == 0) return false;
    close(entry.kept);
    closed.push_back(std::move(entry.named));
    return true;
  });
  return closed;
}

size_t NtHandles::size() const {
  runtime::MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace dxgkit::dxgk
