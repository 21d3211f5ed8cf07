// What is said of a page fault: what was wrong with the address, in words its author can use.
#include <fmt/format.h>

#include <functional>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "tests/contract/sync_fixture.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::HasSubstr;
using VaFaultTest = GpuVaTest;

constexpr uint64_t kFar = 0x0A00'0000;

struct Case {
  const char* name;
  /// Arranges it, and answers what the command buffer does.
  std::function<GpuCommand(GpuVaStack&, VaClient&, D3DKMT_HANDLE data, uint64_t va)> arrange;
  const char* reason;  // in `actual`
  const char* story;   // in `why`
  const char* fix;
};

// Each way to go wrong is told apart; the story names what was mapped there, by whom it was taken
// away, what is near, and where the walk through the tables ends.
TEST_F(VaFaultTest, EachReasonIsToldApart) {
  DXGKIT_COVERS("VA-28");
  const std::vector<Case> cases = {
      {"never mapped",
       [](GpuVaStack&, VaClient&, D3DKMT_HANDLE, uint64_t va) {
         return GpuCommand::read(va + 4 * kPage + 8);
       },
       "nothing was mapped at", "The nearest mapping below ends 0x8 bytes before it",
       "D3DKMTMapGpuVirtualAddress"},
      {"freed",
       [](GpuVaStack&, VaClient& client, D3DKMT_HANDLE, uint64_t va) {
         EXPECT_EQ(client.free_va(va + kPage, kPage), 0);
         return GpuCommand::write(va + kPage, 1);
       },
       "memory that was unmapped", "by D3DKMTFreeGpuVirtualAddress; it showed allocation",
       "behind the fence of the last work"},
      {"its allocation went",
       [](GpuVaStack& stack, VaClient& client, D3DKMT_HANDLE data, uint64_t va) {
         EXPECT_EQ(client.destroy_allocation(data), 0);
         stack.drive();
         return GpuCommand::read(va);
       },
       "memory that was unmapped", "as its allocation was destroyed or closed", "fence"},
      {"evicted",
       [](GpuVaStack& stack, VaClient& client, D3DKMT_HANDLE data, uint64_t va) {
         EXPECT_EQ(client.evict({data}), 0);
         stack.drive();
         return GpuCommand::read(va);
       },
       "an allocation that was evicted", "left its segment", "D3DKMTMakeResident"},
      {"never resident",
       [](GpuVaStack&, VaClient& client, D3DKMT_HANDLE, uint64_t) {
         return GpuCommand::read(client.make_mapping(client.make_allocation(kPage, kMemorySet), 1));
       },
       "an allocation that is nowhere", "has not been in a segment", "D3DKMTMakeResident"},
      {"read only",
       [](GpuVaStack&, VaClient& client, D3DKMT_HANDLE data, uint64_t) {
         auto args = client.map_args(data, 1);
         args.Protection = protection(0);
         return GpuCommand::write(client.make_mapping(args), 1);
       },
       "a write where only reading is allowed", "(read)", "Protection.Write"},
      {"reserved",
       [](GpuVaStack&, VaClient& client, D3DKMT_HANDLE, uint64_t) {
         return GpuCommand::read(client.make_reservation(64 * kKibibyte, kFar) + kPage);
       },
       "nothing was mapped at", "is reserved", "D3DKMTMapGpuVirtualAddress"},
      {"taken away by an update",
       [](GpuVaStack& stack, VaClient& client, D3DKMT_HANDLE data, uint64_t) {
         const uint64_t base = client.make_reservation(64 * kKibibyte, kFar);
         const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
         EXPECT_EQ(client.update(client.context, fence, 0,
                                 {map_op(data, base, 2 * kPage), unmap_op(base, kPage)}, true),
                   0);
         EXPECT_EQ(client.update(client.context, fence, 2, {unmap_op(base + kPage, kPage)}, true),
                   0);
         stack.drive();
         return GpuCommand::read(base + kPage);
       },
       "memory that was unmapped", "by D3DKMTUpdateGpuVirtualAddress", "fence"},
      {"beyond the end",
       [](GpuVaStack&, VaClient&, D3DKMT_HANDLE, uint64_t) {
         return GpuCommand::read(uint64_t{1} << 60);
       },
       "beyond the address space", "bits here", "sign-extended"},
      {"freed, and another page behind it later",
       [](GpuVaStack&, VaClient& client, D3DKMT_HANDLE, uint64_t va) {
         EXPECT_EQ(va, kFar + 2 * kMebibyte);
         EXPECT_EQ(client.free_va(va + kPage, kPage), 0);
         EXPECT_EQ(client.free_va(va + 2 * kPage, kPage), 0);
         return GpuCommand::read(va + kPage);
       },
       "memory that was unmapped", "[0xA201000, 0xA202000) was unmapped",
       "behind the fence of the last work"},
      {"unmapped so long ago that nobody remembers",
       [](GpuVaStack& stack, VaClient& client, D3DKMT_HANDLE data, uint64_t) {
         constexpr uint64_t kRemembered = 256;
         const uint64_t base =
             client.make_reservation((kRemembered + 8) * 4 * kPage, kFar + 16 * kMebibyte);
         const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
         std::vector<UpdateOperation> maps, unmaps;
         for (uint64_t i = 0; i <= kRemembered; ++i) {
           maps.push_back(map_op(data, base + i * 4 * kPage, 4 * kPage));
           unmaps.push_back(unmap_op(base + i * 4 * kPage, kPage));
         }
         EXPECT_EQ(client.update(client.context, fence, 0, maps, true), 0);
         EXPECT_EQ(client.update(client.context, fence, 2, unmaps, true), 0);
         stack.drive();
         return GpuCommand::read(base);
       },
       "nothing was mapped at", "is reserved", "D3DKMTMapGpuVirtualAddress"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    running([&](GpuVaStack& stack) {
      VaClient client(stack, "painter");
      const D3DKMT_HANDLE code = client.make_allocation(kPage, kMemorySet);
      const D3DKMT_HANDLE data = client.make_allocation(4 * kPage, kMemorySet);
      client.list({code, data});
      stack.drive();
      const uint64_t at_code = client.make_mapping(code, 1, kFar + kMebibyte);
      const uint64_t va = client.make_mapping(data, 4, kFar + 2 * kMebibyte);
      const GpuCommand command = one.arrange(stack, client, data, va);
      ASSERT_TRUE(stack.gpu.write(client.process_handle(), at_code,
                                  dxgkit::testing::gpu_commands({command})));
      ASSERT_EQ(client.submit(client.context, at_code, 24), 0);
      stack.drive();
      ASSERT_EQ(stack.gpu.faults().size(), 1U);
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "VA-28");
      EXPECT_EQ(finding.severity, verifier::Severity::kWarning);
      EXPECT_THAT(finding.actual, HasSubstr("(painter)"));
      EXPECT_THAT(finding.actual, HasSubstr(fmt::format("0x{:X}", command.va)));
      EXPECT_THAT(finding.actual,
                  HasSubstr(command.op == GpuCommand::kWrite ? " wrote to " : " read "));
      EXPECT_THAT(finding.actual, HasSubstr(one.reason));
      EXPECT_THAT(finding.why, HasSubstr(one.story));
      EXPECT_THAT(finding.fix, HasSubstr(one.fix));
      if (command.va < (uint64_t{1} << 60)) {
        const bool protected_page = std::string_view(one.name) == "read only";
        EXPECT_THAT(finding.why, HasSubstr("The tables, as the driver was asked to write them:"));
        EXPECT_THAT(finding.why, HasSubstr(protected_page ? ": valid." : ": invalid."));
      }
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    });
    if (HasFatalFailure()) return;
  }
}

// Tables that lost their content behind the kernel's back: everything it did is right, and that is
// said, with the walk as it should have been. For tables in memory that can be lost: those written
// by the CPU are in system memory here.
TEST_F(VaFaultTest, AnAddressThatTranslatesPointsAtTheHardware) {
  DXGKIT_COVERS("VA-28");
  // A client's memory, and a page of the kernel's.
  for (const bool of_fence : {false, true}) {
    SCOPED_TRACE(of_fence);
    running(GpuVaConfig::gpu_physical_four_level(), [&](GpuVaStack& stack) {
      VaClient client(stack);
      const D3DKMT_HANDLE data = client.make_allocation(4 * kPage, kMemorySet);
      client.list({data});
      stack.drive();
      const uint64_t va = of_fence ? create_fence(client, 0).gpu : client.make_mapping(data, 4);
      ASSERT_NE(va, 0U);
      stack.drive();
      stack.gpu.lose_power();
      ASSERT_EQ(client.submit(client.context, va, 24), 0);
      stack.drive();
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "VA-28");
      EXPECT_THAT(finding.actual, HasSubstr("an address that translates"));
      EXPECT_THAT(finding.why, HasSubstr(fmt::format("entry {}: valid.", va / kPage % 512)));
      EXPECT_THAT(finding.fix, HasSubstr("FlushTlb"));
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
