// Notices to the driver, and requests that the kernel passes on.
#include <cstring>

#include "dxgk/notices.h"
#include "tests/contract/flip_fixture.h"
#include "trace/trace.h"

namespace dxgkit::contract {
namespace {

constexpr NTSTATUS kRefused = nt_status(Status::kNotSupported);

/// The entries of the scripted driver, and what they were called with.
class NoticeDriver {
 public:
  explicit NoticeDriver(FlipDriver& flips) {
    current = this;
    flips.more_table = [this](DRIVER_INITIALIZATION_DATA& table) {
      if (!has_entries) return;
      table.DxgkDdiNotifyAcpiEvent = acpi;
      table.DxgkDdiDispatchIoRequest = io;
      table.DxgkDdiControlEtwLogging = etw;
      table.DxgkDdiResetDevice = reset;
      table.DxgkDdiSetStablePowerState = stable_power;
    };
  }
  ~NoticeDriver() { current = nullptr; }

  bool has_entries = true;
  NTSTATUS answer = STATUS_SUCCESS;
  ULONG wishes = 0;
  ULONG_PTR information = 2;

  struct Acpi {
    DXGK_EVENT_TYPE type{};
    ULONG event = 0;
    std::optional<ULONG> argument;
  };
  std::vector<Acpi> events;
  std::vector<std::string> requests;  // the input of each
  std::vector<bool> logging, stable;
  std::vector<nt::Irql> resets, irqls;

 private:
  static inline NoticeDriver* current = nullptr;
  static void note() { current->irqls.push_back(nt::CallFrame::current().irql()); }
  static NTSTATUS NTAPI acpi(void* const, DXGK_EVENT_TYPE type, ULONG event, void* argument,
                             ULONG* flags) {
    note();
    Acpi one{type, event, {}};
    if (argument != nullptr) one.argument = *static_cast<ULONG*>(argument);
    current->events.push_back(one);
    *flags = current->wishes;
    return current->answer;
  }
  static NTSTATUS NTAPI io(void* const, ULONG source, VIDEO_REQUEST_PACKET* packet) {
    note();
    EXPECT_EQ(source, 0U);
    EXPECT_EQ(packet->IoControlCode, 0x230004U);
    current->requests.emplace_back(static_cast<char*>(packet->InputBuffer),
                                   packet->InputBufferLength);
    std::memcpy(packet->OutputBuffer, "ok", 2);
    packet->StatusBlock->Information = current->information;
    return current->answer;
  }
  static void NTAPI etw(BOOLEAN enable, ULONG flags, UCHAR level) {
    if (current == nullptr) return;  // the stop after the test
    note();
    EXPECT_EQ(flags, 0U);
    EXPECT_NE(level, 0);
    current->logging.push_back(enable != FALSE);
  }
  static void NTAPI reset(void* const) {
    current->resets.push_back(nt::CallFrame::current().irql());
  }
  static void NTAPI stable_power(const HANDLE, const DXGKARG_SETSTABLEPOWERSTATE* args) {
    note();
    current->stable.push_back(args->Enabled != FALSE);
  }
};

class NoticeTest : public FlipTest {
 protected:
  using Body = std::function<void(Stack&, NoticeDriver&, FlipDriver&)>;
  static void with_notices(const Body& body, bool has_entries = true,
                           uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM2_0) {
    bare([&](Stack& stack) {
      stack.miniport.config.version = version;
      FlipDriver flips(stack);
      NoticeDriver driver(flips);
      driver.has_entries = has_entries;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      body(stack, driver, flips);
    });
  }
};

TEST_F(NoticeTest, AnAcpiEventReachesTheDriverAndItsWishesAreDone) {
  DXGKIT_COVERS("OPT-15");
  with_notices([](Stack& stack, NoticeDriver& driver, FlipDriver& flips) {
    dxgk::Notices notices(*stack.system);
    const auto send = [&](const port::AcpiEvent& event) {
      Result<port::AcpiWishes> wishes = Error(Status::kUnsuccessful);
      stack.blocking([&] { wishes = notices.acpi_event(stack.luid, event); });
      return wishes;
    };
    constexpr uint32_t kAcStatus = 1;
    flips.display.clear_calls();
    ASSERT_TRUE(send({.type = port::AcpiEvent::Type::kPowerState,
                      .event = kAcStatus,
                      .has_argument = true,
                      .argument = 1})
                    .has_value());
    ASSERT_EQ(driver.events.size(), 1U);
    EXPECT_EQ(driver.events[0].type, DxgkPowerStateEvent);
    EXPECT_EQ(driver.events[0].event, kAcStatus);
    EXPECT_EQ(driver.events[0].argument, 1U);
    EXPECT_EQ(flips.display.calls().order, std::vector<std::string>{}) << "it wishes nothing";

    driver.wishes = DXGK_ACPI_POLL_DISPLAY_CHILDREN;
    auto wishes = send({.event = ACPI_NOTIFY_DEVICE_HOTPLUG});
    ASSERT_TRUE(wishes.has_value());
    EXPECT_TRUE(wishes->poll_children);
    EXPECT_EQ(driver.events[1].argument, std::nullopt);
    EXPECT_EQ(flips.display.calls().order, std::vector<std::string>{"DxgkDdiQueryChildStatus"});

    flips.display.clear_calls();
    driver.wishes = DXGK_ACPI_CHANGE_DISPLAY_MODE;
    wishes = send({.event = ACPI_NOTIFY_CYCLE_DISPLAY_HOTKEY});
    ASSERT_TRUE(wishes.has_value());
    EXPECT_TRUE(wishes->change_mode);
    const auto order = flips.display.calls().order;
    ASSERT_FALSE(order.empty());
    EXPECT_EQ(order.front(), "DxgkDdiRecommendFunctionalVidPn");

    flips.display.clear_calls();
    driver.answer = nt_status(Status::kUnsuccessful);
    wishes = send({.event = ACPI_NOTIFY_PANEL_SWITCH});
    ASSERT_FALSE(wishes.has_value());
    EXPECT_EQ(wishes.error(), Status::kUnsuccessful);
    EXPECT_EQ(flips.display.calls().order, std::vector<std::string>{}) << "nothing is done then";
    for (const nt::Irql irql : driver.irqls) EXPECT_EQ(irql, nt::kPassiveLevel);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(NoticeTest, WishesThatNobodyKnowsAreFound) {
  DXGKIT_COVERS("OPT-16");
  with_notices([](Stack& stack, NoticeDriver& driver, FlipDriver&) {
    dxgk::Notices notices(*stack.system);
    driver.wishes = DXGK_ACPI_CHAIN_NOT_HANDLED;
    const port::AcpiEvent chained{.type = port::AcpiEvent::Type::kChained};
    const auto handled = notices.acpi_event(stack.luid, chained);
    ASSERT_TRUE(handled.has_value());
    EXPECT_TRUE(handled->not_handled);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    const auto plain = notices.acpi_event(stack.luid, {.event = ACPI_NOTIFY_DOCK_EVENT});
    ASSERT_TRUE(plain.has_value());
    EXPECT_FALSE(plain->not_handled);
    EXPECT_EQ(stack.only_finding().rule, "OPT-16");
    EXPECT_EQ(stack.only_finding().ddi, "DxgkDdiNotifyAcpiEvent");
    driver.wishes = 0x10;
    ASSERT_TRUE(notices.acpi_event(stack.luid, {}).has_value());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"OPT-16"});
  });
}

TEST_F(NoticeTest, AnIoRequestGoesThroughCopiesOfItsBuffers) {
  DXGKIT_COVERS("OPT-17", "OPT-18");
  with_notices([](Stack& stack, NoticeDriver& driver, FlipDriver&) {
    dxgk::Notices notices(*stack.system);
    const std::string in = "question";
    std::array<char, 4> out{};
    const port::IoRequest request{.code = 0x230004,
                                  .in = std::as_bytes(std::span(in)),
                                  .out = std::as_writable_bytes(std::span(out))};
    auto filled = notices.io_request(stack.luid, 0, request);
    ASSERT_TRUE(filled.has_value());
    EXPECT_EQ(*filled, 2U);
    EXPECT_EQ(std::string(out.data(), 2), "ok");
    EXPECT_EQ(driver.requests, std::vector<std::string>{in});
    EXPECT_EQ(notices.io_request(stack.luid, 1, request).error(), Status::kInvalidParameter);
    driver.answer = nt_status(Status::kBufferTooSmall);
    EXPECT_EQ(notices.io_request(stack.luid, 0, request).error(), Status::kBufferTooSmall);
    driver.answer = STATUS_SUCCESS;
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    driver.information = 5;
    filled = notices.io_request(stack.luid, 0, request);
    ASSERT_TRUE(filled.has_value());
    EXPECT_EQ(*filled, 4U) << "no more than there is room for";
    EXPECT_EQ(stack.only_finding().rule, "OPT-18");
    for (const nt::Irql irql : driver.irqls) EXPECT_EQ(irql, nt::kPassiveLevel);
  });
}

TEST_F(NoticeTest, WithoutTheEntriesNothingIsSupported) {
  DXGKIT_COVERS("OPT-12", "OPT-15", "OPT-17", "OPT-20");
  with_notices(
      [](Stack& stack, NoticeDriver& driver, FlipDriver&) {
        dxgk::Notices notices(*stack.system);
        EXPECT_EQ(notices.acpi_event(stack.luid, {}).error(), Status::kNotSupported);
        EXPECT_EQ(notices.io_request(stack.luid, 0, {}).error(), Status::kNotSupported);
        EXPECT_EQ(notices.reset_to_text(stack.luid), Status::kNotSupported);
        EXPECT_EQ(notices.reset_to_text({.low = stack.luid.low + 1}), Status::kInvalidParameter);
        Client client(stack);
        const Digest before = digest(stack, {&client});
        const D3DKMT_SETSTABLEPOWERSTATE args{.hAdapter = client.adapter, .Enabled = TRUE};
        EXPECT_EQ(client.call([&] { return D3DKMTSetStablePowerState(&args); }), kRefused);
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(driver.irqls.size(), 0U);
      },
      /*has_entries=*/false);
}

TEST_F(NoticeTest, StablePowerIsPassedOn) {
  DXGKIT_COVERS("OPT-12");
  with_notices([](Stack& stack, NoticeDriver& driver, FlipDriver&) {
    Client client(stack);
    D3DKMT_SETSTABLEPOWERSTATE args{.hAdapter = client.adapter, .Enabled = TRUE};
    const auto set = [&] { return client.call([&] { return D3DKMTSetStablePowerState(&args); }); };
    EXPECT_EQ(set(), 0);
    EXPECT_EQ(set(), 0);
    args.Enabled = FALSE;
    EXPECT_EQ(set(), 0);
    EXPECT_EQ(driver.stable, (std::vector<bool>{true, true, false}));
    const Digest before = digest(stack, {&client});
    args.hAdapter = client.device;
    EXPECT_EQ(set(), kInvalid);
    EXPECT_EQ(client.call([] { return D3DKMTSetStablePowerState(nullptr); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(driver.stable.size(), 3U);
  });
  with_notices(
      [](Stack& stack, NoticeDriver& driver, FlipDriver&) {
        Client client(stack);
        const D3DKMT_SETSTABLEPOWERSTATE args{.hAdapter = client.adapter, .Enabled = TRUE};
        EXPECT_EQ(client.call([&] { return D3DKMTSetStablePowerState(&args); }), kRefused)
            << "not in that version of the table";
        EXPECT_EQ(driver.stable.size(), 0U);
      },
      true, DXGKDDI_INTERFACE_VERSION_WDDM1_3);
}

TEST_F(NoticeTest, TheTextOfABugCheckComesFromAnyState) {
  DXGKIT_COVERS("OPT-20");
  with_notices([](Stack& stack, NoticeDriver& driver, FlipDriver&) {
    EXPECT_EQ(dxgk::Notices(*stack.system).reset_to_text(stack.luid), Status::kSuccess);
    EXPECT_EQ(driver.resets, std::vector<nt::Irql>{nt::kHighLevel});
  });
}

TEST_F(NoticeTest, ADriverLogsWhileARecordingRuns) {
  DXGKIT_COVERS("OPT-19");
  for (const bool records : {false, true}) {
    trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
    bare([&](Stack& stack) {
      FlipDriver flips(stack);
      NoticeDriver driver(flips);
      trace::Recorder* const of_the_test = trace::current();
      trace::set_current(records ? &recorder : nullptr);
      EXPECT_EQ(stack.start(), Status::kSuccess);
      EXPECT_EQ(driver.logging, std::vector<bool>(records ? 1 : 0, true));
      stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
      EXPECT_EQ(driver.logging, records ? (std::vector<bool>{true, false}) : std::vector<bool>{});
      trace::set_current(of_the_test);
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
