#include "bus/pci_function.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace dxgkit::bus {

// --- interrupt line

struct InterruptLine::Impl {
  // Held while the handler runs, so that connect({}) waits for the handler.
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

namespace {

// Offsets of a type 0 header (PCI Local Bus Specification 3.0, 6.1).
constexpr uint32_t kVendorId = 0x00;
constexpr uint32_t kDeviceId = 0x02;
constexpr uint32_t kCommand = 0x04;
constexpr uint32_t kStatus = 0x06;
constexpr uint32_t kRevision = 0x08;
constexpr uint32_t kProgrammingInterface = 0x09;
constexpr uint32_t kSubClass = 0x0A;
constexpr uint32_t kBaseClass = 0x0B;
constexpr uint32_t kCacheLine = 0x0C;
constexpr uint32_t kHeaderType = 0x0E;
constexpr uint32_t kBar0 = 0x10;
constexpr uint32_t kBarEnd = 0x28;
constexpr uint32_t kSubsystemVendorId = 0x2C;
constexpr uint32_t kSubsystemId = 0x2E;
constexpr uint32_t kRom = 0x30, kRomEnd = 0x34;
constexpr uint32_t kCapabilities = 0x34;
constexpr uint32_t kInterruptLine = 0x3C;
constexpr uint32_t kInterruptPin = 0x3D;

constexpr uint32_t kCapabilitiesStart = 0x40, kCapabilitiesEnd = 0x100;
constexpr uint16_t kStatusCapabilities = 0x0010;
constexpr uint8_t kSeveralFunctions = 0x80;  // of the header type

constexpr uint8_t kIdMsi = 0x05, kIdMsix = 0x11, kIdAdvancedFeatures = 0x13;
constexpr std::byte kFunctionLevelReset{2};  // a bit of an Advanced Features capability
constexpr uint32_t kAdvancedControl = 4;     // where its control byte is

constexpr uint16_t kCommandIo = 0x0001;
constexpr uint16_t kCommandMemory = 0x0002;
constexpr uint16_t kCommandBusMaster = 0x0004;
constexpr uint32_t kBar64Bit = 0x4;
constexpr uint32_t kBarPrefetchable = 0x8;
constexpr uint32_t kBarIo = 0x1;

/// The low bits of a BAR, which give its kind.
uint32_t bar_flags(const Bar& bar) {
  switch (bar.kind) {
    case BarKind::kMemory:
      return kBar64Bit | kBarPrefetchable;
    case BarKind::kRegisters:
      return bar.wide ? kBar64Bit : 0;
    case BarKind::kPorts:
      return kBarIo;
    case BarKind::kNone:
      break;
  }
  return 0;
}

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

/// Base addresses and expansion ROM.
bool is_address(uint32_t offset) {
  return (offset >= kBar0 && offset < kBarEnd) || (offset >= kRom && offset < kRomEnd);
}

/// Bytes that are the function's own even if a handler answers for the rest: what identity() says,
/// and what the bus has decided.
bool is_of_bus(uint32_t offset) {
  return is_address(offset) || offset < kStatus || (offset >= kRevision && offset < kCacheLine) ||
         offset == kInterruptLine || (offset >= kSubsystemVendorId && offset < kRom);
}

}  // namespace

PciFunction::Impl::Impl(PciIdentity id, std::vector<Bar> functions_bars,
                        const std::vector<PciCapability>& capabilities)
    : identity(id), bars(std::move(functions_bars)) {
  DXGKIT_CHECK(bars.size() <= kBarsMax);
  for (const Bar& bar : bars) {
    if (observer == nullptr) observer = dynamic_cast<ConfigObserver*>(bar.registers);
  }
  config.fill(std::byte{0});
  put(config, kVendorId, identity.vendor_id);
  put(config, kDeviceId, identity.device_id);
  put(config, kRevision, identity.revision);
  put(config, kProgrammingInterface, identity.programming_interface);
  put(config, kSubClass, identity.sub_class);
  put(config, kBaseClass, identity.base_class);
  put(config, kSubsystemVendorId, identity.subsystem_vendor_id);
  put(config, kSubsystemId, identity.subsystem_id);
  put(config, kInterruptPin, uint8_t{1});
  uint32_t at = kCapabilitiesStart;
  uint32_t link = kCapabilities;  // the byte that leads to the next one
  for (const PciCapability& capability : capabilities) {
    const auto size = static_cast<uint32_t>(align_up(2 + capability.body.size(), 4));
    DXGKIT_CHECK(range_within(at, size, kCapabilitiesEnd));
    DXGKIT_CHECK(capability.writable.size() <= capability.body.size());
    put(config, link, static_cast<uint8_t>(at));
    put(config, at, capability.id);
    link = at + 1;
    std::ranges::copy(capability.body, config.begin() + at + 2);
    for (size_t i = 0; i < capability.writable.size(); ++i)
      writable[at + 2 + i] = static_cast<uint8_t>(capability.writable[i]);
    const bool resets = capability.id == kIdAdvancedFeatures && capability.body.size() >= 4 &&
                        (capability.body[1] & kFunctionLevelReset) != std::byte{0};
    if (resets) reset_control = at + kAdvancedControl;
    at += size;
  }
  if (!capabilities.empty()) put(config, kStatus, kStatusCapabilities);
}

PciCapability msi_capability(uint32_t messages) {
  DXGKIT_CHECK(is_power_of_two(messages));
  DXGKIT_CHECK(messages <= 32);
  // Control: 64-bit addresses, and the binary logarithm of the number of messages. Address and data
  // may be written. Nothing reads them while the enable bit is 0, and it stays 0.
  const auto control = static_cast<uint16_t>(0x80 | std::countr_zero(messages) << 1);
  PciCapability capability{.id = kIdMsi, .body = std::vector<std::byte>(12), .writable = {}};
  std::memcpy(capability.body.data(), &control, sizeof control);
  capability.writable.assign(12, std::byte{0xFF});
  capability.writable[0] = capability.writable[1] = std::byte{0};
  return capability;
}

PciCapability msix_capability(uint32_t messages, uint32_t table_bar, uint32_t table_offset,
                              uint32_t pending_bar, uint32_t pending_offset) {
  DXGKIT_CHECK(messages >= 1);
  DXGKIT_CHECK(messages <= 2048);
  DXGKIT_CHECK(table_offset % 8 == 0);
  DXGKIT_CHECK(pending_offset % 8 == 0);
  DXGKIT_CHECK(table_bar < kBarsMax);
  DXGKIT_CHECK(pending_bar < kBarsMax);
  const auto control = static_cast<uint16_t>(messages - 1);
  const uint32_t table = table_offset | table_bar, pending = pending_offset | pending_bar;
  PciCapability capability{.id = kIdMsix, .body = std::vector<std::byte>(10), .writable = {}};
  std::memcpy(capability.body.data(), &control, sizeof control);
  std::memcpy(capability.body.data() + 2, &table, sizeof table);
  std::memcpy(capability.body.data() + 6, &pending, sizeof pending);
  return capability;
}

PciCapability reset_capability() {
  // Length of the capability; transactions pending and function level reset are supported; control
  // and status, where the reset bit reads 0.
  return {.id = kIdAdvancedFeatures,
          .body = {std::byte{6}, std::byte{3}, std::byte{0}, std::byte{0}},
          .writable = {}};
}

PciFunction::PciFunction(PciIdentity identity, std::vector<Bar> bars,
                         std::vector<PciCapability> capabilities)
    : impl_(std::make_unique<Impl>(identity, std::move(bars), capabilities)) {}
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
  impl_->asleep.store(power != FunctionPower::kOn, std::memory_order_relaxed);
  if (impl_->on_power) impl_->on_power(power);
}

void PciFunction::on_power(std::function<void(FunctionPower)> handler) {
  impl_->on_power = std::move(handler);
}

void PciFunction::on_reset(std::function<void()> handler) { impl_->on_reset = std::move(handler); }

void PciFunction::set_config_handler(ConfigHandler& handler) { impl_->config_handler = &handler; }

void PciFunction::set_multifunction() {
  const runtime::MutexLock lock(impl_->mutex);
  put(impl_->config, kHeaderType, kSeveralFunctions);
}

std::optional<PostDisplay> PciFunction::peek_post_display() const {
  const SpinGuard hold(impl_->peek_lock);
  return impl_->peeked_display;
}

void PciFunction::set_post_display(std::optional<PostDisplay> display) {
  const runtime::MutexLock lock(impl_->mutex);
  impl_->post_display = display;
  const SpinGuard hold(impl_->peek_lock);
  impl_->peeked_display = display;
}

void PciFunction::Impl::publish(std::span<const PhysicalAddress> bases) {
  const runtime::MutexLock lock(mutex);
  for (size_t i = 0; i < bars.size(); ++i) {
    bars[i].base = bases.empty() ? PhysicalAddress{} : bases[i];
    const uint32_t offset = kBar0 + static_cast<uint32_t>(i) * 4;
    if (bars[i].kind == BarKind::kNone) continue;
    const uint64_t value = bars[i].base.value | bar_flags(bars[i]);
    if (is_wide(bars[i])) {
      put(config, offset, value);
    } else {
      put(config, offset, static_cast<uint32_t>(value));
    }
  }
  const bool ports =
      std::ranges::any_of(bars, [](const Bar& bar) { return bar.kind == BarKind::kPorts; });
  const auto enabled =
      static_cast<uint16_t>(kCommandMemory | kCommandBusMaster | (ports ? kCommandIo : 0));
  put(config, kCommand, bases.empty() ? uint16_t{0} : enabled);
}

uint32_t PciFunction::Impl::bar_word(size_t slot) const {
  // The upper half of a 64-bit BAR is the slot after it.
  for (size_t i = slot == 0 ? 0 : slot - 1; i <= slot && i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const bool wide = is_wide(bar);
    if (bar.kind == BarKind::kNone) continue;
    if (i != slot && !wide) continue;
    const uint64_t flags = bar_flags(bar);
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
  if (impl_->config_handler == nullptr) {
    impl_->load(offset, out);
    if (impl_->observer != nullptr) impl_->observer->config_read(offset, out);
    return;
  }
  impl_->config_handler->config_read(offset, out);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint32_t at = offset + static_cast<uint32_t>(i);
    if (is_of_bus(at)) impl_->load(at, out.subspan(i, 1));
  }
}

void PciFunction::Impl::load(uint32_t offset, std::span<std::byte> out) const {
  const runtime::MutexLock lock(mutex);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint32_t at = offset + static_cast<uint32_t>(i);
    if (at >= kBar0 && at < kBarEnd) {
      const uint32_t word = bar_word((at - kBar0) / 4);
      out[i] = static_cast<std::byte>(word >> (8 * (at % 4)));
    } else {
      out[i] = config[at];
    }
  }
}

void PciFunction::config_write(uint32_t offset, std::span<const std::byte> in) {
  if (!present() || !range_within(offset, in.size(), kConfigBytes)) return;
  impl_->store(offset, in);
  if (impl_->config_handler != nullptr) {
    // In runs between the base addresses and the ROM, which nobody can move.
    for (size_t begin = 0; begin < in.size();) {
      size_t end = begin;
      while (end < in.size() && !is_address(offset + static_cast<uint32_t>(end))) ++end;
      if (end > begin)
        impl_->config_handler->config_write(offset + static_cast<uint32_t>(begin),
                                            in.subspan(begin, end - begin));
      begin = end + 1;
    }
    return;
  }
  if (impl_->observer != nullptr) impl_->observer->config_written(offset, in);
  const uint32_t control = impl_->reset_control;
  if (control == 0 || !impl_->on_reset) return;
  if (!range_within(control - offset, 1, in.size()) ||
      (in[control - offset] & std::byte{1}) == std::byte{0})
    return;
  impl_->on_reset();
}

void PciFunction::Impl::store(uint32_t offset, std::span<const std::byte> in) {
  const runtime::MutexLock lock(mutex);
  for (size_t i = 0; i < in.size(); ++i) {
    const uint32_t at = offset + static_cast<uint32_t>(i);
    if (at >= kBar0 && at < kBarEnd) {
      // Sizing: a slot written with all ones shows the size until it is written otherwise. BARs
      // cannot be moved, so any other value restores the assigned address. Whole, aligned words
      // only, as in sizing.
      if (at % 4 != 0) continue;
      if (in.size() - i < 4) continue;
      uint32_t word = 0;
      std::memcpy(&word, in.data() + i, sizeof word);
      sizing[(at - kBar0) / 4] = word == 0xFFFF'FFFF;
      continue;
    }
    const auto mask = static_cast<uint8_t>(writable_bits(at) | writable[at]);
    const auto old = static_cast<uint8_t>(config[at]);
    const auto wanted = static_cast<uint8_t>(in[i]);
    config[at] = static_cast<std::byte>((old & ~mask) | (wanted & mask));
  }
}

}  // namespace dxgkit::bus
