// The software GPU: a PCI function with two engines, VRAM, an aperture and interrupts. See
// manual.md.
#pragma once

#include <cstdint>
#include <memory>

#include "bus/machine.h"
#include "devices/softgpu/engine.h"
#include "devices/softgpu/faults.h"
#include "devices/softgpu/mmu.h"
#include "devices/softgpu/scanout.h"
#include "runtime/runtime.h"

namespace dxgkit::softgpu {

struct SoftGpuConfig {
  /// Real VRAM, > 0; VRAM_SIZE reports it. BAR 2 is the next power of two.
  uint64_t vram_bytes = uint64_t{256} << 20;
  /// Modelled time: used in simulation, and by engines that FaultPlan slows down.
  Timing timing;
  /// Faults from power-on.
  FaultPlan faults;
  /// VRAM that survives standby and hibernation, in bytes from offset 0; more than there is means
  /// all. The rest reads as garbage afterwards, so that content that was not moved away shows at
  /// once.
  uint64_t standby_keeps_bytes = 0;
  uint64_t hibernate_keeps_bytes = 0;  // not more than the above
  /// Vertical syncs per second of the screen, 1..1000; 0: there is none.
  uint32_t refresh_hz = 0;
};

/// One device. Plug it in with `machine.add_function(gpu.function())`.
///
/// Made and destroyed on a thread of `runtime`. It starts three threads there (two engines, one for
/// late and unmasked interrupts), which sleep while they have no work. The machine must outlive it.
/// Destruction unplugs the function, abandons work in progress and joins the threads; the driver
/// must have stopped by then.
class SoftGpu {
 public:
  SoftGpu(runtime::Runtime& runtime, bus::Machine& machine, SoftGpuConfig config = {});
  ~SoftGpu();
  SoftGpu(const SoftGpu&) = delete;
  SoftGpu& operator=(const SoftGpu&) = delete;

  bus::PciFunction& function();

  // --- for tests, beside the hardware interface
  /// Replaces the fault plan. Any thread.
  void set_faults(const FaultPlan& plan);
  /// Power goes away and comes back, with the effects that the manual describes for that state. The
  /// function's on_power handler does the same. Waits until the engines are at rest. Any thread but
  /// an engine's.
  void lose_power(bus::FunctionPower state);
  /// Power fails without warning. The effects are the same, and writes to registers are lost until
  /// power is back (the function's kOn).
  void fail_power(bus::FunctionPower state);
  /// Gives registers their power-on values and drops all work. Video memory and the aperture's
  /// table stay as they are. Waits until the engines are at rest. Any thread but an engine's.
  void reset();
  /// Surprise removal: no DMA, no interrupt, and no answer from now on. Any thread but an engine's.
  void pull_out();
  /// The picture on the screen now; empty without a screen, or if nothing is shown.
  ScreenPicture screen();
  /// See Scanout::on_flip. No effect without a screen.
  void on_flip(std::function<void(const ScreenPicture&)> flipped);
  /// The translation of a virtual address by the present page tables, without any engine's cache.
  /// Any thread; while the GPU is plugged in.
  Walk walk(const VirtualSpace& space, uint64_t address) const;
  /// Copies the bytes at a virtual address, without any cache; `out` ends inside the page. On a
  /// fault of the walk or the page nothing is copied. An entry with ZERO gives zeros.
  Fault peek(const VirtualSpace& space, uint64_t address, std::span<std::byte> out) const;
  /// See Interrupts::storms.
  uint32_t interrupt_storms() const;
  /// The number of completion interrupts that a fault plan has changed that way.
  uint64_t count(InterruptFate fate) const;
  /// An interrupt storm, as if these causes had come up so many times in a row. 0: only the line is
  /// driven, as by another device on it. On the calling thread, never an engine's.
  void storm(uint32_t causes, uint32_t times);
  /// See FaultInjector::hangs, memory_errors, corrupted.
  uint64_t hangs() const;
  uint64_t memory_errors() const;
  uint64_t corrupted_fences() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::softgpu
