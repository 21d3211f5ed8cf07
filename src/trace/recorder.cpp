#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <span>

#include "base/check.h"
#include "base/spin_lock.h"
#include "trace/trace.h"

namespace dxgkit::trace {
namespace {

constexpr size_t kChunkEvents = 4096;

/// Memory of chunks that recorders before have used, for the next one: a process that runs many
/// short simulations records each of them into the same pages.
class SpareChunks {
 public:
  Event* take() {
    SpinGuard guard(lock_);
    return count_ == 0 ? nullptr : spare_[--count_];
  }
  bool keep(Event* events) {
    SpinGuard guard(lock_);
    if (count_ == spare_.size()) return false;
    spare_[count_++] = events;
    return true;
  }

 private:
  SpinLock lock_;
  std::array<Event*, 16> spare_{};  // 3 MiB
  size_t count_ = 0;
};
constinit SpareChunks g_spare_chunks;

struct Chunk {
  /// Maps its memory with all pages present: per page, one system call costs a third of a fault.
  explicit Chunk(size_t capacity) : bytes(capacity * sizeof(Event)) {
    if (capacity == kChunkEvents) events = g_spare_chunks.take();
    if (events != nullptr) return;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    DXGKIT_CHECK(memory != MAP_FAILED);
    events = static_cast<Event*>(memory);
  }
  ~Chunk() {
    if (bytes != kChunkEvents * sizeof(Event) || !g_spare_chunks.keep(events))
      munmap(events, bytes);
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  const size_t bytes;
  Event* events = nullptr;
  // The owner writes it, and exporters read it: it publishes the events below it.
  std::atomic<size_t> used{0};
};

/// The events of one OS thread, oldest chunk first.
struct Buffer {
  uint64_t owner = 0;
  std::vector<std::unique_ptr<Chunk>> chunks;
  Chunk* open = nullptr;
};

/// Unique for the process's life, unlike the ids and addresses of threads and recorders. 0: none.
std::atomic<uint64_t> g_next_identity{1};

uint64_t this_thread_identity() {
  static thread_local const uint64_t identity = g_next_identity.fetch_add(1);
  return identity;
}

struct CacheEntry {
  uint64_t recorder = 0;
  Buffer* buffer = nullptr;
};
/// The calling thread's buffer in the recorder it used last.
constinit thread_local CacheEntry t_cache;

/// Ids of names by where their text lies. Nearly all texts are constants of the program, so the
/// place finds them; the text itself is compared, because other memory may be used again.
class NamePlaces {
 public:
  struct Place {
    const char* text = nullptr;
    uint32_t id = 0;
  };
  Place& of(std::string_view text) {
    const uint64_t mixed = reinterpret_cast<uintptr_t>(text.data()) * 0x9E3779B97F4A7C15u;
    return places_[mixed >> (64 - kBits)];
  }

 private:
  static constexpr int kBits = 8;
  std::array<Place, size_t{1} << kBits> places_{};
};

}  // namespace

struct Recorder::Impl {
  Impl(Clock recorder_clock, size_t most)
      : clock(std::move(recorder_clock)),
        max_events(std::max<size_t>(most, 1)),
        chunk_events(std::min(kChunkEvents, max_events)),
        max_chunks(max_events / chunk_events) {}

  Buffer* buffer_of_this_thread() {
    const uint64_t thread = this_thread_identity();
    SpinGuard guard(lock);
    Buffer* found = nullptr;
    for (const std::unique_ptr<Buffer>& each : buffers) {
      if (each->owner == thread) found = each.get();
    }
    if (found == nullptr) {
      buffers.push_back(std::make_unique<Buffer>());
      found = buffers.back().get();
      found->owner = thread;
    }
    t_cache = {identity, found};
    return found;
  }

  /// Opens a chunk for `buffer`. If the recorder is full, its oldest chunk is dropped.
  Chunk* next_chunk(Buffer& buffer) {
    if (chunk_count.fetch_add(1, std::memory_order_relaxed) < max_chunks || buffer.chunks.empty()) {
      auto chunk = std::make_unique<Chunk>(chunk_events);
      SpinGuard guard(lock);
      buffer.chunks.push_back(std::move(chunk));
    } else {
      chunk_count.fetch_sub(1, std::memory_order_relaxed);
      SpinGuard guard(lock);
      std::rotate(buffer.chunks.begin(), buffer.chunks.begin() + 1, buffer.chunks.end());
      Chunk& oldest = *buffer.chunks.back();
      dropped.fetch_add(oldest.used.load(std::memory_order_relaxed), std::memory_order_relaxed);
      oldest.used.store(0, std::memory_order_relaxed);
    }
    buffer.open = buffer.chunks.back().get();
    return buffer.open;
  }

  const Clock clock;
  const size_t max_events;
  const size_t chunk_events;
  const size_t max_chunks;
  const uint64_t identity = g_next_identity.fetch_add(1);
  std::atomic<size_t> chunk_count{0};
  std::atomic<uint64_t> dropped{0};
  SpinLock lock;  // buffers, each buffer's list of chunks, names
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::string> names;
  std::map<std::string, uint32_t, std::less<>> name_ids;
  NamePlaces name_places;
};

Recorder::Recorder(Clock clock, size_t max_events)
    : impl_(std::make_unique<Impl>(std::move(clock), max_events)) {
  DXGKIT_CHECK(impl_->clock.now_ns != nullptr);
  DXGKIT_CHECK(impl_->clock.thread != nullptr);
}

Recorder::~Recorder() {
  if (current() == this) set_current(nullptr);
}

void Recorder::record(EventKind kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                      uint16_t node) {
  Impl& impl = *impl_;
  Buffer* const buffer =
      t_cache.recorder == impl.identity ? t_cache.buffer : impl.buffer_of_this_thread();
  Chunk* chunk = buffer->open;
  size_t used = chunk != nullptr ? chunk->used.load(std::memory_order_relaxed) : 0;
  if (chunk == nullptr || used == impl.chunk_events) {
    chunk = impl.next_chunk(*buffer);
    used = 0;
  }
  chunk->events[used] = Event{.time_ns = impl.clock.now_ns(),
                              .thread = impl.clock.thread(),
                              .kind = static_cast<uint16_t>(kind),
                              .node = node,
                              .a = a,
                              .b = b,
                              .c = c,
                              .d = d};
  chunk->used.store(used + 1, std::memory_order_release);
}

uint32_t Recorder::name_id(std::string_view text) {
  Impl& impl = *impl_;
  SpinGuard guard(impl.lock);
  NamePlaces::Place& place = impl.name_places.of(text);
  if (place.text == text.data() && impl.names[place.id] == text) return place.id;
  uint32_t id = 0;
  if (const auto found = impl.name_ids.find(text); found != impl.name_ids.end()) {
    id = found->second;
  } else {
    id = static_cast<uint32_t>(impl.names.size());
    impl.names.emplace_back(text);
    impl.name_ids.emplace(std::string(text), id);
  }
  if (text.data() != nullptr) place = {.text = text.data(), .id = id};
  return id;
}

std::vector<Event> Recorder::events(size_t first) const {
  // The events of one thread: pieces in the thread's order, none of them empty.
  struct Source {
    std::vector<std::span<const Event>> pieces;
    size_t piece = 0;
    size_t next = 0;  // in it
    const Event& head() const { return pieces[piece][next]; }
    bool ended() const { return piece == pieces.size(); }
    void advance() {
      if (++next != pieces[piece].size()) return;
      ++piece;
      next = 0;
    }
  };
  std::vector<Source> sources;
  size_t total = 0;
  {
    SpinGuard guard(impl_->lock);
    for (const std::unique_ptr<Buffer>& buffer : impl_->buffers) {
      Source source;
      for (const std::unique_ptr<Chunk>& chunk : buffer->chunks) {
        const size_t used = chunk->used.load(std::memory_order_acquire);
        if (used != 0) source.pieces.emplace_back(chunk->events, used);
        total += used;
      }
      if (!source.pieces.empty()) sources.push_back(std::move(source));
    }
  }
  std::vector<Event> merged;
  if (sources.size() == 1) {  // a simulation
    merged.reserve(total - std::min(total, first));
    for (const std::span<const Event> piece : sources[0].pieces) {
      const size_t skipped = std::min(first, piece.size());
      merged.insert(merged.end(), piece.data() + skipped, piece.data() + piece.size());
      first -= skipped;
    }
    return merged;
  }
  merged.reserve(total);
  // Merge by the heads, so that each thread's own order survives equal times.
  const auto later = [&sources](size_t x, size_t y) {
    const Event& a = sources[x].head();
    const Event& b = sources[y].head();
    if (a.time_ns != b.time_ns) return a.time_ns > b.time_ns;
    if (a.thread != b.thread) return a.thread > b.thread;
    return x > y;
  };
  std::vector<size_t> heap;
  for (size_t i = 0; i < sources.size(); ++i) heap.push_back(i);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Source& source = sources[heap.back()];
    merged.push_back(source.head());
    source.advance();
    if (source.ended()) {
      heap.pop_back();
    } else {
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  merged.erase(merged.begin(),
               merged.begin() + static_cast<ptrdiff_t>(std::min(first, merged.size())));
  return merged;
}

std::vector<std::string> Recorder::names() const {
  SpinGuard guard(impl_->lock);
  return impl_->names;
}

uint64_t Recorder::dropped() const { return impl_->dropped.load(); }

uint64_t Recorder::recorded() const {
  SpinGuard guard(impl_->lock);
  uint64_t count = impl_->dropped.load();
  for (const std::unique_ptr<Buffer>& buffer : impl_->buffers) {
    for (const std::unique_ptr<Chunk>& chunk : buffer->chunks)
      count += chunk->used.load(std::memory_order_acquire);
  }
  return count;
}

uint64_t hash_of(std::span<const Event> events) {
  uint64_t hash = 0xCBF29CE484222325u;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0x100000001B3u + (hash >> 47);
  };
  for (const Event& event : events) {
    if (is_cause(event.kind)) continue;
    mix(static_cast<uint64_t>(event.time_ns));
    mix(uint64_t{event.thread} << 32 | uint64_t{event.kind} << 16 | event.node);
    for (const uint64_t argument : {event.a, event.b, event.c, event.d}) mix(argument);
  }
  return hash;
}

void emit_name(ObjectClass object_class, uint64_t id, std::string_view name) {
  Recorder* const recorder = current();
  if (recorder == nullptr) return;
  recorder->record(EventKind::kObjectName, id, recorder->name_id(name),
                   static_cast<uint64_t>(object_class));
}

}  // namespace dxgkit::trace
