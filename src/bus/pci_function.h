// Internals of PciFunction, shared with Machine. Users of the bus include bus/machine.h instead.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "base/arithmetic.h"
#include "base/spin_lock.h"
#include "bus/config_observer.h"
#include "bus/machine.h"
#include "runtime/sync.h"

namespace dxgkit::bus {

inline constexpr uint32_t kConfigBytes = 4096;
inline constexpr size_t kBarsMax = 6;

/// Two slots of configuration space: 64 bits of address.
inline bool is_wide(const Bar& bar) {
  return bar.kind == BarKind::kMemory || (bar.kind == BarKind::kRegisters && bar.wide);
}

struct PciFunction::Impl {
  Impl(PciIdentity identity, std::vector<Bar> bars, const std::vector<PciCapability>& capabilities);

  PciIdentity identity;
  std::vector<Bar> bars;
  InterruptLine line;
  mutable runtime::Mutex mutex;  // leaf: nothing is called with it held
  std::array<std::byte, kConfigBytes> config DXGKIT_GUARDED_BY(mutex);
  std::array<bool, kBarsMax> sizing DXGKIT_GUARDED_BY(mutex) = {};
  std::optional<PostDisplay> post_display DXGKIT_GUARDED_BY(mutex);
  SpinLock peek_lock;
  std::optional<PostDisplay> peeked_display;  // the same; under peek_lock
  // The machine it is plugged into; under the machine's lock.
  Machine* machine = nullptr;
  std::atomic<bool> gone{false};                // pulled out
  std::atomic<bool> asleep{false};              // not FunctionPower::kOn
  std::function<void(FunctionPower)> on_power;  // written before the function is plugged in
  std::function<void()> on_reset;               // the same
  ConfigHandler* config_handler = nullptr;      // the same; null: configuration space is `config`
  // Bits of configuration space that capabilities let software change. Written by the constructor
  // only.
  std::array<uint8_t, kConfigBytes> writable = {};
  ConfigObserver* observer = nullptr;  // of a device; written by the constructor only
  uint32_t reset_control = 0;  // offset of the byte whose bit 0 resets the function; 0: none

  /// Stores the base addresses that the machine assigned, one per BAR. Empty: unplugged.
  void publish(std::span<const PhysicalAddress> bases);
  /// config_read of what the function itself has.
  void load(uint32_t offset, std::span<std::byte> out) const;
  /// The effect of config_write on bytes that exist.
  void store(uint32_t offset, std::span<const std::byte> in);
  /// The value that BAR slot `slot` reads as.
  uint32_t bar_word(size_t slot) const DXGKIT_REQUIRES(mutex);
};

}  // namespace dxgkit::bus
