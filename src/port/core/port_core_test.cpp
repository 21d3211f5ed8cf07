#include "port/core/port_core.h"

#include <gtest/gtest.h>

#include "port/core/core_world_test.h"
#include "port/core/ddi_call.h"

namespace dxgkit::port {
namespace {

/// The calls that the fake driver saw, and its answers.
struct Seen {
  void* context = nullptr;
  DXGKARG_QUERYADAPTERINFO query{};
  nt::Irql irql = 0;
  NTSTATUS answer = 0;
};
Seen* g_seen = nullptr;

NTSTATUS NTAPI query_adapter_info(void* context, const DXGKARG_QUERYADAPTERINFO* args) {
  g_seen->context = context;
  g_seen->query = *args;
  g_seen->irql = nt::CallFrame::current().irql();
  return g_seen->answer;
}

void in_core(const std::function<void(CoreWorld&, Seen&)>& body) {
  with_core([&](CoreWorld& world) {
    Seen seen;
    g_seen = &seen;
    CoreWorld::set(world.table.table.DxgkDdiQueryAdapterInfo, &query_adapter_info);
    body(world, seen);
    g_seen = nullptr;
  });
}

TEST(PortCore, AsksTheDriver) {
  in_core([](CoreWorld& world, Seen& seen) {
    uint32_t out = 0;
    EXPECT_EQ(world.core().query(DXGKQAITYPE_DRIVERCAPS, nullptr, 0, &out, sizeof(out)),
              Status::kSuccess);
    EXPECT_EQ(seen.context, &world) << "what AddDevice gave";
    EXPECT_EQ(seen.query.Type, DXGKQAITYPE_DRIVERCAPS);
    EXPECT_NE(seen.query.pOutputData, nullptr) << "a copy between guards";
    EXPECT_EQ(seen.query.OutputDataSize, sizeof(out));
    EXPECT_EQ(seen.irql, nt::kPassiveLevel);
    EXPECT_EQ(world.rules(), "");
  });
}

/// An answer that is no NTSTATUS is told, and passes through (NT-22).
TEST(PortCore, TellsOfAnswersThatAreNoStatus) {
  in_core([](CoreWorld& world, Seen& seen) {
    seen.answer = 0x80070057;  // an HRESULT
    static_cast<void>(world.core().query(DXGKQAITYPE_DRIVERCAPS, nullptr, 0, nullptr, 0));
    EXPECT_EQ(world.rules(), "NT-22 ");
  });
}

TEST(PortCore, KnowsTheEntriesOfItsVersion) {
  with_core(
      [](CoreWorld& world) {
        CoreWorld::set(world.table.table.DxgkDdiQueryAdapterInfo, &query_adapter_info);
        CoreWorld::set(world.table.table.DxgkDdiCreateHwQueue, &query_adapter_info);
        EXPECT_TRUE(world.core().has_entry("DxgkDdiQueryAdapterInfo"));
        EXPECT_FALSE(world.core().has_entry("DxgkDdiRender")) << "null";
        EXPECT_FALSE(world.core().has_entry("DxgkDdiCreateHwQueue")) << "of a later version";
        EXPECT_FALSE(world.core().has_entry("DxgkDdiNothing"));
        EXPECT_FALSE(has_hw_scheduling(world.core()));
        EXPECT_FALSE(has_native_fences(world.core()));
      },
      kInterfaceWddm20);
}

/// A finding that stops the adapter is reported to the host as well.
TEST(PortCore, TellsTheHostOfWhatIsFatal) {
  with_core([](CoreWorld& world) {
    EXPECT_EQ(
        world.core().violation("PWR-02", "DxgkDdiSetPowerState", "a", "b", "c", Status::kNoMemory),
        Status::kNoMemory)
        << "what to go on with";
    EXPECT_TRUE(world.host.fatal.empty());
    world.core().fatal("SUB-27", "DxgkDdiSubmitCommand", 0x119, 0x2, "a", "b", "c");
    ASSERT_EQ(world.host.fatal.size(), 1U);
    EXPECT_EQ(world.host.fatal[0].bugcheck_code, 0x119U);
    EXPECT_EQ(world.rules(), "PWR-02 SUB-27 ");
  });
}

/// Callbacks find the adapter by its handle among the adapters of the driver.
TEST(PortCore, IsInTheDriversList) {
  with_core([](CoreWorld& world) {
    void* const handle = world.core().handle();
    runtime::MutexLock lock(world.table.adapters_lock);
    EXPECT_EQ(world.table.adapters, std::vector<void*>{handle});
  });
}

}  // namespace
}  // namespace dxgkit::port
