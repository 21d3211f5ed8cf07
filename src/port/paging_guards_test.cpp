// What DxgkDdiBuildPagingBuffer wrote where it may not: behind the room it was told of, or without
// advancing its pointer. Each is looked for only while checks are on, and only where there is room
// for a guard.
#include <array>
#include <cstring>

#include "port/fault_injector.h"
#include "port/port_world_test.h"

namespace dxgkit::port {
namespace {

constexpr NTSTATUS kOk = 0;
constexpr uint32_t kBytes = 4096, kPrivate = 256, kSample = 256;

/// A paging buffer with a guard behind it and behind its private data.
struct Building {
  Building() {
    args.buffer = buffer.data();
    args.buffer_bytes = kBytes;
    args.private_data = private_data.data();
    args.private_bytes = kPrivate;
    args.operation = &operation;
    operation.kind = PagingOperation::Kind::kFill;
  }
  std::vector<std::byte> buffer = std::vector<std::byte>(kBytes + kGuardBytes);
  std::vector<std::byte> private_data = std::vector<std::byte>(kPrivate + kGuardBytes);
  PagingOperation operation;
  BuildPagingArgs args;
};

/// Builds with a driver that runs `write` and says it has written `advance` bytes. Returns the rule
/// it broke.
std::string broken(Building& setup, bool checks, const std::function<void()>& write,
                   uint32_t advance = 8, FaultInjector* injector = nullptr, NTSTATUS answer = kOk,
                   const std::function<void(AdapterPort&)>& prepare = nullptr) {
  PortWorld world;
  world.start();
  world.adapter->set_reference_checks(checks);
  if (prepare) prepare(*world.adapter);
  world.adapter->set_fault_injector(injector);
  world.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
    write();
    args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + advance;
    return answer;
  };
  const BuildPagingResult result = world.adapter->paging().build_paging(setup.args);
  world.adapter->set_fault_injector(nullptr);
  std::string rule;
  if (!world.host.fatal.empty()) rule = world.host.fatal.back().rule;
  EXPECT_EQ(result.status, rule.empty() ? from_ntstatus(answer) : Status::kUnsuccessful);
  EXPECT_EQ(world.findings.total(), rule.empty() ? 0U : 1U) << world.findings_text();
  world.stop();
  return rule;
}

TEST(PagingGuards, AByteBehindIsSeenWhereThereIsAGuardAndChecksAreOn) {
  DXGKIT_COVERS("PAGE-05", "PAGE-06");
  runtime::make_sim_runtime(1)->run_main([] {
    for (uint32_t bits = 0; bits < 16; ++bits) {
      SCOPED_TRACE(bits);
      const bool guarded = (bits & 1) != 0, private_guarded = (bits & 2) != 0,
                 checks = (bits & 4) != 0, is_private = (bits & 8) != 0;
      Building setup;
      setup.args.guarded = guarded;
      setup.args.private_guarded = private_guarded;
      std::byte& at = is_private ? setup.private_data[kPrivate] : setup.buffer[kBytes];
      const char* const rule = is_private ? "PAGE-06" : "PAGE-05";
      const bool seen = checks && (is_private ? private_guarded : guarded);
      EXPECT_EQ(broken(setup, checks, [&] { at = std::byte{0x77}; }), seen ? rule : "");
    }
  });
}

/// Tells the driver of less room than there is.
struct LessRoom : FaultInjector {
  std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
  std::optional<Status> before_paging(const PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view what, uint32_t bytes) override {
    if (what == kPagingPrivateRoom) return private_room;
    return what == "DxgkDdiBuildPagingBuffer" ? dma_room : bytes;
  }
  uint32_t overrun(std::string_view what) override {
    return what == "DxgkDdiBuildPagingBuffer" ? behind_end : 0;
  }
  void shape(SegmentsInfo*) override {}
  uint32_t dma_room = kBytes, private_room = kPrivate, behind_end = 0;
};

TEST(PagingGuards, BehindLessRoomThereIsAGuardWhereItFits) {
  DXGKIT_COVERS("PAGE-05", "PAGE-06");
  struct Row {
    uint32_t room;
    bool is_private, seen;
  };
  constexpr Row kRows[] = {{kSample, false, true},
                           {kSample - 1, false, false},  // among the bytes that are compared
                           {1000, false, true},
                           {kBytes - kGuardBytes, false, true},
                           {kBytes - kGuardBytes + 1, false, false},
                           {0, true, true},
                           {8, true, true},
                           {kPrivate - kGuardBytes, true, true},
                           {kPrivate - kGuardBytes + 1, true, false}};
  runtime::make_sim_runtime(1)->run_main([&] {
    for (const Row& row : kRows) {
      for (const bool checks : {true, false}) {
        SCOPED_TRACE(std::to_string(row.room) + (checks ? " checked" : ""));
        Building setup;
        LessRoom injector;
        (row.is_private ? injector.private_room : injector.dma_room) = row.room;
        std::byte& at = (row.is_private ? setup.private_data : setup.buffer)[row.room];
        const char* const rule = row.is_private ? "PAGE-06" : "PAGE-05";
        EXPECT_EQ(broken(
                      setup, checks, [&] { at = std::byte{0x77}; }, 8, &injector),
                  row.seen && checks ? rule : "");
      }
    }
  });
}

/// An injector that says the driver wrote too much is believed where the driver succeeded.
TEST(PagingGuards, AnInjectedOverrunIsOfASuccess) {
  DXGKIT_COVERS("PAGE-05");
  constexpr NTSTATUS kMore = to_ntstatus(Status::kGraphicsInsufficientDmaBuffer);
  runtime::make_sim_runtime(1)->run_main([&] {
    for (const NTSTATUS answer : {kOk, kMore}) {
      for (const uint32_t behind_end : {0U, 8U}) {
        SCOPED_TRACE(behind_end);
        Building setup;
        LessRoom injector;
        injector.behind_end = behind_end;
        EXPECT_EQ(broken(
                      setup, true, [] {}, 16, &injector, answer),
                  answer == kOk && behind_end != 0 ? "PAGE-05" : "");
      }
    }
  });
}

TEST(PagingGuards, WhatWasWrittenWithoutAdvancingIsSeenInTheFirstBytes) {
  DXGKIT_COVERS("PAGE-05");
  constexpr NTSTATUS kMore = to_ntstatus(Status::kGraphicsInsufficientDmaBuffer);
  struct Row {
    uint32_t bytes, at, advance;
    NTSTATUS answer;
    bool seen;
  };
  constexpr Row kRows[] = {{kBytes, 0, 0, kOk, true},        {kBytes, kSample - 1, 0, kOk, true},
                           {kBytes, kSample, 0, kOk, false}, {100, 99, 0, kOk, true},
                           {kBytes, 0, 1, kOk, false},       {kBytes, 0, 0, kMore, false}};
  runtime::make_sim_runtime(1)->run_main([&] {
    for (const Row& row : kRows) {
      for (const bool checks : {true, false}) {
        SCOPED_TRACE(row.at);
        Building setup;
        setup.args.buffer_bytes = row.bytes;
        EXPECT_EQ(broken(
                      setup, checks, [&] { setup.buffer[row.at] = std::byte{0x77}; }, row.advance,
                      nullptr, row.answer),
                  row.seen && checks ? "PAGE-05" : "");
      }
    }
  });
}

TEST(PagingGuards, TheBufferIsFilledBeforeIfOutputsAre) {
  DXGKIT_COVERS("PAGE-05");
  runtime::make_sim_runtime(1)->run_main([] {
    for (const std::byte fill : {std::byte{0}, std::byte{0xA7}}) {
      Building setup;
      std::fill(setup.buffer.begin(), setup.buffer.end(), std::byte{0x11});
      std::vector<std::byte> there;
      EXPECT_EQ(broken(
                    setup, true, [&] { there = setup.buffer; }, 8, nullptr, kOk,
                    [&](AdapterPort& port) { port.set_output_fill(fill); }),
                "");
      std::vector<std::byte> expected(kBytes + kGuardBytes, std::byte{0x11});
      if (fill != std::byte{0}) std::fill_n(expected.begin(), kBytes, fill);
      EXPECT_EQ(there, expected);
    }
  });
}

TEST(PagingGuards, ADriverThatStopsTheMachineHasBuiltNothing) {
  DXGKIT_COVERS("PAGE-07");
  runtime::make_sim_runtime(1)->run_main([] {
    PortWorld world;
    world.start();
    Building setup;
    world.miniport.hooks.build_paging = [](DXGKARG_BUILDPAGINGBUFFER* args) -> NTSTATUS {
      args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 8;
      reinterpret_cast<void(NTAPI*)(uint32_t)>(
          const_cast<void*>(nt::find_export("KeBugCheck")->address))(0x116);
      return kOk;
    };
    const BuildPagingResult result = world.adapter->paging().build_paging(setup.args);
    EXPECT_EQ(result.status, Status::kUnsuccessful);
    EXPECT_EQ(result.bytes_written, 0U);
    world.miniport.hooks.build_paging = nullptr;
    static_cast<void>(world.adapter->life().stop_device());
    static_cast<void>(world.adapter->life().remove_device());
  });
}

}  // namespace
}  // namespace dxgkit::port
