#include "devices/virtio/pci_transport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>

#include "base/arithmetic.h"
#include "base/check.h"
#include "bus/activity.h"
#include "bus/config_observer.h"
#include "devices/virtio/msix.h"
#include "devices/virtio/registers.h"
#include "devices/virtio/virtio_hw.h"

namespace dxgkit::virtio {
namespace {

struct Places {
  uint32_t registers, messages;  // BARs
};
Places places(const PciOptions& options) {
  switch (options.layout) {
    case PciOptions::Layout::kPlain:
      return {0, 2};
    case PciOptions::Layout::kBehind:
      return {4, 1};
    case PciOptions::Layout::kNarrow:
      return {4, 3};
  }
  return {};
}
// In the BAR of the registers: a page for each structure.
constexpr uint64_t kCommonOffset = 0, kIsrOffset = 0x1000, kDeviceOffset = 0x2000,
                   kNotifyOffset = 0x3000, kBarBytes = 0x4000;
/// A place in that BAR where nothing is: it reads 0, and what is written there is lost.
constexpr uint64_t kNowhereOffset = kIsrOffset + 0x100;
constexpr uint32_t kNotifyMultiplier = 4;
constexpr uint32_t kDeviceBytesMost = 0x1000;
constexpr size_t kQueuesMost = 32;  // notifications are the bits of one word

constexpr uint32_t kCommandOffset = 4;  // of configuration space
constexpr uint32_t kCapabilitiesOffset = 0x34;
constexpr uint8_t kMsixId = 0x11;
constexpr uint8_t kReservedBar = 6;
constexpr std::byte kReservedOfPointers{3};
constexpr uint16_t kCommandNoInterrupt = 0x400;  // INTx is off

/// Rounds of a handler that claims the interrupt and leaves the line up.
constexpr int kRoundsMost = 64;
constexpr runtime::DurationNs kLateBy = runtime::kMillisecond;

enum class Fate { kNormal, kLost, kDuplicate, kLate };

/// The body of a vendor capability.
bus::PciCapability capability(uint32_t bar, uint8_t type, uint64_t offset, uint32_t bytes,
                              std::optional<uint32_t> more = std::nullopt) {
  bus::PciCapability result{.id = VIRTIO_PCI_CAP_ID, .body = {}, .writable = {}};
  const auto length =
      static_cast<uint8_t>(more.has_value() ? VIRTIO_PCI_CAP_LEAST_EXTENDED : VIRTIO_PCI_CAP_LEAST);
  result.body.resize(length - 2U);
  const auto put = [&result](uint32_t at, auto value) {
    std::memcpy(result.body.data() + at - 2, &value, sizeof value);
  };
  put(VIRTIO_PCI_CAP_LENGTH, length);
  put(VIRTIO_PCI_CAP_TYPE, type);
  put(VIRTIO_PCI_CAP_BAR, static_cast<uint8_t>(bar));
  put(VIRTIO_PCI_CAP_OFFSET, static_cast<uint32_t>(offset));
  put(VIRTIO_PCI_CAP_BYTES, bytes);
  if (more.has_value()) put(VIRTIO_PCI_CAP_MULTIPLIER, *more);
  if (type == VIRTIO_PCI_CAP_PCI) {  // software says what it wants to reach, and with what
    result.writable.assign(result.body.size(), std::byte{0xFF});
    result.writable[0] = result.writable[1] = std::byte{0};
    result.writable[3] = result.writable[4] = result.writable[5] = std::byte{0};
  }
  return result;
}

/// The same with another length in it.
bus::PciCapability of_length(bus::PciCapability result, uint8_t length) {
  result.body[VIRTIO_PCI_CAP_LENGTH - 2] = std::byte{length};
  return result;
}

/// What a driver must pass over: who follows one of them finds no device.
std::vector<bus::PciCapability> misleading(uint32_t bar) {
  constexpr uint8_t kTooShort = VIRTIO_PCI_CAP_LEAST - 4;
  return {
      of_length(capability(bar, VIRTIO_PCI_CAP_COMMON, kNowhereOffset, VIRTIO_COMMON_BYTES),
                kTooShort),
      capability(kReservedBar, VIRTIO_PCI_CAP_COMMON, kNowhereOffset, VIRTIO_COMMON_BYTES),
      capability(bar, VIRTIO_PCI_CAP_COMMON, kNowhereOffset, VIRTIO_COMMON_BYTES - 1),
      capability(bar, VIRTIO_PCI_CAP_NOTIFY, kNowhereOffset, 2),
      capability(bar, VIRTIO_PCI_CAP_NOTIFY, kNowhereOffset, 1, kNotifyMultiplier),
  };
}

}  // namespace

struct PciTransport::Impl final : bus::MmioHandler,
                                  bus::ConfigObserver,
                                  bus::Activity,
                                  private Memory {
  Impl(runtime::Runtime& runtime_in, bus::Machine& machine_in, Model& model_in,
       const PciOptions& options)
      : runtime(runtime_in),
        machine(machine_in),
        model(model_in),
        reset_reads(options.reset_reads),
        odd_capabilities(options.odd_capabilities),
        registers(offered(model_in, options), model_in.queue_sizes(), options.messages),
        queues(registers.queues().size()),
        msix(options.messages, [this] { ring(); }),
        function(identity(options), bars(options), capabilities(options)) {
    DXGKIT_CHECK(queues.size() <= kQueuesMost);
    DXGKIT_CHECK(model.config_bytes() <= kDeviceBytesMost);
    find_capabilities();
    thread = runtime.spawn(options.name, [this] { run(); });
  }

  ~Impl() override {
    machine.remove_function(function);
    stop.store(true, std::memory_order_release);
    ring();
    model.interrupt();
    thread->join();
  }

  static uint64_t offered(const Model& model, const PciOptions& options) {
    return model.features() | uint64_t{1} << VIRTIO_F_VERSION_1 |
           uint64_t{options.indirect} << VIRTIO_F_INDIRECT_DESC |
           uint64_t{options.event_index} << VIRTIO_F_EVENT_IDX |
           uint64_t{options.access_platform} << VIRTIO_F_ACCESS_PLATFORM;
  }
  static bus::PciIdentity identity(const PciOptions& options) {
    bus::PciIdentity result = options.identity;
    result.vendor_id = VIRTIO_PCI_VENDOR_ID;
    result.device_id = static_cast<uint16_t>(VIRTIO_PCI_DEVICE_ID(options.type));
    result.revision = VIRTIO_PCI_REVISION;
    return result;
  }
  std::vector<bus::Bar> bars(const PciOptions& options) {
    const auto [registers_at, messages_at] = places(options);
    const uint32_t last =
        options.messages == 0 ? registers_at : std::max(registers_at, messages_at);
    std::vector<bus::Bar> list(last + 1);
    list[registers_at] = {.kind = bus::BarKind::kRegisters,
                          .base = {},
                          .size = kBarBytes,
                          .registers = this,
                          .memory = {},
                          .wide = true};
    if (options.messages != 0)
      list[messages_at] = {.kind = bus::BarKind::kRegisters,
                           .base = {},
                           .size = MsixTable::kBarBytes,
                           .registers = &msix,
                           .memory = {},
                           .wide = options.layout == PciOptions::Layout::kBehind};
    return list;
  }
  std::vector<bus::PciCapability> capabilities(const PciOptions& options) {
    const auto [bar, messages_at] = places(options);
    std::vector<bus::PciCapability> list;
    DXGKIT_CHECK(options.messages == 0 || !options.odd_capabilities);
    if (options.messages != 0) list.push_back(msix.capability(messages_at));
    if (options.odd_capabilities) list = misleading(bar);
    list.push_back(capability(bar, VIRTIO_PCI_CAP_COMMON, kCommonOffset, VIRTIO_COMMON_BYTES));
    list.push_back(capability(bar, VIRTIO_PCI_CAP_NOTIFY, kNotifyOffset,
                              static_cast<uint32_t>(queues.size()) * kNotifyMultiplier,
                              kNotifyMultiplier));
    list.push_back(capability(bar, VIRTIO_PCI_CAP_ISR, kIsrOffset, 1));
    list.push_back(capability(bar, VIRTIO_PCI_CAP_DEVICE, kDeviceOffset, model.config_bytes()));
    list.push_back(capability(bar, VIRTIO_PCI_CAP_PCI, 0, 0, 0));  // software writes where it looks
    // A driver takes the first one of a kind that it can use.
    if (options.odd_capabilities)
      list.push_back(capability(bar, VIRTIO_PCI_CAP_COMMON, kNowhereOffset, VIRTIO_COMMON_BYTES));
    return list;
  }

  /// Where the two capabilities are that software writes, and all pointers to capabilities.
  void find_capabilities() {
    uint8_t at = 0;
    const auto read_byte = [this](uint32_t offset) {
      uint8_t value = 0;
      function.config_read(offset, std::as_writable_bytes(std::span(&value, 1)));
      return value;
    };
    std::vector<uint32_t> found = {kCapabilitiesOffset};
    for (at = read_byte(kCapabilitiesOffset); at != 0; at = read_byte(at + 1U)) {
      found.push_back(at + 1U);
      const uint8_t id = read_byte(at);
      if (id == kMsixId) msix_at = at;
      if (id == VIRTIO_PCI_CAP_ID && read_byte(at + VIRTIO_PCI_CAP_TYPE) == VIRTIO_PCI_CAP_PCI)
        access_at = at;
    }
    if (odd_capabilities) pointers = std::move(found);
  }

  // --- memory
  bool read(uint64_t address, std::span<std::byte> to) override {
    return !gone.load(std::memory_order_acquire) &&
           machine.dma_read(bus::PhysicalAddress{address}, to);
  }
  bool write(uint64_t address, std::span<const std::byte> from) override {
    return !gone.load(std::memory_order_acquire) &&
           machine.dma_write(bus::PhysicalAddress{address}, from);
  }
  bool may_access_memory() const override {
    return active.load(std::memory_order_acquire) || notified.load(std::memory_order_acquire) != 0;
  }

  // --- registers
  uint64_t mmio_read(uint64_t offset, uint32_t size_bytes) override {
    if (offset < kIsrOffset) {
      const runtime::MutexLock lock(mutex);
      if (reset_reads_left != 0 &&
          covers(static_cast<uint32_t>(offset), size_bytes, VIRTIO_COMMON_STATUS, 1)) {
        --reset_reads_left;
        return uint64_t{VIRTIO_STATUS_ACKNOWLEDGE}
               << 8 * (VIRTIO_COMMON_STATUS - static_cast<uint32_t>(offset));
      }
      return registers.read(offset, size_bytes);
    }
    // Handlers read it: no lock.
    if (offset == kIsrOffset) return isr.exchange(0, std::memory_order_acq_rel);
    if (offset >= kDeviceOffset && offset < kNotifyOffset &&
        range_within(offset - kDeviceOffset, size_bytes, model.config_bytes())) {
      uint64_t value = 0;
      model.config_read(offset - kDeviceOffset,
                        std::as_writable_bytes(std::span(&value, 1)).first(size_bytes));
      return value;
    }
    return 0;
  }

  void mmio_write(uint64_t offset, uint32_t size_bytes, uint64_t value) override {
    if (offset < kIsrOffset) return write_common(offset, size_bytes, value);
    if (offset >= kNotifyOffset) {  // the place says which queue, whatever is written there
      const uint64_t queue = (offset - kNotifyOffset) / kNotifyMultiplier;
      if (queue >= queues.size()) return;
      notified.fetch_or(1U << queue, std::memory_order_acq_rel);
      return ring();
    }
    if (offset >= kDeviceOffset &&
        range_within(offset - kDeviceOffset, size_bytes, model.config_bytes()))
      model.config_write(offset - kDeviceOffset,
                         std::as_bytes(std::span(&value, 1)).first(size_bytes));
  }

  void write_common(uint64_t offset, uint32_t size_bytes, uint64_t value) {
    Effect effect = Effect::kNone;
    {
      const runtime::MutexLock lock(mutex);
      const bool resets = offset == VIRTIO_COMMON_STATUS && size_bytes == 1 && value == 0;
      if (reset_reads_left != 0 && !resets) return;  // it is in its reset, and hears nothing
      effect = registers.write(offset, size_bytes, value);
      if (effect == Effect::kReset) {
        drop_queues();
        reset_reads_left = reset_reads;
      }
    }
    if (effect == Effect::kReset) finish_reset();
    if (effect == Effect::kBroken) {  // an interrupt may not come from the driver's own access
      broken_now.store(true, std::memory_order_release);
      ring();
    }
    // Chains may be available already: a driver that is not ready may still have notified.
    if (effect == Effect::kRun) {
      notified.fetch_or(UINT32_MAX, std::memory_order_acq_rel);
      ring();
    }
  }

  // --- configuration space
  struct Target {
    bus::MmioHandler* registers;
    uint32_t offset;
    uint32_t bytes;
  };
  /// What the access capability leads to; nullopt: nowhere.
  std::optional<Target> target() const {
    std::array<std::byte, VIRTIO_PCI_CAP_DATA> raw{};
    function.config_read(access_at, raw);
    Target result{};
    std::memcpy(&result.offset, raw.data() + VIRTIO_PCI_CAP_OFFSET, sizeof result.offset);
    std::memcpy(&result.bytes, raw.data() + VIRTIO_PCI_CAP_BYTES, sizeof result.bytes);
    if (result.bytes != 1 && result.bytes != 2 && result.bytes != 4) return std::nullopt;
    const auto slot = std::to_integer<size_t>(raw[VIRTIO_PCI_CAP_BAR]);
    if (slot >= function.bars().size()) return std::nullopt;
    const bus::Bar& bar = function.bars()[slot];
    result.registers = bar.registers;
    if (bar.registers == nullptr || result.offset % result.bytes != 0 ||
        !range_within(result.offset, result.bytes, bar.size))
      return std::nullopt;
    return result;
  }
  /// An access of `bytes` at `offset` that has all of [wanted, wanted + length).
  static bool covers(uint32_t offset, size_t bytes, uint32_t wanted, uint32_t length) {
    return offset <= wanted && range_within(wanted - offset, length, bytes);
  }
  void config_read(uint32_t offset, std::span<std::byte> out) override {
    for (const uint32_t pointer : pointers) {
      if (covers(offset, out.size(), pointer, 1)) out[pointer - offset] |= kReservedOfPointers;
    }
    const uint32_t data = access_at + VIRTIO_PCI_CAP_DATA;
    if (access_at == 0 || !covers(offset, out.size(), data, 1)) return;
    const auto to = target();
    if (!to.has_value() || !covers(offset, out.size(), data, to->bytes)) return;
    const uint64_t value = to->registers->mmio_read(to->offset, to->bytes);
    std::memcpy(out.data() + (data - offset), &value, to->bytes);
  }
  void config_written(uint32_t offset, std::span<const std::byte> in) override {
    if (msix_at != 0 && offset < msix_at + 4 && offset + in.size() > msix_at + 2)
      msix.set_control(config_word(msix_at + 2));
    if (offset < kCommandOffset + 2 && offset + in.size() > kCommandOffset) {
      line_off.store((config_word(kCommandOffset) & kCommandNoInterrupt) != 0,
                     std::memory_order_release);
      woken_line.store(true, std::memory_order_release);
      ring();
    }
    const uint32_t data = access_at + VIRTIO_PCI_CAP_DATA;
    if (!covers(offset, in.size(), data, 1)) return;
    const auto to = target();
    if (!to.has_value() || !covers(offset, in.size(), data, to->bytes)) return;
    uint64_t value = 0;
    std::memcpy(&value, in.data() + (data - offset), to->bytes);
    to->registers->mmio_write(to->offset, to->bytes, value);
  }
  uint16_t config_word(uint32_t offset) const {
    uint16_t word = 0;
    function.config_read(offset, std::as_writable_bytes(std::span(&word, 1)));
    return word;
  }

  // --- reset
  void drop_queues() DXGKIT_REQUIRES(mutex) {
    ++generation;
    for (auto& queue : queues) queue.reset();
    hung = false;
    active.store(false, std::memory_order_release);
    isr.store(0, std::memory_order_release);
    notified.store(0, std::memory_order_release);
    late.clear();
  }
  /// Waits for the request that is being carried out.
  void finish_work() {
    model.interrupt();
    const runtime::MutexLock work(work_mutex);
  }
  void finish_reset() {
    ring();
    model.interrupt();
    const runtime::MutexLock work(work_mutex);
    model.reset();
  }
  void reset_all() {
    {
      const runtime::MutexLock lock(mutex);
      registers.reset();
      drop_queues();
      reset_reads_left = 0;
    }
    finish_reset();
    if (msix_at == 0) return;
    constexpr std::byte kOff{0};
    function.config_write(msix_at + 3, {&kOff, 1});
    msix.reset();
  }

  // --- interrupts, on the transport's thread with no lock held
  void tell_broken() {
    if (!broken_now.exchange(false, std::memory_order_acq_rel)) return;
    uint16_t vector = 0;
    {
      const runtime::MutexLock lock(mutex);
      if (!registers.is_broken_in_use()) return;
      vector = registers.config_vector();
    }
    interrupt(VIRTIO_ISR_CONFIG, vector);
  }
  void raise_line() {
    for (int round = 0; round < kRoundsMost; ++round) {
      if (isr.load(std::memory_order_acquire) == 0) return;
      if (line_off.load(std::memory_order_acquire) || gone.load(std::memory_order_acquire)) return;
      // Nobody claims it: the bit stays, and the next event raises the line again.
      if (!function.interrupt_line().raise()) return;
    }
  }
  /// A message is a memory write like any other. Where it leads to nothing, nobody hears it.
  void send(const Message& message) { static_cast<void>(store(message.address, message.data)); }
  void interrupt(uint8_t cause, uint16_t vector) {
    if (msix.is_enabled()) {
      if (vector == VIRTIO_NO_VECTOR) return;
      if (const auto message = msix.send(vector); message.has_value()) send(*message);
      return;
    }
    isr.fetch_or(cause, std::memory_order_acq_rel);
    raise_line();
  }
  /// Of a returned chain, with the faults that are planted.
  void queue_interrupt(uint16_t vector, Fate fate) {
    if (fate == Fate::kLost) {
      if (!msix.is_enabled()) isr.fetch_or(VIRTIO_ISR_QUEUE, std::memory_order_acq_rel);
      return;
    }
    if (fate == Fate::kLate) {
      const runtime::MutexLock lock(mutex);
      late.push_back({runtime.now() + kLateBy, vector});
      return;
    }
    interrupt(VIRTIO_ISR_QUEUE, vector);
    if (fate == Fate::kDuplicate) interrupt(VIRTIO_ISR_QUEUE, vector);
  }
  /// What has become due or unmasked since. The time of the next late one.
  runtime::TimeNs deliver_waiting() {
    while (const auto message = msix.take_pending()) send(*message);
    if (!msix.is_enabled() && woken_line.exchange(false, std::memory_order_acq_rel)) raise_line();
    while (true) {
      uint16_t vector = 0;
      {
        const runtime::MutexLock lock(mutex);
        if (late.empty()) return runtime::kForever;
        if (late.front().due > runtime.now()) return late.front().due;
        vector = late.front().vector;
        late.pop_front();
      }
      interrupt(VIRTIO_ISR_QUEUE, vector);
    }
  }

  // --- the thread
  void ring() {
    bell.fetch_add(1, std::memory_order_acq_rel);
    runtime.wake_all(bell);
  }
  void run() {
    while (true) {
      const uint32_t seen = bell.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire)) return;
      tell_broken();
      const runtime::TimeNs next = deliver_waiting();
      const uint32_t wanted = take_notified();
      for (uint16_t queue = 0; queue < queues.size(); ++queue) {
        while ((wanted >> queue & 1) != 0 && !stop.load(std::memory_order_acquire)) {
          if (!serve(queue)) break;
        }
      }
      rest();
      if (wanted == 0) runtime.wait(bell, seen, next);
    }
  }

  uint32_t take_notified() {
    const runtime::MutexLock lock(mutex);
    if (registers.is_running() && notified.load(std::memory_order_acquire) != 0)
      active.store(true, std::memory_order_release);
    return notified.exchange(0, std::memory_order_acq_rel);
  }
  void rest() {
    const runtime::MutexLock lock(mutex);
    active.store(false, std::memory_order_release);
  }

  bool by_chance(uint32_t per_million) DXGKIT_REQUIRES(mutex) {
    return per_million != 0 && runtime.random() % 1'000'000 < per_million;
  }
  Fate draw_fate() DXGKIT_REQUIRES(mutex) {
    if (by_chance(faults.lose_interrupt_per_million)) return Fate::kLost;
    if (by_chance(faults.duplicate_interrupt_per_million)) return Fate::kDuplicate;
    if (by_chance(faults.late_interrupt_per_million)) return Fate::kLate;
    return Fate::kNormal;
  }
  /// Whether the engine stops at the request that it is about to begin.
  bool hangs_here() DXGKIT_REQUIRES(mutex) {
    ++entries;
    if (faults.hang_at_entry != entries || faults.hangs_max == 0) return false;
    --faults.hangs_max;
    return true;
  }

  /// The device cannot go on. On the transport's thread with no lock held.
  void fail(uint64_t of_generation, std::string why) {
    {
      const runtime::MutexLock lock(mutex);
      if (generation != of_generation) return;
      registers.set_broken(std::move(why));
    }
    broken_now.store(true, std::memory_order_release);
    tell_broken();
  }

  /// Takes one chain. nullopt: there is none, or the queue stands still. `gives_up`: the device
  /// wants a reset behind the work of this one.
  /// `lost_after`: a part of the request is lost, which shows after this time.
  std::optional<Chain> begin(uint16_t queue, uint64_t* of_generation, bool* gives_up,
                             std::optional<runtime::DurationNs>* lost_after, std::string* error)
      DXGKIT_REQUIRES(mutex) {
    *of_generation = generation;
    if (!registers.is_running() || hung) return std::nullopt;
    const QueueRegisters& setup = registers.queues()[queue];
    if (!setup.enabled) return std::nullopt;
    active.store(true, std::memory_order_release);
    if (!queues[queue].has_value())
      queues[queue].emplace(static_cast<Memory&>(*this), setup.layout, registers.queue_features());
    auto taken = queues[queue]->take();
    if (!taken.has_value()) {
      *error = taken.error();
      return std::nullopt;
    }
    if (!taken->has_value()) return std::nullopt;
    if (hangs_here()) {
      *gives_up = faults.hangs_late;
      hung = true;  // until the reset
      if (!*gives_up) return std::nullopt;
    }
    if (faults.memory_error_at_entry == entries)
      *lost_after = static_cast<runtime::DurationNs>(faults.memory_error_after_ns);
    return std::move(*taken);
  }

  /// Serves one chain. False: there was none.
  bool serve(uint16_t queue) {
    const auto in_queue = [queue](const std::string& why) {
      return "queue " + std::to_string(queue) + ": " + why;
    };
    uint64_t of_generation = 0;
    bool gives_up = false;
    std::optional<runtime::DurationNs> lost_after;
    std::string error;
    std::optional<Chain> chain;
    {
      const runtime::MutexLock lock(mutex);
      chain = begin(queue, &of_generation, &gives_up, &lost_after, &error);
    }
    if (!error.empty()) fail(of_generation, in_queue(error));
    if (!chain.has_value()) return false;
    Request request(*this, *chain);
    if (!spend(queue, request, of_generation, lost_after.value_or(0))) return false;
    {
      const runtime::MutexLock work(work_mutex);
      if (!is_current(of_generation)) return false;
      if (lost_after.has_value()) {
        memory_errors.fetch_add(1, std::memory_order_relaxed);
        model.refuse(queue, request);
      } else {
        model.execute(queue, request);
      }
    }
    if (!request.failure().empty()) {
      fail(of_generation, in_queue(request.failure()));
      return false;
    }
    if (request.is_lost()) {
      fail(of_generation, in_queue("a descriptor names an address that is no memory"));
      return false;
    }
    if (gives_up) {
      fail(of_generation, in_queue("it was told to give up"));
      return false;
    }
    bool wanted = false;
    uint16_t vector = VIRTIO_NO_VECTOR;
    Fate fate = Fate::kNormal;
    {
      const runtime::MutexLock lock(mutex);
      if (generation != of_generation) return false;
      const auto given = queues[queue]->give_back(chain->head, request.written());
      if (!given.has_value()) {
        error = given.error();
      } else {
        wanted = *given;
        vector = registers.queues()[queue].vector;
        if (wanted) fate = draw_fate();
      }
    }
    if (!error.empty()) {
      fail(of_generation, in_queue(error));
      return false;
    }
    if (wanted) queue_interrupt(vector, fate);
    return true;
  }

  bool is_current(uint64_t of_generation) {
    const runtime::MutexLock lock(mutex);
    return generation == of_generation;
  }

  /// Lets the modelled time of a request pass. False: a reset came.
  bool spend(uint16_t queue, Request& request, uint64_t of_generation, runtime::DurationNs more) {
    if (!runtime.is_simulated()) return true;
    runtime::DurationNs time = 0;
    {
      const runtime::MutexLock work(work_mutex);
      time = model.time_of(queue, request);
    }
    const runtime::TimeNs due = runtime.now() + time + more;
    while (runtime.now() < due) {
      const uint32_t seen = bell.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire) || !is_current(of_generation)) return false;
      runtime.wait(bell, seen, due);
    }
    return true;
  }

  runtime::Runtime& runtime;
  bus::Machine& machine;
  Model& model;

  const uint32_t reset_reads;
  const bool odd_capabilities;
  mutable runtime::Mutex mutex;  // a leaf: under it only memory is touched
  Registers registers DXGKIT_GUARDED_BY(mutex);
  std::vector<std::optional<Virtqueue>> queues;      // contents under the mutex; the size is fixed
  uint64_t generation DXGKIT_GUARDED_BY(mutex) = 0;  // counts resets
  bool hung DXGKIT_GUARDED_BY(mutex) = false;
  uint32_t reset_reads_left DXGKIT_GUARDED_BY(mutex) = 0;  // of the status, until it is 0
  bus::EngineFaults faults DXGKIT_GUARDED_BY(mutex);
  uint32_t entries DXGKIT_GUARDED_BY(mutex) = 0;
  std::atomic<uint64_t> memory_errors{0};
  struct Late {
    runtime::TimeNs due;
    uint16_t vector;
  };
  std::deque<Late> late DXGKIT_GUARDED_BY(mutex);
  runtime::Mutex work_mutex;  // held while the model works; `mutex` may be taken inside

  std::atomic<uint8_t> isr{0};
  std::atomic<uint32_t> notified{0};  // a bit per queue
  std::atomic<bool> line_off{false}, woken_line{false}, broken_now{false};
  std::atomic<bool> gone{false}, stop{false};
  std::atomic<bool> active{
      false};  // the thread may touch memory of the driver; written under the mutex
  uint32_t access_at = 0, msix_at = 0;  // capabilities in configuration space
  std::vector<uint32_t> pointers;       // offsets of those that are read with reserved bits
  MsixTable msix;
  bus::PciFunction function;

  std::atomic<uint32_t> bell{0};  // counts reasons for the thread to look
  std::unique_ptr<runtime::Thread> thread;
};

PciTransport::PciTransport(runtime::Runtime& runtime, bus::Machine& machine, Model& model,
                           const PciOptions& options)
    : impl_(std::make_unique<Impl>(runtime, machine, model, options)) {}
PciTransport::~PciTransport() = default;

bus::PciFunction& PciTransport::function() { return impl_->function; }
void PciTransport::reset() { impl_->reset_all(); }
void PciTransport::pull_out() {
  impl_->gone.store(true, std::memory_order_release);
  impl_->finish_work();
}

void PciTransport::set_faults(const bus::EngineFaults& faults) {
  const runtime::MutexLock lock(impl_->mutex);
  impl_->faults = faults;
  impl_->entries = 0;
}

uint64_t PciTransport::memory_errors() const {
  return impl_->memory_errors.load(std::memory_order_relaxed);
}

std::string PciTransport::error() const {
  const runtime::MutexLock lock(impl_->mutex);
  return impl_->registers.error();
}

std::vector<std::string> PciTransport::take_misuses() {
  const runtime::MutexLock lock(impl_->mutex);
  return impl_->registers.take_misuses();
}

}  // namespace dxgkit::virtio
