// D3DKMTQueryAdapterInfo, type by type: sizes, refusals, and what is answered.
#include "thunks/adapter_info.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "nt/registry_store.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

constexpr NTSTATUS kRefused = nt_status(Status::kNotSupported);

/// Sizes are the ABI's; `zeros`: the answer to a structure of zeros, from an adapter without
/// outputs.
struct Row {
  int type;
  UINT bytes;
  NTSTATUS zeros = 0;
};
constexpr Row kRows[] = {{1, 524},
                         {2, 528},
                         {3, 24},
                         {4, 16},
                         {5, 12},
                         {6, 12},
                         {7, 12, kRefused},
                         {8, 2080},
                         {9, 48, kInvalid},
                         {10, 44, kRefused},
                         {11, 4},
                         {12, 4},
                         {13, 4},
                         {15, 4},
                         {16, 8, kInvalid},
                         {17, 12},
                         {18, 8},
                         {19, 4},
                         {20, 4},
                         {21, 520, kRefused},
                         {22, 4},
                         {23, 16, kInvalid},
                         {24, 4},
                         {25, 78},
                         {26, 520, kRefused},
                         {27, 4},
                         {28, 4},
                         {29, 520, kRefused},
                         {30, 4},
                         {31, 28},
                         {32, 4},
                         {33, 4},
                         {34, 12},
                         {35, 4},
                         {36, 4},
                         {37, 4},
                         {38, 4},
                         {39, 4},
                         {40, 4},
                         {41, 24, kRefused},
                         {42, 56},
                         {43, 4},
                         {44, 1},
                         {45, 4},
                         {46, 12, kInvalid},
                         {47, 8, kInvalid},
                         {48, 552},
                         {49, 8},
                         {50, 8, kRefused},
                         {51, 8, kRefused},
                         {52, 16},
                         {53, 12},
                         {54, 2080},
                         {55, 4},
                         {56, 4},
                         {57, 4},
                         {58, 12},
                         {59, 4},
                         {60, 80},
                         {61, 56},
                         {62, 64},
                         {63, 40},
                         {64, 132},
                         {65, 8192},
                         {66, 8192},
                         {67, 8, kRefused},
                         {68, 1},
                         {69, 8, kRefused},
                         {70, 4},
                         {71, 524, kRefused},
                         {72, 12},
                         {73, 4},
                         {74, 8},
                         {75, 4},
                         {76, 4},
                         {77, 4},
                         {78, 520, kRefused},
                         {79, 520, kRefused},
                         {80, 4},
                         {81, 4, kRefused}};

/// The driver of these tests: WDDM 2.6, with texts in its registry and numbers of its own.
nt::KernelConfig config() {
  nt::KernelConfig made;
  auto& software = made.registry[nt::KernelConfig::kSoftwareKey];
  std::u16string multi(u"one.dll");
  multi += u'\0';
  multi += u"two.dll";
  multi += u'\0';
  multi += u'\0';
  nt::RegistryValue list;
  list.type = nt::kRegMultiSz;
  list.data.resize(multi.size() * sizeof(char16_t));
  std::memcpy(list.data.data(), multi.data(), list.data.size());
  software["UserModeDriverName"] = list;
  software["OpenGLDriverName"] = nt::RegistryValue::string(u"gl.dll");
  software["OpenGLVersion"] = nt::RegistryValue::dword(7);
  nt::RegistryValue bytes = nt::RegistryValue::dword(9);
  bytes.type = nt::kRegBinary;
  software["OpenGLFlags"] = bytes;
  software["DriverVersion"] = nt::RegistryValue::string(u"31.0.101.65535");
  software["DriverDesc"] = nt::RegistryValue::string(u"a GPU");
  software["HardwareInformation.ChipType"] = nt::RegistryValue::string(u"chip");
  made.registry[nt::KernelConfig::kDriverKey]["Setting"] = nt::RegistryValue::dword(0x11223344);
  return made;
}

class AdapterInfo : public ContractTest {
 protected:
  static void with_driver(const std::function<void(Stack&, Client&)>& body,
                          uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM2_6) {
    runtime::make_sim_runtime(
        {.seed = 1, .time_limit = 3600 * runtime::kSecond, .stack_bytes = 512 * 1024})
        ->run_main([&] {
          Stack stack(config());
          stack.miniport.config.version = version;
          stack.miniport.config.caps = [](DXGK_DRIVERCAPS& caps) {
            caps.WDDMVersion = DXGKDDI_WDDMv1_3;
            caps.HybridDiscrete = TRUE;
            caps.MiscCaps.Detachable = 1;
            caps.MaxQueuedFlipOnVSync = 1;
          };
          stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
            return answer(stack, args);
          };
          ASSERT_EQ(stack.start(), Status::kSuccess);
          {
            Client client(stack);
            body(stack, client);
          }
          stack.miniport.hooks = {};
        });
  }
  static NTSTATUS answer(Stack& stack, const DXGKARG_QUERYADAPTERINFO* args) {
    switch (args->Type) {
      case DXGKQAITYPE_NODEPERFDATA: {
        EXPECT_EQ(args->InputDataSize, 4U);
        DXGK_NODE_PERFDATA data{};
        data.Frequency = 1000 + *static_cast<const UINT32*>(args->pInputData);
        data.VoltageMaxOC = 5;
        EXPECT_EQ(args->OutputDataSize, sizeof data);
        std::memcpy(args->pOutputData, &data, sizeof data);
        return 0;
      }
      case DXGKQAITYPE_ADAPTERPERFDATA: {
        DXGK_ADAPTER_PERFDATA data{};
        data.Temperature = 451;
        data.PowerStateOverride = 1;
        EXPECT_EQ(args->OutputDataSize, sizeof data);
        std::memcpy(args->pOutputData, &data, sizeof data);
        return 0;
      }
      case DXGKQAITYPE_ADAPTERPERFDATA_CAPS: {
        DXGK_ADAPTER_PERFDATACAPS data{};
        data.MaxFanRPM = 3000;
        EXPECT_EQ(args->OutputDataSize, sizeof data);
        std::memcpy(args->pOutputData, &data, sizeof data);
        return 0;
      }
      case DXGKQAITYPE_GPUVERSION: {
        DXGK_GPUVERSION data{};
        data.BiosVersion[0] = u'B';
        EXPECT_EQ(args->OutputDataSize, sizeof data);
        std::memcpy(args->pOutputData, &data, sizeof data);
        return 0;
      }
      default:
        return stack.miniport.default_query_adapter_info(args);
    }
  }
  static NTSTATUS query(Client& client, int type, void* data, UINT bytes) {
    D3DKMT_QUERYADAPTERINFO args{};
    args.hAdapter = client.adapter;
    args.Type = static_cast<KMTQUERYADAPTERINFOTYPE>(type);
    args.pPrivateDriverData = data;
    args.PrivateDriverDataSize = bytes;
    return client.call([&] { return D3DKMTQueryAdapterInfo(&args); });
  }
  /// The answer to zeros, or to `in`.
  template <typename T>
  static T ask(Client& client, KMTQUERYADAPTERINFOTYPE type, T in = {}) {
    EXPECT_EQ(query(client, type, &in, sizeof in), 0) << type;
    return in;
  }
};

TEST_F(AdapterInfo, EachTypeHasOneSize) {
  DXGKIT_COVERS("THUNK-39", "THUNK-01", "THUNK-05");
  with_driver([](Stack& stack, Client& client) {
    for (const Row& row : kRows) {
      SCOPED_TRACE(row.type);
      constexpr std::byte kGuard{0xA5};
      std::vector<std::byte> data(row.bytes + 64, kGuard);
      const auto ask_with = [&](UINT bytes, void* at) {
        return query(client, row.type, at, bytes);
      };
      const auto untouched = [&] {
        return std::ranges::all_of(data, [](std::byte byte) { return byte == kGuard; });
      };
      const Digest before = digest(stack, {&client});
      const bool refused = row.zeros == kRefused, open_ended = row.type == KMTQAITYPE_QUERYREGISTRY;
      EXPECT_EQ(ask_with(row.bytes - 1, data.data()), refused ? kRefused : kInvalid) << "too small";
      if (!open_ended) {
        EXPECT_EQ(ask_with(row.bytes + 1, data.data()), refused ? kRefused : kInvalid);
      }
      EXPECT_EQ(ask_with(row.bytes, nullptr), refused ? kRefused : kInvalid);
      EXPECT_EQ(ask_with(row.bytes, reinterpret_cast<void*>(8)), refused ? kRefused : kInvalid);
      EXPECT_EQ(ask_with(0, data.data()), refused ? kRefused : kInvalid);
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_TRUE(untouched());
      std::fill_n(data.begin(), row.bytes, std::byte{0});
      EXPECT_EQ(ask_with(row.bytes, data.data()), row.zeros);
      if (row.zeros != 0) {
        EXPECT_EQ(std::count(data.begin(), data.begin() + row.bytes, std::byte{0}), row.bytes);
      }
      EXPECT_TRUE(std::all_of(data.begin() + row.bytes, data.end(),
                              [](std::byte byte) { return byte == kGuard; }));
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(AdapterInfo, EveryTypeIsInTheTable) {
  DXGKIT_COVERS("THUNK-39");
  const auto types = thunks::adapter_info_types();
  ASSERT_EQ(types.size(), std::size(kRows));
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(static_cast<int>(types[i].type), kRows[i].type);
    const bool refused = kRows[i].zeros == kRefused;
    EXPECT_EQ(types[i].support.support == thunks::Support::kRefused, refused) << kRows[i].type;
    EXPECT_EQ(types[i].answer == nullptr, refused) << kRows[i].type;
    EXPECT_TRUE(!refused || !types[i].support.note.empty()) << kRows[i].type;
    EXPECT_TRUE(refused || types[i].bytes == kRows[i].bytes) << kRows[i].type;
  }
  EXPECT_EQ(thunks::adapter_info_support().size(), types.size() + 1);
  with_driver([](Stack&, Client& client) {
    int data[4] = {};
    for (const int type : {14, 82, -1, 1000})
      EXPECT_EQ(query(client, type, data, sizeof data), kInvalid) << type;
  });
}

TEST_F(AdapterInfo, CapabilitiesAreTheDrivers) {
  DXGKIT_COVERS("THUNK-40");
  with_driver([](Stack&, Client& client) {
    const auto type = ask<D3DKMT_ADAPTERTYPE>(client, KMTQAITYPE_ADAPTERTYPE);
    EXPECT_EQ(type.Value, 1U << 0 | 1U << 4 | 1U << 10) << "renders, hybrid discrete, detachable";
    EXPECT_EQ(ask<D3DKMT_DRIVERVERSION>(client, KMTQAITYPE_DRIVERVERSION),
              KMT_DRIVERVERSION_WDDM_1_3);
    const auto caps12 = ask<D3DKMT_WDDM_1_2_CAPS>(client, KMTQAITYPE_WDDM_1_2_CAPS);
    EXPECT_EQ(caps12.SupportNonVGA, 1U);
    EXPECT_EQ(caps12.SupportPerEngineTDR, 0U);
    EXPECT_EQ(caps12.PreemptionCaps.GraphicsPreemptionGranularity,
              D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY);
    EXPECT_EQ(ask<D3DKMT_WDDM_1_3_CAPS>(client, KMTQAITYPE_WDDM_1_3_CAPS).Value, 1U << 2);
    EXPECT_EQ(ask<D3DKMT_WDDM_2_0_CAPS>(client, KMTQAITYPE_WDDM_2_0_CAPS).Value, 1U << 0);
    EXPECT_EQ(ask<D3DKMT_WDDM_2_7_CAPS>(client, KMTQAITYPE_WDDM_2_7_CAPS).Value, 0U);
    EXPECT_EQ(ask<D3DKMT_WDDM_3_1_CAPS>(client, KMTQAITYPE_WDDM_3_1_CAPS).Value, 0U);
    EXPECT_EQ(ask<D3DKMT_QUERY_GPUMMU_CAPS>(client, KMTQAITYPE_QUERY_GPUMMU_CAPS).Caps.Flags.Value,
              0U);
    const auto node = ask<D3DKMT_NODEMETADATA>(client, KMTQAITYPE_NODEMETADATA);
    EXPECT_EQ(node.NodeData.EngineType, DXGK_ENGINE_TYPE_3D);
    D3DKMT_NODEMETADATA none{};
    none.NodeOrdinalAndAdapterIndex = 2;
    EXPECT_EQ(query(client, KMTQAITYPE_NODEMETADATA, &none, sizeof none), kInvalid);
    none.NodeOrdinalAndAdapterIndex = 1U << 16;
    EXPECT_EQ(query(client, KMTQAITYPE_NODEMETADATA, &none, sizeof none), kInvalid);
  });
}

TEST_F(AdapterInfo, SegmentsAddUp) {
  DXGKIT_COVERS("THUNK-40", "SEG-43");
  with_driver([](Stack& stack, Client& client) {
    uint64_t memory = 0, aperture = 0;
    for (const auto& segment : stack.miniport.config.segments)
      (segment.flags.Aperture != 0 ? aperture : memory) += segment.size;
    ASSERT_GT(aperture, 0U);
    const auto sizes = ask<D3DKMT_SEGMENTSIZEINFO>(client, KMTQAITYPE_GETSEGMENTSIZE);
    EXPECT_EQ(sizes.DedicatedVideoMemorySize, memory);
    EXPECT_EQ(sizes.DedicatedSystemMemorySize, 0U);
    EXPECT_EQ(sizes.SharedSystemMemorySize, aperture);
    const auto groups = ask<D3DKMT_SEGMENTGROUPSIZEINFO>(client, KMTQAITYPE_GETSEGMENTGROUPSIZE);
    EXPECT_EQ(groups.LegacyInfo.DedicatedVideoMemorySize, memory);
    EXPECT_EQ(groups.LocalMemory, memory);
    EXPECT_EQ(groups.NonLocalMemory, aperture);
    EXPECT_EQ(groups.NonBudgetMemory, 0U);
    D3DKMT_SEGMENTGROUPSIZEINFO other{};
    other.PhysicalAdapterIndex = 1;
    EXPECT_EQ(query(client, KMTQAITYPE_GETSEGMENTGROUPSIZE, &other, sizeof other), kInvalid);
  });
}

TEST_F(AdapterInfo, TheRegistryAndTheBusSayWhoItIs) {
  DXGKIT_COVERS("THUNK-40");
  with_driver([](Stack& stack, Client& client) {
    D3DKMT_UMDFILENAMEINFO name{};
    name.Version = KMTUMDVERSION_DX10;
    name = ask(client, KMTQAITYPE_UMDRIVERNAME, name);
    EXPECT_EQ(std::u16string(name.UmdFileName), u"two.dll");
    name.Version = KMTUMDVERSION_DX11;
    EXPECT_EQ(query(client, KMTQAITYPE_UMDRIVERNAME, &name, sizeof name), kInvalid);
    const auto opengl = ask<D3DKMT_OPENGLINFO>(client, KMTQAITYPE_UMOPENGLINFO);
    EXPECT_EQ(std::u16string(opengl.UmdOpenGlIcdFileName), u"gl.dll");
    EXPECT_EQ(opengl.Version, 7U);
    EXPECT_EQ(opengl.Flags, 0U) << "four bytes of another type are no number";
    EXPECT_EQ(std::u16string(
                  ask<D3DKMT_ADAPTERREGISTRYINFO>(client, KMTQAITYPE_ADAPTERREGISTRYINFO).ChipType),
              u"chip");
    EXPECT_EQ(std::u16string(ask<D3DKMT_DRIVER_DESCRIPTION>(client, KMTQAITYPE_DRIVER_DESCRIPTION)
                                 .DriverDescription),
              u"a GPU");
    constexpr LONGLONG kVersion = 31LL << 48 | 101 << 16 | 65535;
    EXPECT_EQ(ask<D3DKMT_UMD_DRIVER_VERSION>(client, KMTQAITYPE_UMD_DRIVER_VERSION)
                  .DriverVersion.QuadPart,
              kVersion);
    EXPECT_EQ(ask<D3DKMT_KMD_DRIVER_VERSION>(client, KMTQAITYPE_KMD_DRIVER_VERSION)
                  .DriverVersion.QuadPart,
              kVersion);
    EXPECT_EQ(ask<D3DKMT_ADAPTERADDRESS>(client, KMTQAITYPE_ADAPTERADDRESS).DeviceNumber, 2U);
    EXPECT_EQ(ask<D3DKMT_PHYSICAL_ADAPTER_COUNT>(client, KMTQAITYPE_PHYSICALADAPTERCOUNT).Count,
              1U);
    const auto ids = ask<D3DKMT_QUERY_DEVICE_IDS>(client, KMTQAITYPE_PHYSICALADAPTERDEVICEIDS);
    EXPECT_EQ(ids.DeviceIds.VendorID, stack.miniport.function().identity().vendor_id);
    EXPECT_EQ(ids.DeviceIds.DeviceID, stack.miniport.function().identity().device_id);
    EXPECT_EQ(ids.DeviceIds.BusType, 5U);
    const auto guid =
        ask<D3DKMT_QUERY_ADAPTER_UNIQUE_GUID>(client, KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID);
    EXPECT_EQ(std::u16string(guid.AdapterUniqueGUID), u"{6467786B-6974-4000-8000-000000000001}");
  });
}

TEST_F(AdapterInfo, ValuesOfTheRegistryAreReadAsTheyAre) {
  DXGKIT_COVERS("THUNK-41");
  with_driver([](Stack&, Client& client) {
    std::vector<std::byte> data(600);
    const auto ask_for = [&](D3DDDI_QUERYREGISTRY_TYPE where, const char16_t* name, ULONG type,
                             UINT bytes = 552) {
      D3DDDI_QUERYREGISTRY_INFO info{};
      info.QueryType = where;
      std::u16string_view text(name);
      std::ranges::copy(text, info.ValueName);
      info.ValueType = type;
      std::ranges::fill(data, std::byte{0xA5});
      std::memcpy(data.data(), &info, 544);
      const NTSTATUS status = query(client, KMTQAITYPE_QUERYREGISTRY, data.data(), bytes);
      std::memcpy(&info, data.data(), sizeof info);
      return std::pair(status, info);
    };
    auto [status, info] = ask_for(D3DDDI_QUERYREGISTRY_SERVICEKEY, u"SETTING", 4);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(info.Status, D3DDDI_QUERYREGISTRY_STATUS_SUCCESS);
    EXPECT_EQ(info.OutputValueSize, 4U);
    EXPECT_EQ(info.OutputDword, 0x11223344U);
    std::tie(status, info) = ask_for(D3DDDI_QUERYREGISTRY_SERVICEKEY, u"Setting", 1);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(info.Status, D3DDDI_QUERYREGISTRY_STATUS_FAIL) << "of another type";
    EXPECT_EQ(info.OutputDword, 0xA5A5A5A5U);
    std::tie(status, info) = ask_for(D3DDDI_QUERYREGISTRY_ADAPTERKEY, u"OpenGLDriverName", 1);
    EXPECT_EQ(info.Status, D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW);
    EXPECT_EQ(info.OutputValueSize, 14U);
    EXPECT_EQ(info.OutputDword, 0xA5A5A5A5U);
    std::tie(status, info) = ask_for(D3DDDI_QUERYREGISTRY_ADAPTERKEY, u"OpenGLDriverName", 1, 558);
    EXPECT_EQ(info.Status, D3DDDI_QUERYREGISTRY_STATUS_SUCCESS);
    EXPECT_EQ(std::memcmp(data.data() + 544, u"gl.dll", 14), 0);
    EXPECT_EQ(data[558], std::byte{0xA5});
    EXPECT_EQ(ask_for(D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH, u"", 1).first, kRefused);
    EXPECT_EQ(ask_for(D3DDDI_QUERYREGISTRY_MAX, u"", 1).first, kInvalid);
    std::ranges::fill(data, std::byte{0});
    std::fill_n(data.begin() + 8, 520, std::byte{0x41});
    EXPECT_EQ(query(client, KMTQAITYPE_QUERYREGISTRY, data.data(), 552), kInvalid)
        << "a name without end";
  });
}

TEST_F(AdapterInfo, ADriverOfBefore24IsNotAskedForItsPerformance) {
  DXGKIT_COVERS("THUNK-42");
  with_driver(
      [](Stack& stack, Client& client) {
        size_t asked = 0;
        stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO*) {
          ++asked;
          return STATUS_SUCCESS;
        };
        const Digest before = digest(stack, {&client});
        D3DKMT_NODE_PERFDATA node{};
        EXPECT_EQ(query(client, KMTQAITYPE_NODEPERFDATA, &node, sizeof node), kRefused);
        D3DKMT_ADAPTER_PERFDATA adapter{};
        EXPECT_EQ(query(client, KMTQAITYPE_ADAPTERPERFDATA, &adapter, sizeof adapter), kRefused);
        EXPECT_EQ(asked, 0U);
        EXPECT_EQ(digest(stack, {&client}), before);
      },
      DXGKDDI_INTERFACE_VERSION_WDDM2_3);
}

/// A structure whose bytes all differ.
template <typename T>
T numbered() {
  T value;
  std::array<std::byte, sizeof(T)> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i + 1);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// What the driver says arrives member by member.
TEST_F(AdapterInfo, EachNumberOfThePerformanceIsTheDrivers) {
  DXGKIT_COVERS("THUNK-42");
  with_driver([](Stack& stack, Client& client) {
    stack.miniport.hooks.query_adapter_info = [](const DXGKARG_QUERYADAPTERINFO* args) {
      const auto all = numbered<std::array<std::byte, 200>>();
      std::memcpy(args->pOutputData, all.data(), args->OutputDataSize);
      return STATUS_SUCCESS;
    };
    const auto said_node = numbered<DXGK_NODE_PERFDATA>();
    D3DKMT_NODE_PERFDATA node{};
    node.NodeOrdinal = 1;
    node = ask(client, KMTQAITYPE_NODEPERFDATA, node);
    EXPECT_EQ(node.NodeOrdinal, 1U);
    EXPECT_EQ(node.PhysicalAdapterIndex, 0U);
    EXPECT_EQ(node.Frequency, said_node.Frequency);
    EXPECT_EQ(node.MaxFrequency, said_node.MaxFrequency);
    EXPECT_EQ(node.MaxFrequencyOC, said_node.MaxFrequencyOC);
    EXPECT_EQ(node.Voltage, said_node.Voltage);
    EXPECT_EQ(node.VoltageMax, said_node.VoltageMax);
    EXPECT_EQ(node.VoltageMaxOC, said_node.VoltageMaxOC);
    EXPECT_EQ(node.MaxTransitionLatency, said_node.MaxTransitionLatency);
    const auto said = numbered<DXGK_ADAPTER_PERFDATA>();
    const auto adapter = ask<D3DKMT_ADAPTER_PERFDATA>(client, KMTQAITYPE_ADAPTERPERFDATA);
    EXPECT_EQ(adapter.MemoryFrequency, said.MemoryFrequency);
    EXPECT_EQ(adapter.MaxMemoryFrequency, said.MaxMemoryFrequency);
    EXPECT_EQ(adapter.MaxMemoryFrequencyOC, said.MaxMemoryFrequencyOC);
    EXPECT_EQ(adapter.MemoryBandwidth, said.MemoryBandwidth);
    EXPECT_EQ(adapter.PCIEBandwidth, said.PCIEBandwidth);
    EXPECT_EQ(adapter.FanRPM, said.FanRPM);
    EXPECT_EQ(adapter.Power, said.Power);
    EXPECT_EQ(adapter.Temperature, said.Temperature);
    EXPECT_EQ(adapter.PowerStateOverride, said.PowerStateOverride);
    const auto most = numbered<DXGK_ADAPTER_PERFDATACAPS>();
    const auto caps = ask<D3DKMT_ADAPTER_PERFDATACAPS>(client, KMTQAITYPE_ADAPTERPERFDATA_CAPS);
    EXPECT_EQ(caps.MaxMemoryBandwidth, most.MaxMemoryBandwidth);
    EXPECT_EQ(caps.MaxPCIEBandwidth, most.MaxPCIEBandwidth);
    EXPECT_EQ(caps.MaxFanRPM, most.MaxFanRPM);
    EXPECT_EQ(caps.TemperatureMax, most.TemperatureMax);
    EXPECT_EQ(caps.TemperatureWarning, most.TemperatureWarning);
    const auto version = numbered<DXGK_GPUVERSION>();
    const auto gpu = ask<D3DKMT_GPUVERSION>(client, KMTQUITYPE_GPUVERSION);
    EXPECT_EQ(std::memcmp(gpu.BiosVersion, version.BiosVersion, sizeof gpu.BiosVersion), 0);
    EXPECT_EQ(std::memcmp(gpu.GpuArchitecture, version.GpuArchitecture, sizeof gpu.GpuArchitecture),
              0);
  });
}

// There is one physical adapter, and nobody is asked about a second one.
TEST_F(AdapterInfo, ASecondPhysicalAdapterHasNoAnswers) {
  DXGKIT_COVERS("THUNK-42", "THUNK-05");
  with_driver([](Stack& stack, Client& client) {
    const auto second = [&](KMTQUERYADAPTERINFOTYPE type, auto args) {
      args.PhysicalAdapterIndex = 1;
      const auto sent = args;
      EXPECT_EQ(query(client, type, &args, sizeof args), kInvalid) << type;
      EXPECT_EQ(std::memcmp(&args, &sent, sizeof args), 0) << type;
    };
    const Digest before = digest(stack, {&client});
    second(KMTQAITYPE_NODEPERFDATA, D3DKMT_NODE_PERFDATA{});
    second(KMTQAITYPE_ADAPTERPERFDATA, D3DKMT_ADAPTER_PERFDATA{});
    second(KMTQAITYPE_ADAPTERPERFDATA_CAPS, D3DKMT_ADAPTER_PERFDATACAPS{});
    second(KMTQUITYPE_GPUVERSION, D3DKMT_GPUVERSION{});
    second(KMTQAITYPE_QUERY_GPUMMU_CAPS, D3DKMT_QUERY_GPUMMU_CAPS{});
    second(KMTQAITYPE_GETSEGMENTGROUPSIZE, D3DKMT_SEGMENTGROUPSIZEINFO{});
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(AdapterInfo, TheDriverIsAskedForItsPerformance) {
  DXGKIT_COVERS("THUNK-42", "THUNK-05");
  with_driver([](Stack& stack, Client& client) {
    D3DKMT_NODE_PERFDATA node{};
    node.NodeOrdinal = 1;
    node = ask(client, KMTQAITYPE_NODEPERFDATA, node);
    EXPECT_EQ(node.Frequency, 1001U);
    EXPECT_EQ(node.VoltageMaxOC, 5U);
    EXPECT_EQ(node.NodeOrdinal, 1U);
    const auto adapter = ask<D3DKMT_ADAPTER_PERFDATA>(client, KMTQAITYPE_ADAPTERPERFDATA);
    EXPECT_EQ(adapter.Temperature, 451U);
    EXPECT_EQ(adapter.PowerStateOverride, 1U);
    EXPECT_EQ(ask<D3DKMT_ADAPTER_PERFDATACAPS>(client, KMTQAITYPE_ADAPTERPERFDATA_CAPS).MaxFanRPM,
              3000U);
    EXPECT_EQ(ask<D3DKMT_GPUVERSION>(client, KMTQUITYPE_GPUVERSION).BiosVersion[0], u'B');
    const Digest before = digest(stack, {&client});
    node.NodeOrdinal = 2;
    EXPECT_EQ(query(client, KMTQAITYPE_NODEPERFDATA, &node, sizeof node), kInvalid);
    node.NodeOrdinal = 0;
    node.PhysicalAdapterIndex = 1;
    EXPECT_EQ(query(client, KMTQAITYPE_NODEPERFDATA, &node, sizeof node), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    stack.miniport.hooks.query_adapter_info = [](const DXGKARG_QUERYADAPTERINFO* args) {
      std::memset(args->pOutputData, 0x77, args->OutputDataSize);
      return nt_status(Status::kInsufficientResources);
    };
    D3DKMT_ADAPTER_PERFDATA failed{};
    EXPECT_EQ(query(client, KMTQAITYPE_ADAPTERPERFDATA, &failed, sizeof failed),
              nt_status(Status::kInsufficientResources));
    EXPECT_EQ(failed.Temperature, 0U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
