// A driver small enough for tests: rings, buffers and an interrupt handler around one software GPU.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bus/machine.h"
#include "devices/softgpu/softgpu.h"
#include "devices/softgpu/softgpu_hw.h"
#include "runtime/sync.h"

namespace dxgkit::softgpu::testing {

inline constexpr uint32_t kNone = 0xFFFF'FFFF;
inline constexpr uint64_t kVram = SGPU_VRAM_BASE;

/// Builds a DMA buffer.
class Commands {
 public:
  template <typename Command>
  Commands& add(uint32_t opcode, Command command) {
    command.header = {opcode, static_cast<SgpuU32>(sizeof command)};
    return raw(&command, sizeof command);
  }
  template <typename Command>
  Commands& add_list(uint32_t opcode, Command command, const std::vector<uint64_t>& pages) {
    command.header = {opcode, static_cast<SgpuU32>(sizeof command + pages.size() * 8)};
    command.page_count = static_cast<SgpuU32>(pages.size());
    raw(&command, sizeof command);
    return raw(pages.data(), pages.size() * 8);
  }
  Commands& fence_write(uint64_t address, uint64_t value, uint32_t width = 8) {
    return add(SGPU_OP_FENCE_WRITE, SgpuFenceWrite{{}, address, value, width, 0});
  }
  Commands& sem_wait(uint64_t address, uint64_t value, uint32_t width = 8) {
    return add(SGPU_OP_SEM_WAIT, SgpuSemWait{{}, address, value, width, 0});
  }
  Commands& sem_signal(uint64_t address, uint64_t value, uint32_t width = 8) {
    return add(SGPU_OP_SEM_SIGNAL, SgpuSemSignal{{}, address, value, width, 0});
  }
  Commands& copy(uint64_t source, uint64_t destination, uint64_t size) {
    return add(SGPU_OP_COPY, SgpuCopy{{}, source, destination, size});
  }
  Commands& fill(uint64_t destination, uint64_t size, uint32_t pattern) {
    return add(SGPU_OP_FILL, SgpuFill{{}, destination, size, pattern, 0});
  }
  Commands& delay(uint64_t ns, uint32_t flags = 0) {
    return add(SGPU_OP_DELAY, SgpuDelay{{}, ns, flags, 0});
  }
  Commands& nop(uint32_t size = 8) {
    std::vector<std::byte> padding(size);
    const SgpuCommandHeader header{SGPU_OP_NOP, size};
    std::memcpy(padding.data(), &header, sizeof header);
    return raw(padding.data(), size);
  }
  Commands& end() {
    const SgpuCommandHeader header{SGPU_OP_END, sizeof header};
    return raw(&header, sizeof header);
  }
  Commands& raw(const void* bytes, size_t count) {
    const auto* from = static_cast<const std::byte*>(bytes);
    bytes_.insert(bytes_.end(), from, from + count);
    return *this;
  }
  std::vector<std::byte>& bytes() { return bytes_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// One served interrupt cause, with the register values at that time.
struct Served {
  enum Kind { kComplete, kPreempted, kFault } kind;
  uint32_t node;
  uint32_t fence;  // completed fence, preemption id, or fault fence
  bool operator==(const Served&) const = default;
};

class Rig {
 public:
  static constexpr uint32_t kRingEntries = 64;

  explicit Rig(runtime::Runtime& runtime_in,
               SoftGpuConfig config = {.vram_bytes = 8 << 20, .timing = {}, .faults = {}},
               uint32_t ring_entries = kRingEntries)
      : runtime(runtime_in),
        machine(64 << 20),
        gpu(runtime_in, machine, config),
        ring_entries_(ring_entries) {
    EXPECT_EQ(machine.add_function(gpu.function()), Status::kSuccess);
    const auto bars = gpu.function().bars();
    registers_ =
        static_cast<std::byte*>(machine.map_io(bars[SGPU_BAR_REGISTERS].base, SGPU_BAR0_BYTES));
    vram =
        static_cast<std::byte*>(machine.map_io(bars[SGPU_BAR_VRAM].base, bars[SGPU_BAR_VRAM].size));
    gpu.function().interrupt_line().connect([this] { return serve(); });
    set32(SGPU_REG_INT_ENABLE, SGPU_INT_ALL);
    for (uint32_t node = 0; node < SGPU_NODE_COUNT; ++node) {
      ring_address_[node] = system_memory(ring_entries * sizeof(SgpuRingEntry));
      start(node);
    }
  }
  ~Rig() { gpu.function().interrupt_line().connect({}); }

  void start(uint32_t node) {
    set64(SGPU_NODE_REG(node, SGPU_NODE_RING_BASE), ring_address_[node]);
    set32(SGPU_NODE_REG(node, SGPU_NODE_RING_SIZE), ring_entries_);
    set32(SGPU_NODE_REG(node, SGPU_NODE_CONTROL), SGPU_CONTROL_ENABLE);
  }
  /// Resets an engine and returns once it is at rest.
  void reset(uint32_t node) {
    set32(SGPU_NODE_REG(node, SGPU_NODE_CONTROL), SGPU_CONTROL_RESET);
    while ((node32(node, SGPU_NODE_STATUS) & SGPU_STATUS_RESETTING) != 0) {
    }
  }

  uint32_t get32(uint32_t offset) {
    return static_cast<uint32_t>(machine.read_register(registers_ + offset, 4));
  }
  uint64_t get64(uint32_t offset) { return machine.read_register(registers_ + offset, 8); }
  void set32(uint32_t offset, uint32_t value) {
    machine.write_register(registers_ + offset, 4, value);
  }
  void set64(uint32_t offset, uint64_t value) {
    machine.write_register(registers_ + offset, 8, value);
  }
  uint32_t node32(uint32_t node, uint32_t offset) { return get32(SGPU_NODE_REG(node, offset)); }
  uint64_t node64(uint32_t node, uint32_t offset) { return get64(SGPU_NODE_REG(node, offset)); }
  uint64_t access(uint32_t offset, uint32_t size) {
    return machine.read_register(registers_ + offset, size);
  }

  /// Contiguous, zeroed system memory: its GPU address, which is its bus address.
  uint64_t system_memory(uint64_t bytes) {
    const auto first = machine.allocate_contiguous((bytes + kPageBytes - 1) / kPageBytes);
    return first.value().value * kPageBytes;
  }
  std::vector<uint64_t> pages(uint64_t count) {
    std::vector<uint64_t> list;
    const auto frames = machine.allocate_pages(count);
    for (const bus::PageFrame frame : frames.value()) list.push_back(frame.value * kPageBytes);
    return list;
  }
  /// CPU pointer behind a GPU address in system memory or VRAM.
  std::byte* at(uint64_t address, uint64_t size = 1) {
    if (address >= SGPU_VRAM_BASE) return vram + (address - SGPU_VRAM_BASE);
    return machine.system_pointer(bus::PhysicalAddress{address}, size);
  }
  uint64_t word(uint64_t address) {
    return __atomic_load_n(reinterpret_cast<uint64_t*>(at(address, 8)), __ATOMIC_ACQUIRE);
  }
  void set_word(uint64_t address, uint64_t value) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(at(address, 8)), value, __ATOMIC_RELEASE);
  }
  void put(uint64_t address, const std::vector<uint8_t>& bytes) {
    std::memcpy(at(address, bytes.size()), bytes.data(), bytes.size());
  }
  std::vector<uint8_t> take(uint64_t address, uint64_t size) {
    std::vector<uint8_t> bytes(size);
    std::memcpy(bytes.data(), at(address, size), size);
    return bytes;
  }

  void submit(uint32_t node, const SgpuRingEntry& entry) {
    const uint32_t tail = node32(node, SGPU_NODE_RING_TAIL);
    std::memcpy(at(ring_address_[node] + tail * sizeof entry, sizeof entry), &entry, sizeof entry);
    set32(SGPU_NODE_REG(node, SGPU_NODE_RING_TAIL), (tail + 1) % ring_entries_);
  }
  SgpuRingEntry entry_for(const Commands& commands, uint32_t fence, uint32_t flags = 0) {
    SgpuRingEntry entry{};
    entry.type = SGPU_RING_EXECUTE;
    entry.flags = flags;
    entry.fence = fence;
    entry.length = static_cast<uint32_t>(commands.bytes().size());
    if (entry.length > 0) {
      entry.address = system_memory(entry.length);
      std::memcpy(at(entry.address, entry.length), commands.bytes().data(), entry.length);
    }
    return entry;
  }
  void execute(uint32_t node, const Commands& commands, uint32_t fence, uint32_t flags = 0) {
    submit(node, entry_for(commands, fence, flags));
  }
  /// Runs the commands and waits for their completion interrupt; a fault ends the wait too.
  bool run(uint32_t node, const Commands& commands) {
    const uint32_t fence = ++last_fence_;
    execute(node, commands, fence);
    wait([&] {
      return saw({Served::kComplete, node, fence}) || saw({Served::kFault, node, fence});
    });
    return saw({Served::kComplete, node, fence});
  }
  uint32_t last_fence() const { return last_fence_; }

  /// Runs the commands, which must fault, and resets the engine. Returns the reason.
  uint32_t fault_of(uint32_t node, const Commands& commands, uint64_t* address = nullptr) {
    if (run(node, commands)) return SGPU_FAULT_NONE;
    const uint32_t reason = node32(node, SGPU_NODE_FAULT_REASON);
    if (address != nullptr) *address = node64(node, SGPU_NODE_FAULT_ADDRESS);
    reset(node);
    start(node);
    return reason;
  }

  /// Blocks until `condition`, looked at after every interrupt.
  void wait(const std::function<bool()>& condition) {
    while (true) {
      const uint32_t seen = interrupts_.load(std::memory_order_acquire);
      if (condition()) return;
      runtime.wait(interrupts_, seen);
    }
  }
  /// Until registers show a state that comes with no interrupt.
  void watch(const std::function<bool()>& condition) {
    while (!condition()) runtime.sleep_for(runtime::kMicrosecond);
  }
  bool saw(Served served) {
    const runtime::MutexLock lock(mutex_);
    for (const Served& each : served_) {
      if (each == served) return true;
    }
    return false;
  }
  std::vector<Served> served() {
    const runtime::MutexLock lock(mutex_);
    return served_;
  }
  uint32_t interrupt_count() const { return interrupts_.load(std::memory_order_acquire); }
  uint32_t spurious() const { return spurious_.load(std::memory_order_acquire); }

  runtime::Runtime& runtime;
  bus::Machine machine;
  SoftGpu gpu;
  std::byte* vram = nullptr;

 private:
  bool serve() {
    const uint32_t causes = get32(SGPU_REG_INT_PENDING);
    if (causes == 0) {
      ++spurious_;
      return false;
    }
    set32(SGPU_REG_INT_ACK,
          causes);  // before the registers are read: what comes later is a cause of its own
    {
      const runtime::MutexLock lock(mutex_);
      for (uint32_t node = 0; node < SGPU_NODE_COUNT; ++node) {
        if ((causes & SGPU_INT_COMPLETE(node)) != 0) {
          served_.push_back({Served::kComplete, node, node32(node, SGPU_NODE_COMPLETED_FENCE)});
        }
        if ((causes & SGPU_INT_PREEMPTED(node)) != 0) {
          served_.push_back({Served::kPreempted, node, node32(node, SGPU_NODE_PREEMPT_DONE)});
        }
        if ((causes & SGPU_INT_FAULT(node)) != 0) {
          served_.push_back({Served::kFault, node, node32(node, SGPU_NODE_FAULT_FENCE)});
        }
      }
    }
    interrupts_.fetch_add(1, std::memory_order_acq_rel);
    runtime.wake_all(interrupts_);
    return true;
  }

  uint32_t ring_entries_;
  std::byte* registers_ = nullptr;
  std::array<uint64_t, SGPU_NODE_COUNT> ring_address_{};
  uint32_t last_fence_ = 0;
  std::atomic<uint32_t> interrupts_{0};
  std::atomic<uint32_t> spurious_{0};
  runtime::Mutex mutex_;
  std::vector<Served> served_;
};

/// Small, seeded, the same everywhere.
class Lcg {
 public:
  explicit Lcg(uint64_t seed) : state_(seed * 2654435761u + 12345) {}
  uint64_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) ^ (state_ << 20);
  }
  uint64_t below(uint64_t limit) { return next() % limit; }
  std::vector<uint8_t> bytes(size_t count) {
    std::vector<uint8_t> out(count);
    for (uint8_t& byte : out) byte = static_cast<uint8_t>(next() >> 7);
    return out;
  }

 private:
  uint64_t state_;
};

enum class Mode { kOs, kSim };

/// A suite that runs in both runtimes; `in_runtime` is the test's body.
class InBothRuntimes : public ::testing::TestWithParam<Mode> {
 protected:
  void in_runtime(const std::function<void(runtime::Runtime&)>& body, uint64_t seed = 1) {
    const auto runtime =
        GetParam() == Mode::kSim ? runtime::make_sim_runtime(seed) : runtime::make_os_runtime(seed);
    runtime->run_main([&] { body(*runtime); });
  }
};

inline std::string mode_name(const ::testing::TestParamInfo<Mode>& mode) {
  return mode.param == Mode::kSim ? "sim" : "os";
}

}  // namespace dxgkit::softgpu::testing
