// Locked memory of clients in other processes: what a descriptor shows, and what a hostile client
// can do with it. Client and kernel are one process here; the client looks through descriptors
// alone.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/host_thread.h"
#include "tests/contract/elsewhere.h"
#include "wire/channel.h"
#include "wire/client_connection.h"
#include "wire/hello.h"
#include "wire/server_session.h"

namespace dxgkit::contract {
namespace {

/// All of a memory object.
class Whole {
 public:
  explicit Whole(int fd) {
    EXPECT_EQ(fstat(fd, &facts), 0);
    memory_ = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~Whole() { munmap(memory_, size()); }
  std::string_view text() const { return {static_cast<char*>(memory_), size()}; }
  void fill(int value) { std::memset(memory_, value, size()); }
  size_t size() const { return static_cast<size_t>(facts.st_size); }
  struct stat facts {};

 private:
  void* memory_;
};

bool is_mapped(void* address) {
  return msync(address, kPageBytes, MS_ASYNC) == 0 || errno != ENOMEM;
}
bool is_zero(const void* at, size_t bytes) {
  const auto* const from = static_cast<const char*>(at);
  return std::all_of(from, from + bytes, [](char one) { return one == 0; });
}
size_t open_descriptors() {
  size_t count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

/// Memory of the client.
class OwnPages {
 public:
  explicit OwnPages(int sharing = MAP_PRIVATE, int protection = PROT_READ | PROT_WRITE)
      : data(
            static_cast<char*>(mmap(nullptr, kBytes, protection, sharing | MAP_ANONYMOUS, -1, 0))) {
  }
  ~OwnPages() { munmap(data, kBytes); }
  /// Whether other processes can have them.
  bool is_shared() const {
    return mremap(data, 0, kPageBytes, MREMAP_MAYMOVE) != MAP_FAILED;  // of shared memory only
  }
  char* const data;
};

/// An allocation of the client's own memory.
struct Heap {
  Heap(Client& client, void* memory) {
    description.size = kBytes;
    description.supported_read = description.supported_write = kAperture;
    description.flags = 1 | 16;  // CpuVisible, ExistingSysMem
    info.pSystemMem = memory;
    info.pPrivateDriverData = &description;
    info.PrivateDriverDataSize = sizeof description;
    standard.Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
    standard.ExistingHeapData.Size = kBytes;
    args.hDevice = client.device;
    args.pStandardAllocation = &standard;
    args.NumAllocations = 1;
    args.pAllocationInfo2 = &info;
    args.Flags.CreateResource = 1;
    args.Flags.ExistingSysMem = 1;
    args.Flags.StandardAllocation = 1;
  }
  ScriptedAllocation description;
  D3DDDI_ALLOCATIONINFO2 info{};
  D3DKMT_CREATESTANDARDALLOCATION standard{};
  D3DKMT_CREATEALLOCATION args{};
};

struct WireMemoryTest : ContractTest {};

/// What the GPU or another holder writes is there without any call, in both directions.
TEST_F(WireMemoryTest, IsSharedRatherThanCopied) {
  with_client([](Stack&, Client& client) {
    Elsewhere far(client);
    const D3DKMT_HANDLE allocation = far.make_allocation(kAperture);
    char* const seen = far.lock(allocation);
    EXPECT_TRUE(is_zero(seen, kBytes));
    EXPECT_EQ(far.windows->count(), 0U) << "there is no copy";
    void* address = nullptr;
    ASSERT_EQ(client.lock(allocation, &address), 0);
    auto* const kernels = static_cast<char*>(address);
    std::strcpy(seen + kBytes - 8, "afar");
    EXPECT_STREQ(kernels + kBytes - 8, "afar");
    std::strcpy(kernels, "near");
    EXPECT_STREQ(seen, "near");
    EXPECT_EQ(client.unlock(allocation), 0);
    far.unlock(allocation);
    // The address stays, and so does the mapping.
    EXPECT_EQ(far.lock(allocation), seen);
    far.unlock(allocation);
    EXPECT_TRUE(is_mapped(seen));
    EXPECT_EQ(far.destroy(allocation), 0);
    EXPECT_FALSE(is_mapped(seen));
    EXPECT_EQ(far.windows->given().count(), 0U);
  });
}

TEST_F(WireMemoryTest, EndsWithTheResourceAndWithTheDevice) {
  with_client([](Stack&, Client& client) {
    Elsewhere far(client);
    D3DKMT_HANDLE resource = 0;
    const D3DKMT_HANDLE member = far.make_allocation(kAperture, kCreateResource, &resource);
    const D3DKMT_HANDLE alone = far.make_allocation(kAperture);
    char* const first = far.lock(member);
    char* const second = far.lock(alone);
    EXPECT_EQ(far.destroy(0, resource), 0);
    EXPECT_FALSE(is_mapped(first));
    EXPECT_TRUE(is_mapped(second));
    // A call that fails ends nothing.
    EXPECT_EQ(far.destroy(member), nt_status(Status::kInvalidParameter));
    EXPECT_TRUE(is_mapped(second));
    D3DKMT_DESTROYDEVICE args{.hDevice = client.device};
    EXPECT_EQ(far.call("D3DKMTDestroyDevice", args), 0);
    EXPECT_FALSE(is_mapped(second));
    client.device = 0;
  });
}

/// A descriptor shows its client's content and nothing of others, before and after.
TEST_F(WireMemoryTest, ShowsNothingOfOthers) {
  running([](Stack& stack) {
    Client here(stack), first_client(stack), second_client(stack);
    Elsewhere first(first_client), second(second_client);
    const D3DKMT_HANDLE common = here.make_allocation(kBytes, kAperture);
    void* address = nullptr;
    ASSERT_EQ(here.lock(common, &address), 0);
    std::memset(address, 'h', kBytes);
    const D3DKMT_HANDLE ones = first.make_allocation(kAperture);
    const D3DKMT_HANDLE twos = second.make_allocation(kAperture);
    std::memset(first.lock(ones), 'f', kBytes);
    std::memset(second.lock(twos), 's', kBytes);
    const Whole object(first.objects.at(0)), other(second.objects.at(0));
    EXPECT_NE(object.facts.st_ino, other.facts.st_ino);
    EXPECT_EQ(std::ranges::count(object.text(), 'f'), static_cast<ptrdiff_t>(kBytes));
    EXPECT_EQ(std::ranges::count(object.text(), '\0'),
              static_cast<ptrdiff_t>(object.size() - kBytes));
    // What others leave behind goes to nobody.
    first.unlock(ones);
    EXPECT_EQ(first.destroy(ones), 0);
    EXPECT_EQ(here.unlock(common), 0);
    EXPECT_EQ(here.destroy_allocation(common), 0);
    stack.drive();
    const D3DKMT_HANDLE again = second.make_allocation(kAperture);
    EXPECT_TRUE(is_zero(second.lock(again), kBytes));
    const D3DKMT_HANDLE near = here.make_allocation(kBytes, kAperture);
    ASSERT_EQ(here.lock(near, &address), 0);
    EXPECT_TRUE(is_zero(address, kBytes));
    EXPECT_EQ(std::ranges::count(other.text(), 's'), static_cast<ptrdiff_t>(kBytes));
  });
}

/// Truncation, seals, holes, mappings that are kept: the kernel goes on, others see nothing of it,
/// and pages and descriptors come back.
TEST_F(WireMemoryTest, AHostileClientHurtsOnlyItself) {
  running([](Stack& stack) {
    Client victim_client(stack);
    Elsewhere victim(victim_client);
    const D3DKMT_HANDLE kept = victim.make_allocation(kAperture);
    std::memset(victim.lock(kept), 'v', kBytes);
    const uint64_t free_before = stack.machine.free_page_count();
    const size_t descriptors_before = open_descriptors();
    {
      Client hostile_client(stack);
      Elsewhere hostile(hostile_client);
      const D3DKMT_HANDLE allocation = hostile.make_allocation(kAperture);
      std::memset(hostile.lock(allocation), 'x', kBytes);
      const int fd = hostile.objects.at(0);
      EXPECT_EQ(ftruncate(fd, 0), -1);
      EXPECT_EQ(ftruncate(fd, 1 << 30), -1);
      EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
      Whole all(fd);
      // A hole reads as zeros. The kernel touches it and does not mind.
      ASSERT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                          static_cast<off_t>(all.size())),
                0);
      void* address = nullptr;
      ASSERT_EQ(hostile_client.lock(allocation, &address), 0);
      EXPECT_TRUE(is_zero(address, kBytes));
      std::memset(address, 'k', kBytes);
      EXPECT_EQ(hostile_client.unlock(allocation), 0);
      hostile.unlock(allocation);
      all.fill('w');  // after the unlock
      EXPECT_EQ(hostile.destroy(allocation), 0);
      stack.drive();
      all.fill('d');  // after the end
      // Its next allocation lies there, and begins with zeros as far as it does not write itself.
      const D3DKMT_HANDLE next = hostile.make_allocation(kAperture);
      EXPECT_TRUE(is_zero(hostile.lock(next), kBytes));
      hostile_client.end();
      all.fill('e');  // after its process
      EXPECT_EQ(stack.machine.free_page_count(), free_before);
      // Whatever the machine gives out now has nothing of that.
      const D3DKMT_HANDLE other = victim.make_allocation(kAperture);
      EXPECT_TRUE(is_zero(victim.lock(other), kBytes));
      const auto rest = stack.machine.allocate_pages(stack.machine.free_page_count());
      ASSERT_TRUE(rest.has_value());
      all.fill('f');
      for (const bus::PageFrame page : *rest) {
        EXPECT_TRUE(is_zero(
            stack.machine.system_pointer(bus::PhysicalAddress{page.value * kPageBytes}, kPageBytes),
            kPageBytes));
      }
      stack.machine.free_pages(*rest);
      victim.unlock(other);
      EXPECT_EQ(victim.destroy(other), 0);
      stack.drive();
    }
    EXPECT_EQ(open_descriptors() - victim.objects.size(), descriptors_before - 1);
    const char* const content = victim.lock(kept);
    EXPECT_TRUE(std::all_of(content, content + kBytes, [](char one) { return one == 'v'; }));
  });
}

/// What the allocation holds, as its own process sees it in the kernel's process.
void expect_text(Client& client, D3DKMT_HANDLE allocation, const char* text) {
  void* address = nullptr;
  ASSERT_EQ(client.lock(allocation, &address), 0);
  EXPECT_STREQ(static_cast<char*>(address), text);
  EXPECT_EQ(client.unlock(allocation), 0);
}

/// Content in video memory is copied: its memory object is the device's.
TEST_F(WireMemoryTest, VideoMemoryIsCopied) {
  with_client([](Stack& stack, Client& client) {
    Elsewhere far(client);
    const D3DKMT_HANDLE allocation = far.make_allocation(kVideoMemory);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);
    stack.drive();
    char* const seen = far.lock(allocation);
    ASSERT_EQ(far.objects.size(), 1U);
    EXPECT_EQ(Whole(far.objects.at(0)).size(), kBytes) << "of this allocation alone";
    EXPECT_EQ(far.windows->count(), 1U);
    std::strcpy(seen, "afar");
    EXPECT_EQ(far.lock(allocation), seen) << "once more, and the same";
    far.unlock(allocation);
    far.unlock(allocation);
    expect_text(client, allocation, "afar");
  });
}

/// Where hardware or another process maps system memory, nothing is moved into objects of its own.
TEST_F(WireMemoryTest, IsCopiedWhereSystemMemoryStaysWhereItIs) {
  with_client([](Stack& stack, Client& client) {
    stack.machine.fix_system_memory();
    Elsewhere far(client);
    const D3DKMT_HANDLE allocation = far.make_allocation(kAperture);
    std::strcpy(far.lock(allocation), "afar");
    EXPECT_EQ(far.windows->count(), 1U);
    EXPECT_EQ(Whole(far.objects.at(0)).size(), kBytes);
    far.unlock(allocation);
    expect_text(client, allocation, "afar");
  });
}

/// A shared resource has objects of its own: who opens it sees nothing else of its creator.
TEST_F(WireMemoryTest, ASharedResourceIsAloneInItsObject) {
  running([](Stack& stack) {
    Client creator_client(stack), user_client(stack);
    Elsewhere creator(creator_client), user(user_client);
    const D3DKMT_HANDLE secret = creator.make_allocation(kAperture);
    std::memset(creator.lock(secret), 's', kBytes);
    D3DKMT_HANDLE resource = 0, global = 0;
    const D3DKMT_HANDLE created =
        creator.make_allocation(kAperture, kCreateResource | kCreateShared, &resource, &global);
    D3DKMT_QUERYRESOURCEINFO query{};
    query.hDevice = user_client.device;
    query.hGlobalShare = global;
    ASSERT_EQ(user.call("D3DKMTQueryResourceInfo", query), 0);
    std::vector<std::byte> data(query.TotalPrivateDriverDataSize),
        of_resource(query.ResourcePrivateDriverDataSize);
    D3DDDI_OPENALLOCATIONINFO2 info{};
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = user_client.device;
    open.hGlobalShare = global;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &info;
    open.pResourcePrivateDriverData = of_resource.data();
    open.ResourcePrivateDriverDataSize = static_cast<UINT>(of_resource.size());
    open.pTotalPrivateDriverDataBuffer = data.data();
    open.TotalPrivateDriverDataBufferSize = static_cast<UINT>(data.size());
    ASSERT_EQ(user.call("D3DKMTOpenResource2", open), 0);
    char* const theirs = user.lock(info.hAllocation);
    std::strcpy(creator.lock(created), "shared");
    EXPECT_STREQ(theirs, "shared");
    const Whole object(user.objects.at(0));
    EXPECT_EQ(object.size(), kBytes);
    EXPECT_EQ(std::ranges::count(object.text(), 's'), 1);
    // The creator goes. The content stays until its last user does.
    EXPECT_EQ(creator.destroy(0, resource), 0);
    stack.drive();
    EXPECT_STREQ(theirs, "shared");
    EXPECT_EQ(user.destroy(0, open.hResource), 0);
    EXPECT_FALSE(is_mapped(theirs));
  });
}

/// Nothing would keep who may only read from writing through a descriptor.
TEST_F(WireMemoryTest, WhatIsOpenedForReadingIsCopied) {
  running([](Stack& stack) {
    Client creator_client(stack), user_client(stack);
    Elsewhere creator(creator_client), user(user_client);
    D3DKMT_HANDLE resource = 0;
    const D3DKMT_HANDLE created = creator.make_allocation(
        kAperture, kCreateResource | kCreateShared | kNtSecuritySharing, &resource);
    std::strcpy(creator.lock(created), "shared");
    constexpr uint64_t kReadOnly = 0x8000'0000;
    HANDLE handle = nullptr;
    uint64_t parameters[5] = {1, reinterpret_cast<uintptr_t>(&resource), 0, kReadOnly,
                              reinterpret_cast<uintptr_t>(&handle)};
    ASSERT_EQ(creator.call("D3DKMTShareObjects", parameters), 0);
    D3DDDI_OPENALLOCATIONINFO2 info{};
    std::vector<std::byte> total(sizeof(ScriptedAllocation));
    D3DKMT_OPENRESOURCEFROMNTHANDLE open{};
    open.hDevice = user_client.device;
    open.hNtHandle = handle;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &info;
    open.pTotalPrivateDriverDataBuffer = total.data();
    open.TotalPrivateDriverDataBufferSize = static_cast<UINT>(total.size());
    ASSERT_EQ(user.call("D3DKMTOpenResourceFromNtHandle", open), 0);
    EXPECT_STREQ(user.lock(info.hAllocation), "shared");
    EXPECT_EQ(user.windows->count(), 1U);
    EXPECT_EQ(user.windows->given().count(), 0U);
    close(static_cast<int>(reinterpret_cast<uintptr_t>(handle)));
  });
}

/// The client's pages are exchanged where they are, and given back as private memory.
TEST_F(WireMemoryTest, OwnPagesAreExchangedInPlace) {
  with_client([](Stack& stack, Client& client) {
    Elsewhere far(client);
    OwnPages pages;
    std::strcpy(pages.data + kBytes - 8, "before");
    Heap heap(client, pages.data);
    ASSERT_EQ(far.call("D3DKMTCreateAllocation2", heap.args), 0);
    EXPECT_EQ(heap.info.pSystemMem, pages.data);
    EXPECT_TRUE(pages.is_shared());
    EXPECT_STREQ(pages.data + kBytes - 8, "before");
    EXPECT_EQ(Whole(far.objects.at(0)).size(), kBytes) << "nothing else is in it";
    void* address = nullptr;
    ASSERT_EQ(client.lock(heap.info.hAllocation, &address), 0);
    auto* const kernels = static_cast<char*>(address);
    EXPECT_STREQ(kernels + kBytes - 8, "before");
    std::strcpy(kernels, "near");
    EXPECT_STREQ(pages.data, "near");
    std::strcpy(pages.data + kPageBytes, "afar");
    EXPECT_STREQ(kernels + kPageBytes, "afar");
    EXPECT_EQ(client.unlock(heap.info.hAllocation), 0);
    // A lock shows the same memory at another address.
    EXPECT_STREQ(far.lock(heap.info.hAllocation), "near");
    far.unlock(heap.info.hAllocation);
    // While the GPU uses it, it is shared, and what the GPU writes is not lost.
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({heap.info.hAllocation})), 0);
    stack.settle();
    EXPECT_EQ(far.destroy(0, heap.args.hResource), 0);
    EXPECT_TRUE(pages.is_shared());
    stack.drive();
    // The next reply says that it has ended.
    far.destroy(far.make_allocation(kAperture));
    EXPECT_FALSE(pages.is_shared());
    EXPECT_STREQ(pages.data, "near");
    EXPECT_STREQ(pages.data + kPageBytes, "afar");
    EXPECT_STREQ(pages.data + kBytes - 8, "before");
    pages.data[0] = 'x';
    EXPECT_EQ(Whole(far.objects.at(0)).text()[0], 'n') << "no one else sees it any more";
  });
}

/// The library destroys what its program cannot have, by a call of its own.
TEST_F(WireMemoryTest, AnAllocationThatThePagesCannotBeExchangedForIsDestroyed) {
  with_client([](Stack& stack, Client& client) {
    const size_t handles = client.handles();
    const uint64_t free = stack.machine.free_page_count();
    OwnPages shared(MAP_SHARED);
    Heap heap(client, shared.data);
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    NTSTATUS status = 0;
    runtime::HostThread program("program", [&] {
      wire::KernelMemory memory(wire::KernelMemory::Pages::kExchange);
      auto connection = wire::ClientConnection::greet(wire::UniqueFd(ends[0]), {.name = "program"});
      ASSERT_TRUE(connection.has_value());
      status = static_cast<NTSTATUS>(
          connection->call(memory, arguments::number_of("D3DKMTCreateAllocation2"), &heap.args));
    });
    const wire::UniqueFd socket(ends[1]);
    wire::Frame frame;
    ASSERT_EQ(wire::receive_frame(socket.get(), &frame), wire::Received::kFrame);
    ASSERT_TRUE(
        wire::send_frame(socket.get(), wire::encode(wire::Welcome{}), std::span<const int>{}));
    wire::ServerSession session(*stack.system, *client.process,
                                wire::make_windows(*stack.system, *client.process));
    size_t calls = 0;
    for (; wire::receive_frame(socket.get(), &frame) == wire::Received::kFrame; ++calls) {
      const wire::Reply reply = session.handle(frame.bytes, std::move(frame.descriptors));
      EXPECT_EQ(reply.refusal, "");
      EXPECT_TRUE(wire::send_frame(socket.get(), reply.bytes,
                                   std::span<const wire::UniqueFd>(reply.descriptors)));
    }
    program.join();
    EXPECT_EQ(calls, 2U);
    EXPECT_EQ(status, nt_status(Status::kInvalidParameter));
    EXPECT_EQ(heap.args.hResource, 0U);
    stack.drive();
    EXPECT_EQ(client.handles(), handles);
    EXPECT_EQ(stack.machine.free_page_count(), free);
  });
}

/// A call whose reply shows more memory than any process has room for.
std::optional<int64_t> call_without_room(Elsewhere& far, wire::ClientCall& call) {
  wire::Reply reply = far.handle(call.message());
  EXPECT_EQ(reply.refusal, "");
  // Behind the mark, the result and the number of windows.
  constexpr size_t kFirstWindow = sizeof(uint32_t) + sizeof(int64_t) + sizeof(uint32_t);
  wire::WindowNote note;
  EXPECT_GE(reply.bytes.size(), kFirstWindow + sizeof note);
  std::memcpy(&note, reply.bytes.data() + kFirstWindow, sizeof note);
  EXPECT_NE(note.bytes, 0U);
  note.bytes = uint64_t{1} << 60;
  std::memcpy(reply.bytes.data() + kFirstWindow, &note, sizeof note);
  return call.finish(reply.bytes, std::move(reply.descriptors));
}

/// A client that cannot map what it has locked gets a refusal, and the lock is taken back. For
/// other memory there is no way back: its connection ends.
TEST_F(WireMemoryTest, AClientWithoutRoomForALockGetsNone) {
  with_client([](Stack&, Client& client) {
    Elsewhere far(client);
    void* const before = &far;
    const D3DKMT_HANDLE allocation = far.make_allocation(kAperture);
    const auto lock_without_room = [&](const char* function, auto args, wire::Unwanted::End end) {
      args.hDevice = client.device;
      args.hAllocation = allocation;
      args.pData = before;
      wire::ClientCall call(arguments::number_of(function), &args, far.memory);
      EXPECT_EQ(call_without_room(far, call), int64_t{nt_status(Status::kNoMemory)});
      EXPECT_EQ(args.pData, before);
      ASSERT_TRUE(call.undo().has_value());
      EXPECT_EQ(call.undo()->end, end);
      EXPECT_EQ(call.undo()->device, client.device);
      EXPECT_EQ(call.undo()->allocations, std::vector<uint32_t>{args.hAllocation});
      EXPECT_EQ(args.hAllocation, allocation);
      EXPECT_EQ(client.unlock(allocation), 0) << "the kernel has locked it";
      EXPECT_NE(client.unlock(allocation), 0);
    };
    lock_without_room("D3DKMTLock2", D3DKMT_LOCK2{}, wire::Unwanted::End::kUnlock2);
    lock_without_room("D3DKMTLock", D3DKMT_LOCK{}, wire::Unwanted::End::kUnlock);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence{};
    fence.hDevice = client.device;
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    wire::ClientCall call(arguments::number_of("D3DKMTCreateSynchronizationObject2"), &fence,
                          far.memory);
    EXPECT_EQ(call_without_room(far, call), std::nullopt);
    EXPECT_FALSE(call.undo().has_value());
    EXPECT_EQ(far.lock(allocation) != nullptr, true) << "another lock is as always";
    far.unlock(allocation);
    EXPECT_EQ(far.destroy(allocation), 0);
  });
}

/// The library unlocks by a call of its own.
TEST_F(WireMemoryTest, TheLibraryTakesALockBackThatItCannotShow) {
  with_client([](Stack&, Client& client) {
    Elsewhere far(client);
    const D3DKMT_HANDLE allocation = far.make_allocation(kAperture);
    D3DKMT_LOCK2 args{};
    args.hDevice = client.device;
    args.hAllocation = allocation;
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    NTSTATUS status = 0;
    runtime::HostThread program("program", [&] {
      wire::KernelMemory memory;
      auto connection = wire::ClientConnection::greet(wire::UniqueFd(ends[0]), {.name = "program"});
      ASSERT_TRUE(connection.has_value());
      status = static_cast<NTSTATUS>(
          connection->call(memory, arguments::number_of("D3DKMTLock2"), &args));
    });
    const wire::UniqueFd socket(ends[1]);
    wire::Frame frame;
    ASSERT_EQ(wire::receive_frame(socket.get(), &frame), wire::Received::kFrame);
    ASSERT_TRUE(
        wire::send_frame(socket.get(), wire::encode(wire::Welcome{}), std::span<const int>{}));
    size_t calls = 0;
    for (; wire::receive_frame(socket.get(), &frame) == wire::Received::kFrame; ++calls) {
      wire::Reply reply = far.handle(frame.bytes, std::move(frame.descriptors));
      EXPECT_EQ(reply.refusal, "");
      if (calls == 0) {
        constexpr size_t kBytesOfFirstWindow = 16 + offsetof(wire::WindowNote, bytes);
        const uint64_t too_much = uint64_t{1} << 60;
        std::memcpy(reply.bytes.data() + kBytesOfFirstWindow, &too_much, sizeof too_much);
      }
      EXPECT_TRUE(wire::send_frame(socket.get(), reply.bytes,
                                   std::span<const wire::UniqueFd>(reply.descriptors)));
    }
    program.join();
    EXPECT_EQ(calls, 2U);
    EXPECT_EQ(status, nt_status(Status::kNoMemory));
    EXPECT_EQ(args.pData, nullptr);
    EXPECT_NE(client.unlock(allocation), 0) << "it is not locked any more";
    EXPECT_EQ(far.destroy(allocation), 0);
  });
}

/// Pages that cannot be exchanged are refused as in one process. Nothing stays of the allocation.
TEST_F(WireMemoryTest, OwnPagesThatCannotBeExchangedAreRefused) {
  with_client([](Stack& stack, Client& client) {
    Elsewhere far(client);
    OwnPages good, shared(MAP_SHARED), read_only(MAP_PRIVATE, PROT_READ);
    const struct {
      const char* what;
      void* memory;
    } rows[] = {{"shared memory", shared.data},
                {"memory that cannot be written", read_only.data},
                {"no memory", reinterpret_cast<void*>(uintptr_t{1} << 40)},
                {"the middle of a page", good.data + 8}};
    for (const auto& [what, memory] : rows) {
      const size_t handles = client.handles();
      const uint64_t free = stack.machine.free_page_count();
      Heap heap(client, memory);
      EXPECT_EQ(far.call("D3DKMTCreateAllocation2", heap.args),
                nt_status(Status::kInvalidParameter))
          << what;
      EXPECT_EQ(heap.info.hAllocation, 0U) << what;
      EXPECT_EQ(heap.args.hResource, 0U) << what;
      if (far.undone.has_value()) {
        EXPECT_EQ(far.destroy(0, far.undone->resource), 0) << what;
        stack.drive();
      }
      EXPECT_EQ(client.handles(), handles) << what;
      EXPECT_EQ(stack.machine.free_page_count(), free) << what;
    }
    stack.machine.fix_system_memory();
    Heap heap(client, good.data);
    EXPECT_EQ(far.call("D3DKMTCreateAllocation2", heap.args), nt_status(Status::kNotSupported));
    EXPECT_EQ(heap.info.hAllocation, 0U);
    EXPECT_FALSE(far.undone.has_value());
    EXPECT_FALSE(good.is_shared());
    // As a recorder does, which is in the kernel's process.
    wire::KernelMemory here;
    const wire::ClientCall call(arguments::number_of("D3DKMTCreateAllocation2"), &heap.args, here);
    EXPECT_EQ(call.answer(), int64_t{nt_status(Status::kNotSupported)});
  });
}

}  // namespace
}  // namespace dxgkit::contract
