#include "wire/windows.h"

#include <emmintrin.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/arithmetic.h"
#include "base/sealed_memory.h"
#include "dxgk/core/client_memory.h"
#include "dxgk/memory/device_lock.h"
#include "dxgk/system_impl.h"
#include "dxgk/work/device.h"

namespace dxgkit::wire {

struct Windows::Window {
  ~Window() {
    if (shared != nullptr) munmap(shared, bytes);
  }
  UniqueFd descriptor;
  std::byte* shared = nullptr;  // the client writes to it at any time
  uint64_t bytes = 0;
  std::vector<std::byte> seen;  // what both sides had after the last exchange
  dxgk::MemoryCharge charge;
  uint32_t device = 0;
  uint32_t locks = 0;
};

namespace {

/// Windows without a lock that stay.
constexpr size_t kMostSpare = 8;
constexpr uint64_t kMostSpareBytes = 4U << 20;

/// Takes over the bytes that changed, and no other: the other side may have changed those. Returns
/// where they begin and end.
std::pair<size_t, size_t> take_changes(std::span<const std::byte> page, std::byte* seen,
                                       std::byte* to) {
  size_t first = page.size(), last = 0;
  const auto take = [&](size_t at, size_t bytes) {
    for (size_t i = at; i < at + bytes; ++i) {
      if (page[i] == seen[i]) continue;
      to[i] = seen[i] = page[i];
      first = std::min(first, i);
      last = i + 1;
    }
  };
  // A word in which every byte changed is taken over as a whole.
  const auto take_word = [&](size_t at) {
    constexpr uint64_t kLow = 0x0101010101010101, kHigh = kLow << 7;
    uint64_t now = 0, before = 0;
    std::memcpy(&now, page.data() + at, sizeof now);
    std::memcpy(&before, seen + at, sizeof before);
    const uint64_t changed = now ^ before;
    if (changed == 0) return;
    // Not zero if a byte of `changed` is 0.
    if (((changed - kLow) & ~changed & kHigh) != 0) return take(at, sizeof now);
    std::memcpy(to + at, &now, sizeof now);
    std::memcpy(seen + at, &now, sizeof now);
    first = std::min(first, at);
    last = at + sizeof now;
  };
  // So is a run of them, as in new content.
  constexpr size_t kRun = sizeof(__m128i);
  size_t at = 0;
  for (; at + kRun <= page.size(); at += kRun) {
    const __m128i now = _mm_loadu_si128(reinterpret_cast<const __m128i*>(page.data() + at));
    const __m128i before = _mm_loadu_si128(reinterpret_cast<const __m128i*>(seen + at));
    const int same = _mm_movemask_epi8(_mm_cmpeq_epi8(now, before));
    if (same == 0xFFFF) continue;
    if (same != 0) {
      take_word(at);
      take_word(at + kRun / 2);
      continue;
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), now);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(seen + at), now);
    first = std::min(first, at);
    last = at + kRun;
  }
  take(at, page.size() - at);
  return {first, last};
}

}  // namespace

Windows::Windows() = default;
Windows::~Windows() = default;

std::shared_ptr<Windows> make_windows() { return std::make_shared<Windows>(); }

size_t Windows::count() const {
  const runtime::MutexLock lock(mutex_);
  return windows_.size();
}

bool Windows::move(dxgk::Process& process, uint32_t allocation, Window& window, Way way) const {
  const auto device = process.handles().find<dxgk::Device>(window.device);
  if (!device.has_value()) return false;
  return (*device)->locks().with_view(allocation, [&](std::span<std::byte> view) {
    const size_t whole = std::min<size_t>(view.size(), window.bytes);
    std::array<std::byte, kPageBytes> page;
    for (size_t at = 0; at < whole; at += page.size()) {
      const size_t some = std::min(page.size(), whole - at);
      const std::byte* const from = way == Way::kPush ? window.shared + at : view.data() + at;
      std::byte* const to = way == Way::kPush ? view.data() + at : window.shared + at;
      std::byte* const seen = window.seen.data() + at;
      std::memcpy(page.data(), from, some);  // read once: its writer may be at work
      if (std::memcmp(page.data(), seen, some) == 0) continue;
      const auto [first, last] = take_changes({page.data(), some}, seen, to);
      if (observer_ != nullptr)
        observer_(allocation, way == Way::kPush, at + first,
                  std::span(page).subspan(first, last - first));
    }
  });
}

std::shared_ptr<Windows> make_windows(dxgk::System& system, dxgk::Process& process,
                                      std::shared_ptr<dxgk::ClientQuota> quota) {
  process.set_client_memory(
      std::make_shared<dxgk::ClientMemory>(system.impl().machine, std::move(quota)));
  return make_windows();
}

bool Windows::copies(uint32_t allocation) const {
  const runtime::MutexLock lock(mutex_);
  return windows_.contains(allocation);
}

bool Windows::locked(dxgk::Process& process, uint32_t device, uint32_t allocation, WindowNote* note,
                     UniqueFd* descriptor) {
  // What was locked before stays what it is: the client has that address.
  if (!copies_all_ && !copies(allocation) &&
      given_.locked(process, device, allocation, note, descriptor))
    return true;
  const runtime::MutexLock lock(mutex_);
  auto& window = windows_[allocation];
  uint64_t size = 0;
  const auto found = process.handles().find<dxgk::Device>(device);
  const bool there =
      found.has_value() && (*found)->locks().with_view(
                               allocation, [&](std::span<std::byte> view) { size = view.size(); });
  if (!there) {
    windows_.erase(allocation);
    return false;
  }
  if (window == nullptr || window->bytes != size) {
    window = make(size);
    if (window != nullptr)
      *descriptor = UniqueFd(fcntl(window->descriptor.get(), F_DUPFD_CLOEXEC, 0));
    if (window == nullptr || !*descriptor) {
      windows_.erase(allocation);
      return false;
    }
    window->device = device;
    // The kernel has locked it: it is too late for a limit.
    window->charge = dxgk::MemoryCharge::add(dxgk::quota_of(process), 2 * size);
  }
  ++window->locks;
  note->bytes = size;
  if (window->locks > 1) static_cast<void>(move(process, allocation, *window, Way::kPush));
  return move(process, allocation, *window, Way::kPull);
}

std::unique_ptr<Windows::Window> Windows::make(uint64_t size) {
  const auto fits = std::ranges::find(spare_, size, [](const auto& one) { return one->bytes; });
  if (fits != spare_.end()) {
    std::unique_ptr<Window> window = std::move(*fits);
    spare_.erase(fits);
    spare_bytes_ -= size;
    std::memset(window->shared, 0, size);
    std::memset(window->seen.data(), 0, size);
    return window;
  }
  auto window = std::make_unique<Window>();
  window->descriptor = UniqueFd(create_sealed_memory("dxgkit-lock", size));
  void* const shared = window->descriptor ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED,
                                                 window->descriptor.get(), 0)
                                          : MAP_FAILED;
  if (shared == MAP_FAILED) return nullptr;
  window->shared = static_cast<std::byte*>(shared);
  window->bytes = size;
  window->seen.resize(size);
  return window;
}

void Windows::keep(std::unique_ptr<Window> window) {
  if (window->bytes > kMostSpareBytes / 2) return;
  window->charge = {};  // it is little, and nobody has it
  spare_bytes_ += window->bytes;
  spare_.push_back(std::move(window));
  while (spare_.size() > kMostSpare || spare_bytes_ > kMostSpareBytes) {
    spare_bytes_ -= spare_.front()->bytes;
    spare_.erase(spare_.begin());
  }
}

void Windows::before_unlock(dxgk::Process& process, std::span<const uint32_t> allocations) {
  const runtime::MutexLock lock(mutex_);
  for (const uint32_t allocation : allocations) {
    const auto found = windows_.find(allocation);
    if (found != windows_.end())
      static_cast<void>(move(process, allocation, *found->second, Way::kPush));
  }
}

void Windows::unlocked(std::span<const uint32_t> allocations) {
  const runtime::MutexLock lock(mutex_);
  for (const uint32_t allocation : allocations) {
    const auto found = windows_.find(allocation);
    if (found == windows_.end() || --found->second->locks != 0) continue;
    keep(std::move(found->second));
    windows_.erase(found);
  }
}

void Windows::push_all(dxgk::Process& process) {
  const runtime::MutexLock lock(mutex_);
  for (auto& [allocation, window] : windows_)
    static_cast<void>(move(process, allocation, *window, Way::kPush));
}

void Windows::pull_all(dxgk::Process& process) {
  const runtime::MutexLock lock(mutex_);
  std::erase_if(windows_, [&](auto& entry) {
    return !move(process, entry.first, *entry.second, Way::kPull);
  });
}

}  // namespace dxgkit::wire
