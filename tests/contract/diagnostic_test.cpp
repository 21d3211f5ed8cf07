// What a driver collects after a failed start, and what it reports when it is asked to.
#include <cstring>
#include <memory>

#include "dxgk/notices.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using port::DiagnosticCategory;

/// The entries of the scripted driver, and what they were called with.
class DiagnosticDriver {
 public:
  explicit DiagnosticDriver(ScriptedMiniport& miniport) {
    current = this;
    miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_6;
    miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiCollectDiagnosticInfo = collect;
      table.DxgkDdiQueryDiagnosticTypesSupport = query;
      table.DxgkDdiControlDiagnosticReporting = control;
    };
  }
  ~DiagnosticDriver() { current = nullptr; }

  NTSTATUS answer = STATUS_SUCCESS, control_answer = STATUS_SUCCESS;
  UINT bytes = 3;
  bool ends_strings = true;
  UINT noninvasive = 1, invasive = 2;
  struct Collected {
    const void* pdo = nullptr;
    const void* adapter = nullptr;
    DXGK_DIAGNOSTICINFO_TYPE type{};
  };
  std::vector<Collected> collected;
  std::vector<std::pair<UINT, UINT>> enabled;  // category, types
  std::vector<nt::Irql> irqls;

 private:
  static inline DiagnosticDriver* current = nullptr;
  static void note() { current->irqls.push_back(nt::CallFrame::current().irql()); }
  static NTSTATUS NTAPI collect(DEVICE_OBJECT* const pdo, DXGKARG_COLLECTDIAGNOSTICINFO* args) {
    note();
    current->collected.push_back({pdo, args->hAdapter, args->Type});
    std::memcpy(args->pBuffer, "why", 3);
    args->BufferSizeOut = current->bytes;
    std::memset(args->BucketingString, 'b', sizeof args->BucketingString);
    std::strcpy(args->DescriptionString, "no firmware");
    if (current->ends_strings) args->BucketingString[2] = '\0';
    return current->answer;
  }
  static NTSTATUS NTAPI query(void* const, DXGKARG_QUERYDIAGNOSTICTYPESSUPPORT* args) {
    note();
    EXPECT_EQ(args->DiagnosticCategory.Value, 1U);
    args->NoninvasiveTypes.Value = current->noninvasive;
    args->InvasiveTypes.Value = current->invasive;
    return current->answer;
  }
  static NTSTATUS NTAPI control(void* const, DXGKARG_CONTROLDIAGNOSTICREPORTING* args) {
    note();
    current->enabled.emplace_back(args->DiagnosticCategory.Value, args->RequestedDiagnostics.Value);
    return current->answer != STATUS_SUCCESS ? current->answer : current->control_answer;
  }
};

class DiagnosticTest : public ContractTest {
 protected:
  using Body = std::function<void(Stack&, DiagnosticDriver&, Client&)>;
  static void with_diagnostics(const Body& body) {
    std::unique_ptr<DiagnosticDriver> driver;
    with_client(
        [&](Stack& stack, Client& client) { body(stack, *driver, client); },
        [&](ScriptedMiniport& miniport) { driver = std::make_unique<DiagnosticDriver>(miniport); });
  }
};

TEST_F(DiagnosticTest, ADriverThatDoesNotStartIsAskedWhy) {
  DXGKIT_COVERS("OPT-24");
  for (const bool adds : {false, true}) {
    bare([&](Stack& stack) {
      DiagnosticDriver driver(stack.miniport);
      if (adds) {
        stack.miniport.hooks.start_device = [](DXGK_START_INFO*, DXGKRNL_INTERFACE*, ULONG*,
                                               ULONG*) { return nt_status(Status::kUnsuccessful); };
      } else {
        stack.miniport.hooks.add_device = [](void**) { return nt_status(Status::kUnsuccessful); };
      }
      EXPECT_NE(stack.start(), Status::kSuccess);
      ASSERT_EQ(driver.collected.size(), 1U);
      EXPECT_EQ(driver.collected[0].type, adds ? DXGK_DI_STARTDEVICE : DXGK_DI_ADDDEVICE);
      EXPECT_NE(driver.collected[0].pdo, nullptr);
      EXPECT_EQ(driver.collected[0].adapter, adds ? stack.miniport.adapter_context() : nullptr);
      EXPECT_EQ(driver.irqls, std::vector<nt::Irql>{nt::kPassiveLevel});
      const verifier::Finding told = stack.only_finding();
      EXPECT_EQ(told.rule, adds ? "LIFE-11" : "LIFE-07");
      EXPECT_THAT(told.actual,
                  ::testing::HasSubstr("It collected 3 bytes for \"bb\": no firmware"));
    });
  }
  with_diagnostics([](Stack&, DiagnosticDriver& driver, Client&) {
    EXPECT_EQ(driver.collected.size(), 0U) << "it has started";
  });
}

TEST_F(DiagnosticTest, LengthsThatCannotBeAreFound) {
  DXGKIT_COVERS("OPT-25");
  for (const bool ends : {false, true}) {
    bare([&](Stack& stack) {
      DiagnosticDriver driver(stack.miniport);
      driver.ends_strings = ends;
      if (ends) driver.bytes = 1U << 20;
      stack.miniport.hooks.add_device = [](void**) { return nt_status(Status::kUnsuccessful); };
      EXPECT_NE(stack.start(), Status::kSuccess);
      EXPECT_EQ(stack.rules(), (std::vector<std::string>{"OPT-25", "LIFE-07"}));
    });
  }
}

TEST_F(DiagnosticTest, TypesOfTheDriverAreEnabledAndNoOthers) {
  DXGKIT_COVERS("OPT-26", "OPT-27");
  with_diagnostics([](Stack& stack, DiagnosticDriver& driver, Client&) {
    dxgk::Notices notices(*stack.system);
    constexpr auto kCategory = DiagnosticCategory::kNotifications;
    driver.invasive = 0;
    const auto types = notices.diagnostic_types(stack.luid, kCategory);
    ASSERT_TRUE(types.has_value());
    EXPECT_EQ(types->noninvasive, 1U);
    EXPECT_EQ(types->invasive, 0U);
    EXPECT_EQ(notices.enable_diagnostics(stack.luid, kCategory, 2), Status::kInvalidParameter);
    EXPECT_EQ(driver.enabled.size(), 0U);
    driver.invasive = 2;
    EXPECT_EQ(notices.enable_diagnostics(stack.luid, kCategory, 3), Status::kSuccess);
    EXPECT_EQ(notices.enable_diagnostics(stack.luid, kCategory, 0), Status::kSuccess);
    EXPECT_EQ(driver.enabled, (std::vector<std::pair<UINT, UINT>>{{1, 3}, {1, 0}}));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    driver.invasive = 4;
    const auto more = notices.diagnostic_types(stack.luid, kCategory);
    ASSERT_TRUE(more.has_value());
    EXPECT_EQ(more->invasive, 0U);
    EXPECT_EQ(stack.only_finding().rule, "OPT-27");
    driver.answer = nt_status(Status::kUnsuccessful);
    EXPECT_EQ(notices.diagnostic_types(stack.luid, kCategory).error(), Status::kUnsuccessful);
  });
  with_client([](Stack& stack, Client&) {
    dxgk::Notices notices(*stack.system);
    EXPECT_EQ(notices.enable_diagnostics(stack.luid, DiagnosticCategory::kNotifications, 1),
              Status::kNotSupported);
  });
}

/// A report from inside DxgkDdiEscape.
NTSTATUS report(Stack& stack, Client& client, const DXGK_DIAGNOSTIC_PSR& psr) {
  NTSTATUS answer = -1;
  stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
    DXGK_DIAGNOSTIC_PSR copy = psr;
    const DXGKRNL_INTERFACE& table = stack.miniport.callbacks();
    answer = table.DxgkCbReportDiagnostic(table.DeviceHandle, &copy.Header);
    return NTSTATUS{0};
  };
  D3DKMT_ESCAPE escape{};
  escape.hAdapter = client.adapter;
  escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
  EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
  stack.miniport.hooks.escape = {};
  return answer;
}

TEST_F(DiagnosticTest, ReportsAreKeptUntilTheyAreTaken) {
  DXGKIT_COVERS("OPT-28", "OPT-29");
  with_diagnostics([](Stack& stack, DiagnosticDriver&, Client& client) {
    dxgk::Notices notices(*stack.system);
    DXGK_DIAGNOSTIC_PSR good{};
    good.Header.Category.Notifications = 1;
    good.Header.Type.Notifications.PanelSelfRefreshSoftware = 1;
    good.Header.Size = sizeof good;
    good.Header.SequenceNumber = 7;
    good.Header.TargetId = 3;
    good.Value = 0x55;
    EXPECT_EQ(report(stack, client, good), nt_status(Status::kInvalidParameter))
        << "nobody has enabled it";
    ASSERT_EQ(notices.enable_diagnostics(stack.luid, DiagnosticCategory::kNotifications, 1),
              Status::kSuccess);
    EXPECT_EQ(report(stack, client, good), 0);
    const auto with = [&](const std::function<void(DXGK_DIAGNOSTIC_HEADER&)>& change) {
      DXGK_DIAGNOSTIC_PSR bad = good;
      change(bad.Header);
      return report(stack, client, bad);
    };
    EXPECT_EQ(with([](auto& header) { header.Category.Value = 3; }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(with([](auto& header) { header.Type.Value = 0; }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(with([](auto& header) { header.Type.Value = 2; }),
              nt_status(Status::kInvalidParameter))
        << "not enabled";
    EXPECT_EQ(with([](auto& header) { header.Size = sizeof(DXGK_DIAGNOSTIC_HEADER); }),
              nt_status(Status::kBufferTooSmall));
    // Two reports of a type that is not enabled are one finding.
    EXPECT_EQ(stack.rules(), std::vector<std::string>(4, "OPT-28"));
    auto taken = notices.take_diagnostics(stack.luid);
    ASSERT_TRUE(taken.has_value());
    ASSERT_EQ(taken->size(), 1U);
    EXPECT_EQ(taken->front().type, 1U);
    EXPECT_EQ(taken->front().sequence, 7U);
    EXPECT_EQ(taken->front().id, 3U);
    ASSERT_EQ(taken->front().data.size(), 4U);
    EXPECT_EQ(taken->front().data[0], std::byte{0x55});
    for (int i = 0; i < 1024; ++i) ASSERT_EQ(report(stack, client, good), 0);
    EXPECT_EQ(report(stack, client, good), nt_status(Status::kUnsuccessful));
    taken = notices.take_diagnostics(stack.luid);
    EXPECT_EQ(taken->size(), 1024U);
    EXPECT_EQ(report(stack, client, good), 0) << "there is room again";
  });
}

// What the driver refuses changes nothing: types that were enabled are told of, others are not.
TEST_F(DiagnosticTest, ARefusedChangeLeavesWhatIsEnabled) {
  DXGKIT_COVERS("OPT-28");
  with_diagnostics([](Stack& stack, DiagnosticDriver& driver, Client& client) {
    dxgk::Notices notices(*stack.system);
    constexpr auto kCategory = DiagnosticCategory::kNotifications;
    DXGK_DIAGNOSTIC_PSR told{};
    told.Header.Category.Notifications = 1;
    told.Header.Size = sizeof told;
    const auto report_of = [&](UINT type) {
      told.Header.Type.Value = type;
      return report(stack, client, told);
    };
    ASSERT_EQ(notices.enable_diagnostics(stack.luid, kCategory, 1), Status::kSuccess);
    driver.control_answer = nt_status(Status::kUnsuccessful);
    EXPECT_EQ(notices.enable_diagnostics(stack.luid, kCategory, 2), Status::kUnsuccessful);
    EXPECT_EQ(report_of(1), 0);
    EXPECT_EQ(report_of(2), nt_status(Status::kInvalidParameter));
    driver.control_answer = STATUS_SUCCESS;
    ASSERT_EQ(notices.enable_diagnostics(stack.luid, kCategory, 2), Status::kSuccess);
    EXPECT_EQ(report_of(1), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(report_of(2), 0);
  });
}

}  // namespace
}  // namespace dxgkit::contract
