// The transport as a driver finds it: capabilities, queues served by the thread, both kinds of
// interrupts, resets, and a device that gives up when its rings make no sense.
#include "devices/virtio/pci_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "bus/activity.h"
#include "devices/virtio/test_ring.h"
#include "runtime/sync.h"

namespace dxgkit::virtio {
namespace {

using ::testing::HasSubstr;

constexpr uint16_t kQueueSize = 16;
constexpr uint32_t kConfigValue = 0x12345678;

/// Answers with the bytes of the request, each one larger.
class Echo final : public Model {
 public:
  uint64_t features() const override { return 2; }
  std::vector<uint16_t> queue_sizes() const override { return {kQueueSize, kQueueSize}; }
  uint32_t config_bytes() const override { return 4; }
  void config_read(uint64_t offset, std::span<std::byte> to) override {
    std::memcpy(to.data(), reinterpret_cast<const std::byte*>(&kConfigValue) + offset, to.size());
  }
  void config_write(uint64_t, std::span<const std::byte> from) override {
    written = std::to_integer<uint8_t>(from[0]);
  }
  runtime::DurationNs time_of(uint16_t, Request&) override { return time; }
  void execute(uint16_t, Request& request) override {
    ++executed;
    begun.set();
    if (waits) interrupted.wait();
    if (!gives_up.empty()) return request.fail(gives_up);
    std::vector<std::byte> bytes(std::min<uint64_t>(request.readable_bytes(), 64));
    if (!request.read(0, bytes)) return;
    for (std::byte& byte : bytes) byte = std::byte(std::to_integer<uint8_t>(byte) + 1);
    request.answer(bytes);
  }
  void refuse(uint16_t, Request& request) override {
    refused_at = runtime::Runtime::current().now();
    const std::byte error{0xEE};
    request.answer(std::span(&error, 1));
  }
  void interrupt() override { interrupted.set(); }
  void reset() override { ++resets; }
  int executed = 0, resets = 0;
  runtime::TimeNs refused_at = 0;
  bool waits = false;  // a request ends when it is interrupted
  runtime::Event begun, interrupted;
  std::string gives_up;  // why each request fails
  uint8_t written = 0;
  runtime::DurationNs time = runtime::kMicrosecond;
};

class MachineMemory final : public Memory {
 public:
  explicit MachineMemory(bus::Machine& machine) : machine_(machine) {}
  bool read(uint64_t address, std::span<std::byte> to) override {
    return machine_.dma_read(bus::PhysicalAddress{address}, to);
  }
  bool write(uint64_t address, std::span<const std::byte> from) override {
    return machine_.dma_write(bus::PhysicalAddress{address}, from);
  }

 private:
  bus::Machine& machine_;
};

/// A driver made of bare hands.
struct Rig {
  using Layout = PciOptions::Layout;
  explicit Rig(uint16_t messages = 3, uint32_t reset_reads = 0, Layout layout = Layout::kPlain,
               bool odd_capabilities = false)
      : transport(runtime::Runtime::current(), machine, model,
                  {.name = "test",
                   .identity = {},
                   .type = 16,
                   .messages = messages,
                   .reset_reads = reset_reads,
                   .layout = layout,
                   .odd_capabilities = odd_capabilities}) {
    EXPECT_EQ(machine.add_function(transport.function()), Status::kSuccess);
    const auto bars = transport.function().bars();
    const bus::Bar& bar = bars[layout == Layout::kPlain ? 0 : 4];
    const size_t messages_at = layout == Layout::kPlain ? 2 : layout == Layout::kBehind ? 1 : 3;
    registers = static_cast<std::byte*>(machine.map_io(bar.base, bar.size));
    if (messages != 0) {
      table =
          static_cast<std::byte*>(machine.map_io(bars[messages_at].base, bars[messages_at].size));
    }
    pages = machine.allocate_contiguous(8)->value * kPageBytes;
    find_capabilities();
    transport.function().interrupt_line().connect([this] {
      const uint64_t isr = machine.read_register(registers + place[VIRTIO_PCI_CAP_ISR], 1);
      if (isr == 0) return false;
      causes.fetch_or(static_cast<uint32_t>(isr));
      ++interrupts;
      heard.set();
      return true;
    });
  }
  ~Rig() { transport.function().interrupt_line().connect({}); }

  uint8_t config_byte(uint32_t offset) {
    std::byte value{};
    transport.function().config_read(offset, {&value, 1});
    return std::to_integer<uint8_t>(value);
  }
  uint32_t config_word(uint32_t offset) {
    uint32_t value = 0;
    transport.function().config_read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  void write_config(uint32_t offset, uint32_t value, size_t bytes) {
    transport.function().config_write(offset, std::as_bytes(std::span(&value, 1)).first(bytes));
  }
  /// The first one of each kind that is long enough, in a BAR, and leads to enough.
  void find_capabilities() {
    const auto next = [&](uint32_t pointer) { return config_byte(pointer) & ~3U; };
    for (uint32_t at = next(0x34); at != 0; at = next(at + 1)) {
      const bool is_msix = config_byte(at) == 0x11;
      const uint8_t type = is_msix ? uint8_t{0x11} : config_byte(at + VIRTIO_PCI_CAP_TYPE);
      const bool is_notify = type == VIRTIO_PCI_CAP_NOTIFY;
      const uint32_t least = is_notify                       ? 2
                             : type == VIRTIO_PCI_CAP_COMMON ? VIRTIO_COMMON_BYTES
                                                             : 0;
      if (capabilities.contains(type)) continue;
      if (!is_msix && (config_byte(at + VIRTIO_PCI_CAP_LENGTH) <
                           (is_notify ? VIRTIO_PCI_CAP_LEAST_EXTENDED : VIRTIO_PCI_CAP_LEAST) ||
                       config_byte(at + VIRTIO_PCI_CAP_BAR) > 5 ||
                       config_word(at + VIRTIO_PCI_CAP_BYTES) < least)) {
        ++passed_over;
        continue;
      }
      capabilities[type] = static_cast<uint8_t>(at);
      if (!is_msix) place[type] = config_word(at + VIRTIO_PCI_CAP_OFFSET);
    }
  }
  uint64_t common(uint32_t offset, uint32_t bytes) {
    return machine.read_register(registers + place[VIRTIO_PCI_CAP_COMMON] + offset, bytes);
  }
  void set_common(uint32_t offset, uint32_t bytes, uint64_t value) {
    machine.write_register(registers + place[VIRTIO_PCI_CAP_COMMON] + offset, bytes, value);
  }
  uint8_t status() { return static_cast<uint8_t>(common(VIRTIO_COMMON_STATUS, 1)); }
  void set_up_queue(uint16_t queue, const QueueLayout& layout) {
    set_common(VIRTIO_COMMON_QUEUE_SELECT, 2, queue);
    set_common(VIRTIO_COMMON_QUEUE_SIZE, 2, layout.size);
    set_common(VIRTIO_COMMON_QUEUE_DESC, 4, layout.descriptors & UINT32_MAX);
    set_common(VIRTIO_COMMON_QUEUE_DESC + 4, 4, layout.descriptors >> 32);
    set_common(VIRTIO_COMMON_QUEUE_DRIVER, 8, layout.driver);
    set_common(VIRTIO_COMMON_QUEUE_DEVICE, 8, layout.device);
    set_common(VIRTIO_COMMON_QUEUE_VECTOR, 2, queue);
    set_common(VIRTIO_COMMON_QUEUE_ENABLE, 2, 1);
  }
  void start() {
    set_common(VIRTIO_COMMON_STATUS, 1, VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER);
    set_common(VIRTIO_COMMON_DRIVER_FEATURE_SELECT, 4, 1);
    set_common(VIRTIO_COMMON_DRIVER_FEATURE, 4, 1);
    set_common(VIRTIO_COMMON_STATUS, 1, VIRTIO_STATUS_FEATURES_OK);
    ring = std::make_unique<TestRing>(memory, pages, kQueueSize);
    set_up_queue(0, ring->layout());
    set_common(VIRTIO_COMMON_CONFIG_VECTOR, 2, 2);
    set_common(VIRTIO_COMMON_STATUS, 1, VIRTIO_STATUS_DRIVER_OK);
  }
  void notify(uint16_t queue) {
    const uint32_t multiplier =
        config_word(capabilities[VIRTIO_PCI_CAP_NOTIFY] + uint32_t{VIRTIO_PCI_CAP_MULTIPLIER});
    machine.write_register(registers + place[VIRTIO_PCI_CAP_NOTIFY] + queue * multiplier, 2, queue);
  }
  /// Offers a request of one byte.
  void ask(uint16_t head, uint8_t value) {
    const uint64_t at = buffers() + 16U * head;
    memory.store(at, value);
    ring->offer_pair(head, {at, 1}, {at + 8, 1});
  }
  uint8_t answer(uint16_t head) {
    uint8_t value = 0;
    memory.load(buffers() + 16U * head + 8, &value);
    return value;
  }
  uint64_t buffers() const { return pages + 4 * kPageBytes; }
  void wait_for_interrupt() {
    heard.wait();
    heard.reset();
  }
  /// Resets the device and its empty rings, starts it, and waits for one request.
  void is_served_after_a_reset() {
    set_common(VIRTIO_COMMON_STATUS, 1, 0);
    memory.store(pages + 4096 + 2, uint16_t{0});
    memory.store(pages + 8192 + 2, uint16_t{0});
    start();
    ask(0, 1);
    notify(0);
    while (ring->used_index() != 1) wait_for_interrupt();
  }

  bus::Machine machine{16 << 20};
  MachineMemory memory{machine};
  Echo model;
  PciTransport transport;
  std::byte* registers = nullptr;
  std::byte* table = nullptr;
  uint64_t pages = 0;
  std::map<uint8_t, uint8_t> capabilities;  // by type; 11h is MSI-X
  std::map<uint8_t, uint32_t> place;
  int passed_over = 0;
  std::unique_ptr<TestRing> ring;
  std::atomic<uint32_t> causes{0}, interrupts{0};
  runtime::Event heard;
};

void in_simulation(const std::function<void()>& body) {
  for (uint64_t seed = 1; seed <= 20; ++seed) runtime::make_sim_runtime(seed)->run_main(body);
}

TEST(PciTransport, ShowsItselfInConfigurationSpace) {
  in_simulation([] {
    Rig rig;
    EXPECT_EQ(rig.transport.function().identity().vendor_id, 0x1AF4);
    EXPECT_EQ(rig.transport.function().identity().device_id, 0x1050);
    EXPECT_GE(rig.config_byte(8), 1);
    for (const int type : {1, 2, 3, 4, 5, 0x11})
      EXPECT_TRUE(rig.capabilities.contains(static_cast<uint8_t>(type))) << type;
    EXPECT_EQ(rig.machine.read_register(rig.registers + rig.place[VIRTIO_PCI_CAP_DEVICE], 4),
              kConfigValue);
    Rig without(0);
    EXPECT_FALSE(without.capabilities.contains(0x11));
  });
}

TEST(PciTransport, ServesARequestAndInterrupts) {
  in_simulation([] {
    Rig rig;
    rig.start();
    rig.ask(0, 41);
    rig.ask(2, 7);
    rig.notify(0);
    while (rig.ring->used_index() != 2) rig.wait_for_interrupt();
    EXPECT_EQ(rig.answer(0), 42);
    EXPECT_EQ(rig.answer(2), 8);
    EXPECT_EQ(rig.ring->used(0), std::pair(0U, 1U));
    EXPECT_EQ(rig.causes.load(), uint32_t{VIRTIO_ISR_QUEUE});
  });
}

/// A driver that takes BAR 0 for that of the registers, or counts a BAR of 64 bits once, is lost.
TEST(PciTransport, RegistersMayBeInAnotherBar) {
  in_simulation([] {
    Rig rig(3, 0, Rig::Layout::kBehind);
    const auto bars = rig.transport.function().bars();
    ASSERT_EQ(bars.size(), 5U);
    EXPECT_EQ(bars[0].kind, bus::BarKind::kNone);
    EXPECT_TRUE(bars[1].wide);
    EXPECT_TRUE(bars[4].wide);
    for (const int type : {VIRTIO_PCI_CAP_COMMON, VIRTIO_PCI_CAP_NOTIFY, VIRTIO_PCI_CAP_ISR})
      EXPECT_EQ(rig.config_byte(rig.capabilities[static_cast<uint8_t>(type)] + VIRTIO_PCI_CAP_BAR),
                4U);
    rig.start();
    rig.is_served_after_a_reset();
  });
}

/// A driver that counts a BAR of 32 bits twice is lost.
TEST(PciTransport, ANarrowBarMayBeBeforeTheRegisters) {
  in_simulation([] {
    Rig rig(3, 0, Rig::Layout::kNarrow);
    const auto bars = rig.transport.function().bars();
    ASSERT_EQ(bars.size(), 5U);
    EXPECT_EQ(bars[1].kind, bus::BarKind::kNone);
    EXPECT_EQ(bars[3].kind, bus::BarKind::kRegisters);
    EXPECT_FALSE(bars[3].wide);
    rig.start();
    rig.is_served_after_a_reset();
  });
}

/// Who follows the pointers as they are, or takes what is no good, finds no device.
TEST(PciTransport, CapabilitiesMayBeOdd) {
  in_simulation([] {
    Rig rig(0, 0, Rig::Layout::kPlain, /*odd_capabilities=*/true);
    EXPECT_EQ(rig.config_byte(0x34) & 3, 3);
    EXPECT_EQ(rig.passed_over, 5);
    EXPECT_EQ(rig.place[VIRTIO_PCI_CAP_COMMON], 0U);
    rig.start();
    rig.ask(0, 41);
    rig.notify(0);
    while (rig.ring->used_index() != 1) rig.wait_for_interrupt();
    EXPECT_EQ(rig.answer(0), 42);
    // The last one of its kind leads to nothing.
    uint32_t last = 0;
    for (uint32_t at = rig.config_byte(0x34) & ~3U; at != 0; at = rig.config_byte(at + 1) & ~3U)
      last = at;
    EXPECT_EQ(rig.config_byte(last + VIRTIO_PCI_CAP_TYPE), VIRTIO_PCI_CAP_COMMON);
    const uint32_t nowhere = rig.config_word(last + VIRTIO_PCI_CAP_OFFSET);
    std::byte* const there = rig.registers + nowhere + VIRTIO_COMMON_STATUS;
    rig.machine.write_register(there, 1, 1);
    EXPECT_EQ(rig.machine.read_register(there, 1), 0U);
  });
}

/// What was available before the driver was ready is served when it is.
TEST(PciTransport, ReadyIsANotification) {
  in_simulation([] {
    Rig rig;
    rig.start();
    rig.set_common(VIRTIO_COMMON_STATUS, 1, 0);
    EXPECT_EQ(rig.status(), 0);
    EXPECT_EQ(rig.model.resets, 1);
    rig.memory.store(rig.pages + 4096 + 2, uint16_t{0});
    rig.memory.store(rig.pages + 8192 + 2, uint16_t{0});
    TestRing ring(rig.memory, rig.pages, kQueueSize);
    ring.offer_pair(0, {rig.buffers(), 1}, {rig.buffers() + 8, 1});
    rig.start();
    while (ring.used_index() != 1) rig.wait_for_interrupt();
  });
}

/// The queue stands in a state that no driver may make: the device stops, says so and why, and
/// serves nothing until it is reset.
TEST(PciTransport, ABrokenRingNeedsAReset) {
  in_simulation([] {
    Rig rig;
    rig.start();
    rig.ring->set_index(100);
    rig.notify(0);
    rig.wait_for_interrupt();
    EXPECT_EQ(rig.causes.load(), uint32_t{VIRTIO_ISR_CONFIG});
    EXPECT_NE(rig.status() & VIRTIO_STATUS_NEEDS_RESET, 0);
    EXPECT_THAT(rig.transport.error(), HasSubstr("queue 0: the index of the driver area is 100"));
    EXPECT_EQ(rig.model.executed, 0);
    rig.set_common(VIRTIO_COMMON_STATUS, 1, 0);
    EXPECT_EQ(rig.transport.error(), "");
    rig.memory.store(rig.pages + 4096 + 2, uint16_t{0});
    rig.start();
    rig.ask(0, 1);
    rig.notify(0);
    while (rig.ring->used_index() != 1) rig.wait_for_interrupt();
    EXPECT_EQ(rig.answer(0), 2);
  });
}

TEST(PciTransport, AModelThatGivesUpNeedsAReset) {
  in_simulation([] {
    Rig rig;
    rig.model.gives_up = "the renderer is lost";
    rig.start();
    rig.ask(0, 1);
    rig.ask(2, 1);
    rig.notify(0);
    rig.wait_for_interrupt();
    EXPECT_EQ(rig.causes.load(), uint32_t{VIRTIO_ISR_CONFIG});
    EXPECT_NE(rig.status() & VIRTIO_STATUS_NEEDS_RESET, 0);
    EXPECT_EQ(rig.transport.error(), "queue 0: the renderer is lost");
    EXPECT_EQ(rig.ring->used_index(), 0U);
    EXPECT_EQ(rig.model.executed, 1);  // nothing is served behind it
    rig.set_common(VIRTIO_COMMON_STATUS, 1, 0);
    EXPECT_EQ(rig.transport.error(), "");
  });
}

/// A model that waits for somebody else is told of a reset, and of the removal.
TEST(PciTransport, AResetInterruptsTheModel) {
  for (const bool is_removal : {false, true}) {
    const auto os = runtime::make_os_runtime();
    os->run_main([&] {
      Rig rig;
      rig.start();
      rig.model.interrupted.reset();
      rig.model.waits = true;
      rig.ask(0, 1);
      rig.notify(0);
      rig.model.begun.wait();
      if (is_removal) {
        rig.transport.pull_out();
      } else {
        rig.set_common(VIRTIO_COMMON_STATUS, 1, 0);
        EXPECT_EQ(rig.ring->used_index(), 0U);
        EXPECT_EQ(rig.transport.error(), "");
      }
    });
  }
}

/// A reset is over when the write of the status is: from then on no memory is touched.
TEST(PciTransport, AResetEndsEverythingAtOnce) {
  in_simulation([] {
    Rig rig;
    rig.model.time = runtime::kMillisecond;
    rig.start();
    rig.ask(0, 1);
    rig.notify(0);
    EXPECT_TRUE(bus::may_access_memory(rig.transport.function()));
    rig.set_common(VIRTIO_COMMON_STATUS, 1, 0);
    EXPECT_FALSE(bus::may_access_memory(rig.transport.function()));
    runtime::Runtime::current().sleep_for(runtime::kSecond);  // of simulated time
    EXPECT_EQ(rig.ring->used_index(), 0U);
    EXPECT_EQ(rig.model.executed, 0);
    EXPECT_FALSE(bus::may_access_memory(rig.transport.function()));
  });
}

TEST(PciTransport, AnAddressThatIsNoMemoryBreaksIt) {
  in_simulation([] {
    Rig rig;
    rig.start();
    rig.ring->offer_pair(0, {0x10, 4}, {rig.buffers(), 4});
    rig.notify(0);
    rig.wait_for_interrupt();
    EXPECT_THAT(rig.transport.error(), HasSubstr("names an address that is no memory"));
    EXPECT_EQ(rig.ring->used_index(), 0U);
  });
}

/// A queue that is set up wrongly under a driver that is ready: an interrupt tells.
TEST(PciTransport, AQueueThatCannotBeIsTold) {
  in_simulation([] {
    Rig rig;
    rig.start();
    rig.set_up_queue(1, {.descriptors = 1, .driver = 0, .device = 0, .size = 4});
    rig.wait_for_interrupt();
    EXPECT_EQ(rig.causes.load(), uint32_t{VIRTIO_ISR_CONFIG});
  });
}

/// With MSI-X a vector is a write of its word to its address, and INTx is silent.
TEST(PciTransport, MessagesAreWrites) {
  in_simulation([] {
    Rig rig;
    const uint64_t mailbox = rig.pages + 6 * kPageBytes;
    const auto mail = [&] {
      uint32_t value = 0;
      rig.memory.load(mailbox, &value);
      return value;
    };
    rig.machine.write_register(rig.table + 0, 4, mailbox & UINT32_MAX);
    rig.machine.write_register(rig.table + 4, 4, mailbox >> 32);
    rig.machine.write_register(rig.table + 8, 4, 0xABCD);
    rig.write_config(rig.capabilities[0x11] + 2U, 0x8000, 2);
    rig.start();
    rig.ask(0, 1);
    rig.notify(0);
    // Vector 0 is masked still: it pends.
    while ((rig.machine.read_register(rig.table + 0x800, 8) & 1) == 0)
      runtime::Runtime::current().yield();
    EXPECT_EQ(mail(), 0U);
    rig.machine.write_register(rig.table + 12, 4, 0);
    while (mail() == 0) runtime::Runtime::current().yield();
    EXPECT_EQ(mail(), 0xABCDU);
    EXPECT_EQ(rig.machine.read_register(rig.table + 0x800, 8), 0U);
    // Masked as a whole.
    rig.memory.store(mailbox, uint32_t{0});
    rig.write_config(rig.capabilities[0x11] + 2U, 0xC000, 2);
    rig.ask(2, 1);
    rig.notify(0);
    while ((rig.machine.read_register(rig.table + 0x800, 8) & 1) == 0)
      runtime::Runtime::current().yield();
    EXPECT_EQ(mail(), 0U);
    EXPECT_EQ(rig.interrupts.load(), 0U);
    EXPECT_EQ(rig.machine.read_register(rig.registers + rig.place[VIRTIO_PCI_CAP_ISR], 1), 0U);
    // A function level reset switches messages off and masks them.
    rig.transport.reset();
    EXPECT_EQ(rig.config_word(rig.capabilities[0x11]) >> 16 & 0xC000, 0U);
    EXPECT_EQ(rig.machine.read_register(rig.table + 12, 4), 1U);
  });
}

/// Software without access to the BAR reaches the registers through configuration space.
TEST(PciTransport, TheAccessCapabilityLeadsToRegisters) {
  in_simulation([] {
    Rig rig;
    const uint32_t at = rig.capabilities[VIRTIO_PCI_CAP_PCI];
    const auto aim = [&](uint8_t bar, uint32_t offset, uint32_t bytes) {
      rig.write_config(at + VIRTIO_PCI_CAP_BAR, bar, 1);
      rig.write_config(at + VIRTIO_PCI_CAP_OFFSET, offset, 4);
      rig.write_config(at + VIRTIO_PCI_CAP_BYTES, bytes, 4);
    };
    aim(0, VIRTIO_COMMON_STATUS, 1);
    rig.write_config(at + VIRTIO_PCI_CAP_DATA, VIRTIO_STATUS_ACKNOWLEDGE, 4);
    EXPECT_EQ(rig.status(), VIRTIO_STATUS_ACKNOWLEDGE);
    EXPECT_EQ(rig.config_byte(at + VIRTIO_PCI_CAP_DATA), VIRTIO_STATUS_ACKNOWLEDGE);
    aim(0, rig.place[VIRTIO_PCI_CAP_DEVICE], 4);
    EXPECT_EQ(rig.config_word(at + VIRTIO_PCI_CAP_DATA), kConfigValue);
    // Where it leads nowhere, writes get lost.
    for (const auto& [bar, offset, bytes] :
         {std::tuple(1, 0x14, 1), std::tuple(9, 0x14, 1), std::tuple(0, 0x14, 3),
          std::tuple(0, 0x15, 2), std::tuple(0, 0x4000, 4)}) {
      aim(static_cast<uint8_t>(bar), static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes));
      rig.write_config(at + VIRTIO_PCI_CAP_DATA, 0, 4);
    }
    EXPECT_EQ(rig.status(), VIRTIO_STATUS_ACKNOWLEDGE);
  });
}

/// INTx is level: it comes when it is allowed again.
TEST(PciTransport, TheLineWaitsWhileItIsOff) {
  in_simulation([] {
    Rig rig;
    rig.write_config(4, 0x0406, 2);
    rig.start();
    rig.ask(0, 1);
    rig.notify(0);
    while (rig.ring->used_index() != 1) runtime::Runtime::current().yield();
    EXPECT_EQ(rig.interrupts.load(), 0U);
    rig.write_config(4, 0x0006, 2);
    rig.wait_for_interrupt();
    EXPECT_EQ(rig.causes.load(), uint32_t{VIRTIO_ISR_QUEUE});
  });
}

TEST(PciTransport, AHungEngineWorksAfterAReset) {
  in_simulation([] {
    Rig rig;
    rig.transport.set_faults({.hang_at_entry = 2, .hangs_max = 1});
    rig.start();
    rig.ask(0, 1);
    rig.notify(0);
    while (rig.ring->used_index() != 1) rig.wait_for_interrupt();
    rig.ask(2, 1);
    rig.notify(0);
    runtime::Runtime::current().sleep_for(runtime::kSecond);  // of simulated time
    EXPECT_EQ(rig.ring->used_index(), 1U);
    rig.is_served_after_a_reset();
  });
}

/// The second request loses a part, which shows a while after it has begun. The others are served.
TEST(PciTransport, AMemoryErrorRefusesOneRequest) {
  in_simulation([] {
    Rig rig;
    rig.transport.set_faults(
        {.memory_error_at_entry = 2, .memory_error_after_ns = runtime::kMillisecond});
    rig.start();
    rig.ask(0, 1);
    rig.notify(0);
    while (rig.ring->used_index() != 1) rig.wait_for_interrupt();
    const runtime::TimeNs began = runtime::Runtime::current().now();
    rig.ask(2, 1);
    rig.ask(4, 5);
    rig.notify(0);
    while (rig.ring->used_index() != 3) rig.wait_for_interrupt();
    EXPECT_EQ(rig.answer(0), 2U);
    EXPECT_EQ(rig.answer(2), 0xEEU);
    EXPECT_EQ(rig.answer(4), 6U);
    EXPECT_EQ(rig.model.executed, 2);
    EXPECT_EQ(rig.transport.memory_errors(), 1U);
    EXPECT_GE(rig.model.refused_at - began, runtime::kMillisecond);
  });
}

/// One that gives up has done the work, does not return it, and says that it wants a reset.
TEST(PciTransport, AnEngineGivesUpBehindARequest) {
  in_simulation([] {
    Rig rig;
    rig.transport.set_faults({.hang_at_entry = 2, .hangs_max = 1, .hangs_late = true});
    rig.start();
    rig.ask(0, 1);
    rig.notify(0);
    while (rig.ring->used_index() != 1) rig.wait_for_interrupt();
    EXPECT_EQ(rig.model.executed, 1);
    rig.ask(2, 1);
    rig.notify(0);
    while ((rig.causes.load() & VIRTIO_ISR_CONFIG) == 0) rig.wait_for_interrupt();
    EXPECT_EQ(rig.model.executed, 2);
    EXPECT_EQ(rig.ring->used_index(), 1U);
    EXPECT_NE(rig.status() & VIRTIO_STATUS_NEEDS_RESET, 0);
    EXPECT_EQ(rig.transport.error(), "queue 0: it was told to give up");
    rig.is_served_after_a_reset();
  });
}

/// Until the status is 0 a device in its reset hears nothing.
TEST(PciTransport, AResetTakesItsTime) {
  in_simulation([] {
    Rig rig(3, 2);
    rig.start();
    rig.set_common(VIRTIO_COMMON_STATUS, 1, 0);
    rig.set_common(VIRTIO_COMMON_STATUS, 1, VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER);
    EXPECT_NE(rig.status(), 0);
    rig.set_common(VIRTIO_COMMON_QUEUE_SELECT, 2, 1);
    EXPECT_NE(rig.status(), 0);
    EXPECT_EQ(rig.status(), 0) << "what was written meanwhile is lost";
    EXPECT_EQ(rig.common(VIRTIO_COMMON_QUEUE_SELECT, 2), 0U);
    rig.set_common(VIRTIO_COMMON_STATUS, 1, VIRTIO_STATUS_ACKNOWLEDGE);
    EXPECT_EQ(rig.status(), VIRTIO_STATUS_ACKNOWLEDGE);
    rig.set_common(VIRTIO_COMMON_STATUS, 1, 0);
    EXPECT_NE(rig.status(), 0);
    rig.transport.reset();  // the machine's own is over when it returns
    EXPECT_EQ(rig.status(), 0);
  });
}

/// A lost interrupt leaves its cause; the next one tells of both.
TEST(PciTransport, InterruptsGetLost) {
  in_simulation([] {
    Rig rig;
    rig.transport.set_faults({.lose_interrupt_per_million = 1'000'000});
    rig.start();
    rig.ask(0, 1);
    rig.notify(0);
    while (rig.ring->used_index() != 1) runtime::Runtime::current().yield();
    EXPECT_EQ(rig.interrupts.load(), 0U);
    rig.transport.set_faults({.late_interrupt_per_million = 1'000'000});
    rig.ask(2, 1);
    rig.notify(0);
    rig.wait_for_interrupt();
    EXPECT_EQ(rig.ring->used_index(), 2U);
  });
}

TEST(PciTransport, WhatIsPulledOutTouchesNothing) {
  in_simulation([] {
    Rig rig;
    rig.start();
    rig.machine.pull_out(rig.transport.function());
    rig.transport.pull_out();
    rig.ask(0, 1);
    rig.notify(0);
    runtime::Runtime::current().sleep_for(runtime::kSecond);  // of simulated time
    EXPECT_EQ(rig.ring->used_index(), 0U);
    EXPECT_EQ(rig.interrupts.load(), 0U);
  });
}

/// Real threads: every request is answered once, whenever the driver notifies.
TEST(PciTransport, ManyRequestsWithRealThreads) {
  runtime::make_os_runtime()->run_main([] {
    Rig rig;
    rig.start();
    for (uint32_t round = 0; round < 2000; ++round) {
      const auto head = static_cast<uint16_t>(round % 8 * 2);
      rig.ask(head, static_cast<uint8_t>(round));
      rig.notify(0);
      while (rig.ring->used_index() != static_cast<uint16_t>(round + 1)) rig.wait_for_interrupt();
      ASSERT_EQ(rig.answer(head), static_cast<uint8_t>(round + 1));
    }
    EXPECT_EQ(rig.model.executed, 2000);
  });
}

}  // namespace
}  // namespace dxgkit::virtio
