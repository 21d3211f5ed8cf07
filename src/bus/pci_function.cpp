#include "bus/pci_function.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace dxgkit::bus {

// --- interrupt line
// ---------------------------------------------------------------------------------------------

struct InterruptLine::Impl {
  // Held while the handler runs: that is what makes connect({}) a wait for it.
  runtime::Mutex mutex;
  Service service DXGKIT_GUARDED_BY(mutex);
  // A hint, so that connected() needs no lock a running handler holds.
  std::atomic<bool> connected{false};
};

InterruptLine::InterruptLine() : impl_(std::make_unique<Impl>()) {}
InterruptLine::~InterruptLine() = default;

void InterruptLine::connect(Service service) {
  const runtime::MutexLock lock(impl_->mutex);
  impl_->connected.store(static_cast<bool>(service), std::memory_order_release);
  impl_->service = std::move(service);
}

bool InterruptLine::connected() const { return impl_->connected.load(std::memory_order_acquire); }

bool InterruptLine::raise() {
  const runtime::MutexLock lock(impl_->mutex);
  if (!impl_->service) return false;
  return impl_->service();
}

// --- configuration space
// ----------------------------------------------------------------------------------------

namespace {

// Offsets of a type 0 header (PCI Local Bus Specification 3.0, 6.1).
constexpr uint32_t kVendorId = 0x00;
constexpr uint32_t kDeviceId = 0x02;
constexpr uint32_t kCommand = 0x04;
constexpr uint32_t kRevision = 0x08;
constexpr uint32_t kSubClass = 0x0A;
constexpr uint32_t kBaseClass = 0x0B;
constexpr uint32_t kCacheLine = 0x0C;
constexpr uint32_t kBar0 = 0x10;
constexpr uint32_t kBarEnd = 0x28;
constexpr uint32_t kSubsystemVendorId = 0x2C;
constexpr uint32_t kSubsystemId = 0x2E;
constexpr uint32_t kInterruptLine = 0x3C;
constexpr uint32_t kInterruptPin = 0x3D;

constexpr uint16_t kCommandMemory = 0x0002;
constexpr uint16_t kCommandBusMaster = 0x0004;
constexpr uint32_t kBar64Bit = 0x4;
constexpr uint32_t kBarPrefetchable = 0x8;

template <typename T>
void put(std::array<std::byte, kConfigBytes>& config, uint32_t offset, T value) {
  std::memcpy(config.data() + offset, &value, sizeof value);
}

/// Bits of a byte of the header that software may change. BARs are handled apart.
uint8_t writable_bits(uint32_t offset) {
  switch (offset) {
    case kCommand:
      return 0x47;  // I/O, memory, bus master, parity response
    case kCommand + 1:
      return 0x05;  // SERR, interrupt disable
    case kCacheLine:
      return 0xFF;
    case kInterruptLine:
      return 0xFF;
    default:
      return 0;
  }
}

}  // namespace

PciFunction::Impl::Impl(PciIdentity id, std::vector<Bar> functions_bars)
    : identity(id), bars(std::move(functions_bars)) {
  DXGKIT_CHECK(bars.size() <= kBarsMax);
  config.fill(std::byte{0});
  put(config, kVendorId, identity.vendor_id);
  put(config, kDeviceId, identity.device_id);
  put(config, kRevision, identity.revision);
  put(config, kSubClass, identity.sub_class);
  put(config, kBaseClass, identity.base_class);
  put(config, kSubsystemVendorId, identity.subsystem_vendor_id);
  put(config, kSubsystemId, identity.subsystem_id);
  put(config, kInterruptPin, uint8_t{1});
}

PciFunction::PciFunction(PciIdentity identity, std::vector<Bar> bars)
    : impl_(std::make_unique<Impl>(identity, std::move(bars))) {}
PciFunction::~PciFunction() {
  if (impl_->machine != nullptr) impl_->machine->remove_function(*this);
}

const PciIdentity& PciFunction::identity() const { return impl_->identity; }
std::span<const Bar> PciFunction::bars() const { return impl_->bars; }
InterruptLine& PciFunction::interrupt_line() { return impl_->line; }

std::optional<PostDisplay> PciFunction::post_display() const {
  const runtime::MutexLock lock(impl_->mutex);
  return impl_->post_display;
}

bool PciFunction::present() const { return !impl_->gone.load(std::memory_order_acquire); }

void PciFunction::set_power(FunctionPower power) {
  if (impl_->on_power) impl_->on_power(power);
}

void PciFunction::on_power(std::function<void(FunctionPower)> handler) {
  impl_->on_power = std::move(handler);
}

void PciFunction::set_post_display(std::optional<PostDisplay> display) {
  const runtime::MutexLock lock(impl_->mutex);
  impl_->post_display = display;
}

void PciFunction::Impl::publish(std::span<const PhysicalAddress> bases) {
  const runtime::MutexLock lock(mutex);
  for (size_t i = 0; i < bars.size(); ++i) {
    bars[i].base = bases.empty() ? PhysicalAddress{} : bases[i];
    const uint32_t offset = kBar0 + static_cast<uint32_t>(i) * 4;
    if (bars[i].kind == BarKind::kRegisters) {
      put(config, offset, static_cast<uint32_t>(bars[i].base.value));
    } else if (bars[i].kind == BarKind::kMemory) {
      put(config, offset, bars[i].base.value | kBar64Bit | kBarPrefetchable);
    }
  }
  const uint16_t enabled = kCommandMemory | kCommandBusMaster;
  put(config, kCommand, bases.empty() ? uint16_t{0} : enabled);
}

uint32_t PciFunction::Impl::bar_word(size_t slot) const {
  // The upper half of a 64-bit BAR is the slot after it.
  for (size_t i = slot == 0 ? 0 : slot - 1; i <= slot && i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const bool wide = bar.kind == BarKind::kMemory;
    if (bar.kind == BarKind::kNone) continue;
    if (i != slot && !wide) continue;
    const uint64_t flags = wide ? (kBar64Bit | kBarPrefetchable) : 0;
    const uint64_t assigned = bar.base.value | flags;
    const uint64_t size_mask = ~(bar.size - 1) | flags;
    const uint64_t shown = sizing[slot] ? size_mask : assigned;
    return static_cast<uint32_t>(i == slot ? shown : shown >> 32);
  }
  return 0;
}

void PciFunction::config_read(uint32_t offset, std::span<std::byte> out) const {
  if (!present() || !range_within(offset, out.size(), kConfigBytes)) {
    std::ranges::fill(out, std::byte{0xFF});
    return;
  }
  const runtime::MutexLock lock(impl_->mutex);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint32_t at = offset + static_cast<uint32_t>(i);
    if (at >= kBar0 && at < kBarEnd) {
      const uint32_t word = impl_->bar_word((at - kBar0) / 4);
      out[i] = static_cast<std::byte>(word >> (8 * (at % 4)));
    } else {
      out[i] = impl_->config[at];
    }
  }
}

void PciFunction::config_write(uint32_t offset, std::span<const std::byte> in) {
  if (!present() || !range_within(offset, in.size(), kConfigBytes)) return;
  const runtime::MutexLock lock(impl_->mutex);
  for (size_t i = 0; i < in.size(); ++i) {
    const uint32_t at = offset + static_cast<uint32_t>(i);
    if (at >= kBar0 && at < kBarEnd) {
      // Sizing: a slot written with all ones shows the size until it is written otherwise. BARs
      // cannot be moved, so any other value brings the assigned address back. Whole, aligned words
      // only, as sizing is done.
      if (at % 4 != 0) continue;
      if (in.size() - i < 4) continue;
      uint32_t word = 0;
      std::memcpy(&word, in.data() + i, sizeof word);
      impl_->sizing[(at - kBar0) / 4] = word == 0xFFFF'FFFF;
      continue;
    }
    const uint8_t mask = writable_bits(at);
    const auto old = static_cast<uint8_t>(impl_->config[at]);
    const auto wanted = static_cast<uint8_t>(in[i]);
    impl_->config[at] = static_cast<std::byte>((old & ~mask) | (wanted & mask));
  }
}

}  // namespace dxgkit::bus
