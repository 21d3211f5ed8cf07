// A server's view of its client's memory: ranges by descriptor and by message, and what is left of
// them afterwards.
#include "devices/vfiouser/client_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/sealed_memory.h"

namespace dxgkit::vfiouser {
namespace {

constexpr uint64_t kBase = 0x1'0000'0000, kPages = 0x4000;
constexpr uint32_t kBoth = DmaMap::kReadable | DmaMap::kWriteable;

/// Memory of the client, mapped on its own side.
struct Shared {
  Shared() : fd(create_sealed_memory("test", kPages)) {
    void* const mapped = mmap(nullptr, kPages, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    bytes = static_cast<std::byte*>(mapped);
  }
  ~Shared() {
    munmap(bytes, kPages);
    close(fd);
  }
  Descriptor descriptor() const { return Descriptor(dup(fd)); }
  int fd;
  std::byte* bytes;
};

/// Answers for one page that is shared by message only.
class Messages final : public DmaMessages {
 public:
  bool dma_read(uint64_t address, std::span<std::byte> out) override {
    last = address;
    std::ranges::fill(out, std::byte{0xAB});
    return works;
  }
  bool dma_write(uint64_t address, ByteView in) override {
    last = address;
    bytes.assign(in.begin(), in.end());
    return works;
  }
  bool works = true;
  uint64_t last = 0;
  Bytes bytes;
};

bus::PhysicalAddress at(uint64_t offset) { return bus::PhysicalAddress{kBase + offset}; }

TEST(ClientMemory, DescriptorsAreMapped) {
  const Shared shared;
  ClientMemory memory;
  ASSERT_EQ(memory.map({kBoth, 0x1000, kBase, 0x2000}, shared.descriptor()), 0);
  std::byte* const pointer = memory.pointer(at(0x10), 4);
  ASSERT_NE(pointer, nullptr);
  *pointer = std::byte{42};
  EXPECT_EQ(shared.bytes[0x1010], std::byte{42});
  EXPECT_EQ(memory.pointer(at(0x1FFF), 1), pointer + 0x1FEF);
  EXPECT_EQ(memory.pointer(at(0x1FFF), 2), nullptr);
  EXPECT_EQ(memory.pointer(at(0), UINT64_MAX), nullptr);
  EXPECT_EQ(memory.pointer(bus::PhysicalAddress{kBase - 1}, 1), nullptr);
  std::byte out{};
  EXPECT_TRUE(memory.read(at(0x10), {&out, 1}));
  EXPECT_EQ(out, std::byte{42});
  const Bytes in(2, std::byte{7});
  EXPECT_FALSE(memory.write(at(0x1FFF), in));
  EXPECT_EQ(shared.bytes[0x2FFF], std::byte{0}) << "nothing moves of an access that does not fit";
  EXPECT_FALSE(memory.write(bus::PhysicalAddress{UINT64_MAX}, in));
}

TEST(ClientMemory, AnAccessMayCrossRanges) {
  const Shared shared;
  ClientMemory memory;
  Messages messages;
  memory.set_messages(&messages);
  ASSERT_EQ(memory.map({kBoth, 0, kBase, 0x1000}, shared.descriptor()), 0);
  ASSERT_EQ(memory.map({kBoth, 0, kBase + 0x1000, 0x1000}, {}), 0);
  EXPECT_EQ(memory.pointer(at(0x1000), 1), nullptr) << "by message only";
  Bytes out(4);
  EXPECT_TRUE(memory.read(at(0xFFE), out));
  EXPECT_EQ(out[3], std::byte{0xAB});
  EXPECT_EQ(messages.last, kBase + 0x1000);
  EXPECT_TRUE(memory.write(at(0xFFE), Bytes(4, std::byte{9})));
  EXPECT_EQ(shared.bytes[0xFFF], std::byte{9});
  EXPECT_EQ(messages.bytes, Bytes(2, std::byte{9}));
  messages.works = false;
  EXPECT_FALSE(memory.read(at(0x1000), out));
  memory.set_messages(nullptr);
  EXPECT_FALSE(memory.read(at(0x1000), out));
}

TEST(ClientMemory, RefusesAndChangesNothing) {
  const Shared shared;
  ClientMemory memory;
  ASSERT_EQ(memory.map({kBoth, 0, kBase + 0x2000, 0x2000}, shared.descriptor()), 0);
  for (const uint64_t offset : {0x1000U, 0x2000U, 0x3000U})
    EXPECT_EQ(memory.map({kBoth, 0, kBase + offset, 0x2000}, shared.descriptor()), EEXIST);
  EXPECT_EQ(memory.map({kBoth, 0, kBase, 0x10000}, {}), EEXIST);
  EXPECT_EQ(memory.map({kBoth, 0, kBase, 0x1000}, {}), ENOTSUP) << "there is nobody to ask";
  EXPECT_EQ(memory.map({kBoth, 1, kBase, 0x1000}, shared.descriptor()), EINVAL);
  EXPECT_EQ(memory.map({kBoth, ~uint64_t{0xFFF}, kBase, 0x1000}, shared.descriptor()), EINVAL);
  EXPECT_EQ(memory.map({kBoth, 0x4000, kBase, 0x1000}, shared.descriptor()), ENOTSUP);
  Descriptor shrinks(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(shrinks.get(), 0x1000), 0);
  EXPECT_EQ(memory.map({kBoth, 0, kBase, 0x1000}, std::move(shrinks)), ENOTSUP);
  EXPECT_EQ(memory.pointer(at(0), 1), nullptr);
  EXPECT_EQ(memory.unmap(kBase + 0x2000, 0x1000), ENOENT);
  EXPECT_EQ(memory.unmap(kBase + 0x3000, 0x1000), ENOENT);
  EXPECT_NE(memory.pointer(at(0x2000), 0x2000), nullptr);
}

TEST(ClientMemory, HasRoomForSoManyRanges) {
  ClientMemory memory;
  Messages messages;
  memory.set_messages(&messages);
  for (uint64_t i = 0; i < ClientMemory::kRangesMost; ++i)
    ASSERT_EQ(memory.map({kBoth, 0, kBase + i * 0x1000, 0x1000}, {}), 0);
  EXPECT_EQ(memory.map({kBoth, 0, 0x1000, 0x1000}, {}), ENOSPC);
  EXPECT_EQ(memory.unmap(kBase, 0x1000), 0);
  EXPECT_EQ(memory.map({kBoth, 0, 0x1000, 0x1000}, {}), 0);
}

/// A device may hold a pointer for longer than the client wants.
TEST(ClientMemory, APointerOutlivesItsRange) {
  const Shared shared;
  ClientMemory memory;
  ASSERT_EQ(memory.map({kBoth, 0, kBase, kPages}, shared.descriptor()), 0);
  std::byte* const pointer = memory.pointer(at(0), 1);
  *pointer = std::byte{1};
  ASSERT_EQ(memory.unmap(kBase, kPages), 0);
  EXPECT_EQ(memory.pointer(at(0), 1), nullptr);
  *pointer = std::byte{2};
  EXPECT_EQ(shared.bytes[0], std::byte{1}) << "the client's memory is out of reach";
  ASSERT_EQ(memory.map({kBoth, 0, kBase, kPages}, shared.descriptor()), 0);
  EXPECT_EQ(*memory.pointer(at(0), 1), std::byte{1});
  memory.unmap_all();
  EXPECT_EQ(memory.pointer(at(0), 1), nullptr);
}

TEST(ClientMemory, RightsHold) {
  const Shared shared;
  ClientMemory memory;
  shared.bytes[0] = std::byte{5};
  ASSERT_EQ(memory.map({DmaMap::kReadable, 0, kBase, 0x1000}, shared.descriptor()), 0);
  ASSERT_EQ(memory.map({DmaMap::kWriteable, 0x1000, kBase + 0x1000, 0x1000}, shared.descriptor()),
            0);
  std::byte byte{6};
  EXPECT_FALSE(memory.write(at(0), {&byte, 1}));
  // Through a pointer the write has no effect outside.
  std::byte* const pointer = memory.pointer(at(0), 1);
  ASSERT_NE(pointer, nullptr);
  *pointer = byte;
  EXPECT_EQ(shared.bytes[0], std::byte{5});
  EXPECT_FALSE(memory.read(at(0x1000), {&byte, 1}));
  EXPECT_EQ(memory.pointer(at(0x1000), 1), nullptr);
  EXPECT_TRUE(memory.write(at(0x1000), {&byte, 1}));
  EXPECT_EQ(shared.bytes[0x1000], byte);
}

}  // namespace
}  // namespace dxgkit::vfiouser
