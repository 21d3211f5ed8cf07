// The unwinder on images written byte by byte: codes that compilers rarely emit, and codes that are
// illegal.
#include "nt/unwind.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/covers.h"

namespace dxgkit::nt {
namespace {

constexpr uint32_t kInfo = 0x800, kTable = 0xF00;

/// An image of one page with one function at [0x100, 0x140), and a stack below a known top.
struct Bench {
  Bench() : bytes(4096), stack(64) {
    put(kTable, FunctionEntry{0x100, 0x140, kInfo});
    refresh(1);
    for (size_t i = 0; i < stack.size(); ++i) stack[i] = 0x1000 + i;
    context.rip = base() + 0x120;
    context.rsp = at(0);
    // Nops: no epilog anywhere, unless a test writes one.
    std::memset(bytes.data() + 0x100, 0x90, 0x40);
  }
  template <typename T>
  void put(size_t offset, const T& value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
  }
  void codes(std::vector<uint8_t> info) {
    std::memcpy(bytes.data() + kInfo, info.data(), info.size());
  }
  void refresh(size_t entries) {
    image = {.name = "made.sys",
             .base = bytes.data(),
             .size = bytes.size(),
             .functions = std::span(bytes).subspan(kTable, entries * sizeof(FunctionEntry)),
             .symbol = {}};
  }
  uint64_t base() const { return reinterpret_cast<uint64_t>(bytes.data()); }
  uint64_t at(size_t slot) const { return reinterpret_cast<uint64_t>(&stack[slot]); }
  bool unwind(uint8_t kind = kExceptionHandler) {
    return virtual_unwind(image, find_function(image, context.rip), kind, context, &frame, &places);
  }
  std::vector<std::byte> bytes;
  std::vector<uint64_t> stack;
  DriverImage image;
  Context context;
  UnwoundFrame frame;
  SavedPlaces places;
};

TEST(Unwind, FindsFunctions) {
  Bench bench;
  bench.put(kTable + 12, FunctionEntry{0x200, 0x210, kInfo});
  bench.refresh(2);
  const auto* const table = reinterpret_cast<const FunctionEntry*>(bench.bytes.data() + kTable);
  EXPECT_EQ(find_function(bench.image, bench.base() + 0xFF), nullptr);
  EXPECT_EQ(find_function(bench.image, bench.base() + 0x100), table);
  EXPECT_EQ(find_function(bench.image, bench.base() + 0x13F), table);
  EXPECT_EQ(find_function(bench.image, bench.base() + 0x140), nullptr);
  EXPECT_EQ(find_function(bench.image, bench.base() + 0x200), table + 1);
  EXPECT_EQ(find_function(bench.image, bench.base() + 4096), nullptr);
}

/// push rbx (ends at 2), sub rsp, 0x28 (ends at 6): each prolog position undoes what it did.
TEST(Unwind, UndoesAPrologStepByStep) {
  DXGKIT_COVERS("NT-25");
  for (const auto& [offset, slot, restores] :
       {std::tuple{0u, 0u, false}, {2u, 1u, true}, {6u, 6u, true}, {0x20u, 6u, true}}) {
    Bench bench;
    bench.codes({1, 6, 2, 0, 6, 0x42, 2, 0x30});
    bench.context.rip = bench.base() + 0x100 + offset;
    bench.context.rbx = 7;
    ASSERT_TRUE(bench.unwind());
    EXPECT_EQ(bench.context.rip, bench.stack[slot]) << offset;
    EXPECT_EQ(bench.context.rsp, bench.at(slot + 1)) << offset;
    EXPECT_EQ(bench.context.rbx, restores ? bench.stack[slot - 1] : 7U) << offset;
  }
}

/// lea rbp, [rsp+0x20] as frame register; the stack pointer moved since.
TEST(Unwind, FollowsTheFrameRegister) {
  Bench bench;
  bench.codes({1 | 1 << 3, 10, 3, 5 | 2 << 4, 10, 0x03, 5, 0x32, 1, 0x50, 0, 0,  // codes
               0x34, 0x02, 0, 0});                                               // handler
  bench.context.rbp = bench.at(4 + 4);  // 0x20 above the bottom of the frame
  bench.context.rsp = bench.at(0);      // alloca
  ASSERT_TRUE(bench.unwind());
  EXPECT_EQ(bench.frame.establisher, bench.at(4));
  EXPECT_EQ(bench.context.rbp, bench.stack[8]);
  EXPECT_EQ(bench.context.rip, bench.stack[9]);
  EXPECT_EQ(reinterpret_cast<uint64_t>(bench.frame.handler), bench.base() + 0x234);
  EXPECT_EQ(bench.frame.handler_data, bench.bytes.data() + kInfo + 16);
  EXPECT_EQ(bench.places.general[5], reinterpret_cast<uint64_t*>(bench.at(8)));
}

TEST(Unwind, ReadsSavedRegisters) {
  Bench bench;
  // xmm6 at 0x10 (near), xmm7 at 0x20 (far), rsi at 0x30, r12 at 0x38 (far), alloc 0x48
  bench.codes({1, 20, 11,   0, 20, 0x68, 1,    0,    18, 0x79, 0x20, 0, 0,
               0, 16, 0x64, 6, 0,  14,   0xC5, 0x38, 0,  0,    0,    8, 0x82});
  ASSERT_TRUE(bench.unwind());
  EXPECT_EQ(bench.context.floats.xmm[6].low, bench.stack[2]);
  EXPECT_EQ(bench.context.floats.xmm[7].high, bench.stack[5]);
  EXPECT_EQ(bench.context.rsi, bench.stack[6]);
  EXPECT_EQ(bench.context.r12, bench.stack[7]);
  EXPECT_EQ(bench.context.rip, bench.stack[9]);
}

/// Chained: the part of a function that was moved away undoes its own saves, then all of the
/// other's.
TEST(Unwind, FollowsChains) {
  Bench bench;
  bench.codes({1 | 4 << 3, 4, 2, 0, 4,    0x74, 1, 0,  // rdi at 8
               0,          1, 0, 0, 0x40, 1,    0, 0,
               0,          9, 0, 0});  // RUNTIME_FUNCTION: info at 0x900
  const uint8_t primary[] = {1 | 1 << 3, 6, 2, 0, 6, 0x22, 2, 0x30, 0x44, 3, 0, 0};
  std::memcpy(bench.bytes.data() + 0x900, primary, sizeof(primary));
  bench.context.rip = bench.base() + 0x101;  // inside what would be the prolog
  ASSERT_TRUE(bench.unwind());
  EXPECT_EQ(bench.context.rdi, bench.stack[1]);
  EXPECT_EQ(bench.context.rbx, bench.stack[3]);
  EXPECT_EQ(bench.context.rip, bench.stack[4]);
  EXPECT_EQ(reinterpret_cast<uint64_t>(bench.frame.handler), bench.base() + 0x344);
}

/// A chain that leads to itself ends.
TEST(Unwind, RefusesEndlessChains) {
  Bench bench;
  bench.codes({1 | 4 << 3, 0, 0, 0, 0, 1, 0, 0, 0x40, 1, 0, 0, 0, 8, 0, 0});
  EXPECT_FALSE(bench.unwind());
}

TEST(Unwind, LeavesMachineFrames) {
  Bench bench;
  bench.codes({1, 0, 1, 0, 0, 0x1A});  // with an error code
  bench.stack[1] = 0xAAAA;             // rip
  bench.stack[4] = 0xBBBB;             // rsp
  ASSERT_TRUE(bench.unwind());
  EXPECT_EQ(bench.context.rip, 0xAAAAU);
  EXPECT_EQ(bench.context.rsp, 0xBBBBU);
}

/// Version 2 puts epilog codes in front, padded to an even number.
TEST(Unwind, SkipsEpilogCodesOfVersion2) {
  Bench bench;
  bench.codes({2, 6, 4, 0, 2, 0x16, 0, 0, 6, 0x42, 2, 0x30});
  ASSERT_TRUE(bench.unwind());
  EXPECT_EQ(bench.context.rbx, bench.stack[5]);
  EXPECT_EQ(bench.context.rip, bench.stack[6]);
}

/// In an epilog the stack is half undone already; handlers do not apply.
TEST(Unwind, FinishesEpilogs) {
  DXGKIT_COVERS("NT-25");
  struct Case {
    std::vector<uint8_t> code;
    size_t return_slot;
    bool is_epilog;
  };
  for (const Case& each : {
           Case{{0x48, 0x83, 0xC4, 0x28, 0x5B, 0xC3}, 6, true},  // add; pop rbx; ret
           Case{{0x5B, 0xC3}, 1, true},                          // pop rbx; ret
           Case{{0x41, 0x5C, 0x5B, 0xC3}, 2, true},              // pop r12; pop rbx; ret
           Case{{0xC3}, 0, true},                                // ret
           Case{{0xC2, 0x08, 0x00}, 0, true},                    // ret 8
           Case{{0xF3, 0xC3}, 0, true},                          // rep ret
           Case{{0xFF, 0x25, 0, 0, 0, 0}, 0, true},              // jmp [import]: a tail call
           Case{{0xE9, 0x00, 0x02, 0x00, 0x00}, 0, true},        // jmp out of the function
           Case{{0xEB, 0x04}, 6, false},                         // jmp inside it
           Case{{0x5B, 0x90, 0xC3}, 6, false},                   // something in between
       }) {
    Bench bench;
    bench.codes({1 | 1 << 3, 6, 2, 0, 6, 0x42, 2, 0x30, 0x34, 2, 0, 0});
    std::memcpy(bench.bytes.data() + 0x120, each.code.data(), each.code.size());
    ASSERT_TRUE(bench.unwind());
    EXPECT_EQ(bench.context.rip, bench.stack[each.return_slot]) << each.code[0];
    EXPECT_EQ(bench.context.rsp, bench.at(each.return_slot + 1)) << each.code[0];
    EXPECT_EQ(bench.frame.handler == nullptr, each.is_epilog) << each.code[0];
  }
}

TEST(Unwind, LeavesLeafFunctions) {
  Bench bench;
  bench.context.rip = bench.base() + 0x50;
  ASSERT_TRUE(bench.unwind());
  EXPECT_EQ(bench.context.rip, bench.stack[0]);
  EXPECT_EQ(bench.context.rsp, bench.at(1));
}

TEST(Unwind, RefusesNonsense) {
  const auto fails = [](std::vector<uint8_t> info) {
    Bench bench;
    bench.codes(std::move(info));
    return !bench.unwind();
  };
  EXPECT_TRUE(fails({3, 0, 0, 0}));                       // version
  EXPECT_TRUE(fails({1, 0, 1, 0, 0, 0x0B}));              // operation
  EXPECT_TRUE(fails({1, 0, 2, 0, 0, 0x21, 0, 0}));        // large allocation of a third kind
  EXPECT_TRUE(fails({1, 0, 1, 0, 0, 0x01}));              // its operand lies beyond the codes
  EXPECT_TRUE(fails({1 | 1 << 3, 0, 0, 0, 0, 0, 1, 0}));  // handler outside the image
  Bench bench;
  bench.put(kTable, FunctionEntry{0x100, 0x140, 4094});  // information across the end
  EXPECT_FALSE(bench.unwind());
  bench.put(kTable, FunctionEntry{0x100, 0x140, 0xFFFFFFF0});
  EXPECT_FALSE(bench.unwind());
  bench.put(kTable, FunctionEntry{0x100, 0x140, kTable | 1});  // an entry that names itself
  EXPECT_FALSE(bench.unwind());
  bench.codes({1, 0, 0, 0});
  bench.put(kTable, FunctionEntry{0x100, 0x140, kInfo});
  bench.context.rsp = 0x10;
  EXPECT_FALSE(bench.unwind());
}

/// Whatever the bytes say, nothing outside image and stack is touched and every walk ends.
TEST(Unwind, SurvivesAnyData) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    Bench bench;
    for (size_t i = 0; i < 256; ++i) bench.bytes[kInfo + i] = std::byte(random() & 0xFF);
    bench.bytes[kInfo] = std::byte((random() & 0xF8) | 1 | (random() & 2));
    for (size_t i = 0; i < 0x40; ++i) bench.bytes[0x100 + i] = std::byte(random() & 0xFF);
    bench.context.rip = bench.base() + 0x100 + random() % 0x40;
    for (size_t i = 0; i < 16; ++i) {
      if (i != 4 && random() % 2 == 0) bench.context.general(i) = bench.at(random() % 64);
    }
    for (int step = 0; step < 16; ++step) {
      if (!bench.unwind()) break;
    }
  }
}

}  // namespace
}  // namespace dxgkit::nt
