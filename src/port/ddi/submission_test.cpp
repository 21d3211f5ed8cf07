// Patching, submitting, preempting and cancelling over a table filled by hand: what the words of a
// patched part are compared with, what each answer of the driver means, and a driver that does not
// come back.
#include "port/ddi/submission.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "port/core/core_world_test.h"
#include "tests/support/covers.h"
#include "verifier/situations.h"

namespace dxgkit::port {
namespace {

/// What the fake driver does in its entry, and answers.
std::function<NTSTATUS(const char* entry, const void* arguments)> g_driver;
std::vector<std::string> g_calls;

NTSTATUS answer(const char* entry, const void* arguments) {
  g_calls.emplace_back(entry);
  return g_driver ? g_driver(entry, arguments) : 0;
}

void with_driver(const std::function<void(SubmissionPort&, CoreWorld&)>& body,
                 uint32_t version = kInterfaceWddm32) {
  with_core(
      [&](CoreWorld& world) {
        g_driver = nullptr;
        g_calls.clear();
        DRIVER_INITIALIZATION_DATA& table = world.table.table;
        CoreWorld::set(
            table.DxgkDdiPatch, +[](void*, const DXGKARG_PATCH* args) NTAPI -> NTSTATUS {
              return answer("patch", args);
            });
        CoreWorld::set(
            table.DxgkDdiSubmitCommand,
            +[](void*, const DXGKARG_SUBMITCOMMAND* args)
                 NTAPI -> NTSTATUS { return answer("submit", args); });
        CoreWorld::set(
            table.DxgkDdiSubmitCommandVirtual,
            +[](void*, const DXGKARG_SUBMITCOMMANDVIRTUAL* args)
                 NTAPI -> NTSTATUS { return answer("virtual", args); });
        CoreWorld::set(
            table.DxgkDdiPreemptCommand,
            +[](void*, const DXGKARG_PREEMPTCOMMAND* args)
                 NTAPI -> NTSTATUS { return answer("preempt", args); });
        CoreWorld::set(
            table.DxgkDdiCancelCommand,
            +[](void*, const DXGKARG_CANCELCOMMAND* args)
                 NTAPI -> NTSTATUS { return answer("cancel", args); });
        CoreWorld::set(
            table.DxgkDdiQueryCurrentFence,
            +[](void*, DXGKARG_QUERYCURRENTFENCE* args)
                 NTAPI -> NTSTATUS { return answer("fence", args); });
        SubmissionPort submission(world.core());
        body(submission, world);
        g_driver = nullptr;
      },
      version);
}

/// A buffer whose part [256, 1024) has three of six elements, from the third on.
struct Part {
  Part() : words(256) {
    for (uint32_t i = 0; i < patches.size(); ++i) {
      patches[i] = {.allocation_index = i % 2,
                    .slot_id = i,
                    .driver_id = i,
                    .allocation_offset = 0x10 * i,
                    .patch_offset = 256 + 64 * i};
    }
    for (AllocationListEntry& entry : list) entry.device_handle = &entry;
    args.buffer.cpu = reinterpret_cast<std::byte*>(words.data());
    args.buffer.size_bytes = 2048;
    args.slice = {.start = 256, .end = 1024, .private_start = 0, .private_end = 0};
    args.allocations = list.data();
    args.allocation_count = static_cast<uint32_t>(list.size());
    args.patches = patches.data();
    args.patch_count = static_cast<uint32_t>(patches.size());
    args.patch_start = 2;
    args.patch_length = 3;
    args.fence = SubmissionFenceId{0x77};
  }
  uint64_t expected(uint32_t element) const {
    return list[element % 2].physical_address + 0x10 * element;
  }
  /// Each element of the range as it should be.
  void write() {
    for (uint32_t i = 2; i < 5; ++i) put(i, expected(i));
  }
  void put(uint32_t element, uint64_t value) {
    std::memcpy(args.buffer.cpu + 256 + 64 * element, &value, sizeof(value));
  }
  std::vector<uint64_t> words;
  std::array<PatchLocation, 6> patches{};
  std::array<AllocationListEntry, 2> list{};
  PatchArgs args;
};

// A word that is not the engine's address of its allocation is found by its element. Where it is
// the address at which the CPU sees the same memory, that is said.
TEST(SubmissionPort, WrongWordsAreFoundByTheirElement) {
  DXGKIT_COVERS("PATCH-27", "FIELD-02");
  constexpr uint64_t kCpu = 0x8'0000'0000;
  struct Row {
    const char* what;
    uint32_t element, segment;
    uint64_t (*written)(uint64_t right, uint64_t from_base, uint64_t allocation_offset);
    const char* rule;  // null: nothing is wrong
  };
  const Row rows[] = {
      {"right", 3, 1, [](uint64_t right, uint64_t, uint64_t) { return right; }, nullptr},
      {"the CPU's, of the first element", 2, 1,
       [](uint64_t, uint64_t from_base, uint64_t) { return kCpu + from_base; }, "FIELD-02"},
      {"the CPU's, of the last element", 4, 1,
       [](uint64_t, uint64_t from_base, uint64_t) { return kCpu + from_base; }, "FIELD-02"},
      {"the CPU's without the offset in the allocation", 4, 1,
       [](uint64_t, uint64_t from_base, uint64_t offset) { return kCpu + from_base - offset; },
       "PATCH-27"},
      {"the CPU's of the segment", 3, 1, [](uint64_t, uint64_t, uint64_t) { return kCpu; },
       "PATCH-27"},
      {"an offset in the segment", 3, 1,
       [](uint64_t, uint64_t from_base, uint64_t) { return from_base; }, "PATCH-27"},
      {"without the offset in the allocation", 3, 1,
       [](uint64_t right, uint64_t, uint64_t offset) { return right - offset; }, "PATCH-27"},
      {"a segment that the CPU does not see", 3, 2,
       [](uint64_t, uint64_t from_base, uint64_t) { return from_base; }, "PATCH-27"},
      {"a segment that the CPU sees where the engine does", 3, 3,
       [](uint64_t right, uint64_t, uint64_t) { return right + 4096; }, "PATCH-27"},
      {"the CPU's, of another segment", 3, 4,
       [](uint64_t, uint64_t from_base, uint64_t) { return 3 * kCpu + from_base; }, "FIELD-02"},
      {"the CPU's of the first segment", 3, 4,
       [](uint64_t, uint64_t from_base, uint64_t) { return kCpu + from_base; }, "PATCH-27"},
      {"a segment that was not described", 3, 5,
       [](uint64_t, uint64_t from_base, uint64_t) { return kCpu + from_base; }, "PATCH-27"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    with_driver([&](SubmissionPort& submission, CoreWorld& world) {
      std::vector<SegmentInfo>& segments = world.core().segments;
      segments.resize(4);
      for (uint64_t i = 0; i < 4; ++i) {
        segments[i].base_address = (i + 1) << 36;
        segments[i].cpu_translated_address = i == 0   ? kCpu
                                             : i == 1 ? 0
                                             : i == 3 ? 3 * kCpu
                                                      : segments[i].base_address;
      }
      Part part;
      const uint64_t base = uint64_t{row.segment} << 36;
      for (uint32_t i = 0; i < 2; ++i)
        part.list[i].set(false, SegmentId{row.segment}, base + 0x5000 + 0x3000 * i);
      const uint64_t right = part.expected(row.element);
      const uint64_t written = row.written(right, right - base, 0x10 * row.element);
      g_driver = [&](const char*, const void*) {
        part.write();
        part.put(row.element, written);
        return NTSTATUS{0};
      };
      EXPECT_EQ(submission.patch(part.args), Status::kSuccess);
      EXPECT_EQ(world.rules(), row.rule == nullptr ? "" : std::string(row.rule) + " ");
      if (row.rule == nullptr) return;
      const verifier::Finding finding = world.findings.all()[0];
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_EQ(finding.actual.find("Patch element " + std::to_string(row.element)), 0U)
          << finding.actual;
      if (finding.rule == "FIELD-02") {
        const std::string place = std::to_string((256 + 64 * row.element) / 4);
        EXPECT_NE(finding.actual.find("at dword " + place + " of"), std::string::npos);
      }
      // Of several wrong words the first is told, once.
      g_driver = [&](const char*, const void*) {
        for (uint32_t i = 2; i < 5; ++i) part.put(i, written + 0x100'0000);
        return NTSTATUS{0};
      };
      EXPECT_EQ(submission.patch(part.args), Status::kSuccess);
      EXPECT_EQ(world.findings.total(), 2U) << world.rules();
    });
  }
}

// A driver that translates addresses itself writes words of its own, and is not judged by ours
// until one of its words was the engine's address.
TEST(SubmissionPort, WordsOfADriverWithPageTablesOfItsOwnAreLeftAlone) {
  DXGKIT_COVERS("PATCH-27");
  constexpr uint64_t kBase = uint64_t{1} << 36, kSize = 1 << 20, kCpu = 0x8'0000'0000;
  struct Row {
    const char* what;
    uint64_t word;
    bool is_wrong;
  };
  const Row rows[] = {{"a virtual address", 0x7F00'1234'0000, false},
                      {"the number of an object", 17, false},
                      {"the last byte before the segment", kBase - 1, false},
                      {"the first byte behind the segment", kBase + kSize, false},
                      {"nothing", 0, true},
                      {"the allocation without the offset", kBase + 0x8000, true},
                      {"the offset alone", 0x30, true},
                      {"an offset in the segment", 0x8030, true},
                      {"another place of the segment", kBase + kSize - 1, true},
                      {"another place that the CPU sees", kCpu + 0x40, true}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    with_driver([&](SubmissionPort& submission, CoreWorld& world) {
      SegmentInfo segment;
      segment.base_address = kBase;
      segment.size = kSize;
      segment.cpu_translated_address = kCpu;
      world.core().segments = {segment};
      Part part;
      for (uint32_t i = 0; i < 2; ++i)
        part.list[i].set(false, SegmentId{1}, kBase + 0x5000 + 0x3000 * i);
      part.args.patch_start = 3;
      part.args.patch_length = 1;
      const auto patch = [&](uint64_t word) {
        g_driver = [&, word](const char*, const void*) {
          part.put(3, word);
          return NTSTATUS{0};
        };
        EXPECT_EQ(submission.patch(part.args), Status::kSuccess);
      };
      for (int i = 0; i < 2; ++i) patch(row.word);
      ASSERT_EQ(world.rules(), "PATCH-27 ") << "once";
      EXPECT_EQ(world.findings.all()[0].actual.find("Patch element 3: "), 0U);
      EXPECT_EQ(world.findings.total(), row.is_wrong ? 2U : 1U);
      EXPECT_EQ(world.findings.all()[0].severity,
                row.is_wrong ? verifier::Severity::kViolation : verifier::Severity::kWarning);
      const uint64_t before = world.findings.total();
      patch(part.expected(3));
      EXPECT_EQ(world.findings.total(), before);
      patch(row.word);
      EXPECT_EQ(world.findings.total(), before + 1) << "it writes addresses";
      EXPECT_EQ(world.findings.all().back().severity, verifier::Severity::kViolation);
    });
  }
}

// A segment at address 0 has every small number in it, so only what the element itself names tells
// a wrong address from a word of the driver's own.
TEST(SubmissionPort, InASegmentAt0OnlyThePartsOfTheSumAreWrongAddresses) {
  DXGKIT_COVERS("PATCH-27");
  struct Row {
    const char* what;
    uint64_t word;
    bool is_wrong;
  };
  for (const Row& row :
       {Row{"nothing", 0, true}, Row{"the allocation without the offset", 0x8000, true},
        Row{"the offset alone", 0x30, true}, Row{"another place of the segment", 0x9000, false},
        Row{"the next allocation", 0x5000, false}}) {
    SCOPED_TRACE(row.what);
    with_driver([&](SubmissionPort& submission, CoreWorld& world) {
      SegmentInfo segment;
      segment.size = 1 << 20;
      world.core().segments = {segment};
      Part part;
      for (uint32_t i = 0; i < 2; ++i) part.list[i].set(false, SegmentId{1}, 0x5000 + 0x3000 * i);
      part.args.patch_start = 3;
      part.args.patch_length = 1;
      g_driver = [&](const char*, const void*) {
        part.put(3, row.word);
        return NTSTATUS{0};
      };
      EXPECT_EQ(submission.patch(part.args), Status::kSuccess);
      ASSERT_EQ(world.rules(), "PATCH-27 ");
      EXPECT_EQ(world.findings.all()[0].severity,
                row.is_wrong ? verifier::Severity::kViolation : verifier::Severity::kWarning);
    });
  }
}

// Elements that need no look are passed over on the way to a wrong one.
TEST(SubmissionPort, AnElementWithoutAPlaceIsNotTheWrongOne) {
  DXGKIT_COVERS("PATCH-27");
  with_driver([](SubmissionPort& submission, CoreWorld& world) {
    Part part;
    SegmentInfo segment;
    segment.base_address = uint64_t{1} << 36;
    segment.size = 1 << 20;
    world.core().segments = {segment};
    part.list[0] = {};  // unbinds
    part.list[1].set(false, SegmentId{1}, segment.base_address + 0x8000);
    const uint32_t first = part.args.patch_start;
    g_driver = [&](const char*, const void*) {
      part.write();
      for (uint32_t i = 0; i < part.args.patch_length; ++i) part.put(first + i, 0);
      return NTSTATUS{0};
    };
    EXPECT_EQ(submission.patch(part.args), Status::kSuccess);
    uint32_t wrong = first;
    while (part.patches[wrong].allocation_index == 0) ++wrong;
    ASSERT_EQ(world.rules(), "PATCH-27 ");
    EXPECT_EQ(world.findings.all()[0].actual.find("Patch element " + std::to_string(wrong)), 0U)
        << world.findings.all()[0].actual;
  });
}

// Bytes that change outside the part are found wherever they are, and told as before or behind it.
TEST(SubmissionPort, BytesOutsideThePartStay) {
  DXGKIT_COVERS("PATCH-13");
  struct Row {
    uint32_t start, end, at;
    const char* where;  // null: inside
  };
  const Row rows[] = {
      {256, 1024, 0, "before"},   {256, 1024, 255, "before"},  {256, 1024, 256, nullptr},
      {256, 1024, 1023, nullptr}, {256, 1024, 1024, "behind"}, {256, 1024, 2047, "behind"},
      {0, 1024, 1030, "behind"},  {0, 1024, 0, nullptr},       {256, 2048, 2047, nullptr},
      {256, 2048, 7, "before"},   {3, 1021, 2, "before"},      {3, 1021, 3, nullptr},
      {3, 1021, 1020, nullptr},   {3, 1021, 1021, "behind"},   {0, 2048, 100, nullptr},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.at);
    with_driver([&](SubmissionPort& submission, CoreWorld& world) {
      Part part;
      part.args.patch_length = 0;
      part.args.slice.start = row.start;
      part.args.slice.end = row.end;
      g_driver = [&](const char*, const void*) {
        part.args.buffer.cpu[row.at] ^= std::byte{0x80};
        return NTSTATUS{0};
      };
      EXPECT_EQ(submission.patch(part.args), Status::kSuccess);
      EXPECT_EQ(world.rules(), row.where == nullptr ? "" : "PATCH-13 ");
      if (row.where != nullptr) {
        EXPECT_NE(world.findings.all()[0].actual.find(row.where), std::string::npos);
      }
      world.core().reference_checks = false;
      EXPECT_EQ(submission.patch(part.args), Status::kSuccess);
      EXPECT_EQ(world.findings.total(), row.where == nullptr ? 0U : 1U) << "nobody looks";
    });
  }
}

// Also bytes that change places, which are the same bytes together.
TEST(SubmissionPort, BytesOutsideThePartStayWhereTheyAre) {
  DXGKIT_COVERS("PATCH-13");
  for (const uint32_t at : {0U, 8U, 63U, 64U, 250U, 1030U, 1990U, 2046U}) {
    SCOPED_TRACE(at);
    with_driver([&](SubmissionPort& submission, CoreWorld& world) {
      Part part;
      part.args.patch_length = 0;
      part.args.slice.start = 255;
      part.args.slice.end = 1021;
      std::byte* const bytes = part.args.buffer.cpu + at;
      bytes[0] = std::byte{1};
      bytes[1] = std::byte{2};
      g_driver = [&](const char*, const void*) {
        std::swap(bytes[0], bytes[1]);
        return NTSTATUS{0};
      };
      EXPECT_EQ(submission.patch(part.args), Status::kSuccess);
      EXPECT_EQ(world.rules(), "PATCH-13 ");
    });
  }
}

using Call = std::function<Status(SubmissionPort&, bool paging)>;

struct Entry {
  const char* name;
  const char* rule;  // for an answer that may not be
  uint32_t parameter;
  Call call;
};
const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {"patch", "PATCH-31", 3,
       [](SubmissionPort& port, bool paging) {
         PatchArgs args;
         args.flags.paging = paging;
         return port.patch(args);
       }},
      {"submit", "SUB-27", 2,
       [](SubmissionPort& port, bool paging) {
         SubmitArgs args;
         args.flags.paging = paging;
         return port.submit(args);
       }},
      {"virtual", "SUB-28", 2,
       [](SubmissionPort& port, bool paging) {
         SubmitVirtualArgs args;
         args.flags.paging = paging;
         return port.submit_virtual(args);
       }},
      {"preempt", "PREEMPT-11", 2,
       [](SubmissionPort& port, bool) {
         return port.preempt(NodeOrdinal{0}, SubmissionFenceId{1});
       }},
      {"cancel", "CANCEL-18", 9,
       [](SubmissionPort& port, bool) { return port.cancel(PatchArgs{}); }},
      {"cancel", "CANCEL-18", 9,
       [](SubmissionPort& port, bool) { return port.cancel(SubmitVirtualArgs{}); }},
  };
  return all;
}

// None of these calls has a way back. A failure is a bug check and the caller gets it; a success
// that is not STATUS_SUCCESS is no success for the caller. Only a virtual submission of a client
// may be called malformed.
TEST(SubmissionPort, EachAnswerOfTheDriver) {
  DXGKIT_COVERS("PATCH-31", "SUB-27", "SUB-28", "SUB-29", "PREEMPT-11", "CANCEL-18");
  for (const Entry& entry : entries()) {
    SCOPED_TRACE(entry.rule);
    for (const Status status : {Status::kSuccess, Status::kPending, Status::kInvalidParameter,
                                Status::kUnsuccessful, Status::kNoMemory}) {
      for (const bool paging : {false, true}) {
        with_driver([&](SubmissionPort& submission, CoreWorld& world) {
          g_driver = [&](const char*, const void*) { return to_ntstatus(status); };
          const bool is_virtual = entry.rule == std::string("SUB-28");
          const bool may = status == Status::kSuccess ||
                           (is_virtual && status == Status::kInvalidParameter && !paging);
          const Status wanted = may                          ? status
                                : is_virtual                 ? Status::kUnsuccessful
                                : status == Status::kPending ? Status::kUnsuccessful
                                                             : status;
          verifier::SituationLog log;
          world.core().situations = std::make_unique<Situations>(log);
          EXPECT_EQ(entry.call(submission, paging), wanted);
          const bool refused = is_virtual && status == Status::kInvalidParameter;
          EXPECT_EQ(log.count(verifier::Situation::kSubmitVirtualRefused), refused ? 1U : 0U);
          world.core().situations = nullptr;
          EXPECT_EQ(g_calls, std::vector<std::string>{entry.name});
          EXPECT_EQ(world.rules(), may ? "" : std::string(entry.rule) + " ");
          ASSERT_EQ(world.host.fatal.size(), may ? 0U : 1U);
          if (may) return;
          EXPECT_EQ(world.host.fatal[0].severity, verifier::Severity::kBugCheck);
          EXPECT_EQ(world.host.fatal[0].bugcheck_code, 0x119U);
          EXPECT_EQ(world.host.fatal[0].bugcheck_parameter, entry.parameter);
        });
      }
    }
  }
}

// A driver that stops the machine in a call gives no answer: nothing is said of one, and no entry
// is called again.
TEST(SubmissionPort, ADriverThatDoesNotComeBackHasNotAnswered) {
  DXGKIT_COVERS("LIFE-18");
  for (const Entry& entry : entries()) {
    SCOPED_TRACE(entry.rule);
    with_driver([&](SubmissionPort& submission, CoreWorld& world) {
      g_driver = [](const char*, const void*) -> NTSTATUS {
        reinterpret_cast<void(NTAPI*)(uint32_t)>(
            const_cast<void*>(nt::find_export("KeBugCheck")->address))(0x116);
        ADD_FAILURE() << "it came back";
        return 0;
      };
      EXPECT_EQ(entry.call(submission, false), Status::kDeviceRemoved);
      ASSERT_EQ(world.host.fatal.size(), 1U);
      EXPECT_EQ(world.host.fatal[0].bugcheck_code, 0x116U);
      EXPECT_EQ(world.findings.total(), 1U) << world.rules();
      g_calls.clear();
      for (const Entry& next : entries())
        EXPECT_EQ(next.call(submission, false), Status::kDeviceRemoved);
      EXPECT_EQ(submission.query_current_fence(NodeOrdinal{0}).error(), Status::kDeviceRemoved);
      EXPECT_TRUE(g_calls.empty());
      EXPECT_EQ(world.findings.total(), 1U) << world.rules();
    });
  }
}

// PREEMPT-07: a node without work answers before the call returns, with the id of this preemption
// and of this node. Of a busy one nothing is asked.
TEST(SubmissionPort, AnIdleNodeAnswersInsideTheCall) {
  DXGKIT_COVERS("PREEMPT-07");
  struct Row {
    const char* what;
    bool idle;
    uint32_t node, fence;  // of the report inside the call; fence 0: none
    bool found;
  };
  const Row rows[] = {
      {"answered", true, 3, 9, false},           {"not answered", true, 3, 0, true},
      {"of another node", true, 2, 9, true},     {"of another preemption", true, 3, 8, true},
      {"a busy node later", false, 3, 0, false}, {"a busy node", false, 3, 9, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    with_driver([&](SubmissionPort& submission, CoreWorld& world) {
      Interrupts& interrupts = world.core().interrupts;
      interrupts.connect();
      g_driver = [&](const char*, const void* arguments) -> NTSTATUS {
        const auto& args = *static_cast<const DXGKARG_PREEMPTCOMMAND*>(arguments);
        EXPECT_EQ(args.NodeOrdinal, 3U);
        EXPECT_EQ(args.PreemptionFenceId, 9U);
        if (row.fence == 0) return 0;
        interrupts.enter_lock();
        DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
        std::memset(&data, 0, sizeof(data));
        data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
        data.DmaPreempted.PreemptionFenceId = row.fence;
        data.DmaPreempted.NodeOrdinal = row.node;
        interrupts.notify_interrupt(data);
        interrupts.leave_lock();
        return 0;
      };
      EXPECT_EQ(submission.preempt(NodeOrdinal{3}, SubmissionFenceId{9}, row.idle),
                Status::kSuccess);
      EXPECT_EQ(world.findings.count("PREEMPT-07"), row.found ? 1U : 0U) << world.rules();
      interrupts.disconnect();
    });
  }
}

// What drivers of earlier versions have no members for is not written, and what they have no entry
// for is not called, whatever lies in the table there.
TEST(SubmissionPort, MembersAndEntriesAreThoseOfTheVersion) {
  DXGKIT_COVERS("SUB-21", "SUB-25");
  for (const uint32_t version : {kInterfaceWin7, kInterfaceWin8 - 1, kInterfaceWin8,
                                 kInterfaceWddm20 - 1, kInterfaceWddm20, kInterfaceWddm32}) {
    SCOPED_TRACE(version);
    with_driver(
        [&](SubmissionPort& submission, CoreWorld&) {
          DXGKARG_SUBMITCOMMAND told;
          g_driver = [&](const char* entry, const void* arguments) -> NTSTATUS {
            if (entry == std::string("submit")) std::memcpy(&told, arguments, sizeof(told));
            return 0;
          };
          SubmitArgs args;
          args.node = NodeOrdinal{5};
          args.flags.context_switch = args.flags.resubmission = true;
          EXPECT_EQ(submission.submit(args), Status::kSuccess);
          EXPECT_EQ(told.NodeOrdinal, version >= kInterfaceWin8 ? 5U : 0U);
          EXPECT_EQ(told.Flags.ContextSwitch, version >= kInterfaceWin8 ? 1U : 0U);
          EXPECT_EQ(told.Flags.Resubmission, version >= kInterfaceWddm20 ? 1U : 0U);
          g_calls.clear();
          const bool has = version >= kInterfaceWddm20;
          EXPECT_EQ(submission.submit_virtual({}), has ? Status::kSuccess : Status::kNotSupported);
          EXPECT_EQ(g_calls.size(), has ? 1U : 0U);
        },
        version);
  }
}

// The fence is the driver's, of the node that was asked; a failure is passed on.
TEST(SubmissionPort, TheCurrentFenceIsTheNodes) {
  DXGKIT_COVERS("INT-22");
  with_driver([](SubmissionPort& submission, CoreWorld& world) {
    NTSTATUS status = 0;
    g_driver = [&](const char*, const void* arguments) {
      auto& args = *static_cast<DXGKARG_QUERYCURRENTFENCE*>(const_cast<void*>(arguments));
      args.CurrentFence = 100 + args.NodeOrdinal;
      return status;
    };
    for (const uint32_t node : {0U, 1U, 6U}) {
      const Result<uint32_t> fence = submission.query_current_fence(NodeOrdinal{node});
      ASSERT_TRUE(fence.has_value());
      EXPECT_EQ(*fence, 100 + node);
    }
    status = to_ntstatus(Status::kInvalidParameter);
    EXPECT_EQ(submission.query_current_fence(NodeOrdinal{1}).error(), Status::kInvalidParameter);
    EXPECT_EQ(world.rules(), "");
  });
}

}  // namespace
}  // namespace dxgkit::port
