// libdxcore.so as a program meets it that knows nothing of dxgkit: opened by name, in a process of
// its own for each test.
#include <d3dkmthk.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <ntstatus.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "dxcore/dxcore_interface.h"
#include "dxcore/stack_file.h"
#include "dxcore/wide_characters.h"
#include "runtime/host_thread.h"

namespace dxgkit::dxcore {
namespace {

void* library() {
  static void* const opened = dlopen(DXCORE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return opened;
}

#define CALL(name) (reinterpret_cast<decltype(&::name)>(dlsym(library(), #name)))

/// A folder for one test, which it takes away.
class Folder {
 public:
  Folder() {
    std::string pattern = testing::TempDir() + "dxcoreXXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { static_cast<void>(std::system(("rm -rf '" + path_ + "'").c_str())); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(file(name)).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

/// Runs `body` in a forked process with this stack. 0: it ended by exit, and nothing in it failed.
int in_program(const Folder& folder, const std::string& stack, const std::function<void()>& body) {
  folder.write("stack.toml", stack);
  const pid_t child = fork();
  if (child == 0) {
    setenv("DXGKIT_STACK", folder.file("stack.toml").c_str(), 1);
    if (library() == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      _exit(99);
    }
    body();
    std::exit(testing::Test::HasFailure() ? 1 : 0);  // with the handlers, as a program exits
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

constexpr const char* kSoftgpu = "driver = \"softgpu\"\nfindings = \"findings.txt\"\n";

std::vector<D3DKMT_ADAPTERINFO> adapters() {
  D3DKMT_ENUMADAPTERS2 all = {};
  EXPECT_EQ(CALL(D3DKMTEnumAdapters2)(&all), STATUS_SUCCESS);
  std::vector<D3DKMT_ADAPTERINFO> infos(all.NumAdapters);
  all.pAdapters = infos.data();
  EXPECT_EQ(CALL(D3DKMTEnumAdapters2)(&all), STATUS_SUCCESS);
  infos.resize(all.NumAdapters);
  return infos;
}

D3DKMT_HANDLE make_device() {
  const auto infos = adapters();
  EXPECT_EQ(infos.size(), 1u);
  D3DKMT_CREATEDEVICE create = {};
  create.hAdapter = infos.at(0).hAdapter;
  EXPECT_EQ(CALL(D3DKMTCreateDevice)(&create), STATUS_SUCCESS);
  return create.hDevice;
}

D3DKMT_CREATESYNCHRONIZATIONOBJECT2 make_fence(D3DKMT_HANDLE device) {
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {};
  fence.hDevice = device;
  fence.Info.Type = D3DDDI_MONITORED_FENCE;
  EXPECT_EQ(CALL(D3DKMTCreateSynchronizationObject2)(&fence), STATUS_SUCCESS);
  return fence;
}

/// A call about one value of one fence, which both structures say alike.
template <typename Arguments>
NTSTATUS with_fence(NTSTATUS (*function)(const Arguments*), D3DKMT_HANDLE device,
                    D3DKMT_HANDLE fence, UINT64 value) {
  Arguments arguments = {};
  arguments.hDevice = device;
  arguments.ObjectCount = 1;
  arguments.ObjectHandleArray = &fence;
  arguments.FenceValueArray = &value;
  return function(&arguments);
}

NTSTATUS wait_for(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, UINT64 value) {
  return with_fence(CALL(D3DKMTWaitForSynchronizationObjectFromCpu), device, fence, value);
}

NTSTATUS signal(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, UINT64 value) {
  return with_fence(CALL(D3DKMTSignalSynchronizationObjectFromCpu), device, fence, value);
}

TEST(DxCoreLibrary, ThreadsOfTheProgramJustCall) {
  const Folder folder;
  EXPECT_EQ(
      in_program(folder, kSoftgpu,
                 [] {
                   const D3DKMT_HANDLE device = make_device();
                   const auto fence = make_fence(device);
                   std::vector<std::unique_ptr<runtime::HostThread>> threads;
                   for (UINT64 value = 1; value <= 4; ++value) {
                     threads.push_back(std::make_unique<runtime::HostThread>("waits", [&, value] {
                       EXPECT_EQ(wait_for(device, fence.hSyncObject, value), STATUS_SUCCESS);
                     }));
                   }
                   for (UINT64 value = 1; value <= 4; ++value)
                     EXPECT_EQ(signal(device, fence.hSyncObject, value), STATUS_SUCCESS);
                   for (const auto& thread : threads) thread->join();
                   // The handles are the process's, not a thread's.
                   EXPECT_EQ(*static_cast<const UINT64*>(
                                 fence.Info.MonitoredFence.FenceValueCPUVirtualAddress),
                             4u);
                 }),
      0);
  EXPECT_EQ(folder.read("findings.txt"), "");
}

TEST(DxCoreLibrary, AThreadInsideIsLetGoWhenTheProgramExits) {
  const Folder folder;
  EXPECT_EQ(in_program(folder, kSoftgpu,
                       [&] {
                         const D3DKMT_HANDLE device = make_device();
                         const D3DKMT_HANDLE fence = make_fence(device).hSyncObject;
                         // Threads that the program leaves to themselves.
                         new runtime::HostThread("waits", [=] { wait_for(device, fence, 1); });
                         new runtime::HostThread("calls", [=] {
                           for (;;) signal(device, 0, 1);  // goes on while the kernel ends
                         });
                       }),
            0);
  EXPECT_EQ(folder.read("findings.txt"), "");
}

TEST(DxCoreLibrary, AForkedChildHasAKernelOfItsOwn) {
  const Folder folder;
  EXPECT_EQ(in_program(folder, kSoftgpu,
                       [] {
                         const D3DKMT_HANDLE device = make_device();
                         const D3DKMT_HANDLE fence = make_fence(device).hSyncObject;
                         const pid_t child = fork();
                         if (child == 0) {
                           // The parent's handles mean nothing here.
                           EXPECT_EQ(signal(device, fence, 1), STATUS_INVALID_PARAMETER);
                           const D3DKMT_HANDLE own = make_device();
                           EXPECT_EQ(signal(own, make_fence(own).hSyncObject, 1), STATUS_SUCCESS);
                           std::exit(testing::Test::HasFailure() ? 1 : 0);
                         }
                         int status = -1;
                         EXPECT_EQ(waitpid(child, &status, 0), child);
                         EXPECT_EQ(status, 0);
                         EXPECT_EQ(signal(device, fence, 1), STATUS_SUCCESS);
                         EXPECT_EQ(wait_for(device, fence, 1), STATUS_SUCCESS);
                       }),
            0);
  EXPECT_EQ(folder.read("findings.txt"), "");
}

TEST(DxCoreLibrary, WithoutAKernelEveryCallIsRefused) {
  const Folder folder;
  for (const char* stack : {"driver = \"no_such_driver\"", "driver = 7", "nonsense = 1", "[{",
                            "driver = \"softgpu\"\nfindings = \"no/folder\"",
                            "driver = \"softgpu\"\ndevices = [\"no_such_device\"]"}) {
    EXPECT_EQ(in_program(folder, stack,
                         [] {
                           D3DKMT_ENUMADAPTERS2 all = {.NumAdapters = 5, .pAdapters = nullptr};
                           EXPECT_EQ(CALL(D3DKMTEnumAdapters2)(&all), STATUS_NOT_SUPPORTED);
                           EXPECT_EQ(all.NumAdapters, 5u);
                           EXPECT_EQ(CALL(D3DKMTCheckExclusiveOwnership)(), FALSE);
                         }),
              0)
        << stack;
  }
}

std::u32string wide_text(const char32_t* text, size_t most) {
  return {text, std::find(text, text + most, U'\0')};
}

TEST(DxCoreLibrary, TextsHaveCharactersOfFourBytes) {
  const Folder folder;
  folder.write("registry.toml",
               "[driver]\nDriverDesc = \"GPU\"\n[service]\nNote = \"grün\"\nNumber = 7\n");
  EXPECT_EQ(
      in_program(
          folder, std::string(kSoftgpu),
          [] {
            const D3DKMT_HANDLE adapter = adapters().at(0).hAdapter;
            const auto ask = [&](KMTQUERYADAPTERINFOTYPE type, void* data, size_t bytes) {
              const D3DKMT_QUERYADAPTERINFO query = {adapter, type, data, static_cast<UINT>(bytes)};
              return CALL(D3DKMTQueryAdapterInfo)(&query);
            };
            D3DKMT_DRIVER_DESCRIPTION two = {};
            ASSERT_EQ(ask(KMTQAITYPE_DRIVER_DESCRIPTION, &two, sizeof two), STATUS_SUCCESS);
            std::array<char32_t, 4096> four = {};
            ASSERT_EQ(ask(KMTQAITYPE_DRIVER_DESCRIPTION, four.data(), sizeof four), STATUS_SUCCESS);
            std::u32string expected(4096, U'\0');
            widen(two.DriverDescription, expected);
            EXPECT_NE(four[0], U'\0');
            EXPECT_EQ(wide_text(four.data(), 4096), expected.c_str());

            struct {
              UINT version;
              char32_t name[260];
            } umd = {KMTUMDVERSION_DX9, {}};
            D3DKMT_UMDFILENAMEINFO narrow_umd = {};
            const NTSTATUS answered = ask(KMTQAITYPE_UMDRIVERNAME, &narrow_umd, sizeof narrow_umd);
            EXPECT_EQ(ask(KMTQAITYPE_UMDRIVERNAME, &umd, sizeof umd), answered);
            // A structure of neither width is refused by the kernel, and so is what is no memory.
            EXPECT_EQ(ask(KMTQAITYPE_DRIVER_DESCRIPTION, four.data(), 5), STATUS_INVALID_PARAMETER);
            EXPECT_EQ(ask(KMTQAITYPE_DRIVER_DESCRIPTION, reinterpret_cast<void*>(8), sizeof four),
                      STATUS_INVALID_PARAMETER);
            EXPECT_EQ(CALL(D3DKMTQueryAdapterInfo)(nullptr), STATUS_INVALID_PARAMETER);
            EXPECT_EQ(
                CALL(D3DKMTQueryAdapterInfo)(reinterpret_cast<const D3DKMT_QUERYADAPTERINFO*>(16)),
                STATUS_INVALID_PARAMETER);
          }),
      0);
}

TEST(DxCoreLibrary, EveryFunctionOfTheKernelIsThere) {
  ASSERT_NE(library(), nullptr) << dlerror();
  // What the GPU clients of Linux look up (ROCm, RADV, NEO), and what only Windows has.
  for (const char* name :
       {"D3DKMTCreateAllocation2", "D3DKMTCreateContextVirtual", "D3DKMTCreatePagingQueue",
        "D3DKMTMapGpuVirtualAddress", "D3DKMTSubmitCommand", "D3DKMTShareObjects",
        "D3DKMTWaitForSynchronizationObjectFromCpu", "D3DKMTEnumAdapters3", "D3DKMTQueryStatistics",
        "D3DKMTOpenAdapterFromGdiDisplayName", "DXCoreCreateAdapterFactory"})
    EXPECT_NE(dlsym(library(), name), nullptr) << name;
  EXPECT_EQ(dlsym(library(), "kernel_D3DKMTEnumAdapters2"), nullptr);
  EXPECT_EQ(dlopen(DXCORE_SECOND_NAME, RTLD_NOW | RTLD_NOLOAD), library());
}

// --- DXCore ---

IDXCoreAdapterFactory* get_factory() {
  const auto create = reinterpret_cast<HRESULT (*)(const GUID&, void**)>(
      dlsym(library(), "DXCoreCreateAdapterFactory"));
  void* factory = nullptr;
  EXPECT_EQ(create(kIDXCoreAdapterFactory, &factory), kOk);
  void* again = nullptr;
  EXPECT_EQ(create(kIDXCoreAdapterList, &again), kNoInterface);
  EXPECT_EQ(again, nullptr);
  EXPECT_EQ(create(kIDXCoreAdapterFactory, nullptr), kBadPointer);
  return static_cast<IDXCoreAdapterFactory*>(factory);
}

IDXCoreAdapterList* get_list(IDXCoreAdapterFactory& factory, const GUID& attribute) {
  void* list = nullptr;
  EXPECT_EQ(factory.CreateAdapterList(1, &attribute, kIDXCoreAdapterList, &list), kOk);
  return static_cast<IDXCoreAdapterList*>(list);
}

template <typename T>
T property(IDXCoreAdapter& adapter, DXCoreAdapterProperty which) {
  T value = {};
  size_t bytes = 0;
  EXPECT_TRUE(adapter.IsPropertySupported(which));
  EXPECT_EQ(adapter.GetPropertySize(which, &bytes), kOk);
  EXPECT_EQ(bytes, sizeof(T));
  EXPECT_EQ(adapter.GetProperty(which, sizeof(T) - 1, &value), kInvalidArgument);
  EXPECT_EQ(adapter.GetProperty(which, sizeof(T), &value), kOk);
  return value;
}

TEST(DxCoreObjects, AnAdapterTellsItsProperties) {
  const Folder folder;
  EXPECT_EQ(
      in_program(
          folder, "driver = \"softgpu\"\ndevices = [\"softgpu,vram=32M\"]\n",
          [] {
            IDXCoreAdapterFactory* const factory = get_factory();
            IDXCoreAdapterList* const list = get_list(*factory, kD3D11Graphics);
            ASSERT_EQ(list->GetAdapterCount(), 1u);
            void* object = nullptr;
            EXPECT_EQ(list->GetAdapter(1, kIDXCoreAdapter, &object), kInvalidArgument);
            ASSERT_EQ(list->GetAdapter(0, kIDXCoreAdapter, &object), kOk);
            auto* const adapter = static_cast<IDXCoreAdapter*>(object);
            EXPECT_TRUE(adapter->IsValid());
            const auto luid = property<LUID>(*adapter, DXCoreAdapterProperty::InstanceLuid);
            EXPECT_EQ(luid.LowPart, adapters().at(0).AdapterLuid.LowPart);
            const auto ids =
                property<DXCoreHardwareIDParts>(*adapter, DXCoreAdapterProperty::HardwareIDParts);
            EXPECT_NE(ids.vendorID, 0u);
            EXPECT_EQ(
                property<DXCoreHardwareID>(*adapter, DXCoreAdapterProperty::HardwareID).vendorID,
                ids.vendorID);
            EXPECT_TRUE(property<bool>(*adapter, DXCoreAdapterProperty::IsHardware));
            EXPECT_EQ(property<uint64_t>(*adapter, DXCoreAdapterProperty::DedicatedAdapterMemory),
                      uint64_t{32} << 20);
            EXPECT_EQ(property<uint32_t>(*adapter, DXCoreAdapterProperty::KmdModelVersion),
                      static_cast<uint32_t>(KMT_DRIVERVERSION_WDDM_1_3));
            size_t bytes = 0;
            EXPECT_EQ(adapter->GetPropertySize(DXCoreAdapterProperty::DriverDescription, &bytes),
                      kOk);
            std::string text(bytes, 'x');
            EXPECT_EQ(
                adapter->GetProperty(DXCoreAdapterProperty::DriverDescription, bytes, text.data()),
                kOk);
            EXPECT_EQ(std::strlen(text.c_str()) + 1, bytes);
            EXPECT_EQ(adapter->GetPropertySize(static_cast<DXCoreAdapterProperty>(99), &bytes),
                      kInvalidCall);
            // The same LUID gives the same object.
            void* same = nullptr;
            EXPECT_EQ(factory->GetAdapterByLuid(luid, kIDXCoreAdapter, &same), kOk);
            EXPECT_EQ(same, adapter);
            EXPECT_EQ(factory->GetAdapterByLuid(LUID{77, 7}, kIDXCoreAdapter, &same),
                      kInvalidArgument);
            EXPECT_EQ(same, nullptr);
            adapter->Release();
            EXPECT_FALSE(list->IsStale());
            EXPECT_EQ(list->Release(), 0u);
            EXPECT_EQ(adapter->Release(), 0u);
          }),
      0);
}

TEST(DxCoreObjects, ListsHaveTheAdaptersWithAllAttributesAndAreSorted) {
  const Folder folder;
  EXPECT_EQ(
      in_program(
          folder, "driver = \"softgpu\"\ndevices = [\"softgpu,vram=32M\", \"softgpu,vram=64M\"]\n",
          [] {
            IDXCoreAdapterFactory* const factory = get_factory();
            // A driver of WDDM 1.3 has no Direct3D 12.
            EXPECT_EQ(get_list(*factory, kD3D12Graphics)->GetAdapterCount(), 0u);
            EXPECT_EQ(get_list(*factory, kD3D12CoreCompute)->GetAdapterCount(), 0u);
            IDXCoreAdapterList* const list = get_list(*factory, kD3D11Graphics);
            ASSERT_EQ(list->GetAdapterCount(), 2u);
            const auto memory = [&](uint32_t index) {
              void* object = nullptr;
              EXPECT_EQ(list->GetAdapter(index, kIDXCoreAdapter, &object), kOk);
              return property<uint64_t>(*static_cast<IDXCoreAdapter*>(object),
                                        DXCoreAdapterProperty::DedicatedAdapterMemory) >>
                     20;
            };
            EXPECT_EQ(memory(0), 32u);
            EXPECT_EQ(list->Sort(0, nullptr), kInvalidArgument);
            const auto best = DXCoreAdapterPreference::HighPerformance;
            EXPECT_EQ(list->Sort(1, &best), kOk);
            EXPECT_EQ(memory(0), 64u);
            EXPECT_EQ(memory(1), 32u);
            EXPECT_FALSE(list->IsStale());
            void* none = factory;
            EXPECT_EQ(factory->CreateAdapterList(0, &kD3D11Graphics, kIDXCoreAdapterList, &none),
                      kInvalidArgument);
            EXPECT_EQ(none, nullptr);
            EXPECT_EQ(factory->CreateAdapterList(1, &kD3D11Graphics, kIDXCoreAdapter, &none),
                      kNoInterface);
          }),
      0);
}

TEST(DxCoreObjects, StatesAreQueriedAndCannotBeSet) {
  const Folder folder;
  EXPECT_EQ(
      in_program(
          folder, "driver = \"softgpu\"\ndevices = [\"softgpu,vram=32M\"]\n",
          [] {
            IDXCoreAdapterFactory* const factory = get_factory();
            void* object = nullptr;
            ASSERT_EQ(get_list(*factory, kD3D11Graphics)->GetAdapter(0, kIDXCoreAdapter, &object),
                      kOk);
            auto* const adapter = static_cast<IDXCoreAdapter*>(object);
            DXCoreAdapterMemoryBudgetNodeSegmentGroup group = {0, DXCoreSegmentGroup::Local};
            DXCoreAdapterMemoryBudget budget = {};
            EXPECT_EQ(adapter->QueryState(DXCoreAdapterState::AdapterMemoryBudget, sizeof group,
                                          &group, sizeof budget, &budget),
                      kOk);
            EXPECT_GT(budget.budget, 0u);
            EXPECT_LE(budget.budget, uint64_t{32} << 20);
            EXPECT_EQ(adapter->QueryState(DXCoreAdapterState::AdapterMemoryBudget, 0, nullptr,
                                          sizeof budget, &budget),
                      kInvalidArgument);
            group.nodeIndex = 9;
            EXPECT_EQ(adapter->QueryState(DXCoreAdapterState::AdapterMemoryBudget, sizeof group,
                                          &group, sizeof budget, &budget),
                      kInvalidArgument);
            uint8_t updating = 9;
            EXPECT_EQ(adapter->QueryState(DXCoreAdapterState::IsDriverUpdateInProgress, 0, nullptr,
                                          1, &updating),
                      kOk);
            EXPECT_EQ(updating, 0);
            EXPECT_FALSE(adapter->IsSetStateSupported(DXCoreAdapterState::AdapterMemoryBudget));
            EXPECT_EQ(adapter->SetState(DXCoreAdapterState::AdapterMemoryBudget, sizeof group,
                                        &group, 8, &group),
                      kInvalidCall);
            uint32_t cookie = 5;
            EXPECT_FALSE(
                factory->IsNotificationTypeSupported(DXCoreNotificationType::AdapterListStale));
            EXPECT_EQ(factory->RegisterEventNotification(
                          adapter, DXCoreNotificationType::AdapterNoLongerValid,
                          [](DXCoreNotificationType, IUnknown*, void*) {}, nullptr, &cookie),
                      kInvalidCall);
            EXPECT_EQ(cookie, 0u);
          }),
      0);
}

// --- pieces ---

TEST(WideCharacters, PairsBecomeOneCharacterAndBack) {
  const std::u16string two = u"a\xD83D\xDE00z";
  std::u32string four(5, U'x');
  EXPECT_EQ(widen(two, four), 3u);
  EXPECT_EQ(four, std::u32string(U"a\U0001F600z\0\0", 5));
  std::u16string back(6, u'x');
  EXPECT_TRUE(narrow(four, back));
  EXPECT_EQ(back, std::u16string(u"a\xD83D\xDE00z\0\0", 6));
  std::u16string tight(3, u'x');
  EXPECT_FALSE(narrow(four, tight));  // the pair does not fit
  EXPECT_FALSE(narrow(std::u32string(1, char32_t{0x110000}), back));
  EXPECT_EQ(widen(std::u16string(u"\xD83D"), four), 1u);  // half a pair stays
  EXPECT_EQ(four[0], char32_t{0xD83D});
}

TEST(WideCharacters, ARegistryValueIsAskedForAndComesBackWide) {
  std::vector<std::byte> wide(8 + 260 * 4 + 16 + 40);
  ASSERT_TRUE(WideQuery::is_wide(KMTQAITYPE_QUERYREGISTRY, wide.size()));
  EXPECT_FALSE(WideQuery::is_wide(KMTQAITYPE_QUERYREGISTRY, sizeof(D3DDDI_QUERYREGISTRY_INFO)));
  const std::u32string name = U"Note";
  std::memcpy(wide.data() + 8, name.data(), name.size() * 4);
  const ULONG text_type = 1;  // REG_SZ
  std::memcpy(wide.data() + 8 + 1040, &text_type, 4);
  WideQuery query(KMTQAITYPE_QUERYREGISTRY, wide);
  ASSERT_TRUE(query.valid());
  D3DDDI_QUERYREGISTRY_INFO info;
  std::memcpy(&info, query.kernel_data().data(), sizeof info);
  EXPECT_EQ(std::u16string_view(info.ValueName), u"Note");
  EXPECT_EQ(info.ValueType, text_type);
  // The kernel's part: four units with their zero.
  info.OutputValueSize = 10;
  info.Status = D3DDDI_QUERYREGISTRY_STATUS_SUCCESS;
  std::memcpy(query.kernel_data().data(), &info, offsetof(D3DDDI_QUERYREGISTRY_INFO, OutputDword));
  const std::u16string value(u"gr\u00FCn\0", 5);
  std::memcpy(query.kernel_data().data() + offsetof(D3DDDI_QUERYREGISTRY_INFO, OutputDword),
              value.data(), 10);
  const std::vector<std::byte> answer = query.answer();
  ASSERT_EQ(answer.size(), wide.size());
  ULONG size = 0;
  std::memcpy(&size, answer.data() + 8 + 1040 + 8, 4);
  EXPECT_EQ(size, 20u);
  EXPECT_EQ(std::memcmp(answer.data() + 8 + 1040 + 16, U"gr\u00FCn\0", 20), 0);
}

TEST(StackFile, SaysWhatIsWrong) {
  const auto error = [](std::string_view text) {
    const auto file = parse_stack_file(text, "/folder");
    return file.has_value() ? "" : file.error();
  };
  EXPECT_EQ(error("devices = []"), "devices: a list of texts such as [\"softgpu,vram=64M\"]");
  EXPECT_EQ(error("devices = [1]"), "devices: a list of texts such as [\"softgpu,vram=64M\"]");
  EXPECT_EQ(error("memory = \"0\""), "memory: a size such as \"512M\"");
  EXPECT_EQ(error("registry = \"none.toml\""), "registry: a file that can be read");
  EXPECT_EQ(error("tdr_delay_ms = 0"), "tdr_delay_ms: 1 to 3600000");
  EXPECT_EQ(error("special_pool = 1"), "special_pool: true or false");
  EXPECT_EQ(error("colour = 1"), "colour: no such key");
  EXPECT_EQ(error("memory = \"1M\""), "driver: missing");
  EXPECT_EQ(error("a = 1\nb = " + std::string(100'000, '[')),
            "line 2: brackets nest deeper than 8.");
  EXPECT_EQ(error("a = \"\x01\""), "line 1: a control character (0x01).");
  EXPECT_EQ(error("[{"), "a bracket or a dot is followed by something that begins no key");
  const auto file = parse_stack_file(
      "driver = \"my.sys\"\ndevices = [\"my.so,x=1\", \"softgpu\"]\nmemory = \"64M\"\n"
      "tdr_delay_ms = 5\nreference_checks = false\nfindings = \"stderr\"\n",
      "/folder");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->driver, "/folder/my.sys");
  EXPECT_EQ(file->options.devices, (std::vector<std::string>{"/folder/my.so,x=1", "softgpu"}));
  EXPECT_EQ(file->options.memory_bytes, uint64_t{64} << 20);
  EXPECT_EQ(file->adapter.tdr_delay_ns, 5'000'000);
  EXPECT_FALSE(file->adapter.reference_checks);
  EXPECT_EQ(file->findings, "");
}

}  // namespace
}  // namespace dxgkit::dxcore
