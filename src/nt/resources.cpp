// Executive resources, push locks and rundown protection.
#include <fmt/format.h>

#include <algorithm>

#include "nt/executive.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

// --- ERESOURCE: the driver's 104 bytes stay as they are; the state is kept beside, by address

ResourceState* find_resource(Executive& state, const void* resource) {
  const auto found = state.resources.find(resource);
  return found == state.resources.end() ? nullptr : found->second.get();
}

[[noreturn]] void no_resource(const char* function, const void* resource) {
  CallFrame::current().kernel().bug_check(
      "NT-31", function, 0xC4, static_cast<uint32_t>(reinterpret_cast<uint64_t>(resource)),
      fmt::format("{} is no initialised executive resource.", resource),
      "A resource is used between ExInitializeResourceLite and ExDeleteResourceLite.",
      "Look for a use after delete, or a structure that was copied or cleared.");
}

DXGKIT_NT_ABI int32_t initialize_resource(std::byte* resource) {
  required("ExInitializeResourceLite", "Resource", resource);
  Executive& state = executive();
  bool again = false;
  {
    runtime::MutexLock lock(state.lock);
    auto fresh = std::make_shared<ResourceState>();
    fresh->sequence = state.next_sequence++;
    again = !state.resources.insert_or_assign(resource, std::move(fresh)).second;
  }
  if (again) {
    CallFrame::current().kernel().violation(
        "NT-31", "ExInitializeResourceLite",
        fmt::format("{} is initialised a second time.", static_cast<void*>(resource)),
        "A resource is deleted before its memory is used again: it is linked into a list.",
        "Call ExDeleteResourceLite before freeing or reinitialising.");
  }
  return kSuccess;
}

enum class Starve { kNo, kExclusive, kWaitForExclusive };

/// One try, under the lock.
bool try_acquire(ResourceState& resource, const void* self, bool exclusive, Starve starve) {
  if (resource.owner == self) {
    ++resource.depth;
    return true;
  }
  if (resource.owner != nullptr) return false;
  if (exclusive) {
    if (!resource.shared.empty()) return false;
    resource.owner = self;
    resource.depth = 1;
    return true;
  }
  const bool holds = resource.shared.contains(self);
  const bool blocked = resource.exclusive_waiters > 0;
  if (blocked && starve == Starve::kWaitForExclusive) return false;
  if (blocked && !holds && starve == Starve::kNo) return false;
  ++resource.shared[self];
  return true;
}

uint8_t acquire(const char* function, void* address, bool exclusive, uint8_t wait,
                Starve starve = Starve::kNo) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, wait != 0 ? kApcLevel : kDispatchLevel);
  Executive& state = executive_of(frame.kernel());
  const void* const self = current_thread_object();
  const runtime::WaitReason reason(frame.kernel().runtime(), "an executive resource");
  bool waits = false;
  runtime::TimeNs hangs = 0;
  for (;;) {
    state.lock.lock();
    ResourceState* resource = find_resource(state, address);
    if (resource == nullptr) {
      state.lock.unlock();
      no_resource(function, address);
    }
    if (waits) --(exclusive ? resource->exclusive_waiters : resource->shared_waiters);
    waits = false;
    if (try_acquire(*resource, self, exclusive, starve)) {
      state.lock.unlock();
      return 1;
    }
    if (wait == 0) {
      state.lock.unlock();
      return 0;
    }
    ++(exclusive ? resource->exclusive_waiters : resource->shared_waiters);
    waits = true;
    const std::shared_ptr<ResourceState> keep = state.resources.at(address);
    const uint32_t seen = keep->changes.load(std::memory_order_relaxed);
    state.lock.unlock();
    if (hangs == 0) hangs = hang_deadline(frame);
    if (!wait_for_word(frame, keep->changes, seen, hangs))
      report_wait(frame, function, fmt::format("executive resource {}", address));
  }
}

void changed(Kernel& kernel, ResourceState& resource) {
  resource.changes.fetch_add(1, std::memory_order_release);
  kernel.runtime().wake_all(resource.changes);
}

void release(const char* function, void* address, const void* thread) {
  CallFrame& frame = CallFrame::current();
  Executive& state = executive_of(frame.kernel());
  bool held = false;
  {
    runtime::MutexLock lock(state.lock);
    ResourceState* resource = find_resource(state, address);
    if (resource != nullptr) {
      if (resource->owner == thread) {
        held = true;
        if (--resource->depth == 0) resource->owner = nullptr;
      } else if (const auto mine = resource->shared.find(thread); mine != resource->shared.end()) {
        held = true;
        if (--mine->second == 0) resource->shared.erase(mine);
      }
      if (held) changed(frame.kernel(), *resource);
    }
  }
  if (held) return;
  frame.kernel().bug_check(
      "NT-30", function, 0xE3, static_cast<uint32_t>(reinterpret_cast<uint64_t>(address)),
      fmt::format("The thread does not hold the resource {}.", address),
      "A resource is released once for each time it was acquired, for the thread that acquired it.",
      "Pair acquire and release on every path.");
}

DXGKIT_NT_ABI uint8_t acquire_exclusive(void* resource, uint8_t wait) {
  return acquire("ExAcquireResourceExclusiveLite", resource, true, wait);
}
DXGKIT_NT_ABI uint8_t acquire_shared(void* resource, uint8_t wait) {
  return acquire("ExAcquireResourceSharedLite", resource, false, wait);
}
DXGKIT_NT_ABI uint8_t acquire_shared_starve(void* resource, uint8_t wait) {
  return acquire("ExAcquireSharedStarveExclusive", resource, false, wait, Starve::kExclusive);
}
DXGKIT_NT_ABI uint8_t acquire_shared_wait(void* resource, uint8_t wait) {
  return acquire("ExAcquireSharedWaitForExclusive", resource, false, wait,
                 Starve::kWaitForExclusive);
}
/// These return the thread's Win32 data, which system threads have none of.
DXGKIT_NT_ABI void* enter_and_acquire_exclusive(void* resource) {
  acquire("ExEnterCriticalRegionAndAcquireResourceExclusive", resource, true, 1);
  return nullptr;
}
DXGKIT_NT_ABI void* enter_and_acquire_shared(void* resource) {
  acquire("ExEnterCriticalRegionAndAcquireResourceShared", resource, false, 1);
  return nullptr;
}
DXGKIT_NT_ABI void release_resource(void* resource) {
  release("ExReleaseResourceLite", resource, current_thread_object());
}
DXGKIT_NT_ABI void release_resource_for_thread(void* resource, const void* thread) {
  release("ExReleaseResourceForThreadLite", resource, thread);
}

template <typename Body>
auto with_resource(const char* function, void* address, const Body& body) {
  Executive& state = executive();
  state.lock.lock();
  ResourceState* resource = find_resource(state, address);
  if (resource == nullptr) {
    state.lock.unlock();
    no_resource(function, address);
  }
  const auto result = body(*resource);
  state.lock.unlock();
  return result;
}

DXGKIT_NT_ABI uint8_t is_acquired_exclusive(void* resource) {
  return with_resource("ExIsResourceAcquiredExclusiveLite", resource, [](ResourceState& r) {
    return static_cast<uint8_t>(r.owner == current_thread_object() ? 1 : 0);
  });
}
DXGKIT_NT_ABI uint32_t is_acquired_shared(void* resource) {
  return with_resource("ExIsResourceAcquiredSharedLite", resource, [](ResourceState& r) {
    const void* const self = current_thread_object();
    if (r.owner == self) return r.depth;
    const auto mine = r.shared.find(self);
    return mine == r.shared.end() ? 0U : mine->second;
  });
}
DXGKIT_NT_ABI uint32_t exclusive_waiters(void* resource) {
  return with_resource("ExGetExclusiveWaiterCount", resource,
                       [](ResourceState& r) { return r.exclusive_waiters; });
}
DXGKIT_NT_ABI uint32_t shared_waiters(void* resource) {
  return with_resource("ExGetSharedWaiterCount", resource,
                       [](ResourceState& r) { return r.shared_waiters; });
}
DXGKIT_NT_ABI void convert_to_shared(void* resource) {
  Kernel& kernel = CallFrame::current().kernel();
  const bool held =
      with_resource("ExConvertExclusiveToSharedLite", resource, [&](ResourceState& r) {
        if (r.owner != current_thread_object()) return false;
        r.shared[r.owner] = r.depth;
        r.owner = nullptr;
        r.depth = 0;
        changed(kernel, r);
        return true;
      });
  if (!held) {
    kernel.bug_check("NT-30", "ExConvertExclusiveToSharedLite", 0xE3,
                     static_cast<uint32_t>(reinterpret_cast<uint64_t>(resource)),
                     "The thread does not hold the resource exclusively.",
                     "Only its exclusive owner converts a resource.", "Acquire it first.");
  }
}
int32_t remove_resource(const char* function, void* address, bool keep) {
  const bool busy = with_resource(function, address, [](ResourceState& r) {
    return r.owner != nullptr || !r.shared.empty() || r.exclusive_waiters + r.shared_waiters > 0;
  });
  Kernel& kernel = CallFrame::current().kernel();
  if (busy) {
    kernel.bug_check("NT-31", function, 0xC4,
                     static_cast<uint32_t>(reinterpret_cast<uint64_t>(address)),
                     fmt::format("The resource {} is held or waited for.", address),
                     "A resource is deleted when nobody uses it.",
                     "Release it first, and make sure that no thread can still want it.");
  }
  Executive& state = executive();
  runtime::MutexLock lock(state.lock);
  if (!keep) state.resources.erase(address);
  return kSuccess;
}
DXGKIT_NT_ABI int32_t delete_resource(void* resource) {
  return remove_resource("ExDeleteResourceLite", resource, false);
}
DXGKIT_NT_ABI int32_t reinitialize_resource(void* resource) {
  return remove_resource("ExReinitializeResourceLite", resource, true);
}

// --- push locks: word 0 free, 1 exclusive, 2n shared by n; the upper half counts waiters

struct PushLock {  // EX_PUSH_LOCK
  std::atomic<uint32_t> word, waiters;
};
static_assert(sizeof(PushLock) == 8);

DXGKIT_NT_ABI void initialize_push_lock(PushLock* lock) {
  PushLock& given = required("ExInitializePushLock", "PushLock", lock);
  given.word = 0;
  given.waiters = 0;
}

void acquire_push_lock(const char* function, PushLock* lock, bool exclusive) {
  PushLock& given = required(function, "PushLock", lock);
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kApcLevel);
  runtime::TimeNs hangs = 0;
  for (;;) {
    uint32_t seen = given.word.load(std::memory_order_relaxed);
    const bool can = exclusive ? seen == 0 : (seen & 1) == 0;
    if (can) {
      if (given.word.compare_exchange_weak(seen, exclusive ? 1 : seen + 2,
                                           std::memory_order_acquire)) {
        return;
      }
      continue;
    }
    given.waiters.fetch_add(1);
    if (hangs == 0) hangs = hang_deadline(frame);
    if (!wait_for_word(frame, given.word, seen, hangs)) {
      report_wait(frame, function,
                  fmt::format("push lock {}, held {}", static_cast<const void*>(lock),
                              (seen & 1) != 0 ? "exclusively" : "shared"));
    }
    given.waiters.fetch_sub(1);
  }
}

void release_push_lock(const char* function, PushLock* lock, bool any, bool exclusive) {
  PushLock& given = required(function, "PushLock", lock);
  Kernel& kernel = CallFrame::current().kernel();
  uint32_t seen = given.word.load(std::memory_order_relaxed);
  for (;;) {
    if (seen == 0 || (!any && exclusive != (seen == 1))) break;
    if (given.word.compare_exchange_weak(seen, seen == 1 ? 0 : seen - 2,
                                         std::memory_order_release)) {
      if (given.waiters.load() > 0) kernel.runtime().wake_all(given.word);
      return;
    }
  }
  kernel.bug_check(
      "NT-30", function, 0xE3, static_cast<uint32_t>(reinterpret_cast<uint64_t>(lock)),
      seen == 0 ? "The push lock is not held." : "The push lock is held the other way.",
      "A push lock is released once, the way it was acquired.", "Pair acquire and release.");
}

DXGKIT_NT_ABI void acquire_push_lock_exclusive(PushLock* lock, uint32_t) {
  acquire_push_lock("ExAcquirePushLockExclusiveEx", lock, true);
}
DXGKIT_NT_ABI void acquire_push_lock_shared(PushLock* lock, uint32_t) {
  acquire_push_lock("ExAcquirePushLockSharedEx", lock, false);
}
DXGKIT_NT_ABI void release_push_lock_exclusive(PushLock* lock, uint32_t) {
  release_push_lock("ExReleasePushLockExclusiveEx", lock, false, true);
}
DXGKIT_NT_ABI void release_push_lock_shared(PushLock* lock, uint32_t) {
  release_push_lock("ExReleasePushLockSharedEx", lock, false, false);
}
DXGKIT_NT_ABI void release_push_lock_any(PushLock* lock, uint32_t) {
  release_push_lock("ExReleasePushLockEx", lock, true, false);
}

// --- rundown protection: bit 0 the end has begun, above it the count

struct Rundown {  // EX_RUNDOWN_REF
  std::atomic<uint32_t> word;
  uint32_t padding;
};
static_assert(sizeof(Rundown) == 8);
constexpr uint32_t kRundownMax = UINT32_MAX / 2;

DXGKIT_NT_ABI void initialize_rundown(Rundown* rundown) {
  required("ExInitializeRundownProtection", "RunRef", rundown).word = 0;
}
DXGKIT_NT_ABI uint8_t acquire_rundown_count(Rundown* rundown, uint32_t count) {
  Rundown& given = required("ExAcquireRundownProtection", "RunRef", rundown);
  uint32_t seen = given.word.load(std::memory_order_relaxed);
  for (;;) {
    if ((seen & 1) != 0 || count > kRundownMax - seen / 2) return 0;
    if (given.word.compare_exchange_weak(seen, seen + 2 * count, std::memory_order_acquire))
      return 1;
  }
}
DXGKIT_NT_ABI uint8_t acquire_rundown(Rundown* rundown) {
  return acquire_rundown_count(rundown, 1);
}
DXGKIT_NT_ABI void release_rundown_count(Rundown* rundown, uint32_t count) {
  Rundown& given = required("ExReleaseRundownProtection", "RunRef", rundown);
  Kernel& kernel = CallFrame::current().kernel();
  uint32_t seen = given.word.load(std::memory_order_relaxed);
  for (;;) {
    if (count > seen / 2) break;
    if (given.word.compare_exchange_weak(seen, seen - 2 * count, std::memory_order_release)) {
      if (seen - 2 * count == 1) kernel.runtime().wake_all(given.word);
      return;
    }
  }
  kernel.bug_check("NT-31", "ExReleaseRundownProtection", 0x18,
                   static_cast<uint32_t>(reinterpret_cast<uint64_t>(rundown)),
                   fmt::format("{} references are released, {} are held.", count, seen / 2),
                   "Each rundown reference is released once.", "Pair acquire and release.");
}
DXGKIT_NT_ABI void release_rundown(Rundown* rundown) { release_rundown_count(rundown, 1); }
DXGKIT_NT_ABI void wait_for_rundown(Rundown* rundown) {
  Rundown& given = required("ExWaitForRundownProtectionRelease", "RunRef", rundown);
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ExWaitForRundownProtectionRelease", kApcLevel);
  given.word.fetch_or(1);
  runtime::TimeNs hangs = 0;
  for (;;) {
    const uint32_t seen = given.word.load(std::memory_order_acquire);
    if (seen == 1) return;
    if (hangs == 0) hangs = hang_deadline(frame);
    if (wait_for_word(frame, given.word, seen, hangs)) continue;
    report_wait(
        frame, "ExWaitForRundownProtectionRelease",
        fmt::format("the {} references of {}", seen / 2, static_cast<const void*>(rundown)));
  }
}
DXGKIT_NT_ABI void rundown_completed(Rundown* rundown) {
  required("ExRundownCompleted", "RunRef", rundown).word = 1;
}

DXGKIT_NT_ABI void nothing() {}

}  // namespace

std::span<const Export> resource_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("ExAcquirePushLockExclusiveEx", acquire_push_lock_exclusive, kSupported, ""),
      DXGKIT_EXPORT("ExAcquirePushLockSharedEx", acquire_push_lock_shared, kSupported, ""),
      DXGKIT_EXPORT("ExAcquireResourceExclusiveLite", acquire_exclusive, kSupported, ""),
      DXGKIT_EXPORT("ExAcquireResourceSharedLite", acquire_shared, kSupported, ""),
      DXGKIT_EXPORT("ExAcquireRundownProtection", acquire_rundown, kSupported, ""),
      DXGKIT_EXPORT("ExAcquireRundownProtectionEx", acquire_rundown_count, kSupported, ""),
      DXGKIT_EXPORT("ExAcquireSharedStarveExclusive", acquire_shared_starve, kSupported, ""),
      DXGKIT_EXPORT("ExAcquireSharedWaitForExclusive", acquire_shared_wait, kSupported, ""),
      DXGKIT_EXPORT("ExConvertExclusiveToSharedLite", convert_to_shared, kSupported, ""),
      DXGKIT_EXPORT("ExDeleteResourceLite", delete_resource, kSupported, ""),
      DXGKIT_EXPORT("ExDisableResourceBoostLite", nothing, kPartial, "priorities have no effect"),
      DXGKIT_EXPORT("ExEnterCriticalRegionAndAcquireResourceExclusive", enter_and_acquire_exclusive,
                    kSupported, ""),
      DXGKIT_EXPORT("ExEnterCriticalRegionAndAcquireResourceShared", enter_and_acquire_shared,
                    kSupported, ""),
      DXGKIT_EXPORT("ExGetExclusiveWaiterCount", exclusive_waiters, kSupported, ""),
      DXGKIT_EXPORT("ExGetSharedWaiterCount", shared_waiters, kSupported, ""),
      DXGKIT_EXPORT("ExInitializePushLock", initialize_push_lock, kSupported, ""),
      DXGKIT_EXPORT("ExInitializeResourceLite", initialize_resource, kSupported, ""),
      DXGKIT_EXPORT("ExInitializeRundownProtection", initialize_rundown, kSupported, ""),
      DXGKIT_EXPORT("ExIsResourceAcquiredExclusiveLite", is_acquired_exclusive, kSupported, ""),
      DXGKIT_EXPORT("ExIsResourceAcquiredSharedLite", is_acquired_shared, kSupported, ""),
      DXGKIT_EXPORT("ExReInitializeRundownProtection", initialize_rundown, kSupported, ""),
      DXGKIT_EXPORT("ExReinitializeResourceLite", reinitialize_resource, kSupported, ""),
      DXGKIT_EXPORT("ExReleasePushLockEx", release_push_lock_any, kSupported, ""),
      DXGKIT_EXPORT("ExReleasePushLockExclusiveEx", release_push_lock_exclusive, kSupported, ""),
      DXGKIT_EXPORT("ExReleasePushLockSharedEx", release_push_lock_shared, kSupported, ""),
      DXGKIT_EXPORT("ExReleaseResourceAndLeaveCriticalRegion", release_resource, kSupported, ""),
      DXGKIT_EXPORT("ExReleaseResourceForThreadLite", release_resource_for_thread, kSupported, ""),
      DXGKIT_EXPORT("ExReleaseResourceLite", release_resource, kSupported, ""),
      DXGKIT_EXPORT("ExReleaseRundownProtection", release_rundown, kSupported, ""),
      DXGKIT_EXPORT("ExReleaseRundownProtectionEx", release_rundown_count, kSupported, ""),
      DXGKIT_EXPORT("ExRundownCompleted", rundown_completed, kSupported, ""),
      DXGKIT_EXPORT("ExWaitForRundownProtectionRelease", wait_for_rundown, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
