#include "devices/vfiouser/remote_device.h"

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <deque>

#include "base/arithmetic.h"
#include "base/check.h"
#include "bus/machine.h"
#include "devices/vfiouser/client.h"
#include "runtime/descriptors.h"

namespace dxgkit::vfiouser {
namespace {

constexpr uint32_t kCommandOffset = 0x04;
constexpr uint16_t kCommandPorts = 1, kCommandMemory = 2, kCommandBusMaster = 4;
constexpr uint64_t kTimeoutMsDefault = 5000, kTimeoutMsMost = 600'000;

uint64_t all_ones(uint32_t size_bytes) {
  return size_bytes >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size_bytes)) - 1;
}

/// Whole where it is aligned, as a CPU would: the server runs beside us.
template <typename T>
uint64_t load(const std::byte* from) {
  if (std::bit_cast<uintptr_t>(from) % sizeof(T) == 0)
    return __atomic_load_n(reinterpret_cast<const T*>(from), __ATOMIC_ACQUIRE);
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <typename T>
void store(std::byte* to, uint64_t value) {
  const T narrow = static_cast<T>(value);
  if (std::bit_cast<uintptr_t>(to) % sizeof(T) == 0) {
    __atomic_store_n(reinterpret_cast<T*>(to), narrow, __ATOMIC_RELEASE);
  } else {
    std::memcpy(to, &narrow, sizeof(narrow));
  }
}

class RemoteDevice final : public bus::Device, private bus::ConfigHandler {
 public:
  RemoteDevice(const bus::DeviceHost& host, const RemoteOptions& options)
      : runtime_(host.runtime), machine_(host.machine), options_(options) {}

  ~RemoteDevice() override {
    stopped_.store(true, std::memory_order_release);
    if (client_) client_->stop();
    ring();
    if (quit_) {
      const uint64_t one = 1;
      static_cast<void>(!write(quit_.get(), &one, sizeof(one)));
    }
    for (const auto& thread : threads_) thread->join();
    function_.reset();
  }

  /// Everything that takes the server. The error is one sentence without a full stop.
  std::expected<void, std::string> open(Descriptor socket) {
    auto client = Client::open(runtime_, std::move(socket), options_.timeout_ns, memory_access());
    if (!client.has_value()) return wrong(client.error());
    client_ = std::move(*client);
    if (client_->server().transfer_bytes_max < kConfigChunkBytes)
      return wrong("the server takes less than 64 bytes of data with a message");
    threads_.push_back(runtime_.spawn("vfio-user server", [this] { watch(); }));
    auto facts = read_facts(*client_, options_.map, options_.irq);
    if (!facts.has_value()) return wrong(facts.error());
    facts_ = std::move(*facts);
    if (facts_.can_reset) {
      if (auto done = client_->call(Command::kDeviceReset, {}, {}); !done)
        return wrong(done.error().why);
    }
    if (auto mapped = map_memory(); !mapped) return mapped;
    make_function();
    if (auto listening = listen_to_interrupts(); !listening) return listening;
    enable();
    if (client_->is_over()) return wrong("the server left while its device was made");
    published_.store(true, std::memory_order_release);
    ring();
    return {};
  }

  std::span<bus::PciFunction* const> functions() override { return functions_; }
  void set_power(size_t, bus::FunctionPower power) override {
    // The protocol knows no power. A reset is what its loss does to registers.
    if (power != bus::FunctionPower::kOn) restart();
  }
  void reset(size_t) override { restart(); }
  void pulled_out() override {
    gone_.store(true, std::memory_order_release);
    client_->stop();
  }
  void on_loss(std::function<void(const std::string& why)> lost) override {
    {
      const runtime::MutexLock lock(loss_mutex_);
      on_loss_ = std::move(lost);
    }
    ring();
  }

 private:
  /// Registers or ports of one BAR.
  struct Registers final : bus::MmioHandler {
    Registers(RemoteDevice& owner_in, uint32_t slot_in)
        : owner(owner_in), slot(slot_in), bar(owner_in.facts_.bars[slot_in]) {}
    const Mapping* mapping_of(uint64_t offset, uint32_t size_bytes) const {
      for (const auto& one : bar.mappings) {
        if (offset >= one->area().offset &&
            range_within(offset - one->area().offset, size_bytes, one->area().size))
          return one.get();
      }
      return nullptr;
    }
    uint64_t mmio_read(uint64_t offset, uint32_t size_bytes) override {
      if (!bar.readable || !range_within(offset, size_bytes, bar.region_size))
        return all_ones(size_bytes);
      if (const Mapping* const mapping = mapping_of(offset, size_bytes))
        return read_mapped(mapping->bytes() + (offset - mapping->area().offset), size_bytes);
      uint64_t value = 0;
      const auto bytes = std::as_writable_bytes(std::span(&value, 1)).first(size_bytes);
      if (!read_region(*owner.client_, slot, offset, bytes)) return all_ones(size_bytes);
      return value;
    }
    void mmio_write(uint64_t offset, uint32_t size_bytes, uint64_t value) override {
      if (!bar.writeable || !range_within(offset, size_bytes, bar.region_size)) return;
      if (const Mapping* const mapping = mapping_of(offset, size_bytes))
        return write_mapped(mapping->bytes() + (offset - mapping->area().offset), size_bytes,
                            value);
      // A refused write is dropped, as on a bus.
      static_cast<void>(write_region(*owner.client_, slot, offset,
                                     std::as_bytes(std::span(&value, 1)).first(size_bytes)));
    }
    static uint64_t read_mapped(const std::byte* from, uint32_t size_bytes) {
      switch (size_bytes) {
        case 1:
          return load<uint8_t>(from);
        case 2:
          return load<uint16_t>(from);
        case 4:
          return load<uint32_t>(from);
        default:
          return load<uint64_t>(from);
      }
    }
    static void write_mapped(std::byte* to, uint32_t size_bytes, uint64_t value) {
      switch (size_bytes) {
        case 1:
          return store<uint8_t>(to, value);
        case 2:
          return store<uint16_t>(to, value);
        case 4:
          return store<uint32_t>(to, value);
        default:
          return store<uint64_t>(to, value);
      }
    }
    RemoteDevice& owner;
    const uint32_t slot;
    const RemoteBar& bar;
  };

  MemoryAccess memory_access() {
    return {.read =
                [this](uint64_t address, std::span<std::byte> out) {
                  return !gone_.load(std::memory_order_acquire) &&
                         machine_.dma_read(bus::PhysicalAddress{address}, out);
                },
            .write =
                [this](uint64_t address, ByteView in) {
                  return !gone_.load(std::memory_order_acquire) &&
                         machine_.dma_write(bus::PhysicalAddress{address}, in);
                }};
  }

  std::expected<void, std::string> map_memory() {
    using bus::Machine;
    const uint64_t size = machine_.highest_system_address().value - Machine::kSystemMemoryBase + 1;
    const Area ranges[] = {{Machine::kSystemMemoryBase, size},
                           {Machine::kLowMemoryBase, machine_.low_memory_bytes()},
                           {Machine::kPoolMemoryBase, Machine::kPoolMemoryBytes}};
    if (!options_.dma_by_message) machine_.fix_system_memory();  // the server maps it
    for (const Area& range : ranges) {
      if (range.size == 0) continue;
      const bus::MemoryWindow window =
          machine_.window_of(bus::PhysicalAddress{range.offset}, range.size);
      const DmaMap map{.flags = DmaMap::kReadable | DmaMap::kWriteable,
                       .offset = options_.dma_by_message ? 0 : window.offset,
                       .address = range.offset,
                       .size = range.size};
      const std::span<const int> descriptors(&window.fd, options_.dma_by_message ? 0U : 1U);
      if (auto done = client_->call(Command::kDmaMap, {encode(map)}, descriptors); !done)
        return wrong(done.error().why);
    }
    return {};
  }

  void make_function() {
    std::vector<bus::Bar> bars(kRegionBars);
    for (uint32_t slot = 0; slot < kRegionBars; ++slot) {
      const RemoteBar& remote = facts_.bars[slot];
      bus::Bar& bar = bars[slot];
      bar.kind = remote.kind;
      if (remote.kind == bus::BarKind::kNone) continue;
      bar.size = remote.size;
      if (remote.kind == bus::BarKind::kMemory) {
        bar.memory = {.fd = remote.descriptor.get(), .offset = remote.offset, .size = remote.size};
      } else {
        bar.wide = remote.wide;
        bar.registers = &registers_.emplace_back(*this, slot);
      }
    }
    function_.emplace(facts_.identity, std::move(bars));
    function_->set_config_handler(*this);
    functions_ = {&*function_};
  }

  std::expected<void, std::string> listen_to_interrupts() {
    if (!facts_.irq.has_value()) return {};
    bell_fd_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    quit_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell_fd_ || !quit_) return wrong("there is no event descriptor left");
    // All messages of the device lead to the one line that the kernel connects. They share a
    // descriptor.
    const uint32_t step =
        std::clamp<uint32_t>(client_->server().descriptors_max, 1, kDescriptorsMost);
    for (uint32_t start = 0; start < facts_.irq_info.count; start += step) {
      const uint32_t count = std::min(step, facts_.irq_info.count - start);
      const std::vector<int> descriptors(count, bell_fd_.get());
      const SetIrqs set{.flags = SetIrqs::kEventfd | SetIrqs::kTrigger,
                        .index = facts_.irq_info.index,
                        .start = start,
                        .count = count,
                        .chosen = {}};
      if (auto done = client_->call(Command::kDeviceSetIrqs, {encode(set)}, descriptors); !done)
        return wrong(done.error().why);
    }
    threads_.push_back(runtime_.spawn("vfio-user interrupts", [this] { deliver(); }));
    return {};
  }

  /// What firmware and the kernel have enabled: memory, bus mastering, messages. Gone after a
  /// reset.
  void enable() {
    uint16_t command = kCommandMemory | kCommandBusMaster;
    for (const RemoteBar& bar : facts_.bars) {
      if (bar.kind == bus::BarKind::kPorts) command |= kCommandPorts;
    }
    static_cast<void>(write_region(*client_, kRegionConfig, kCommandOffset,
                                   std::as_bytes(std::span(&command, 1))));
    if (!facts_.irq.has_value() || *facts_.irq == IrqKind::kIntx) return;
    const MessageControl& control = facts_.control(*facts_.irq);
    if (control.offset == 0) return;
    std::byte byte{};
    if (!read_region(*client_, kRegionConfig, control.offset, {&byte, 1})) return;
    byte |= std::byte{control.enable};
    static_cast<void>(write_region(*client_, kRegionConfig, control.offset, {&byte, 1}));
  }

  void restart() {
    if (!facts_.can_reset || client_->is_over()) return;
    const auto done = client_->call(Command::kDeviceReset, {}, {});
    if (done.has_value()) return enable();
    // It may go on with work from before, which nobody expects any more.
    if (done.error().refused != 0) client_->reject(done.error().why);
  }

  // --- configuration space

  void config_read(uint32_t offset, std::span<std::byte> out) override {
    const uint64_t there = offset >= facts_.config_bytes
                               ? 0
                               : std::min<uint64_t>(out.size(), facts_.config_bytes - offset);
    std::ranges::fill(out.subspan(there), std::byte{0xFF});
    for (size_t begin = 0; begin < there; begin += kConfigChunkBytes) {
      const auto part = out.subspan(begin, std::min<size_t>(kConfigChunkBytes, there - begin));
      if (!read_region(*client_, kRegionConfig, offset + begin, part))
        std::ranges::fill(part, std::byte{0xFF});
    }
    // The kernel connects INTx, whatever the device does.
    for (const MessageControl& control : {facts_.msi, facts_.msix}) {
      if (control.offset >= offset && control.offset - offset < out.size())
        out[control.offset - offset] &= ~std::byte{control.enable};
    }
  }

  void config_write(uint32_t offset, std::span<const std::byte> in) override {
    if (!range_within(offset, in.size(), facts_.config_bytes)) return;
    Bytes bytes(in.begin(), in.end());
    for (const IrqKind kind : {IrqKind::kMsi, IrqKind::kMsix}) {
      const MessageControl& control = facts_.control(kind);
      if (control.offset < offset || control.offset - offset >= in.size()) continue;
      std::byte& byte = bytes[control.offset - offset];
      byte &= ~std::byte{control.enable};
      if (facts_.irq == kind) byte |= std::byte{control.enable};
    }
    for (size_t begin = 0; begin < bytes.size(); begin += kConfigChunkBytes) {
      const auto part =
          ByteView(bytes).subspan(begin, std::min<size_t>(kConfigChunkBytes, bytes.size() - begin));
      static_cast<void>(write_region(*client_, kRegionConfig, offset + begin, part));
    }
  }

  // --- threads

  /// True if the server has interrupted since the last call.
  bool take_interrupt() const {
    uint64_t count = 0;
    iovec piece{&count, sizeof(count)};
    // The server has the same file and can make it wait: ask not to wait in the call itself.
    ssize_t got = preadv2(bell_fd_.get(), &piece, 1, -1, RWF_NOWAIT);
    if (got < 0 && errno == EOPNOTSUPP) got = read(bell_fd_.get(), &count, sizeof(count));
    return got == sizeof(count);
  }

  void deliver() {
    const bool unmask = (facts_.irq_info.flags & IrqInfo::kAutomasked) != 0;
    while (true) {
      runtime::DescriptorWait waits[] = {{.fd = bell_fd_.get()}, {.fd = quit_.get()}};
      static_cast<void>(runtime::wait_for_descriptors(runtime_, waits));
      if (stopped_.load(std::memory_order_acquire)) return;
      if (!waits[0].ready || !take_interrupt()) continue;
      if (gone_.load(std::memory_order_acquire)) continue;
      // An interrupt that nobody claims is the driver's business, as on every line.
      static_cast<void>(function_->interrupt_line().raise());
      if (!unmask) continue;
      const SetIrqs set{.flags = SetIrqs::kNone | SetIrqs::kUnmask,
                        .index = facts_.irq_info.index,
                        .start = 0,
                        .count = facts_.irq_info.count,
                        .chosen = {}};
      static_cast<void>(client_->call(Command::kDeviceSetIrqs, {encode(set)}, {}));
    }
  }

  void ring() {
    bell_.fetch_add(1, std::memory_order_acq_rel);
    runtime_.wake_all(bell_);
  }

  /// Answers the server until it leaves; then takes the device off the bus, and tells whoever asks.
  void watch() {
    const std::optional<std::string> why = client_->serve();
    if (!why.has_value()) return;
    bool told = false;
    while (true) {
      const uint32_t seen = bell_.load(std::memory_order_acquire);
      if (stopped_.load(std::memory_order_acquire)) return;
      if (published_.load(std::memory_order_acquire)) {
        const bool gone = gone_.exchange(true, std::memory_order_acq_rel);
        machine_.pull_out(*function_);
        if (gone && !lost_) return;  // the host pulled it out before it could leave
        lost_ = true;
        const runtime::MutexLock lock(loss_mutex_);
        if (on_loss_ && !told) {
          told = true;
          on_loss_(*why);
        }
      }
      static_cast<void>(runtime_.wait(bell_, seen));
    }
  }

  runtime::Runtime& runtime_;
  bus::Machine& machine_;
  const RemoteOptions options_;
  std::unique_ptr<Client> client_;
  Facts facts_;
  std::deque<Registers> registers_;  // they stay where they are
  std::optional<bus::PciFunction> function_;
  std::array<bus::PciFunction*, 1> functions_{};
  Descriptor bell_fd_;  // the server's interrupts
  Descriptor quit_;     // wakes the thread that waits for them
  std::atomic<bool> stopped_{false}, published_{false};
  std::atomic<bool> gone_{false};  // no DMA and no interrupt any more
  bool lost_ = false;              // it left by itself; on the watch thread
  std::atomic<uint32_t> bell_{0};  // counts reasons for the watch thread to look
  runtime::Mutex loss_mutex_;      // held while on_loss_ runs
  std::function<void(const std::string&)> on_loss_ DXGKIT_GUARDED_BY(loss_mutex_);
  std::vector<std::unique_ptr<runtime::Thread>> threads_;
};

std::expected<IrqKind, std::string> parse_irq(std::string_view text) {
  if (text == "intx") return IrqKind::kIntx;
  if (text == "msi") return IrqKind::kMsi;
  if (text == "msix") return IrqKind::kMsix;
  return wrong("irq: '" + std::string(text) + "' is not intx, msi or msix");
}

/// One of two words. The first is the default.
std::expected<bool, std::string> second_of(const bus::DeviceOptions& options, const char* name,
                                           const std::string& first, const std::string& second) {
  const std::string text(options.find(name).value_or(first));
  if (text != first && text != second)
    return wrong(std::string(name) + ": '" + text + "' is neither " + first + " nor " + second);
  return text == second;
}

std::expected<RemoteOptions, std::string> read_options(const bus::DeviceOptions& given) {
  RemoteOptions options;
  const auto timeout = given.number("timeout", kTimeoutMsDefault, 1, kTimeoutMsMost);
  if (!timeout.has_value()) return wrong(timeout.error());
  options.timeout_ns = static_cast<runtime::DurationNs>(*timeout) * runtime::kMillisecond;
  const auto messages = second_of(given, "dma", "descriptor", "messages");
  if (!messages.has_value()) return wrong(messages.error());
  options.dma_by_message = *messages;
  const auto unmapped = second_of(given, "map", "sealed", "none");
  if (!unmapped.has_value()) return wrong(unmapped.error());
  options.map = *unmapped ? MapPolicy::kNone : MapPolicy::kSealed;
  if (const auto irq = given.find("irq"); irq.has_value()) {
    const auto kind = parse_irq(*irq);
    if (!kind.has_value()) return wrong(kind.error());
    options.irq = *kind;
  }
  return options;
}

}  // namespace

std::expected<std::unique_ptr<bus::Device>, std::string> make_remote_device(
    const bus::DeviceHost& host, Descriptor socket, const RemoteOptions& options) {
  DXGKIT_CHECK(!host.runtime.is_simulated());
  auto device = std::make_unique<RemoteDevice>(host, options);
  if (auto opened = device->open(std::move(socket)); !opened) return wrong(opened.error());
  return device;
}

bus::DeviceType device_type() {
  bus::DeviceType type;
  type.name = "vfio-user";
  type.summary = "a device whose model is another process, a vfio-user server";
  type.simulated = false;
  type.options = {
      {"socket", "PATH", "where the server listens"},
      {"timeout", "MS", "how long an answer of the server may take (5000)"},
      {"dma", "descriptor|messages",
       "how the server reaches system memory: it maps it, or asks for each access (descriptor)"},
      {"map", "sealed|none",
       "which BARs are mapped: those whose memory cannot shrink, or none (sealed)"},
      {"irq", "intx|msi|msix", "how the device interrupts (the first of intx, msix, msi it has)"}};
  type.configure =
      [](const bus::DeviceOptions& given) -> std::expected<bus::DeviceMaker, std::string> {
    const auto options = read_options(given);
    if (!options.has_value()) return wrong(options.error());
    const std::string path(given.find("socket").value_or(""));
    if (path.empty()) return wrong("socket: the path of the server's socket is missing");
    return [path, options = *options](const bus::DeviceHost& host)
               -> std::expected<std::unique_ptr<bus::Device>, std::string> {
      auto socket = connect_to(path);
      if (!socket.has_value()) return wrong(socket.error());
      auto device = make_remote_device(host, std::move(*socket), options);
      if (!device.has_value()) return wrong(path + ": " + device.error());
      return device;
    };
  };
  return type;
}

bus::DeviceSpelling spelling() {
  return {"vfio-user:SOCKET", "vfio-user with the server that listens there",
          [](std::string_view name) -> std::optional<std::string> {
            constexpr std::string_view kPrefix = "vfio-user:";
            if (!name.starts_with(kPrefix)) return std::nullopt;
            return "vfio-user,socket=" + std::string(name.substr(kPrefix.size()));
          }};
}

}  // namespace dxgkit::vfiouser
