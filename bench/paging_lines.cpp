// paging.*: video memory too small for what is used in turn, so that every use moves it.
#include <array>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/guarded_copy.h"
#include "bench/client.h"
#include "bench/harness.h"
#include "devices/softgpu/softgpu.h"
#include "miniports/softgpu/softgpu_umd.h"

namespace dxgkit::bench {
namespace {

constexpr uint64_t kSystemBytes = uint64_t{512} << 20;
constexpr uint64_t kLargeBytes = uint64_t{64} << 20;
// Enough pieces that what belongs to the submission and not to its pieces does not count.
constexpr uint64_t kPieces = 256;
constexpr uint64_t kPieceBytes = 64 << 10;

/// An adapter whose memory holds one half, and a quarter of the other, of what is used in turn.
/// Each use of a half is one submission that writes a word into every allocation of it, so what
/// leaves is dirty.
struct Thrash {
  /// Two halves, in allocations of so many bytes.
  struct Halves {
    std::array<std::vector<D3DKMT_HANDLE>, 2> each;
    double bytes_moved = 0;  // by using both, as the kernel counts it; 0: too few
  };

  Thrash(runtime::Runtime& os, uint64_t half_bytes_in)
      : half_bytes(half_bytes_in),
        world(os, kSystemBytes),
        gpu(std::make_unique<softgpu::SoftGpu>(
            os, world.machine(),
            softgpu::SoftGpuConfig{.vram_bytes = half_bytes * 5 / 4, .timing = {}, .faults = {}})) {
    port::DriverSource source;
    source.name = "softgpu";
    source.path = DXGKIT_BENCH_MINIPORT;
    if (!world.start(source, gpu->function()) || !world.create_context(SGPU_UMD_NODE_3D, &context))
      return;
    fence = world.create_fence();
  }
  ~Thrash() { world.stop(); }

  Halves make(uint64_t piece_bytes) {
    Halves made;
    if (!world.error().empty()) return made;
    DXGKIT_CHECK(half_bytes / piece_bytes <= context.allocation_count);
    for (std::vector<D3DKMT_HANDLE>& half : made.each) {
      for (uint64_t bytes = 0; bytes < half_bytes; bytes += piece_bytes) {
        SgpuUmdAllocation wanted = {};
        wanted.magic = SGPU_UMD_ALLOCATION_MAGIC;
        wanted.version = SGPU_UMD_VERSION;
        wanted.kind = SGPU_UMD_KIND_BUFFER;
        wanted.placement = SGPU_UMD_PLACE_VRAM;
        wanted.size_bytes = piece_bytes;
        half.push_back(world.create_allocation(&wanted, sizeof(wanted)));
      }
    }
    if (!world.error().empty()) return made;
    use_both(made);  // first uses fill instead of moving
    use_both(made);
    const dxgk::AdapterStatistics before = world.statistics();
    use_both(made);
    const dxgk::AdapterStatistics after = world.statistics();
    made.bytes_moved =
        static_cast<double>(after.bytes_in - before.bytes_in + after.bytes_out - before.bytes_out);
    // Three quarters of each half, out and in.
    if (made.bytes_moved < 2.9 * static_cast<double>(half_bytes)) made.bytes_moved = 0;
    return made;
  }

  void use(const std::vector<D3DKMT_HANDLE>& half) {
    const SgpuUmdBufferHeader header{
        SGPU_UMD_BUFFER_MAGIC, SGPU_UMD_VERSION,
        static_cast<uint32_t>(sizeof(SgpuUmdBufferHeader) + half.size() * sizeof(SgpuUmdFill)), 0};
    DXGKIT_CHECK(header.size_bytes <= context.command_bytes);
    std::memcpy(context.commands, &header, sizeof(header));
    for (uint32_t i = 0; i < half.size(); ++i) {
      SgpuUmdFill fill = {};
      fill.header = {SGPU_UMD_OP_FILL, sizeof(fill)};
      fill.destination.allocation = i;
      fill.size_bytes = 4;
      fill.pattern = static_cast<uint32_t>(value);
      std::memcpy(context.commands + sizeof(header) + i * sizeof(fill), &fill, sizeof(fill));
      context.allocations[i] = {};
      context.allocations[i].hAllocation = half[i];
      context.allocations[i].WriteOperation = 1;
    }
    DXGKIT_CHECK(world.render(context, header.size_bytes, static_cast<uint32_t>(half.size())));
    DXGKIT_CHECK(world.signal(context, fence, ++value));
    DXGKIT_CHECK(world.wait(fence, value));
  }
  void use_both(const Halves& halves) {
    for (const std::vector<D3DKMT_HANDLE>& half : halves.each) use(half);
  }
  std::string error_of(const Halves& halves) const {
    if (!world.error().empty()) return world.error();
    return halves.bytes_moved == 0 ? "the uses did not evict" : "";
  }

  uint64_t half_bytes;
  World world;
  std::unique_ptr<softgpu::SoftGpu> gpu;
  World::Context context;
  D3DKMT_HANDLE fence = 0;
  uint64_t value = 0;
};

/// One of them with its halves. A thread speaks for one client at a time, so one of these a thread.
struct Thrasher {
  Thrasher(runtime::Runtime& os, uint64_t half_bytes, uint64_t piece_bytes)
      : thrash(os, half_bytes), halves(thrash.make(piece_bytes)) {}
  void use_both() { thrash.use_both(halves); }
  std::string error() const { return thrash.error_of(halves); }
  Thrash thrash;
  Thrash::Halves halves;
};

enum class CopyWith { kMemcpy, kRepMovsb };

/// The same moves between ordinary buffers: out of one place, into it, twice.
struct Copies {
  static constexpr size_t kBytes = kLargeBytes;
  std::vector<std::byte> place = std::vector<std::byte>(kBytes, std::byte{1});
  std::vector<std::byte> stores[2] = {std::vector<std::byte>(kBytes, std::byte{2}),
                                      std::vector<std::byte>(kBytes, std::byte{3})};
  CopyWith with = CopyWith::kMemcpy;

  void copy(std::vector<std::byte>& to, const std::vector<std::byte>& from) const {
    if (with == CopyWith::kMemcpy) {
      std::memcpy(to.data(), from.data(), kBytes);
    } else {
      // The kernel's own way to copy without a fault in sight, which is that one instruction.
      DXGKIT_CHECK(guarded_copy(to.data(), from.data(), kBytes));
    }
  }
  void both() {
    for (int i = 0; i < 2; ++i) {
      copy(stores[1 - i], place);
      copy(place, stores[i]);
    }
    keep(place.data());
  }
};

/// A second thread that does its part of every batch while the caller does its own.
class Companion {
 public:
  /// `prepare` runs on it first and returns what it does per batch.
  Companion(runtime::Runtime& os, std::function<std::function<void()>()> prepare) : os_(os) {
    thread_ = os.spawn("companion", [this, prepare = std::move(prepare)] {
      std::function<void()> part = prepare();
      for (uint32_t seen = 0;; ++seen) {
        done_.store(seen, std::memory_order_release);
        os_.wake_all(done_);
        while (wanted_.load(std::memory_order_acquire) == seen) os_.wait(wanted_, seen);
        if (stop_.load(std::memory_order_relaxed)) break;
        part();
      }
    });
    wait_until_done(0);
  }
  ~Companion() {
    stop_.store(true, std::memory_order_relaxed);
    start();
    thread_->join();
  }
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  template <typename Mine>
  void both(Mine mine) {
    const uint32_t batch = start();
    mine();
    wait_until_done(batch);
  }

 private:
  uint32_t start() {
    const uint32_t batch = wanted_.fetch_add(1, std::memory_order_release) + 1;
    os_.wake_all(wanted_);
    return batch;
  }
  void wait_until_done(uint32_t batch) {
    for (uint32_t done = done_.load(std::memory_order_acquire); done != batch;
         done = done_.load(std::memory_order_acquire)) {
      os_.wait(done_, done);
    }
  }
  runtime::Runtime& os_;
  std::atomic<uint32_t> wanted_{0};
  std::atomic<uint32_t> done_{~uint32_t{0}};
  std::atomic<bool> stop_{false};
  std::unique_ptr<runtime::Thread> thread_;
};

Line bandwidth_line(const char* what) {
  Line line;
  line.what = what;
  line.unit = Unit::kGigabytesPerSecond;
  line.goal = Goal::kAtLeast;
  line.target = 0.9;
  return line;
}

Line one_thread(runtime::Runtime& os, CopyWith with, const char* what) {
  Line line = bandwidth_line(what);
  const auto ours = std::make_shared<Thrasher>(os, kLargeBytes, kLargeBytes);
  line.unavailable = ours->error();
  line.ours = {.batch = [ours] { ours->use_both(); }, .operations = ours->halves.bytes_moved};
  const auto copies = std::make_shared<Copies>();
  copies->with = with;
  line.reference = Side{.batch = [copies] { copies->both(); }, .operations = 4.0 * kLargeBytes};
  return line;
}

/// Two adapters, each with a client that waits and an engine that copies.
Line two_threads(runtime::Runtime& os) {
  Line line = bandwidth_line(
      "two adapters at once, each evicts and pages in 64 MiB / rep movsb by two threads");
  const auto mine = std::make_shared<Thrasher>(os, kLargeBytes, kLargeBytes);
  const auto errors = std::make_shared<std::string>(mine->error());
  const auto other = std::make_shared<Companion>(os, [&os, errors] {
    const auto theirs = std::make_shared<Thrasher>(os, kLargeBytes, kLargeBytes);
    if (errors->empty()) *errors = theirs->error();
    return [theirs] { theirs->use_both(); };
  });
  line.unavailable = *errors;
  line.ours = {.batch = [mine, other] { other->both([&] { mine->use_both(); }); },
               .operations = 2 * mine->halves.bytes_moved};
  const auto copies = std::make_shared<Copies>();
  copies->with = CopyWith::kRepMovsb;
  const auto copier = std::make_shared<Companion>(os, [] {
    const auto theirs = std::make_shared<Copies>();
    theirs->with = CopyWith::kRepMovsb;
    return [theirs] { theirs->both(); };
  });
  line.reference = Side{.batch = [copies, copier] { copier->both([&] { copies->both(); }); },
                        .operations = 2 * 4.0 * kLargeBytes};
  return line;
}

Line scattered(runtime::Runtime& os) {
  Line line = bandwidth_line(
      "evict and page in 256 allocations of 64 KiB, from Render to fence / one of 16 MiB");
  constexpr uint64_t kHalf = kPieces * kPieceBytes;
  const auto thrash = std::make_shared<Thrash>(os, kHalf);
  const auto whole = std::make_shared<Thrash::Halves>(thrash->make(kHalf));
  const auto pieces = std::make_shared<Thrash::Halves>(thrash->make(kPieceBytes));
  line.unavailable = thrash->error_of(*whole);
  if (line.unavailable.empty()) line.unavailable = thrash->error_of(*pieces);
  const auto side = [&](const std::shared_ptr<Thrash::Halves>& halves) {
    // Untimed first: what the other side left behind goes.
    return Side{.warm = [thrash, halves] { thrash->use_both(*halves); },
                .batch = [thrash, halves] { thrash->use_both(*halves); },
                .operations = halves->bytes_moved};
  };
  line.ours = side(pieces);
  line.reference = side(whole);
  return line;
}

}  // namespace

void add_paging_lines(runtime::Runtime& os, std::vector<Maker>& lines) {
  lines.push_back({"paging.copy_bandwidth", [&os] {
                     return one_thread(os, CopyWith::kMemcpy,
                                       "evict 64 MiB and page in 64 MiB, from Render to fence / "
                                       "memcpy of the same sizes");
                   }});
  lines.push_back({"paging.copy_rep_movsb",
                   [&os] { return one_thread(os, CopyWith::kRepMovsb, "the same / rep movsb"); }});
  lines.push_back({"paging.copy_two_threads", [&os] { return two_threads(os); }});
  lines.push_back({"paging.copy_scattered_64k", [&os] { return scattered(os); }});
}

}  // namespace dxgkit::bench
