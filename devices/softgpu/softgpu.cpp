#include "devices/softgpu/softgpu.h"

#include <algorithm>
#include <array>

#include "bus/activity.h"
#include "devices/softgpu/address_space.h"
#include "devices/softgpu/interrupts.h"
#include "devices/softgpu/softgpu_hw.h"

namespace dxgkit::softgpu {

namespace {

/// Offsets, within a node's block or the global block, of registers 64 bits wide.
bool is_wide(uint64_t offset) {
  if (offset < SGPU_NODE_BLOCK) {
    switch (offset) {
      case SGPU_REG_VRAM_BASE:
      case SGPU_REG_VRAM_SIZE:
      case SGPU_REG_APERTURE_BASE:
      case SGPU_REG_APERTURE_SIZE:
      case SGPU_REG_APERTURE_ENTRY:
      case SGPU_REG_TIMESTAMP:
      case SGPU_REG_STANDBY_KEEPS:
      case SGPU_REG_HIBERNATE_KEEPS:
      case SGPU_REG_TLB_ROOT:
      case SGPU_REG_TLB_START:
      case SGPU_REG_TLB_END:
      case SGPU_REG_TLB_MISSES:
      case SGPU_REG_SCANOUT_ADDRESS:
      case SGPU_REG_SCANOUT_SHOWN:
        return true;
      default:
        break;
    }
    if (offset < SGPU_PLANE_REG(0, 0) || offset >= SGPU_PLANE_REG(SGPU_PLANE_COUNT, 0))
      return false;
    switch ((offset - SGPU_PLANE_REG(0, 0)) % SGPU_PLANE_BLOCK) {
      case SGPU_PLANE_ADDRESS:
      case SGPU_PLANE_SOURCE:
      case SGPU_PLANE_TARGET:
      case SGPU_PLANE_CLIP:
      case SGPU_PLANE_SHOWN:
        return true;
      default:
        return false;
    }
  }
  switch (offset % SGPU_NODE_BLOCK) {
    case SGPU_NODE_RING_BASE:
    case SGPU_NODE_FAULT_ADDRESS:
    case SGPU_NODE_EXECUTED:
    case SGPU_NODE_FAULT_ROOT:
      return true;
    default:
      return false;
  }
}

bool is_scanout(uint64_t offset) {
  return (offset >= SGPU_REG_SCANOUTS && offset <= SGPU_REG_SCANOUT_REFRESH) ||
         offset == SGPU_REG_PLANES ||
         (offset >= SGPU_PLANE_REG(0, 0) && offset < SGPU_PLANE_REG(SGPU_PLANE_COUNT, 0));
}

}  // namespace

struct SoftGpu::Impl final : bus::MmioHandler, bus::Activity {
  Impl(runtime::Runtime& runtime_in, bus::Machine& machine_in, const SoftGpuConfig& config)
      : runtime(runtime_in),
        machine(machine_in),
        memory(machine_in, config.vram_bytes),
        mmu(runtime_in, memory),
        faults(runtime_in),
        standby_keeps(std::min(config.standby_keeps_bytes, config.vram_bytes)),
        hibernate_keeps(std::min(config.hibernate_keeps_bytes, standby_keeps)),
        function({.vendor_id = SGPU_PCI_VENDOR_ID,
                  .device_id = SGPU_PCI_DEVICE_ID,
                  .subsystem_vendor_id = SGPU_PCI_VENDOR_ID,
                  .subsystem_id = SGPU_PCI_DEVICE_ID,
                  .revision = SGPU_PCI_REVISION},
                 bars()),
        interrupts(runtime_in, function.interrupt_line()),
        context{runtime_in,
                memory,
                mmu,
                interrupts,
                faults,
                config.timing,
                [this] { semaphore_changed(); }} {
    if (config.refresh_hz != 0) {
      scanout = std::make_unique<Scanout>(runtime_in, memory, interrupts,
                                          std::min(config.refresh_hz, 1000U));
    }
    function.on_power([this](bus::FunctionPower state) { lose_power(state); });
    faults.set(config.faults);
    memory.set_bad_vram(config.faults.bad_vram_begin, config.faults.bad_vram_end);
    for (uint32_t node = 0; node < SGPU_NODE_COUNT; ++node) {
      engines[node] = std::make_unique<Engine>(context, node);
    }
    engines_ready.store(true, std::memory_order_release);
  }

  ~Impl() override {
    machine.remove_function(function);
    scanout.reset();
    engines_ready.store(false, std::memory_order_release);
    for (auto& engine : engines) engine->stop();
    for (auto& engine : engines) engine.reset();
  }

  std::vector<bus::Bar> bars() {
    std::vector<bus::Bar> list(3);
    list[SGPU_BAR_REGISTERS].kind = bus::BarKind::kRegisters;
    list[SGPU_BAR_REGISTERS].size = SGPU_BAR0_BYTES;
    list[SGPU_BAR_REGISTERS].registers = this;
    list[SGPU_BAR_VRAM].kind = bus::BarKind::kMemory;
    list[SGPU_BAR_VRAM].size = memory.vram_window().size;
    list[SGPU_BAR_VRAM].memory = memory.vram_window();
    return list;
  }

  bool may_access_memory() const override {
    if (!engines_ready.load(std::memory_order_acquire)) return false;
    return std::ranges::any_of(engines,
                               [](const auto& engine) { return engine->may_access_memory(); });
  }

  void semaphore_changed() {
    if (!engines_ready.load(std::memory_order_acquire)) return;
    for (auto& engine : engines) engine->semaphore_doorbell();
  }

  // --- power

  void reset() {
    interrupts.lose_power();
    for (auto& engine : engines) engine->lose_power();
    interrupts.lose_power();  // drops interrupts that an engine raised in its last moment
    if (scanout) scanout->lose_power();
    aperture_index.store(0, std::memory_order_release);
    for (auto* one : {&tlb_root, &tlb_start, &tlb_end}) one->store(0, std::memory_order_release);
    mmu.lose_power();
  }

  void lose_power(bus::FunctionPower state) {
    if (state == bus::FunctionPower::kOn) return dark.store(false, std::memory_order_release);
    reset();
    memory.lose_power(state == bus::FunctionPower::kStandby ? standby_keeps : hibernate_keeps);
  }

  void pull_out() {
    machine.pull_out(function);
    if (scanout) scanout->lose_power();
    interrupts.lose_power();
    for (auto& engine : engines) engine->lose_power();
    interrupts.lose_power();
  }

  // --- registers

  uint64_t mmio_read(uint64_t offset, uint32_t size_bytes) override {
    if (size_bytes == 8) {
      if (offset % 8 != 0) return ~uint64_t{0};
      if (is_wide(offset)) return read(offset);
      return read(offset) | read(offset + 4) << 32;
    }
    if (size_bytes != 4 || offset % 4 != 0) return ~uint64_t{0};
    if (offset % 8 == 4 && is_wide(offset - 4)) return read(offset - 4) >> 32;
    return read(offset);
  }

  void mmio_write(uint64_t offset, uint32_t size_bytes, uint64_t value) override {
    if (dark.load(std::memory_order_acquire)) return;
    if (size_bytes == 8) {
      if (offset % 8 != 0) return;
      if (is_wide(offset)) return write(offset, value);
      write(offset, static_cast<uint32_t>(value));
      return write(offset + 4, value >> 32);
    }
    if (size_bytes != 4 || offset % 4 != 0) return;
    const uint64_t wide = offset - offset % 8;
    if (!is_wide(wide)) return write(offset, value);
    // Half of a wide register: the other half keeps its value. Not for registers whose writes have
    // a side effect.
    if (wide == SGPU_REG_APERTURE_ENTRY) return;
    const uint64_t old = read(wide);
    write(wide, offset == wide ? (old & ~uint64_t{0xFFFF'FFFF}) | value
                               : (old & 0xFFFF'FFFF) | value << 32);
  }

  Engine* engine_at(uint64_t offset) {
    const uint64_t block = offset / SGPU_NODE_BLOCK;
    return block >= 1 && block <= SGPU_NODE_COUNT ? engines[block - 1].get() : nullptr;
  }

  uint64_t read(uint64_t offset) {
    if (Engine* engine = engine_at(offset)) {
      return engine->read(static_cast<uint32_t>(offset % SGPU_NODE_BLOCK));
    }
    if (is_scanout(offset)) return scanout ? scanout->read(offset) : 0;
    switch (offset) {
      case SGPU_REG_ID:
        return SGPU_ID_VALUE;
      case SGPU_REG_REVISION:
        return SGPU_HW_REVISION;
      case SGPU_REG_NODE_COUNT:
        return SGPU_NODE_COUNT;
      case SGPU_REG_VRAM_BASE:
        return SGPU_VRAM_BASE;
      case SGPU_REG_VRAM_SIZE:
        return memory.vram_bytes();
      case SGPU_REG_APERTURE_BASE:
        return SGPU_APERTURE_BASE;
      case SGPU_REG_APERTURE_SIZE:
        return SGPU_APERTURE_BYTES;
      case SGPU_REG_APERTURE_INDEX:
        return aperture_index.load(std::memory_order_acquire);
      case SGPU_REG_APERTURE_ENTRY: {
        const uint32_t index = aperture_index.load(std::memory_order_acquire);
        return index < SGPU_APERTURE_PAGES ? memory.entry(index) : 0;
      }
      case SGPU_REG_DUMMY_WRITES:
        return memory.dummy_writes();
      case SGPU_REG_INT_STATUS:
        return interrupts.status();
      case SGPU_REG_INT_ENABLE:
        return interrupts.enabled();
      case SGPU_REG_INT_PENDING:
        return interrupts.status() & interrupts.enabled();
      case SGPU_REG_TIMESTAMP:
        return static_cast<uint64_t>(runtime.now());
      case SGPU_REG_STANDBY_KEEPS:
        return standby_keeps;
      case SGPU_REG_HIBERNATE_KEEPS:
        return hibernate_keeps;
      case SGPU_REG_TLB_ROOT:
        return tlb_root.load(std::memory_order_acquire);
      case SGPU_REG_TLB_START:
        return tlb_start.load(std::memory_order_acquire);
      case SGPU_REG_TLB_END:
        return tlb_end.load(std::memory_order_acquire);
      case SGPU_REG_TLB_FLUSH:
        return tlb_flushing() ? 1 : 0;
      case SGPU_REG_TLB_MISSES:
        return mmu.misses();
      default:
        return 0;
    }
  }

  void write(uint64_t offset, uint64_t value) {
    if (Engine* engine = engine_at(offset)) {
      engine->write(static_cast<uint32_t>(offset % SGPU_NODE_BLOCK), value);
      return;
    }
    const auto word = static_cast<uint32_t>(value);
    if (is_scanout(offset)) {
      if (scanout) scanout->write(offset, value);
      return;
    }
    switch (offset) {
      case SGPU_REG_APERTURE_INDEX:
        aperture_index.store(word, std::memory_order_release);
        return;
      case SGPU_REG_APERTURE_ENTRY: {
        const uint32_t index = aperture_index.fetch_add(1, std::memory_order_acq_rel);
        if (index < SGPU_APERTURE_PAGES) memory.set_entry(index, value);
        return;
      }
      case SGPU_REG_DUMMY_WRITES:
        memory.clear_dummy_writes();
        return;
      case SGPU_REG_INT_ACK:
        interrupts.acknowledge(word);
        return;
      case SGPU_REG_INT_ENABLE:
        interrupts.enable(word & (SGPU_INT_ALL | (scanout ? SGPU_INT_VSYNC : 0)));
        if (scanout) scanout->interrupts_changed();
        return;
      case SGPU_REG_SEM_DOORBELL:
        semaphore_changed();
        return;
      case SGPU_REG_TLB_ROOT:
        tlb_root.store(value, std::memory_order_release);
        return;
      case SGPU_REG_TLB_START:
        tlb_start.store(value, std::memory_order_release);
        return;
      case SGPU_REG_TLB_END:
        tlb_end.store(value, std::memory_order_release);
        return;
      case SGPU_REG_TLB_FLUSH: {
        const Mmu::Uses uses = mmu.flush(tlb_root.load(std::memory_order_acquire),
                                         tlb_start.load(std::memory_order_acquire),
                                         tlb_end.load(std::memory_order_acquire));
        for (uint32_t node = 0; node < SGPU_NODE_COUNT; ++node) {
          tlb_uses[node].store(uses[node], std::memory_order_release);
        }
        return;
      }
      default:
        return;
    }
  }

  bool tlb_flushing() {
    Mmu::Uses uses = {};
    for (uint32_t node = 0; node < SGPU_NODE_COUNT; ++node) {
      uses[node] = tlb_uses[node].load(std::memory_order_acquire);
    }
    for (uint32_t node = 0; node < SGPU_NODE_COUNT; ++node) {
      if (!mmu.still_uses(node, uses)) continue;
      // A thread that polls must let the engine make progress.
      if (runtime.is_simulated()) {
        runtime.consume(runtime::kMicrosecond);
      } else {
        runtime.yield();
      }
      return true;
    }
    return false;
  }

  runtime::Runtime& runtime;
  bus::Machine& machine;
  AddressSpace memory;
  Mmu mmu;
  FaultInjector faults;
  const uint64_t standby_keeps, hibernate_keeps;
  bus::PciFunction function;
  std::atomic<bool> dark{false};
  Interrupts interrupts;
  EngineContext context;
  std::unique_ptr<Scanout> scanout;  // null: no screen
  std::atomic<uint32_t> aperture_index{0};
  std::atomic<uint64_t> tlb_root{0}, tlb_start{0}, tlb_end{0};
  // The uses of the engines when TLB_FLUSH was last written. A later flush covers at least as much.
  std::array<std::atomic<uint32_t>, SGPU_NODE_COUNT> tlb_uses{};
  // The first engine's thread starts before the second engine is there, and the reverse at the end.
  std::atomic<bool> engines_ready{false};
  std::array<std::unique_ptr<Engine>, SGPU_NODE_COUNT> engines;
};

SoftGpu::SoftGpu(runtime::Runtime& runtime, bus::Machine& machine, SoftGpuConfig config)
    : impl_(std::make_unique<Impl>(runtime, machine, config)) {}
SoftGpu::~SoftGpu() = default;

bus::PciFunction& SoftGpu::function() { return impl_->function; }

void SoftGpu::set_faults(const FaultPlan& plan) {
  impl_->faults.set(plan);
  impl_->memory.set_bad_vram(plan.bad_vram_begin, plan.bad_vram_end);
}

ScreenPicture SoftGpu::screen() {
  return impl_->scanout ? impl_->scanout->picture() : ScreenPicture{};
}
void SoftGpu::on_flip(std::function<void(const ScreenPicture&)> flipped) {
  if (impl_->scanout) impl_->scanout->on_flip(std::move(flipped));
}

uint64_t SoftGpu::count(InterruptFate fate) const { return impl_->faults.count(fate); }
uint64_t SoftGpu::hangs() const { return impl_->faults.hangs(); }
uint64_t SoftGpu::memory_errors() const { return impl_->faults.memory_errors(); }
uint64_t SoftGpu::corrupted_fences() const { return impl_->faults.corrupted(); }
void SoftGpu::lose_power(bus::FunctionPower state) { impl_->lose_power(state); }
void SoftGpu::fail_power(bus::FunctionPower state) {
  impl_->dark.store(true, std::memory_order_release);
  impl_->lose_power(state);
}
void SoftGpu::reset() { impl_->reset(); }
void SoftGpu::pull_out() { impl_->pull_out(); }

Walk SoftGpu::walk(const VirtualSpace& space, uint64_t address) const {
  return impl_->mmu.walk(space, address);
}

Fault SoftGpu::peek(const VirtualSpace& space, uint64_t address, std::span<std::byte> out) const {
  const Walk found = walk(space, address);
  if (found.fault) return found.fault;
  if ((found.leaf & SGPU_PTE_ZERO) != 0) {
    std::ranges::fill(out, std::byte{0});
    return {};
  }
  constexpr uint64_t kInPage = 4095;
  std::byte* bytes = nullptr;
  const Fault fault =
      impl_->memory.resolve_in_page((found.leaf & SGPU_PTE_ADDRESS_MASK) + (address & kInPage),
                                    out.size(), Access::kRead, &bytes);
  if (fault) return fault;
  std::ranges::copy(std::span(bytes, out.size()), out.begin());
  return {};
}

uint32_t SoftGpu::interrupt_storms() const { return impl_->interrupts.storms(); }

void SoftGpu::storm(uint32_t causes, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) {
    if (causes != 0) {
      impl_->interrupts.set(causes);
    } else {
      static_cast<void>(impl_->function.interrupt_line().raise());
    }
  }
}

}  // namespace dxgkit::softgpu
