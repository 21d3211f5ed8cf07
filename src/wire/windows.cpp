#include "wire/windows.h"

#include <emmintrin.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
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
  UniqueFd descriptor;          // none: the client is in this process
  std::byte* shared = nullptr;  // the client writes to it at any time
  uint64_t bytes = 0;
  bool is_new = true;  // nobody has written to it
  // What both sides had after the last exchange. Pages of zeros are not written to `seen`.
  std::unique_ptr<std::byte[]> seen;
  std::vector<bool> zeros;  // by page
  dxgk::MemoryCharge charge;
  uint32_t device = 0;
  uint32_t locks = 0;
};

namespace {

/// Windows without a lock that stay.
constexpr size_t kMostSpare = 8;
constexpr uint64_t kMostSpareBytes = 4U << 20;

constexpr std::array<std::byte, kPageBytes> kZeros = {};

/// Takes over the bytes that differ from `before`, and no other: the other side may have changed
/// those.
void take_changes(std::span<const std::byte> page, const std::byte* before, std::byte* to) {
  constexpr size_t kRun = sizeof(__m128i);
  size_t at = 0;
  for (; at + kRun <= page.size(); at += kRun) {
    const __m128i now = _mm_loadu_si128(reinterpret_cast<const __m128i*>(page.data() + at));
    const __m128i was = _mm_loadu_si128(reinterpret_cast<const __m128i*>(before + at));
    const int same = _mm_movemask_epi8(_mm_cmpeq_epi8(now, was));
    if (same == 0) {  // as in new content
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), now);
      continue;
    }
    for (uint32_t changed = ~static_cast<uint32_t>(same) & 0xFFFF; changed != 0;
         changed &= changed - 1) {
      const size_t i = at + static_cast<size_t>(std::countr_zero(changed));
      to[i] = page[i];
    }
  }
  for (; at < page.size(); ++at) {
    if (page[at] != before[at]) to[at] = page[at];
  }
}

/// What of a page differs, from the first byte that does to the last.
std::span<const std::byte> differing(std::span<const std::byte> page, const std::byte* before) {
  size_t first = 0, last = page.size();
  while (first < last && page[first] == before[first]) ++first;
  while (last > first && page[last - 1] == before[last - 1]) --last;
  return page.subspan(first, last - first);
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
      const auto zero = window.zeros.begin() + static_cast<ptrdiff_t>(at / page.size());
      const std::byte* const from = way == Way::kPush ? window.shared + at : view.data() + at;
      std::byte* const to = way == Way::kPush ? view.data() + at : window.shared + at;
      std::byte* const seen = window.seen.get() + at;
      if (way == Way::kBegin) {
        if (!window.is_new) std::memset(to, 0, some);
        *zero = true;
      }
      const std::byte* const before = *zero ? kZeros.data() : seen;
      if (std::memcmp(from, before, some) == 0) continue;
      std::memcpy(page.data(), from, some);  // its writer may be at work: this is what counts
      const std::span<const std::byte> now = std::span(page).first(some);
      take_changes(now, before, to);
      const std::span<const std::byte> run = differing(now, before);
      if (observer_ != nullptr && !run.empty()) {
        observer_(allocation, way == Way::kPush, at + static_cast<size_t>(run.data() - now.data()),
                  run);
      }
      std::memcpy(seen, page.data(), some);
      *zero = false;
    }
    window.is_new = false;
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
    if (window != nullptr && !is_here_)
      *descriptor = UniqueFd(fcntl(window->descriptor.get(), F_DUPFD_CLOEXEC, 0));
    if (window == nullptr || (!is_here_ && !*descriptor)) {
      windows_.erase(allocation);
      return false;
    }
    window->device = device;
    // The kernel has locked it: it is too late for a limit.
    window->charge = dxgk::MemoryCharge::add(dxgk::quota_of(process), 2 * size);
  }
  note->bytes = size;
  if (++window->locks == 1) return move(process, allocation, *window, Way::kBegin);
  static_cast<void>(move(process, allocation, *window, Way::kPush));
  return move(process, allocation, *window, Way::kPull);
}

std::unique_ptr<Windows::Window> Windows::make(uint64_t size) {
  const auto fits = std::ranges::find(spare_, size, [](const auto& one) { return one->bytes; });
  if (fits != spare_.end()) {
    std::unique_ptr<Window> window = std::move(*fits);
    spare_.erase(fits);
    spare_bytes_ -= size;
    return window;
  }
  auto window = std::make_unique<Window>();
  if (!is_here_) {
    window->descriptor = UniqueFd(create_sealed_memory("dxgkit-lock", size));
    if (!window->descriptor) return nullptr;
  }
  void* const shared =
      mmap(nullptr, size, PROT_READ | PROT_WRITE,
           is_here_ ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, window->descriptor.get(), 0);
  if (shared == MAP_FAILED) return nullptr;
  window->shared = static_cast<std::byte*>(shared);
  window->bytes = size;
  window->seen = std::make_unique_for_overwrite<std::byte[]>(size);
  window->zeros.resize((size + kPageBytes - 1) / kPageBytes);
  return window;
}

void* Windows::address_of(uint32_t allocation) const {
  const runtime::MutexLock lock(mutex_);
  const auto found = windows_.find(allocation);
  return found == windows_.end() ? nullptr : found->second->shared;
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
