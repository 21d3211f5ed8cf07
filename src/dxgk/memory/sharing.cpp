#include "dxgk/memory/sharing.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/arithmetic.h"
#include "base/new_descriptors.h"
#include "dxgk/memory/memory_floor.h"
#include "dxgk/sync/keyed_mutex.h"
#include "dxgk/sync/protected_session.h"
#include "dxgk/sync/sync_file.h"
#include "dxgk/sync/sync_object.h"

namespace dxgkit::dxgk {
namespace {

bool is_called(std::u16string_view is, std::u16string_view wanted, NtHandles::Case spelling) {
  if (spelling == NtHandles::Case::kMatters) return is == wanted;
  // Our choice: letters beyond ASCII are told apart.
  const auto lower = [](char16_t c) {
    return c >= u'A' && c <= u'Z' ? static_cast<char16_t>(c + (u'a' - u'A')) : c;
  };
  return std::ranges::equal(is, wanted, {}, lower, lower);
}

}  // namespace

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

Result<int> NtHandles::create(Named named, std::u16string name, Case spelling) {
  const auto same = [](const Named& one, const Named& other) {
    return one.resource.get() == other.resource.get() && one.sync.get() == other.sync.get() &&
           one.mutex.get() == other.mutex.get() && one.session.get() == other.session.get();
  };
  int ends[2] = {};
  if (!make_descriptors(NewDescriptors::kPipe, 0, ends)) return Error(Status::kNoMemory);
  struct stat identity = {};
  DXGKIT_ASSIGN_OR_RETURN(const Pair pair, prepare({.given = ends[1], .kept = ends[0]}, &identity));
  runtime::MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (name.empty() || !is_called(entry.name, name, spelling)) continue;
    if (same(entry.named, named)) continue;
    close(pair.given);
    close(pair.kept);
    return Error(kObjectNameCollision);
  }
  entries_.push_back(
      {pair.kept, identity.st_dev, identity.st_ino, std::move(named), std::move(name)});
  return pair.given;
}

Result<NtHandles::Pair> NtHandles::create_pair(Named named) {
  int ends[2] = {};
  if (!make_descriptors(NewDescriptors::kSocketPair, 0, ends)) return Error(Status::kNoMemory);
  struct stat identity = {};
  DXGKIT_ASSIGN_OR_RETURN(const Pair pair, prepare({.given = ends[1], .kept = ends[0]}, &identity));
  runtime::MutexLock lock(mutex_);
  entries_.push_back({pair.kept, identity.st_dev, identity.st_ino, std::move(named), {}});
  return pair;
}

Result<NtHandles::Pair> NtHandles::prepare(Pair ends, struct stat* identity) {
  // Not 0: that is no handle. Not 1 or 2: clients print there.
  constexpr int kLowest = 3;
  const int given = fcntl(ends.given, F_DUPFD_CLOEXEC, kLowest);
  close(ends.given);
  if (given >= 0 && descriptor_status(given, identity))
    return Pair{.given = given, .kept = ends.kept};
  if (given >= 0) close(given);
  close(ends.kept);
  return Error(Status::kNoMemory);
}

Result<NtHandles::Named> NtHandles::find(int fd) const {
  struct stat identity = {};
  if (!descriptor_status(fd, &identity)) return Error(Status::kInvalidHandle);
  runtime::MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.device == identity.st_dev && entry.inode == identity.st_ino) return entry.named;
  }
  return Error(kObjectTypeMismatch);
}

Result<NtHandles::Named> NtHandles::find(std::u16string_view name, Case spelling) const {
  runtime::MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (!entry.name.empty() && is_called(entry.name, name, spelling)) return entry.named;
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
