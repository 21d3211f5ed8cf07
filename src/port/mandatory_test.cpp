// LIFE-03, entry by entry: which ones a driver's table has to have, for each kind and version.
#include <algorithm>
#include <cstring>
#include <set>

#include "dxgkit/abi_versions.h"
#include "port/port_world_test.h"
#include "tests/support/ddi_rules.h"

namespace dxgkit::port {
namespace {

using testing::ScriptedMiniport;
using Names = std::set<std::string>;

const Names kEveryFullDriver = {
    "DxgkDdiAddDevice",         "DxgkDdiStartDevice",    "DxgkDdiStopDevice",
    "DxgkDdiRemoveDevice",      "DxgkDdiUnload",         "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",        "DxgkDdiSetPowerState",  "DxgkDdiQueryAdapterInfo",
    "DxgkDdiCreateDevice",      "DxgkDdiDestroyDevice",  "DxgkDdiCreateAllocation",
    "DxgkDdiDestroyAllocation", "DxgkDdiOpenAllocation", "DxgkDdiCloseAllocation",
    "DxgkDdiBuildPagingBuffer", "DxgkDdiPreemptCommand", "DxgkDdiResetFromTimeout",
    "DxgkDdiRestartFromTimeout"};
const Names kPatching = {"DxgkDdiRender", "DxgkDdiPatch", "DxgkDdiSubmitCommand"};
const Names kEveryDisplayOnlyDriver = {"DxgkDdiAddDevice",
                                       "DxgkDdiStartDevice",
                                       "DxgkDdiStopDevice",
                                       "DxgkDdiRemoveDevice",
                                       "DxgkDdiUnload",
                                       "DxgkDdiQueryChildRelations",
                                       "DxgkDdiQueryChildStatus",
                                       "DxgkDdiSetPowerState",
                                       "DxgkDdiQueryAdapterInfo",
                                       "DxgkDdiIsSupportedVidPn",
                                       "DxgkDdiEnumVidPnCofuncModality",
                                       "DxgkDdiPresentDisplayOnly",
                                       "DxgkDdiCommitVidPn",
                                       "DxgkDdiSetVidPnSourceVisibility"};

Names operator+(Names left, const Names& right) {
  left.insert(right.begin(), right.end());
  return left;
}

NTSTATUS NTAPI never_called() {
  ADD_FAILURE() << "an entry was called";
  return STATUS_UNSUCCESSFUL;
}
void NTAPI unload() {}

/// A table of `version` with everything in it but `left_out`; no entry is ever called but Unload.
std::vector<std::byte> table_without(bool display_only, uint32_t version, const Names& left_out) {
  const std::span<const abi::TableEntry> entries =
      display_only ? std::span<const abi::TableEntry>(abi::kKmddodInitializationData)
                   : std::span<const abi::TableEntry>(abi::kDriverInitializationData);
  const char* record = display_only ? "KMDDOD_INITIALIZATION_DATA" : "DRIVER_INITIALIZATION_DATA";
  std::vector<std::byte> table(abi::record_size(record, version));
  for (const abi::TableEntry& entry : entries) {
    if (!entry.name.starts_with("DxgkDdi") || entry.since > version ||
        left_out.contains(std::string(entry.name)))
      continue;
    void* const code = entry.name == "DxgkDdiUnload" ? reinterpret_cast<void*>(&unload)
                                                     : reinterpret_cast<void*>(&never_called);
    std::memcpy(table.data() + entry.offset_bytes, &code, sizeof code);
  }
  std::memcpy(table.data(), &version, sizeof version);
  return table;
}

/// All entries that a table of that kind and version has.
Names entries(bool display_only, uint32_t version) {
  Names names;
  const auto add = [&](std::span<const abi::TableEntry> table) {
    for (const abi::TableEntry& entry : table) {
      if (entry.name.starts_with("DxgkDdi") && entry.since <= version)
        names.insert(std::string(entry.name));
    }
  };
  if (display_only) {
    add(abi::kKmddodInitializationData);
  } else {
    add(abi::kDriverInitializationData);
  }
  return names;
}

/// Hands `table` to the kernel. Success: nothing was reported. Refused: exactly the named entries
/// were missing, the driver was told so, and nothing of it is left.
void hand_over(bool display_only, uint32_t version, const Names& left_out, const Names& missing) {
  PortWorld world;
  NTSTATUS told = STATUS_PENDING;
  world.miniport.hooks.driver_entry = [&](DRIVER_OBJECT* object, UNICODE_STRING* path) {
    const std::vector<std::byte> table = table_without(display_only, version, left_out);
    if (!display_only) return told = ScriptedMiniport::dxgk_initialize(object, path, table.data());
    const auto initialize =
        reinterpret_cast<NTSTATUS(NTAPI*)(DRIVER_OBJECT*, UNICODE_STRING*, const void*)>(
            const_cast<void*>(nt::find_export("DxgkInitializeDisplayOnlyDriver")->address));
    return told = initialize(object, path, table.data());
  };
  const Status status = world.load();
  if (missing.empty()) {
    ASSERT_EQ(status, Status::kSuccess) << world.findings_text();
    EXPECT_EQ(told, STATUS_SUCCESS);
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    EXPECT_EQ(world.driver->display_only(), display_only);
    return;
  }
  EXPECT_EQ(status, Status::kInvalidParameter);
  EXPECT_EQ(told, STATUS_INVALID_PARAMETER);
  EXPECT_EQ(world.driver, nullptr);
  ASSERT_EQ(world.findings.total(), 1u) << world.findings_text();
  const verifier::Finding finding = world.findings.all()[0];
  EXPECT_EQ(finding.rule, "LIFE-03");
  EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
  EXPECT_EQ(finding.ddi, display_only ? "DxgkInitializeDisplayOnlyDriver" : "DxgkInitialize");
  Names named;
  std::string rest = finding.actual;
  for (size_t at = rest.find("DxgkDdi"); at != std::string::npos; at = rest.find("DxgkDdi")) {
    const size_t end = rest.find_first_of(",.", at);
    named.insert(rest.substr(at, end - at));
    rest = rest.substr(end);
  }
  EXPECT_EQ(named, missing) << finding.actual;
}

/// Each entry of a table left out alone: it is refused if `mandatory` has it, and accepted if not.
void leave_out_each(bool display_only, uint32_t version, const Names& without,
                    const Names& mandatory) {
  SCOPED_TRACE(version);
  hand_over(display_only, version, without, {});
  size_t refused = 0;
  for (const std::string& entry : entries(display_only, version)) {
    if (without.contains(entry)) continue;
    SCOPED_TRACE(entry);
    const bool needed = mandatory.contains(entry);
    refused += needed ? 1 : 0;
    Names missing = needed ? Names{entry} : Names{};
    // Then it is a driver that patches, and without what that takes.
    if (entry == "DxgkDdiSubmitCommandVirtual") missing = without;
    hand_over(display_only, version, without + Names{entry}, missing);
  }
  EXPECT_EQ(refused, mandatory.size()) << "an entry that the table does not have";
}

template <typename Body>
void in_os(const Body& body) {
  runtime::make_os_runtime(1)->run_main(body);
}

TEST(Mandatory, EachEntryOfAFullDriverLeftOutAlone) {
  DXGKIT_COVERS("LIFE-03");
  in_os([] {
    const Names patching = kEveryFullDriver + kPatching;
    leave_out_each(false, DXGKDDI_INTERFACE_VERSION_VISTA, {}, patching);
    leave_out_each(false, DXGKDDI_INTERFACE_VERSION_WIN8, {}, patching);
    leave_out_each(false, DXGKDDI_INTERFACE_VERSION_WDDM1_3, {},
                   patching + Names{"DxgkDdiGetNodeMetadata"});
  });
}

// With GPU virtual addresses a driver has no use for the three entries of patching, until it has
// one of those that only patching asks for.
TEST(Mandatory, EachEntryOfADriverWithAddressesLeftOutAlone) {
  DXGKIT_COVERS("LIFE-03");
  in_os([] {
    const uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
    const Names all = kEveryFullDriver + Names{"DxgkDdiGetNodeMetadata"};
    leave_out_each(false, version, kPatching, all);
    leave_out_each(false, version, {"DxgkDdiRender", "DxgkDdiPatch"}, all);
    leave_out_each(false, version, {"DxgkDdiSubmitCommandVirtual"}, all + kPatching);
    // Both, with one of the three missing, or two.
    leave_out_each(false, version, {}, all + kPatching);
    hand_over(false, version, {"DxgkDdiRender", "DxgkDdiSubmitCommand"},
              {"DxgkDdiRender", "DxgkDdiSubmitCommand"});
    hand_over(false, version, {"DxgkDdiPatch", "DxgkDdiSubmitCommand"},
              {"DxgkDdiPatch", "DxgkDdiSubmitCommand"});
  });
}

TEST(Mandatory, EachEntryOfADisplayOnlyDriverLeftOutAlone) {
  DXGKIT_COVERS("LIFE-03");
  in_os([] {
    for (const uint32_t version :
         {DXGKDDI_INTERFACE_VERSION_WIN8, DXGKDDI_INTERFACE_VERSION_WDDM1_3,
          DXGKDDI_INTERFACE_VERSION_WDDM2_0})
      leave_out_each(true, version, {}, kEveryDisplayOnlyDriver);
  });
}

TEST(Mandatory, AllThatAreMissingAreNamed) {
  DXGKIT_COVERS("LIFE-03");
  in_os([] {
    for (const bool display_only : {false, true}) {
      const uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM1_3;
      const Names all = display_only
                            ? kEveryDisplayOnlyDriver
                            : kEveryFullDriver + kPatching + Names{"DxgkDdiGetNodeMetadata"};
      hand_over(display_only, version, entries(display_only, version), all);
    }
  });
}

/// The rulebook's DDI table and what is asked for agree, save what README or the code give a reason
/// for.
TEST(Mandatory, IsWhatTheRulebookSays) {
  DXGKIT_COVERS("LIFE-03");
  Names always, patching, from_wddm13;
  for (const auto& [name, rule] : testing::read_ddi_rules(DDI_RULES)) {
    const std::string& needed = rule.needed;
    if (needed == "B" || needed == "B D" || needed == "B D (may be empty)" ||
        needed == "B D (display-only: o)")
      always.insert(name);
    if (needed == "B (1.3+)") from_wddm13.insert(name);
    if (needed == "P" || needed.starts_with("P;")) patching.insert(name);
  }
  // A compute-only driver describes nothing and presents nothing; a timeout goes without the rest.
  for (const char* name : {"DxgkDdiDescribeAllocation", "DxgkDdiGetStandardAllocationDriverData",
                           "DxgkDdiPresent", "DxgkDdiQueryCurrentFence"})
    EXPECT_EQ(always.erase(name), 1u) << name;
  EXPECT_EQ(always, kEveryFullDriver);
  EXPECT_EQ(patching, kPatching);
  EXPECT_EQ(from_wddm13, Names{"DxgkDdiGetNodeMetadata"});
}

}  // namespace
}  // namespace dxgkit::port
