// The host's device on the bus of the machine.
#include <linux/vfio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "base/arithmetic.h"
#include "bus/dma_fault.h"
#include "bus/machine.h"
#include "devices/vfio/config_layout.h"
#include "devices/vfio/container.h"
#include "devices/vfio/fault_log.h"
#include "devices/vfio/hardware.h"
#include "devices/vfio/registers.h"
#include "devices/vfio/vfio.h"
#include "runtime/descriptors.h"
#include "runtime/sync.h"

namespace dxgkit::vfio {
namespace {

constexpr uint32_t kCommand = 0x04, kHeaderType = 0x0E, kBar0 = 0x10;
constexpr uint16_t kCommandIo = 0x1, kCommandMemory = 0x2, kCommandBusMaster = 0x4;
constexpr std::byte kHeaderKind{0x7F};
constexpr uint32_t kBarIo = 0x1, kBarKindMask = 0x6, kBar64Bit = 0x4;
constexpr uint64_t kRegisterBytesMost = uint64_t{512} << 20, kMemoryBytesMost = uint64_t{64} << 30;
constexpr uint64_t kPortBytesLeast = 4, kPortBytesMost = 256;
/// Interrupts in a row that no driver claims before INTx stays off: Linux itself gives up then.
constexpr uint32_t kUnclaimedMost = 100'000;
constexpr size_t kFaultsMost = 1024;  // that wait for a listener

/// An event counter of Linux.
class EventCounter {
 public:
  EventCounter() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~EventCounter() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  EventCounter(const EventCounter&) = delete;
  EventCounter& operator=(const EventCounter&) = delete;
  int descriptor() const { return descriptor_; }
  void add() const { static_cast<void>(eventfd_write(descriptor_, 1)); }
  /// True if it was not 0, which it is from now on.
  bool take() const {
    eventfd_t count = 0;
    return eventfd_read(descriptor_, &count) == 0;
  }

 private:
  int descriptor_;
};

class HostDevice final : public bus::Device,
                         public bus::DmaFaultSource,
                         private bus::ConfigHandler {
 public:
  HostDevice(std::shared_ptr<Kernel> kernel, const Config& config, const bus::DeviceHost& host)
      : kernel_(std::move(kernel)), config_(config), host_(host) {}

  ~HostDevice() override {
    if (thread_ != nullptr) {
      stop_.add();
      thread_->join();
    }
    if (hardware_ == nullptr) return;
    if (index_.has_value()) static_cast<void>(hardware_->set_trigger(*index_, -1));
    // Whatever the driver left running ends here, before the memory goes.
    set_command(0);
    if (hardware_->can_reset()) static_cast<void>(hardware_->reset());
    tell_faults();
    function_.reset();
  }

  std::expected<void, std::string> open() {
    for (const EventCounter* event : {&stop_, &interrupt_, &request_, &error_, &listener_}) {
      if (event->descriptor() < 0) return wrong("there are no descriptors left for interrupts");
    }
    if (config_.watch_faults) {
      auto log = FaultLog::open(kernel_, config_.address);
      if (!log.has_value())
        return wrong(
            "the log of Linux (/dev/kmsg) cannot be read, so that faults of the IOMMU "
            "would go unseen: " +
            error_text(log.error()) + "; run as root, or say faults=off");
      log_ = std::move(*log);
    }
    auto container = Container::open(kernel_, config_.address);
    if (!container.has_value()) return wrong(container.error());
    container_ = std::move(*container);
    if (auto mapped = container_->map(host_.machine); !mapped.has_value()) return mapped;
    const auto descriptor = container_->open_device(config_.address);
    if (!descriptor.has_value()) return wrong(descriptor.error());
    auto hardware = Hardware::create(kernel_, *descriptor);
    if (!hardware.has_value()) return wrong(hardware.error());
    hardware_ = std::move(*hardware);
    if (config_.needs_reset && !hardware_->can_reset())
      return wrong(
          "it cannot be reset, so that it may still do what it did for another driver: "
          "say reset=off if that is known not to matter");
    if (hardware_->can_reset() && !hardware_->reset()) return wrong("Linux could not reset it");
    if (auto made = make_function(); !made.has_value()) return made;
    if (!set_command(kCommandIo | kCommandMemory | kCommandBusMaster))
      return wrong("its command register cannot be written");
    return start_interrupts();
  }

  std::span<bus::PciFunction* const> functions() override { return functions_; }

  void reset(size_t) override {
    if (is_gone() || !hardware_->can_reset()) return;
    static_cast<void>(hardware_->reset());
    set_command(kCommandIo | kCommandMemory | kCommandBusMaster);
  }
  void pulled_out() override {
    gone_.store(true, std::memory_order_release);
    set_command(0);  // no DMA any more
  }

  void on_loss(std::function<void(const std::string& why)> lost) override {
    {
      const runtime::MutexLock lock(lost_mutex_);
      lost_ = std::move(lost);
    }
    listener_.add();
  }
  void on_dma_fault(std::function<void(const bus::DmaFault&)> told) override {
    const runtime::MutexLock lock(told_mutex_);
    told_ = std::move(told);
    if (!told_) return;
    for (const bus::DmaFault& fault : std::exchange(faults_, {})) told_(fault);
  }

 private:
  bool is_gone() const { return gone_.load(std::memory_order_acquire); }

  bool set_command(uint16_t command) {
    return hardware_->write(hardware_->config(), kCommand, std::as_bytes(std::span(&command, 1)));
  }

  // --- the function on our bus

  std::expected<void, std::string> make_function() {
    std::array<std::byte, kConfigBytesAsked> bytes{};
    if (!hardware_->read(hardware_->config(), 0, bytes))
      return wrong("its configuration space cannot be read");
    if ((bytes[kHeaderType] & kHeaderKind) != std::byte{0})
      return wrong("it is a bridge, and no device that a display driver drives");
    const auto at = [&]<typename T>(uint32_t offset, T* to) {
      std::memcpy(to, bytes.data() + offset, sizeof *to);
    };
    bus::PciIdentity identity;
    at(0x00, &identity.vendor_id);
    at(0x02, &identity.device_id);
    at(0x2C, &identity.subsystem_vendor_id);
    at(0x2E, &identity.subsystem_id);
    at(0x08, &identity.revision);
    at(0x09, &identity.programming_interface);
    at(0x0A, &identity.sub_class);
    at(0x0B, &identity.base_class);
    if (identity.vendor_id == 0xFFFF) return wrong("it does not answer");
    const ConfigLayout layout = read_layout(bytes);
    std::vector<bus::Bar> bars(kBarSlots);
    for (uint32_t slot = 0; slot < kBarSlots; ++slot) {
      uint32_t word = 0;
      at(kBar0 + slot * 4, &word);
      if (auto made = make_bar(slot, word, layout, bars); !made.has_value())
        return wrong("BAR " + std::to_string(slot) + ": " + made.error());
    }
    layout_ = layout;
    function_.emplace(identity, std::move(bars));
    function_->set_config_handler(*this);
    functions_ = {&*function_};
    return {};
  }

  void config_read(uint32_t offset, std::span<std::byte> out) override {
    if (is_gone() || !hardware_->read(hardware_->config(), offset, out))
      std::ranges::fill(out, std::byte{0xFF});
  }
  /// Messages are the kernel's business: what a driver writes there stays without effect.
  void config_write(uint32_t offset, std::span<const std::byte> in) override {
    if (is_gone() || layout_.is_of_messages(offset, in.size())) return;
    static_cast<void>(hardware_->write(hardware_->config(), offset, in));
  }

  std::expected<void, std::string> make_bar(uint32_t slot, uint32_t word,
                                            const ConfigLayout& layout,
                                            std::vector<bus::Bar>& bars) {
    const Region& region = hardware_->bar(slot);
    if (region.bytes == 0) return {};
    const std::string size = std::to_string(region.bytes) + " bytes";
    const bool is_ports = (word & kBarIo) != 0;
    const bool wide = !is_ports && (word & kBarKindMask) == kBar64Bit;
    if (!is_power_of_two(region.bytes)) return wrong("its size of " + size + " is no power of two");
    if (wide && (slot + 1 == kBarSlots || hardware_->bar(slot + 1).bytes != 0))
      return wrong("it is 64 bits wide, and there is no place for its upper half");
    bus::Bar& bar = bars[slot];
    if (is_ports) {
      if (region.bytes < kPortBytesLeast || region.bytes > kPortBytesMost)
        return wrong("no port BAR has " + size);
      bar.kind = bus::BarKind::kPorts;
      bar.size = region.bytes;
      bar.registers = &registers_.emplace_back(*hardware_, slot, gone_);
      return {};
    }
    // The bus maps BARs in two slots. The table of MSI-X is Linux's: a driver must not write it.
    const bool has_room =
        slot + 1 < kBarSlots && hardware_->bar(slot + 1).bytes == 0 && region.mappable;
    if (has_room && !config_.trap_registers && layout.msix_bar != slot) {
      if (region.bytes > kMemoryBytesMost) return wrong(size + " are more than 64 GiB");
      bar.kind = bus::BarKind::kMemory;
      bar.size = region.bytes;
      bar.memory = {hardware_->descriptor(), region.offset, region.bytes};
      return {};
    }
    if (region.bytes > kRegisterBytesMost)
      return wrong(size + " are more than the 512 MiB that can be trapped");
    bar.kind = bus::BarKind::kRegisters;
    bar.size = std::max(region.bytes, kPageBytes);  // behind its end nothing answers
    bar.wide = wide;
    bar.registers = &registers_.emplace_back(*hardware_, slot, gone_);
    return {};
  }

  // --- interrupts, faults, and the end

  std::expected<void, std::string> start_interrupts() {
    constexpr std::pair<InterruptChoice, uint32_t> kKinds[] = {
        {InterruptChoice::kMsi, VFIO_PCI_MSI_IRQ_INDEX},
        {InterruptChoice::kIntx, VFIO_PCI_INTX_IRQ_INDEX},
        {InterruptChoice::kMsix, VFIO_PCI_MSIX_IRQ_INDEX}};
    for (const auto& [choice, index] : kKinds) {
      if (config_.interrupts != InterruptChoice::kAuto && config_.interrupts != choice) continue;
      if (hardware_->interrupts(index).count == 0) continue;
      index_ = index;
      break;
    }
    if (!index_.has_value() && config_.interrupts != InterruptChoice::kAuto)
      return wrong("it has no interrupts of the kind that interrupts= asks for");
    if (index_.has_value()) {
      if (const auto set = hardware_->set_trigger(*index_, interrupt_.descriptor());
          !set.has_value()) {
        index_.reset();
        return wrong("its interrupts cannot be used: " + error_text(set.error()));
      }
    }
    // A device without these kinds is one that nobody takes away, or that reports no errors.
    for (const auto& [index, event] : {std::pair(VFIO_PCI_REQ_IRQ_INDEX, &request_),
                                       std::pair(VFIO_PCI_ERR_IRQ_INDEX, &error_)}) {
      if (hardware_->interrupts(static_cast<uint32_t>(index)).count != 0)
        static_cast<void>(
            hardware_->set_trigger(static_cast<uint32_t>(index), event->descriptor()));
    }
    thread_ = host_.runtime.spawn("vfio " + to_text(config_.address), [this] { watch(); });
    return {};
  }

  void watch() {
    enum { kStop, kRequest, kError, kInterrupt, kLog, kCount };
    std::array<runtime::DescriptorWait, kCount> waits;
    waits[kStop].fd = stop_.descriptor();
    waits[kRequest].fd = request_.descriptor();
    waits[kError].fd = error_.descriptor();
    waits[kInterrupt].fd = interrupt_.descriptor();
    if (log_ != nullptr) waits[kLog].fd = log_->descriptor();
    while (true) {
      static_cast<void>(runtime::wait_for_descriptors(host_.runtime, waits));
      if (waits[kStop].ready) return;
      if (waits[kRequest].ready)
        return leave(
            "Linux wants the device back: it is being unbound from vfio-pci, or unplugged");
      if (waits[kError].ready)
        return leave("the device reported an error that it cannot recover from (PCIe AER)");
      if (waits[kInterrupt].ready && interrupt_.take()) on_interrupt();
      if (waits[kLog].ready) tell_faults();
    }
  }

  void on_interrupt() {
    const bool claimed = !is_gone() && function_->interrupt_line().raise();
    if (!hardware_->interrupts(*index_).masks_itself) return;
    unclaimed_ = claimed ? 0 : unclaimed_ + 1;
    if (unclaimed_ < kUnclaimedMost) hardware_->unmask(*index_);
  }

  void leave(const std::string& why) {
    tell_faults();
    if (is_gone()) return;  // the host has pulled it out before
    bus::pull_out(host_.machine, *this);
    std::array<runtime::DescriptorWait, 2> waits;
    waits[0].fd = stop_.descriptor();
    waits[1].fd = listener_.descriptor();
    while (!waits[0].ready) {
      {
        const runtime::MutexLock lock(lost_mutex_);
        if (lost_) return lost_(why);  // once
      }
      static_cast<void>(runtime::wait_for_descriptors(host_.runtime, waits));
      static_cast<void>(listener_.take());
    }
  }

  void tell_faults() {
    if (log_ == nullptr) return;
    const runtime::MutexLock lock(told_mutex_);
    for (const IommuFault& fault : log_->take()) {
      const bus::DmaFault told{bus::PhysicalAddress{fault.address}, fault.is_write};
      if (told_)
        told_(told);
      else if (faults_.size() < kFaultsMost)
        faults_.push_back(told);
    }
  }

  const std::shared_ptr<Kernel> kernel_;
  const Config config_;
  const bus::DeviceHost host_;
  EventCounter stop_, interrupt_, request_, error_;
  EventCounter listener_;  // of the loss: there is another one
  std::unique_ptr<FaultLog> log_;
  std::unique_ptr<Container> container_;  // outlives the device's descriptor
  std::unique_ptr<Hardware> hardware_;
  std::atomic<bool> gone_{false};
  ConfigLayout layout_;
  std::deque<Registers> registers_;  // they stay where they are
  std::optional<bus::PciFunction> function_;
  std::array<bus::PciFunction*, 1> functions_{};
  std::optional<uint32_t> index_;  // of the interrupts in use
  uint32_t unclaimed_ = 0;         // the thread's
  runtime::Mutex told_mutex_;      // held while a listener runs
  std::function<void(const bus::DmaFault&)> told_ DXGKIT_GUARDED_BY(told_mutex_);
  std::vector<bus::DmaFault> faults_ DXGKIT_GUARDED_BY(told_mutex_);
  runtime::Mutex lost_mutex_;  // the same for a loss
  std::function<void(const std::string&)> lost_ DXGKIT_GUARDED_BY(lost_mutex_);
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace

std::expected<std::unique_ptr<bus::Device>, std::string> open(std::shared_ptr<Kernel> kernel,
                                                              const Config& config,
                                                              const bus::DeviceHost& host) {
  if (host.runtime.is_simulated())
    return wrong("hardware lives in real time only and cannot be simulated");
  auto made = std::make_unique<HostDevice>(std::move(kernel), config, host);
  if (auto opened = made->open(); !opened.has_value())
    return wrong(to_text(config.address) + ": " + opened.error());
  return made;
}

}  // namespace dxgkit::vfio
