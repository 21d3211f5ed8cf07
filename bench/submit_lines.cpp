// submit.*: from a client's D3DKMT calls through a null engine and back.
#include <array>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "bench/client.h"
#include "bench/harness.h"
#include "bench/null_world.h"
#include "bench/packets.h"
#include "miniports/softgpu/commands.h"

namespace dxgkit::bench {
namespace {

Side round_trip_side(const std::shared_ptr<RoundTrips>& trips) {
  constexpr uint32_t kTrips = 32;
  return {.warm =
              [trips] {
                for (int i = 0; i < 4; ++i) trips->one();
              },
          .batch =
              [trips] {
                for (uint32_t i = 0; i < kTrips; ++i) trips->one();
              },
          .operations = kTrips};
}

Line versus_spin(runtime::Runtime& os, const char* name) {
  Line line;
  line.name = name;
  line.what = "Render + signal + CPU wait on a null engine / spin hand-off between two threads";
  line.goal = Goal::kAtMost;
  line.target = 5;
  const auto trips = std::make_shared<RoundTrips>(os);
  line.unavailable = trips->world.error();
  line.ours = round_trip_side(trips);
  line.reference = SpinPair::side(os, 400);
  line.fixture = trips;
  return line;
}

// --- pipelined

/// The limit: the same copies and the same patching, and nothing else but a ring of buffers to a
/// second thread that answers with a fence word.
class BareRing {
 public:
  explicit BareRing(runtime::Runtime& os) : os_(os) {
    for (uint32_t i = 0; i < kAllocations; ++i) {
      list_[i].hDeviceSpecificAllocation = &open_;
      list_[i].WriteOperation = 1;
      list_[i].SegmentId = 1;
      list_[i].PhysicalAddress.QuadPart = 0x10'0000'0000 + i * 65536LL;
    }
    engine_ = os.spawn("bare engine", [this] {
      use_second_core();
      uint32_t done = 0;
      for (;;) {
        uint32_t next = submitted_.load(std::memory_order_acquire);
        for (int i = 0; next == done && i < 100'000; ++i) {
          next = submitted_.load(std::memory_order_acquire);
        }
        if (stop_.load(std::memory_order_relaxed)) return;
        if (next == done) {
          os_.wait(submitted_, done);
          continue;
        }
        done = next;
        completed_.store(done, std::memory_order_release);
      }
    });
  }
  ~BareRing() {
    stop_.store(true, std::memory_order_relaxed);
    submitted_.fetch_add(1, std::memory_order_release);
    os_.wake_all(submitted_);
    engine_->join();
  }
  BareRing(const BareRing&) = delete;
  BareRing& operator=(const BareRing&) = delete;

  void warm() {
    run(4);
    os_.wake_all(submitted_);
    while (completed_.load(std::memory_order_acquire) != fence_) os_.yield();
  }
  void run_and_wait(uint32_t packets) {
    run(packets);
    spin_until([&] { return completed_.load(std::memory_order_acquire) == fence_; },
               [&] { os_.wake_all(submitted_); });
  }

 private:
  static constexpr uint32_t kSlots = 16;
  struct Slot {
    std::array<UCHAR, 4096> dma;
    std::array<D3DDDI_PATCHLOCATIONLIST, kPatches> patches;
  };

  void run(uint32_t packets) {
    for (uint32_t i = 0; i < packets; ++i) {
      Slot& slot = slots_[fence_ % kSlots];
      // A slot is free again when what was in it is complete.
      spin_until([&] { return fence_ - completed_.load(std::memory_order_acquire) < kSlots; },
                 [&] { os_.wake_all(submitted_); });
      std::memcpy(slot.dma.data(), commands_.fields.data(), sizeof(commands_.fields));
      std::memcpy(slot.patches.data(), commands_.patches.data(), sizeof(commands_.patches));
      const softgpu::PatchJob patch = {slot.dma.data(),
                                       0,
                                       sizeof(commands_.fields),
                                       list_.data(),
                                       kAllocations,
                                       slot.patches.data(),
                                       kPatches,
                                       0,
                                       kPatches};
      DXGKIT_CHECK(softgpu::patch(patch) == STATUS_SUCCESS);
      submitted_.store(++fence_, std::memory_order_release);
    }
  }

  runtime::Runtime& os_;
  const PacketCommands commands_ = packet_commands();
  softgpu::OpenAllocation open_ = {kNullAllocationBytes, &open_};
  std::array<DXGK_ALLOCATIONLIST, kAllocations> list_{};
  std::array<Slot, kSlots> slots_{};
  uint32_t fence_ = 0;
  alignas(64) std::atomic<uint32_t> submitted_{0};  // release: publishes the slot
  alignas(64) std::atomic<uint32_t> completed_{0};
  alignas(64) std::atomic<bool> stop_{false};
  std::unique_ptr<runtime::Thread> engine_;
};

Line packets_per_second(runtime::Runtime& os, const char* name) {
  Line line;
  line.name = name;
  line.what =
      "packets of 64 patches, 4 contexts, pipelined / copy + patch + ring to a thread, alone";
  line.unit = Unit::kMillionsPerSecond;
  line.goal = Goal::kOursAtLeast;
  line.target = 3;
  const auto pipeline = std::make_shared<Pipeline>(os);
  line.unavailable = pipeline->world.error();
  line.ours = {.warm = [pipeline] { pipeline->run(kContexts); },
               .batch = [pipeline] { pipeline->run(kPackets); },
               .operations = kPackets};
  const auto ring = std::make_shared<BareRing>(os);
  line.reference = Side{.warm = [ring] { ring->warm(); },
                        .batch = [ring] { ring->run_and_wait(kPackets); },
                        .operations = kPackets};
  line.fixture = pipeline;
  return line;
}

}  // namespace

Side null_round_trips(runtime::Runtime& os, std::string* unavailable) {
  const auto trips = std::make_shared<RoundTrips>(os);
  *unavailable = trips->world.error();
  return round_trip_side(trips);
}

void add_submit_lines(runtime::Runtime& os, std::vector<Maker>& lines) {
  lines.push_back(
      {"submit.roundtrip_vs_spin", [&os] { return versus_spin(os, "submit.roundtrip_vs_spin"); }});
  lines.push_back({"submit.packets_per_second",
                   [&os] { return packets_per_second(os, "submit.packets_per_second"); }});
}

}  // namespace dxgkit::bench
