#include "bus/memory_object.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "base/arithmetic.h"
#include "bus/machine.h"
#include "runtime/runtime.h"

namespace dxgkit::bus {
namespace {

constexpr uint64_t kBytes = 8 * kPageBytes, kTailBytes = 2 * kPageBytes;

bool is_zero(const std::byte* memory, uint64_t bytes) {
  return std::all_of(memory, memory + bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

/// The file behind an open descriptor. Addresses and descriptors are no names of an object here:
/// the C library opens files and maps memory in other threads meanwhile.
ino_t file_of(int fd) {
  struct stat stat {};
  return fstat(fd, &stat) == 0 ? stat.st_ino : 0;
}

bool is_mapped(ino_t file) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, access, offset, device;
    ino_t inode = 0;
    words >> range >> access >> offset >> device >> inode;
    if (inode == file) return true;
  }
  return false;
}

/// The lowest descriptor of the file; -1: none is open.
int descriptor_of(ino_t file) {
  for (int fd = 0; fd < 1024; ++fd) {
    if (file_of(fd) == file) return fd;
  }
  return -1;
}

TEST(MemoryObject, HasATailThatIsMappedElsewhere) {
  const MemoryObject object = make_memory_object("test", kBytes, kTailBytes, MappedAt::kAnyAddress);
  EXPECT_TRUE(is_zero(object.memory, kBytes));
  EXPECT_TRUE(is_zero(object.tail, kTailBytes));
  object.tail[0] = std::byte{7};
  char seen = 0;
  ASSERT_EQ(pread(object.fd, &seen, 1, kBytes), 1);
  EXPECT_EQ(seen, 7);
  const ino_t file = file_of(object.fd);
  ASSERT_EQ(descriptor_of(file), object.fd);
  end_memory_object(object, MappedAt::kAnyAddress);
  EXPECT_EQ(descriptor_of(file), -1);
  EXPECT_FALSE(is_mapped(file));
}

TEST(MemoryObject, EndsIfTheThreadKeepsNone) {
  ASSERT_FALSE(keeps_memory_objects());
  const MemoryObject object = make_memory_object("test", kBytes, 0, MappedAt::kAnyAddress);
  const ino_t file = file_of(object.fd);
  give_back(object, MappedAt::kAnyAddress, {});
  EXPECT_EQ(descriptor_of(file), -1);
}

/// The calls of a thread that keeps objects, which end with it.
template <typename Body>
void on_keeping_thread(const Body& body) {
  const std::unique_ptr<runtime::Runtime> runtime = runtime::make_os_runtime();
  runtime->run_main([&] {
    runtime
        ->spawn("keeps objects",
                [&] {
                  keep_memory_objects();
                  body();
                })
        ->join();
  });
}

// The next object of the same size and place is the one that was given back, full of zeros. While
// it is idle, its descriptor leaves the low numbers to others.
TEST(MemoryObject, IsKeptFullOfZeros) {
  constexpr int kIdleDescriptors = 512;
  ino_t kept = 0;
  on_keeping_thread([&] {
    const MemoryObject first = make_memory_object("a", kBytes, kTailBytes, MappedAt::kAnyAddress);
    kept = file_of(first.fd);
    EXPECT_LT(descriptor_of(kept), kIdleDescriptors);
    first.memory[kPageBytes] = first.tail[kPageBytes] = std::byte{9};
    const std::pair<uint64_t, uint64_t> touched[] = {{kPageBytes, kPageBytes},
                                                     {kBytes + kPageBytes, kPageBytes}};
    give_back(first, MappedAt::kAnyAddress, touched);
    EXPECT_GE(descriptor_of(kept), kIdleDescriptors);
    const MemoryObject other = make_memory_object("b", kBytes, 0, MappedAt::kAnyAddress);
    EXPECT_NE(file_of(other.fd), kept);
    EXPECT_LT(other.fd, kIdleDescriptors);
    end_memory_object(other, MappedAt::kAnyAddress);
    const MemoryObject fixed = make_memory_object("c", kBytes, kTailBytes, MappedAt::kFixedRange);
    EXPECT_NE(file_of(fixed.fd), kept);
    end_memory_object(fixed, MappedAt::kFixedRange);
    const MemoryObject again = make_memory_object("d", kBytes, kTailBytes, MappedAt::kAnyAddress);
    EXPECT_EQ(file_of(again.fd), kept);
    EXPECT_EQ(descriptor_of(kept), again.fd);
    EXPECT_LT(again.fd, kIdleDescriptors);
    EXPECT_EQ(again.memory, first.memory);
    EXPECT_TRUE(is_zero(again.memory, kBytes));
    EXPECT_TRUE(is_zero(again.tail, kTailBytes));
    give_back(again, MappedAt::kAnyAddress, {});
    EXPECT_TRUE(is_mapped(kept));
  });
  EXPECT_FALSE(is_mapped(kept));
  EXPECT_EQ(descriptor_of(kept), -1);
}

// Whatever a machine before wrote, by a page, by the pool or by a device's wild address, the next
// one finds zeros, at the same addresses.
TEST(MemoryObject, OfAMachineIsZeroForTheNextMachine) {
  on_keeping_thread([] {
    const std::byte* before = nullptr;
    constexpr uint64_t kSize = 1 << 20;
    const PhysicalAddress wild{Machine::kSystemMemoryBase + 77 * kPageBytes};
    for (int round = 0; round < 3; ++round) {
      Machine machine(kSize);
      std::byte* const all =
          machine.system_pointer(PhysicalAddress{Machine::kSystemMemoryBase}, kPageBytes);
      if (before != nullptr) {
        EXPECT_EQ(all, before);
      }
      before = all;
      EXPECT_TRUE(is_zero(all, kSize));
      const auto pages = machine.allocate_pages(5).value();
      for (const PageFrame page : pages)
        all[page.value * kPageBytes - Machine::kSystemMemoryBase] = std::byte{1};
      const PageFrame pool = machine.allocate_pool_pages(3).value();
      std::byte* const in_pool =
          machine.system_pointer(PhysicalAddress{pool.value * kPageBytes}, 3 * kPageBytes);
      EXPECT_TRUE(is_zero(in_pool, 3 * kPageBytes));
      std::memset(in_pool, 2, 3 * kPageBytes);
      const std::byte value{3};
      ASSERT_TRUE(machine.dma_write(wild, std::span(&value, 1)));
    }
  });
}

// Memory that another process or hardware may have mapped is not used again.
TEST(MemoryObject, OfAMachineThatOthersHaveMappedEnds) {
  on_keeping_thread([] {
    ino_t file = 0;
    for (const bool is_fixed : {false, true}) {
      {
        Machine machine(1 << 20);
        file = file_of(machine.window_of(PhysicalAddress{Machine::kSystemMemoryBase}, 8).fd);
        ASSERT_TRUE(is_mapped(file));
        if (is_fixed) machine.fix_system_memory();
      }
      EXPECT_NE(is_mapped(file), is_fixed);
    }
  });
}

}  // namespace
}  // namespace dxgkit::bus
