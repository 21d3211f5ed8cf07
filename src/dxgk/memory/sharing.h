// Resources that several devices, of several processes, open; and the descriptors that name them.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bus/pages_apart.h"
#include "dxgk/core/global_shares.h"
#include "dxgk/core/object.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

struct Allocation;
struct MemoryFloor;
class SharedKeyedMutex;
class SharedSession;
class SharedSync;
class SyncFile;

/// STATUS_OBJECT_TYPE_MISMATCH: a live descriptor that is no shared resource.
inline constexpr Status kObjectTypeMismatch = from_ntstatus(static_cast<int32_t>(0xC0000024));

/// STATUS_OBJECT_NAME_COLLISION.
inline constexpr Status kObjectNameCollision = from_ntstatus(static_cast<int32_t>(0xC0000035));

/// The adapter's object behind a shared resource (ALLOC-04): what an opening needs to know, and who
/// keeps it alive. It dies when no device has it open and no descriptor names it; a global handle
/// does not hold it.
class SharedResource : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kSharedResource;
  explicit SharedResource(MemoryFloor& floor);
  ~SharedResource() override;

  struct Member {
    Allocation* allocation DXGKIT_GUARDED_BY(on_lane) =
        nullptr;  // lane; the adapter's, until `gone`
    void* driver_handle = nullptr;
    std::vector<std::byte> private_data;  // as the driver left it at creation
  };

  /// Of the adapter it is on.
  MemoryFloor& floor() const { return floor_; }

  // Constant once clients can name it.
  bool nt_security = false;  // descriptors name it; else `global` does
  bool cross_adapter = false;
  uint32_t creator = 0;  // Process::number of who made it (ALLOC-34)
  void* driver_handle = nullptr;
  std::vector<std::byte> runtime_data, resource_data;
  std::vector<Member> members;
  Handle global = 0;
  /// Made by a client in another process: the backing pages, in memory objects that hold nothing
  /// else, so that every client that opens the resource may have descriptors of them. Or null.
  std::shared_ptr<bus::PagesApart> pages_apart;

  // Lane:
  uint32_t resources DXGKIT_GUARDED_BY(on_lane) = 0;  // openings on devices
  uint32_t holds DXGKIT_GUARDED_BY(on_lane) = 0;      // descriptors, and openings under way
  bool gone DXGKIT_GUARDED_BY(on_lane) = false;       // on its way out: cannot be opened any more
  bool alive() const DXGKIT_REQUIRES(on_lane) { return resources != 0 || holds != 0; }

 private:
  MemoryFloor& floor_;
  const Ref<Object> adapter_;  // kept
};

/// Bytes of all members' private data. kIntegerOverflow: more than a UINT holds (THUNK-21).
Result<uint32_t> total_private_bytes(std::span<const uint64_t> sizes);

/// NT handles of shared objects are file descriptors: whoever has the descriptor, or a duplicate,
/// has the handle, and closing the last duplicate closes it. Thread-safe.
///
/// Each is one end of a pipe nobody writes to: the other end, kept here, keeps the identity from
/// being used again and tells when all duplicates are closed.
class NtHandles {
 public:
  NtHandles() = default;
  ~NtHandles();
  NtHandles(const NtHandles&) = delete;
  NtHandles& operator=(const NtHandles&) = delete;

  enum class Access { kNone, kRead, kWrite };
  /// Whether two names that differ in case are two names.
  enum class Case { kMatters, kIgnored };
  /// A resource, or a sync object, or a resource with both of the others (THUNK-23), or a sync file
  /// or a protected session alone.
  struct Named {
    Ref<SharedResource> resource;
    Access access = Access::kNone;
    Ref<SharedSync> sync;
    Ref<SharedKeyedMutex> mutex;
    Ref<SharedSession> session;
    Ref<SyncFile> file;
    /// The path of an object directory, for names below it; null: this is none.
    std::shared_ptr<const std::u16string> directory;
    ~Named();
    Named();
    Named(Ref<SharedResource> resource_in, Access access_in);
    Named(const Named&);
    Named& operator=(const Named&);
  };

  /// A descriptor for what is named, the caller's to close. kNoMemory: the system has no more.
  /// `name`, unless it is empty: clients find the descriptor's object by it, for as long as one of
  /// the descriptors with that name is open. kObjectNameCollision: another object has the name.
  Result<int> create(Named named, std::u16string name = {}, Case spelling = Case::kMatters);
  /// The same, without a name, as one end of a pair of sockets: what shuts the kept end down for
  /// writing is seen at the other.
  struct Pair {
    int given = -1;  // the caller's to close
    int kept = -1;   // open for as long as `given` or a duplicate is
  };
  Result<Pair> create_pair(Named named);
  /// What has the name; kObjectNameNotFound: nothing.
  Result<Named> find(std::u16string_view name, Case spelling = Case::kMatters) const;
  /// kInvalidHandle: not an open descriptor. kObjectTypeMismatch: something else.
  Result<Named> find(int fd) const;
  /// Forgets the handles whose descriptors are all closed and returns what they named, once each.
  std::vector<Named> take_closed();
  size_t size() const;

 private:
  /// Moves `given` to a number that a handle can have; closes both on failure.
  static Result<Pair> prepare(Pair ends, struct stat* identity);
  struct Entry {
    int kept = -1;
    uint64_t device = 0, inode = 0;
    Named named;
    std::u16string name;  // empty: none
  };
  mutable runtime::Mutex mutex_;
  std::vector<Entry> entries_ DXGKIT_GUARDED_BY(mutex_);
};

}  // namespace dxgkit::dxgk
