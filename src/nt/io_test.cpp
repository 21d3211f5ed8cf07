// The display library's handshake, IRPs, objects and work items, called as a driver calls them.
#include <gtest/gtest.h>
#include <ntddk.h>

#include <atomic>
#include <vector>

#include "nt/device_properties.h"
#include "nt/io_layout.h"
#include "nt/test_world.h"

namespace dxgkit::nt {
namespace {

static_assert(sizeof(Irp) == sizeof(IRP));
static_assert(offsetof(Irp, io_status) == offsetof(IRP, IoStatus));
static_assert(offsetof(Irp, stack_count) == offsetof(IRP, StackCount));
static_assert(offsetof(Irp, user_iosb) == offsetof(IRP, UserIosb));
static_assert(offsetof(Irp, user_buffer) == offsetof(IRP, UserBuffer));
static_assert(offsetof(Irp, current_stack) ==
              offsetof(IRP, Tail) + 64);  // Tail.Overlay.CurrentStackLocation
static_assert(sizeof(IoStackLocation) == sizeof(IO_STACK_LOCATION));
static_assert(offsetof(IoStackLocation, completion) ==
              offsetof(IO_STACK_LOCATION, CompletionRoutine));
static_assert(sizeof(DeviceObject) == sizeof(DEVICE_OBJECT));
static_assert(offsetof(DeviceObject, extension) == offsetof(DEVICE_OBJECT, DeviceExtension));
static_assert(offsetof(DeviceObject, stack_size) == offsetof(DEVICE_OBJECT, StackSize));
static_assert(sizeof(FileObject) == sizeof(FILE_OBJECT));

using BuildRequest = Irp*(uint32_t, DeviceObject*, void*, uint32_t, void*, uint32_t, uint8_t,
                          Kevent*, IoStatusBlock*);

struct Io {
  ExportCall<int32_t(UnicodeString*, uint32_t, FileObject**, DeviceObject**)> open{
      "IoGetDeviceObjectPointer"};
  ExportCall<BuildRequest> build{"IoBuildDeviceIoControlRequest"};
  ExportCall<int32_t(DeviceObject*, Irp*)> call{"IofCallDriver"};
  ExportCall<void(Kevent*, uint32_t, uint8_t)> event{"KeInitializeEvent"};
  ExportCall<int32_t(void*, uint32_t, uint8_t, uint8_t, const int64_t*)> wait{
      "KeWaitForSingleObject"};
  ExportCall<int64_t(void*)> dereference{"ObfDereferenceObject"};
  ExportCall<int64_t(void*)> reference{"ObfReferenceObject"};
  ExportCall<int32_t(UnicodeString*)> load{"ZwLoadDriver"}, unload{"ZwUnloadDriver"};
};

/// The whole way a driver built with the display library takes to DxgkInitialize: load the service,
/// open the device, send the request, wait, call what came back.
TEST(Displib, HandshakeReachesTheInitializeHook) {
  DXGKIT_COVERS("NT-23");
  struct Case {
    uint32_t code;
    bool display_only;
  };
  for (const Case& test : {Case{0x23003F, false}, Case{0x230047, false}, Case{0x230043, true}}) {
    in_both_modes([&] {
      World world;
      std::vector<std::pair<const void*, bool>> calls;
      world.kernel.set_initialize_hook([&](const void* data, bool display_only) {
        calls.emplace_back(data, display_only);
        return int32_t{0x1234};
      });
      const int table = 7;
      EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
        const Io io;
        Text service(u"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\DXGKrnl");
        EXPECT_EQ(io.load(service.get()), nt_status(0xC000010E));  // STATUS_IMAGE_ALREADY_LOADED
        Text name(u"\\DEVICE\\dxgkrnl");
        FileObject* file = nullptr;
        DeviceObject* device = nullptr;
        ASSERT_EQ(io.open(name.get(), 0x1F01FF, &file, &device), 0);
        ASSERT_NE(file, nullptr);
        EXPECT_EQ(file->type, 5);
        EXPECT_EQ(file->device, device);
        EXPECT_EQ(device->type, 3);
        EXPECT_EQ(device->size, 336);
        Kevent done;
        io.event(&done, 0, 0);
        IoStatusBlock status{};
        status.status = 99;
        int32_t (*DXGKIT_NT_ABI initialize)(void*, UnicodeString*, const void*) = nullptr;
        Irp* irp = io.build(test.code, device, nullptr, 0, &initialize, 8, 1, &done, &status);
        ASSERT_NE(irp, nullptr);
        EXPECT_EQ(irp->type, 6);
        EXPECT_EQ(irp->user_buffer, &initialize);
        EXPECT_EQ(irp->current_stack[-1].major, 0x0F);
        EXPECT_EQ(irp->current_stack[-1].device_control.code, test.code);
        EXPECT_EQ(io.call(device, irp), 0);
        EXPECT_EQ(io.wait(&done, 0, 0, 0, nullptr), 0);
        EXPECT_EQ(status.status, 0);
        EXPECT_EQ(status.information, 8u);
        ASSERT_NE(initialize, nullptr);
        const auto typed =
            reinterpret_cast<int32_t(DXGKIT_NT_ABI*)(void*, UnicodeString*, const void*)>(
                initialize);
        EXPECT_EQ(typed(nullptr, service.get(), &table), 0x1234);
        EXPECT_EQ(world.kernel.leaks().size(), 1u);  // the file object
        io.dereference(file);
      }));
      ASSERT_EQ(calls.size(), 1u);
      EXPECT_EQ(calls[0].first, &table);
      EXPECT_EQ(calls[0].second, test.display_only);
      EXPECT_TRUE(world.kernel.leaks().empty());
      EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    });
  }
}

/// Without a hook (the driver is no display driver of ours) the routine refuses; the code to end it
/// answers too.
TEST(Displib, RefusesWithoutAHookAndAnswersUninitialize) {
  in_both_modes([] {
    World world;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      const Io io;
      Text name(u"\\Device\\DxgKrnl");
      FileObject* file = nullptr;
      DeviceObject* device = nullptr;
      ASSERT_EQ(io.open(name.get(), 0, &file, &device), 0);
      IoStatusBlock status{};
      void* function = nullptr;
      Kevent done;
      io.event(&done, 0, 0);
      EXPECT_EQ(
          io.call(device, io.build(0x23004B, device, nullptr, 0, &function, 8, 1, &done, &status)),
          0);
      ASSERT_NE(function, nullptr);
      const auto end = reinterpret_cast<int32_t(DXGKIT_NT_ABI*)(void*)>(function);
      EXPECT_EQ(end(device), 0);
      EXPECT_EQ(end(nullptr), nt_status(0xC000000D));
      EXPECT_EQ(
          io.call(device, io.build(0x23003F, device, nullptr, 0, &function, 8, 1, &done, &status)),
          0);
      const auto begin = reinterpret_cast<int32_t(DXGKIT_NT_ABI*)(void*, void*, void*)>(function);
      EXPECT_EQ(begin(nullptr, nullptr, nullptr), nt_status(0xC00000BB));
      // A wrong code, a short buffer, a request from user mode's table: refused, nothing written.
      function = nullptr;
      const auto refused = [&](uint32_t code, void* out, uint32_t length, uint8_t internal) {
        return io.call(device,
                       io.build(code, device, nullptr, 0, out, length, internal, &done, &status));
      };
      EXPECT_EQ(refused(0x230053, &function, 8, 1), nt_status(0xC0000010));
      EXPECT_EQ(refused(0x23003F, &function, 7, 1), nt_status(0xC0000023));
      EXPECT_EQ(refused(0x23003F, nullptr, 8, 1), nt_status(0xC0000023));
      EXPECT_EQ(refused(0x23003F, &function, 8, 0), nt_status(0xC0000010));
      EXPECT_EQ(status.status, nt_status(0xC0000010));
      EXPECT_EQ(status.information, 0u);
      EXPECT_EQ(function, nullptr);
      io.dereference(file);
    }));
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

TEST(Displib, OnlyTheGraphicsKernelCanBeOpenedOrLoaded) {
  in_both_modes([] {
    World world;
    with_frame(world.kernel, kPassiveLevel, [&] {
      const Io io;
      FileObject* file = nullptr;
      DeviceObject* device = nullptr;
      Text other(u"\\Device\\Other"), relative(u"DxgKrnl"), empty(u"");
      EXPECT_EQ(io.open(other.get(), 0, &file, &device), nt_status(0xC0000034));
      EXPECT_EQ(io.open(relative.get(), 0, &file, &device), nt_status(0xC000003B));
      EXPECT_EQ(io.open(empty.get(), 0, &file, &device), nt_status(0xC000003B));
      EXPECT_EQ(io.open(nullptr, 0, &file, &device), nt_status(0xC0000033));
      UnicodeString odd{7, 8, other.units.data()}, nothing{8, 8, nullptr};
      EXPECT_EQ(io.open(&odd, 0, &file, &device), nt_status(0xC0000033));
      EXPECT_EQ(io.open(&nothing, 0, &file, &device), nt_status(0xC0000033));
      EXPECT_EQ(file, nullptr);
      EXPECT_EQ(io.load(other.get()), nt_status(0xC0000034));
      EXPECT_EQ(io.unload(other.get()), nt_status(0xC0000034));
      EXPECT_EQ(io.load(nullptr), nt_status(0xC000000D));
      Text service(u"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\DXGKrnl");
      EXPECT_EQ(io.unload(service.get()), nt_status(0xC0000010));
    });
    EXPECT_TRUE(world.kernel.leaks().empty());
  });
}

struct Completion {
  Irp* irp = nullptr;
  int32_t answer = 0;
  int calls = 0;
};
DXGKIT_NT_ABI int32_t on_complete(DeviceObject* device, Irp* irp, void* context) {
  auto& mine = *static_cast<Completion*>(context);
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(irp, mine.irp);
  ++mine.calls;
  return mine.answer;
}

/// A driver's own packet: sent to a device that is not ours, its completion routine keeps it, and
/// it is freed once.
TEST(Irps, CompletionRoutinesKeepOrReleaseThePacket) {
  in_both_modes([] {
    World world;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      const Io io;
      const ExportCall<Irp*(int8_t, uint8_t)> allocate("IoAllocateIrp");
      const ExportCall<void(Irp*)> free_irp("IoFreeIrp");
      DeviceObject foreign{};
      foreign.stack_size = 1;
      Completion keeps{allocate(2, 0), nt_status(0xC0000016)};
      ASSERT_NE(keeps.irp, nullptr);
      EXPECT_EQ(keeps.irp->stack_count, 2);
      EXPECT_EQ(keeps.irp->current_location, 3);
      EXPECT_EQ(keeps.irp->size, 208 + 2 * 72);
      IoStackLocation& next = keeps.irp->current_stack[-1];
      next.major = 0x0E;
      next.completion = on_complete;
      next.context = &keeps;
      next.control = 0xE0;
      EXPECT_EQ(io.call(&foreign, keeps.irp), nt_status(0xC0000010));
      EXPECT_EQ(keeps.calls, 1);
      EXPECT_EQ(keeps.irp->io_status.status, nt_status(0xC0000010));
      EXPECT_EQ(world.kernel.leaks().size(), 1u);
      free_irp(keeps.irp);
      EXPECT_TRUE(world.kernel.leaks().empty());
      // Unhandled plug and play requests keep their status.
      Kevent done;
      io.event(&done, 0, 0);
      const ExportCall<Irp*(uint32_t, DeviceObject*, void*, uint32_t, const int64_t*, Kevent*,
                            IoStatusBlock*)>
          build("IoBuildSynchronousFsdRequest");
      IoStatusBlock status{};
      Irp* pnp = build(0x1B, &foreign, nullptr, 0, nullptr, &done, &status);
      EXPECT_EQ(io.call(&foreign, pnp), nt_status(0xC00000BB));
      EXPECT_EQ(status.status, nt_status(0xC00000BB));
      EXPECT_EQ(done.header.signal_state, 1);
      EXPECT_EQ(build(0x55, &foreign, nullptr, 0, nullptr, &done, &status), nullptr);
      EXPECT_EQ(allocate(0, 0), nullptr);
      EXPECT_EQ(allocate(-5, 0), nullptr);
    }));
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

TEST(Irps, AreCompletedAndFreedOnce) {
  DXGKIT_COVERS("NT-27");
  in_both_modes([] {
    expect_bug_check("NT-27", 0x44, [] {
      const ExportCall<Irp*(int8_t, uint8_t)> allocate("IoAllocateIrp");
      const ExportCall<void(Irp*)> free_irp("IoFreeIrp");
      Irp* irp = allocate(1, 0);
      free_irp(irp);
      free_irp(irp);
    });
    expect_bug_check("NT-27", 0x44, [] {
      const ExportCall<void(Irp*, int8_t)> complete("IofCompleteRequest");
      Irp never{};
      complete(&never, 0);
    });
    expect_bug_check("NT-27", 0x35, [] {
      const Io io;
      const ExportCall<Irp*(int8_t, uint8_t)> allocate("IoAllocateIrp");
      Irp* irp = allocate(1, 0);
      DeviceObject foreign{};
      --irp->current_location;
      --irp->current_stack;
      io.call(&foreign, irp);
    });
  });
}

TEST(Objects, AreReferencedByHandleTypeAndPointer) {
  DXGKIT_COVERS("NT-28");
  in_both_modes([] {
    World world;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      const Io io;
      const ExportCall<Kevent*(UnicodeString*, void**)> create("IoCreateNotificationEvent");
      const ExportCall<int32_t(void*, uint32_t, const void*, uint8_t, void**, void*)> by_handle(
          "ObReferenceObjectByHandle");
      const ExportCall<int32_t(void*, uint32_t, const void*, uint8_t)> by_pointer(
          "ObReferenceObjectByPointer");
      const ExportCall<int32_t(void*)> close("ZwClose");
      const auto type = [](const char* name) {
        return *static_cast<const void* const*>(find_export(name)->address);
      };
      EXPECT_NE(type("ExEventObjectType"), type("PsThreadType"));
      void* handle = nullptr;
      Kevent* event = create(nullptr, &handle);
      void* object = nullptr;
      EXPECT_EQ(by_handle(handle, 0, type("PsThreadType"), 0, &object, nullptr),
                nt_status(0xC0000024));
      EXPECT_EQ(object, nullptr);
      EXPECT_EQ(by_handle(handle, 0, type("ExEventObjectType"), 0, &object, nullptr), 0);
      EXPECT_EQ(object, event);
      EXPECT_EQ(
          by_handle(reinterpret_cast<void*>(uint64_t{0x5550}), 0, nullptr, 0, &object, nullptr),
          nt_status(0xC0000008));
      EXPECT_EQ(by_pointer(event, 0, type("IoFileObjectType"), 0), nt_status(0xC0000024));
      EXPECT_EQ(by_pointer(event, 0, type("ExEventObjectType"), 0), 0);
      // The object outlives its handle while it is referenced.
      EXPECT_EQ(close(handle), 0);
      EXPECT_EQ(event->header.signal_state, 1);
      EXPECT_EQ(io.dereference(event), 2);
      EXPECT_EQ(io.dereference(event), 1);
      const ExportCall<void*()> process("IoGetCurrentProcess"), process_id("PsGetCurrentProcessId");
      EXPECT_EQ(process_id(), reinterpret_cast<void*>(uint64_t{4}));
      EXPECT_EQ(by_handle(reinterpret_cast<void*>(UINT64_MAX), 0, type("PsProcessType"), 0, &object,
                          nullptr),
                0);
      EXPECT_EQ(object, process());
      io.dereference(object);
    }));
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    expect_bug_check("NT-28", 0x18, [] {
      const Io io;
      int device = 0;
      io.reference(&device);
      io.dereference(&device);
      io.dereference(&device);
    });
    expect_bug_check("NT-01", 0x7E, [] { Io().reference(nullptr); });
  });
}

struct WorkContext {
  std::atomic<int> ran{0};
  std::atomic<int> level{-1};
  std::atomic<void*> object{nullptr}, item{nullptr};
  Kevent done{};
};
DXGKIT_NT_ABI void work_routine(void* object, void* context) {
  auto& mine = *static_cast<WorkContext*>(context);
  mine.object = object;
  mine.level = CallFrame::current().irql();
  ++mine.ran;
  const ExportCall<int32_t(Kevent*, int32_t, uint8_t)> set("KeSetEvent");
  set(&mine.done, 0, 0);
}
DXGKIT_NT_ABI void work_routine_ex(void* object, void* context, void* item) {
  static_cast<WorkContext*>(context)->item = item;
  work_routine(object, context);
}

/// Work items queued at DISPATCH_LEVEL run at PASSIVE_LEVEL on another thread, each form with its
/// arguments; the routine may free its own item.
TEST(WorkItems, RunAtPassiveLevelOnAWorker) {
  in_both_modes([] {
    World world;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      const Io io;
      const ExportCall<void*(void*)> allocate("IoAllocateWorkItem");
      const ExportCall<void(void*)> free_item("IoFreeWorkItem");
      const ExportCall<void(void*, void*, uint32_t, void*)> queue("IoQueueWorkItem"),
          queue_ex("IoQueueWorkItemEx");
      const ExportCall<Irql(Irql)> raise("KfRaiseIrql");
      const ExportCall<void(Irql)> lower("KeLowerIrql");
      WorkContext context;
      io.event(&context.done, 1, 0);
      DeviceObject device{};
      void* item = allocate(&device);
      const Irql old = raise(kDispatchLevel);
      queue(item, reinterpret_cast<void*>(&work_routine), 1, &context);
      lower(old);
      EXPECT_EQ(io.wait(&context.done, 0, 0, 0, nullptr), 0);
      EXPECT_EQ(context.object, &device);
      EXPECT_EQ(context.level, kPassiveLevel);
      queue_ex(item, reinterpret_cast<void*>(&work_routine_ex), 1, &context);
      EXPECT_EQ(io.wait(&context.done, 0, 0, 0, nullptr), 0);
      EXPECT_EQ(context.item, item);
      EXPECT_EQ(context.ran, 2);
      free_item(item);
      struct {
        ListEntry list{};
        void* routine = nullptr;
        void* parameter = nullptr;
      } executive_item;
      constexpr auto plain =
          +[](void* parameter) DXGKIT_NT_ABI { work_routine(nullptr, parameter); };
      executive_item.routine = reinterpret_cast<void*>(plain);
      executive_item.parameter = &context;
      const ExportCall<void(void*, uint32_t)> queue_executive("ExQueueWorkItem");
      queue_executive(&executive_item, 1);
      EXPECT_EQ(io.wait(&context.done, 0, 0, 0, nullptr), 0);
      EXPECT_EQ(context.ran, 3);
    }));
    world.kernel.quiesce();
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

TEST(WorkItems, AreQueuedAndFreedOnce) {
  DXGKIT_COVERS("NT-29");
  in_both_modes([] {
    expect_bug_check("NT-29", 0xC4, [] {
      const ExportCall<void*(void*)> allocate("IoAllocateWorkItem");
      const ExportCall<void(void*)> free_item("IoFreeWorkItem");
      int device = 0;
      void* item = allocate(&device);
      free_item(item);
      free_item(item);
    });
    expect_bug_check("NT-29", 0xC4, [] {
      const ExportCall<void(void*, void*, uint32_t, void*)> queue("IoQueueWorkItem");
      int item = 0;
      queue(&item, reinterpret_cast<void*>(&work_routine), 1, nullptr);
    });
  });
}

/// Leaks at unload are counted: the item, and with it a thread that may still run code.
TEST(WorkItems, LeftBehindAreLeaks) {
  DXGKIT_COVERS("NT-14");
  in_both_modes([] {
    World world;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      const ExportCall<void*(void*)> allocate("IoAllocateWorkItem");
      int device = 0;
      allocate(&device);
    }));
    const auto leaks = world.kernel.leaks();
    ASSERT_EQ(leaks.size(), 1u);
    EXPECT_EQ(leaks[0].what, "work item");
    EXPECT_EQ(world.kernel.report_leaks("after the test"), 1u);
    EXPECT_TRUE(world.kernel.leaks().empty());
  });
}

}  // namespace
TEST(DeviceProperties, ComeFromTheFunctionUnlessConfigured) {
  in_both_modes([] {
    KernelConfig config;
    const std::u16string configured = u"Mine";
    config.registry[KernelConfig::kPropertiesKey]["DeviceDesc"] = RegistryValue{
        1, std::vector<std::byte>(reinterpret_cast<const std::byte*>(configured.data()),
                                  reinterpret_cast<const std::byte*>(configured.data()) + 10)};
    World world(config);
    bus::PciIdentity identity;
    identity.vendor_id = 0x1AF4;
    identity.device_id = 0x1050;
    describe_device(world.kernel, identity);
    run_as_driver(world.kernel, kPassiveLevel, [] {
      const ExportCall<int32_t(void*, uint32_t, uint32_t, void*, uint32_t*)> query(
          "IoGetDeviceProperty");
      int device = 0;
      char16_t text[256] = {};
      uint32_t bytes = 0;
      constexpr uint32_t kDescription = 0, kHardwareId = 1, kBusNumber = 14;
      EXPECT_EQ(query(&device, kHardwareId, 8, text, &bytes), nt_status(0xC0000023));
      EXPECT_EQ(query(&device, kHardwareId, sizeof(text), text, &bytes), 0);
      EXPECT_EQ(std::u16string(text), u"PCI\\VEN_1AF4&DEV_1050&SUBSYS_00000000&REV_00");
      EXPECT_EQ(text[bytes / 2 - 1], 0);
      EXPECT_EQ(text[bytes / 2 - 2], 0);
      EXPECT_EQ(query(&device, kDescription, sizeof(text), text, &bytes), 0);
      EXPECT_EQ(std::u16string(text), u"Mine");
      uint32_t number = 77;
      EXPECT_EQ(query(&device, kBusNumber, sizeof(number), &number, &bytes), 0);
      EXPECT_EQ(number, 0U);
    });
  });
}

}  // namespace dxgkit::nt
