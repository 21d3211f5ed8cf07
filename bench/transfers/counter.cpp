#include "bench/transfers/counter.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdarg>
#include <cstdlib>
#include <fstream>
#include <new>

#include "base/cache_line.h"

namespace dxgkit::bench {
namespace {

constexpr uint32_t kThreads = 16;           // those behind count as the last one
constexpr size_t kLines = size_t{1} << 22;  // more than a run touches
constexpr size_t kSites = size_t{1} << 16;

/// A cache line: which threads have it. With one bit set, that thread may have written it.
struct Line {
  std::atomic<uint64_t> number;  // address / kCacheLineBytes; 0: free
  std::atomic<uint32_t> locked;
  uint32_t holders;
};

enum Kind { kRead, kWrite, kLocked, kFetched, kClaimed, kEntry, kAllocation, kKinds };

struct Site {
  std::atomic<uint64_t> address;
  std::atomic<uint64_t> counts[kThreads][kKinds];
};

template <typename T>
T* zeroed(size_t count) {
  void* const memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  return static_cast<T*>(memory);
}

// Nothing here has a constructor: accesses are counted before main.
Line* lines() {
  static Line* const table = zeroed<Line>(kLines);
  return table;
}
Site* sites() {
  static Site* const table = zeroed<Site>(kSites);
  return table;
}

std::atomic<uint32_t> thread_count;
pid_t thread_ids[kThreads];
thread_local uint32_t this_thread = UINT32_MAX;

uint32_t thread_index() {
  if (this_thread == UINT32_MAX) {
    this_thread = std::min(thread_count.fetch_add(1), kThreads - 1);
    thread_ids[this_thread] = gettid();
  }
  return this_thread;
}

template <typename Entry, std::atomic<uint64_t> Entry::*kKey>
Entry& find(Entry* table, size_t size, uint64_t key) {
  size_t at = (key * 0x9E3779B97F4A7C15U) >> (64 - std::bit_width(size - 1));
  for (size_t tried = 0; tried < size; ++tried, at = (at + 1) % size) {
    uint64_t seen = (table[at].*kKey).load(std::memory_order_relaxed);
    if (seen == 0 && (table[at].*kKey).compare_exchange_strong(seen, key)) return table[at];
    if (seen == key) return table[at];
  }
  abort();  // the table is too small: no count would be right
}

void add(const void* from, Kind kind) {
  Site& site = find<Site, &Site::address>(sites(), kSites, reinterpret_cast<uint64_t>(from) - 1);
  site.counts[thread_index()][kind].fetch_add(1, std::memory_order_relaxed);
}

void touch(uint64_t number, bool writes, const void* from) {
  const uint32_t me = 1U << thread_index();
  Line& line = find<Line, &Line::number>(lines(), kLines, number);
  while (line.locked.exchange(1, std::memory_order_acquire) != 0) {
  }
  const uint32_t before = line.holders;
  line.holders = writes ? me : before | me;
  line.locked.store(0, std::memory_order_release);
  if ((before & me) == 0) {
    if (before != 0) add(from, kFetched);
  } else if (writes && before != me) {
    add(from, kClaimed);
  }
}

void access(const volatile void* at, uint64_t bytes, Kind kind, const void* from) {
  if (bytes == 0) return;
  add(from, kind);
  const auto first = reinterpret_cast<uint64_t>(at);
  for (uint64_t number = first / kCacheLineBytes; number <= (first + bytes - 1) / kCacheLineBytes;
       ++number)
    touch(number, kind != kRead, from);
}

uint64_t image_start() {
  uint64_t start = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<uint64_t*>(out) = info->dlpi_addr;
        return 1;  // the program is the first
      },
      &start);
  return start;
}

}  // namespace

void begin_counting() {
  for (size_t i = 0; i < kSites; ++i) {
    if (sites()[i].address.load() == 0) continue;
    for (auto& of_thread : sites()[i].counts) {
      for (std::atomic<uint64_t>& count : of_thread) count.store(0);
    }
  }
}

Counts counted() {
  Counts counts;
  for (uint32_t thread = 0; thread < std::min(thread_count.load(), kThreads); ++thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread_ids[thread]) + "/comm");
    std::string name = "ended";
    std::getline(file, name);
    counts.threads.push_back(name);
  }
  const uint64_t start = image_start();
  for (size_t i = 0; i < kSites; ++i) {
    const Site& site = sites()[i];
    if (site.address.load() == 0) continue;
    for (uint32_t thread = 0; thread < counts.threads.size(); ++thread) {
      const auto count = [&](Kind kind) { return site.counts[thread][kind].load(); };
      SiteCounts one{site.address.load() - start,
                     thread,
                     count(kRead),
                     count(kWrite),
                     count(kLocked),
                     count(kFetched),
                     count(kClaimed),
                     count(kEntry),
                     count(kAllocation)};
      if (one.reads + one.writes + one.locked + one.entries + one.allocations != 0)
        counts.sites.push_back(one);
    }
  }
  return counts;
}

}  // namespace dxgkit::bench

// --- what the compiler calls

using dxgkit::bench::access;
using dxgkit::bench::add;
using dxgkit::bench::Kind;

#define FROM __builtin_return_address(0)
#define PLAIN(bytes)                                                                      \
  void __tsan_read##bytes(void* at) { access(at, bytes, Kind::kRead, FROM); }             \
  void __tsan_write##bytes(void* at) { access(at, bytes, Kind::kWrite, FROM); }           \
  void __tsan_unaligned_read##bytes(void* at) { access(at, bytes, Kind::kRead, FROM); }   \
  void __tsan_unaligned_write##bytes(void* at) { access(at, bytes, Kind::kWrite, FROM); } \
  void __tsan_volatile_read##bytes(void* at) { access(at, bytes, Kind::kRead, FROM); }    \
  void __tsan_volatile_write##bytes(void* at) { access(at, bytes, Kind::kWrite, FROM); }

#define CHANGE(bits, type, name)                                          \
  type __tsan_atomic##bits##_##name(volatile type* at, type value, int) { \
    access(at, sizeof(type), Kind::kLocked, FROM);                        \
    return __atomic_##name(at, value, __ATOMIC_SEQ_CST);                  \
  }
#define COMPARE(bits, type, name, weak)                                                 \
  bool __tsan_atomic##bits##_compare_exchange_##name(volatile type* at, type* expected, \
                                                     type value, int, int) {            \
    access(at, sizeof(type), Kind::kLocked, FROM);                                      \
    return __atomic_compare_exchange_n(at, expected, value, weak, __ATOMIC_SEQ_CST,     \
                                       __ATOMIC_SEQ_CST);                               \
  }
#define ATOMIC(bits, type)                                                                    \
  type __tsan_atomic##bits##_load(const volatile type* at, int) {                             \
    access(at, sizeof(type), Kind::kRead, FROM);                                              \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                             \
  }                                                                                           \
  void __tsan_atomic##bits##_store(volatile type* at, type value, int order) {                \
    access(at, sizeof(type), order == __ATOMIC_SEQ_CST ? Kind::kLocked : Kind::kWrite, FROM); \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                            \
  }                                                                                           \
  type __tsan_atomic##bits##_exchange(volatile type* at, type value, int) {                   \
    access(at, sizeof(type), Kind::kLocked, FROM);                                            \
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                  \
  }                                                                                           \
  CHANGE(bits, type, fetch_add)                                                               \
  CHANGE(bits, type, fetch_sub)                                                               \
  CHANGE(bits, type, fetch_and)                                                               \
  CHANGE(bits, type, fetch_or)                                                                \
  CHANGE(bits, type, fetch_xor)                                                               \
  CHANGE(bits, type, fetch_nand)                                                              \
  COMPARE(bits, type, strong, false)                                                          \
  COMPARE(bits, type, weak, true)

extern "C" {
void __tsan_init() {}
void __tsan_vptr_update(void* at, void*) { access(at, 8, Kind::kWrite, FROM); }
void __tsan_vptr_read(void* at) { access(at, 8, Kind::kRead, FROM); }
void __tsan_read_range(void* at, unsigned long bytes) { access(at, bytes, Kind::kRead, FROM); }
void __tsan_write_range(void* at, unsigned long bytes) { access(at, bytes, Kind::kWrite, FROM); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
void __tsan_atomic_thread_fence(int order) {
  if (order == __ATOMIC_SEQ_CST) add(FROM, Kind::kLocked);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

// --- what the linker sends here (--wrap)

void* __real_memcpy(void*, const void*, size_t);
void* __real_memmove(void*, const void*, size_t);
void* __real_memset(void*, int, size_t);
int __real_memcmp(const void*, const void*, size_t);
long __real_syscall(long, ...);

void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  access(from, bytes, Kind::kRead, FROM);
  access(to, bytes, Kind::kWrite, FROM);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, size_t bytes) {
  access(from, bytes, Kind::kRead, FROM);
  access(to, bytes, Kind::kWrite, FROM);
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* to, int value, size_t bytes) {
  access(to, bytes, Kind::kWrite, FROM);
  return __real_memset(to, value, bytes);
}
int __wrap_memcmp(const void* a, const void* b, size_t bytes) {
  access(a, bytes, Kind::kRead, FROM);
  access(b, bytes, Kind::kRead, FROM);
  return __real_memcmp(a, b, bytes);
}
long __wrap_syscall(long number, ...) {
  add(FROM, Kind::kEntry);
  va_list all;
  va_start(all, number);
  long a[6];
  for (long& one : a) one = va_arg(all, long);
  va_end(all);
  return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
}  // extern "C"

void* operator new(size_t bytes) {
  add(FROM, Kind::kAllocation);
  if (void* const memory = std::malloc(bytes); memory != nullptr) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
