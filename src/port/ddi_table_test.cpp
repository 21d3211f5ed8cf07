// Every DDI the port calls, once: at the level, in the class and under the name that the rulebook
// gives it (rules/ddi.json).
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "dxgkit/abi_versions.h"
#include "port/hw_queue.h"
#include "port/hw_scheduling.h"
#include "port/native_fence.h"
#include "port/port_world_test.h"
#include "port/support.h"
#include "tests/support/ddi_rules.h"

namespace dxgkit::port {
namespace {

using testing::DdiRule;
using testing::ScriptedMiniport;

constexpr size_t kEntries = std::size(abi::kDriverInitializationData);

struct Seen {
  std::string entry, frame;  // what was called, and as what
  nt::Irql irql = 0;
};

/// What happened in the driver; one world at a time.
struct Record {
  std::vector<Seen> calls;
  std::array<void*, kEntries> scripted{};  // what goes on to the scripted miniport
  std::string leaves_raised;               // the entry that returns at another level
};
Record* record = nullptr;

void note(std::string_view entry) {
  const nt::CallFrame& frame = nt::CallFrame::current();
  record->calls.push_back({std::string(entry), frame.name(), frame.irql()});
}
void leave(std::string_view entry) {
  if (record->leaves_raised != entry) return;
  nt::CallFrame& frame = nt::CallFrame::current();
  if (frame.irql() == nt::kHighLevel) {
    frame.lower(nt::kDeviceLevel);
  } else {
    frame.raise(frame.irql() == nt::kPassiveLevel ? nt::kDispatchLevel : nt::kHighLevel);
  }
}

/// Entry `I` of the table: noted, then passed on, or answered with zeros. A call of the Microsoft
/// convention leaves its arguments where more than enough of them can be read.
template <size_t I>
uint64_t NTAPI entry_stub(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
                          uint64_t g, uint64_t h) {
  note(abi::kDriverInitializationData[I].name);
  using Entry = uint64_t(NTAPI*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                 uint64_t, uint64_t);
  uint64_t answer = 0;
  if (record->scripted[I] != nullptr)
    answer = reinterpret_cast<Entry>(record->scripted[I])(a, b, c, d, e, f, g, h);
  leave(abi::kDriverInitializationData[I].name);
  return answer;
}
template <size_t... I>
constexpr auto make_stubs(std::index_sequence<I...>) {
  return std::array{&entry_stub<I>...};
}
constexpr auto kStubs = make_stubs(std::make_index_sequence<kEntries>());

/// These do what the scripted miniport does, so that an adapter comes up.
const std::set<std::string_view> kScripted = {
    "DxgkDdiAddDevice",    "DxgkDdiStartDevice",      "DxgkDdiStopDevice",
    "DxgkDdiRemoveDevice", "DxgkDdiQueryAdapterInfo", "DxgkDdiUnload",
    "DxgkDdiDpcRoutine",   "DxgkDdiInterruptRoutine", "DxgkDdiGetNodeMetadata"};

void fill(DRIVER_INITIALIZATION_DATA& table) {
  auto* const bytes = reinterpret_cast<std::byte*>(&table);
  for (size_t i = 0; i < kEntries; ++i) {
    const abi::TableEntry& entry = abi::kDriverInitializationData[i];
    if (!entry.name.starts_with("DxgkDdi") || entry.since > table.Version) continue;
    if (kScripted.contains(entry.name))
      std::memcpy(&record->scripted[i], bytes + entry.offset_bytes, sizeof(void*));
    const auto stub = kStubs[i];
    std::memcpy(bytes + entry.offset_bytes, &stub, sizeof stub);
  }
}

constexpr const char* kPresentDisplayOnly = "DxgkDdiPresentDisplayOnly";

/// DriverEntry of a display-only driver: the same entries at the places its table has for them, and
/// the one that no other kind has.
NTSTATUS initialize_display_only(DRIVER_OBJECT* object, UNICODE_STRING* path,
                                 const DRIVER_INITIALIZATION_DATA& full) {
  KMDDOD_INITIALIZATION_DATA table;
  std::memset(&table, 0, sizeof table);
  table.Version = full.Version;
  for (const abi::TableEntry& entry : abi::kKmddodInitializationData) {
    for (const abi::TableEntry& same : abi::kDriverInitializationData) {
      if (same.name != entry.name || entry.since > table.Version) continue;
      std::memcpy(reinterpret_cast<std::byte*>(&table) + entry.offset_bytes,
                  reinterpret_cast<const std::byte*>(&full) + same.offset_bytes, sizeof(void*));
    }
  }
  table.Version = full.Version;
  table.DxgkDdiPresentDisplayOnly = [](const HANDLE, const DXGKARG_PRESENT_DISPLAYONLY*) NTAPI {
    note(kPresentDisplayOnly);
    leave(kPresentDisplayOnly);
    return STATUS_SUCCESS;
  };
  const auto initialize =
      reinterpret_cast<NTSTATUS(NTAPI*)(DRIVER_OBJECT*, UNICODE_STRING*, const void*)>(
          const_cast<void*>(nt::find_export("DxgkInitializeDisplayOnlyDriver")->address));
  return initialize(object, path, &table);
}

/// What a class of synchronization looks like from outside.
enum class Level {
  kZero,    // waits while somebody has level two
  kBeside,  // at any time
  kLane,    // level one of the scheduler: the lane's, which nobody has level two beside
  kTwo,
  kThree
};

struct World : PortWorld {
  explicit World(uint32_t version) {
    record = &noted;
    miniport.config.version = version;
    miniport.config.table = fill;
    miniport.hooks.query_adapter_info = [this](const DXGKARG_QUERYADAPTERINFO* args) -> NTSTATUS {
      if (args->Type == DXGKQAITYPE_NUMPOWERCOMPONENTS) {
        *static_cast<UINT*>(args->pOutputData) = 4;
        return STATUS_SUCCESS;
      }
      if (args->Type == DXGKQAITYPE_POWERCOMPONENTINFO) {
        static_cast<DXGK_POWER_RUNTIME_COMPONENT*>(args->pOutputData)->StateCount = 2;
        return STATUS_SUCCESS;
      }
      return miniport.default_query_adapter_info(args);
    };
  }
  ~World() {
    adapter.reset();
    driver.reset();
    record = nullptr;
  }
  void up() {
    ASSERT_EQ(load(), Status::kSuccess) << message;
    ASSERT_EQ(adapter->add_device(), Status::kSuccess);
    ASSERT_TRUE(adapter->start_device().has_value());
    static_cast<void>(adapter->query_driver_caps());
    up_ = true;
  }
  void down() {
    if (!up_) return;
    if (seen("DxgkDdiStopDeviceAndReleasePostDisplayOwnership").empty())
      static_cast<void>(adapter->stop_device());
    static_cast<void>(adapter->remove_device());
  }
  std::vector<Seen> seen(std::string_view entry) const {
    std::vector<Seen> found;
    for (const Seen& one : noted.calls) {
      if (one.entry == entry) found.push_back(one);
    }
    return found;
  }
  Record noted;

 private:
  bool up_ = false;
};

struct Row {
  const char* entry;
  nt::Irql irql;
  Level level;
  std::function<void(World&)> call;
  uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
};

void* const kSome = reinterpret_cast<void*>(uint64_t{0x5000});  // a driver's handle

AdapterPort& port(World& world) { return *world.adapter; }

/// Takes whatever a call answers: what the driver said is nonsense.
template <typename T>
void ignore(T&&) {}

PatchArgs patch_args() {
  PatchArgs args;
  args.context = kSome;
  args.fence = SubmissionFenceId{3};
  return args;
}

std::vector<Row> life_rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel;
  return {
      {"DxgkDdiAddDevice", kPassive, Level::kThree, nullptr},
      {"DxgkDdiStartDevice", kPassive, Level::kThree, nullptr},
      {"DxgkDdiStopDevice", kPassive, Level::kThree, nullptr},
      {"DxgkDdiRemoveDevice", kPassive, Level::kThree, nullptr},
      {"DxgkDdiUnload", kPassive, Level::kThree, nullptr},
      {"DxgkDdiQueryAdapterInfo", kPassive, Level::kBeside,
       [](World& w) { ignore(port(w).query_segments()); }},
      {"DxgkDdiInterruptRoutine", nt::kDeviceLevel, Level::kBeside,
       [](World& w) {
         DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
         data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
         ignore(w.miniport.raise(data));
       }},
      {"DxgkDdiDpcRoutine", nt::kDispatchLevel, Level::kBeside,
       [](World& w) {
         DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
         data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
         ignore(w.miniport.raise(data));
       }},
      {"DxgkDdiQueryChildRelations", kPassive, Level::kThree,
       [](World& w) { ignore(port(w).query_child_relations(2)); }},
      {"DxgkDdiStopDeviceAndReleasePostDisplayOwnership", kPassive, Level::kThree,
       [](World& w) {
         DisplayInformation out;
         ignore(port(w).stop_device_and_release(1, &out));
       }},
      {"DxgkDdiSetPowerState", kPassive, Level::kThree,
       [](World& w) { ignore(port(w).set_power_state(std::nullopt, PowerState::kD3)); }},
      {"DxgkDdiNotifySurpriseRemoval", kPassive, Level::kBeside,
       [](World& w) { ignore(port(w).notify_surprise_removal(false)); }},
      {"DxgkDdiSetPowerComponentFState", kPassive, Level::kBeside,
       [](World& w) {
         if (port(w).query_power_components().size() == 4)
           ignore(port(w).set_component_f_state(3, 1));
       }},
      {"DxgkDdiGetNodeMetadata", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).get_node_metadata(NodeOrdinal{1})); }},
      {"DxgkDdiResetFromTimeout", kPassive, Level::kThree,
       [](World& w) { ignore(port(w).reset_from_timeout()); }},
      {"DxgkDdiRestartFromTimeout", kPassive, Level::kThree,
       [](World& w) { ignore(port(w).restart_from_timeout()); }},
      {"DxgkDdiCollectDbgInfo2", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).collect_debug_info(0x141)); }},
      {"DxgkDdiCollectDbgInfo", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).collect_debug_info(0x141)); },
       DXGKDDI_INTERFACE_VERSION_WDDM2_0},
      {"DxgkDdiSystemDisplayEnable", nt::kHighLevel, Level::kBeside,
       [](World& w) {
         uint32_t width = 0, height = 0, format = 0;
         ignore(port(w).system_display_enable(1, &width, &height, &format));
       }},
      {"DxgkDdiSystemDisplayWrite", nt::kHighLevel, Level::kBeside,
       [](World& w) {
         const std::array<std::byte, 64> pixels{};
         ignore(port(w).system_display_write(pixels, 4, 4, 16, 1, 2));
       }},
  };
}

std::vector<Row> object_rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel;
  return {
      {"DxgkDdiCreateProcess", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).create_process(0x40, false)); }},
      {"DxgkDdiDestroyProcess", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).destroy_process(kSome)); }},
      {"DxgkDdiCreateDevice", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).create_device(0x40, false)); }},
      {"DxgkDdiDestroyDevice", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).destroy_device(kSome)); }},
      {"DxgkDdiCreateContext", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).create_context(kSome, 0x80, NodeOrdinal{1}, 1, false, {})); }},
      {"DxgkDdiDestroyContext", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).destroy_context(kSome)); }},
      {"DxgkDdiCreateAllocation", kPassive, Level::kZero,
       [](World& w) {
         std::array<AllocationInfo, 2> infos;
         void* resource = nullptr;
         ignore(port(w).create_allocations(infos, {}, false, &resource));
       }},
      {"DxgkDdiDestroyAllocation", kPassive, Level::kZero,
       [](World& w) {
         const std::array<void*, 2> handles = {kSome, kSome};
         ignore(port(w).destroy_allocations(handles, nullptr, false));
       }},
      {"DxgkDdiOpenAllocation", kPassive, Level::kZero,
       [](World& w) {
         std::array<AdapterPort::OpenInfo, 1> infos;
         ignore(port(w).open_allocations(kSome, infos, {}, true, 0));
       }},
      {"DxgkDdiCloseAllocation", kPassive, Level::kZero,
       [](World& w) {
         const std::array<void*, 1> handles = {kSome};
         ignore(port(w).close_allocations(kSome, handles));
       }},
      {"DxgkDdiDescribeAllocation", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).describe_allocation(kSome)); }},
      {"DxgkDdiGetStandardAllocationDriverData", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).describe_shared_primary({.width = 8, .height = 4})); }},
      {"DxgkDdiValidateUpdateAllocationProperty", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).validate_property_update(kSome, {})); }},
      {"DxgkDdiAcquireSwizzlingRange", kPassive, Level::kZero,
       [](World& w) {
         AdapterPort::SwizzlingRange range;
         range.allocation = kSome;
         ignore(port(w).acquire_swizzling_range(&range));
       },
       DXGKDDI_INTERFACE_VERSION_WDDM1_3},
      {"DxgkDdiReleaseSwizzlingRange", kPassive, Level::kZero,
       [](World& w) { port(w).release_swizzling_range(kSome, 1, 2); },
       DXGKDDI_INTERFACE_VERSION_WDDM1_3},
      {"DxgkDdiMapCpuHostAperture", kPassive, Level::kZero,
       [](World& w) {
         const std::array<uint32_t, 1> aperture = {2};
         const std::array<uint64_t, 1> segment = {5};
         ignore(port(w).map_cpu_host_aperture(kSome, SegmentId{2}, aperture, segment));
       }},
      {"DxgkDdiUnmapCpuHostAperture", kPassive, Level::kZero,
       [](World& w) {
         const std::array<uint32_t, 1> aperture = {2};
         ignore(port(w).unmap_cpu_host_aperture(SegmentId{2}, aperture));
       }},
      {"DxgkDdiEscape", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).escape(kSome, kSome, 0, {})); }},
  };
}

std::vector<Row> work_rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel, kDispatch = nt::kDispatchLevel;
  return {
      {"DxgkDdiRender", kPassive, Level::kZero, [](World& w) { ignore(port(w).render({})); }},
      {"DxgkDdiRenderKm", kPassive, Level::kZero,
       [](World& w) {
         RenderArgs args;
         args.render_km = true;
         ignore(port(w).render(args));
       }},
      {"DxgkDdiPresent", kPassive, Level::kZero, [](World& w) { ignore(port(w).present({})); }},
      {"DxgkDdiPatch", kPassive, Level::kLane,
       [](World& w) { ignore(port(w).patch(patch_args())); }},
      {"DxgkDdiSubmitCommand", kDispatch, Level::kLane,
       [](World& w) {
         SubmitArgs args;
         args.context = kSome;
         ignore(port(w).submit(args));
       }},
      {"DxgkDdiSubmitCommandVirtual", kDispatch, Level::kLane,
       [](World& w) {
         SubmitVirtualArgs args;
         args.context = kSome;
         ignore(port(w).submit_virtual(args));
       }},
      {"DxgkDdiValidateSubmitCommand", kPassive, Level::kZero,
       [](World& w) {
         const std::array<void*, 1> contexts = {kSome};
         ValidateSubmitArgs args;
         args.contexts = contexts;
         ignore(port(w).validate_submit(args));
       }},
      {"DxgkDdiPreemptCommand", kDispatch, Level::kLane,
       [](World& w) { ignore(port(w).preempt(NodeOrdinal{1}, SubmissionFenceId{4})); }},
      {"DxgkDdiPreemptCommand", kPassive, Level::kLane,
       [](World& w) { ignore(port(w).preempt(NodeOrdinal{1}, SubmissionFenceId{4})); }},
      {"DxgkDdiCancelCommand", kPassive, Level::kLane,
       [](World& w) { ignore(port(w).cancel(patch_args())); }},
      {"DxgkDdiCancelCommand", kPassive, Level::kLane,
       [](World& w) { ignore(port(w).cancel(SubmitVirtualArgs{})); }},
      {"DxgkDdiQueryCurrentFence", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).query_current_fence(NodeOrdinal{1})); }},
      {"DxgkDdiBuildPagingBuffer", kPassive, Level::kLane,
       [](World& w) {
         std::array<std::byte, 64> room{};
         PagingOperation operation;
         operation.size_bytes = 4096;
         operation.segment = SegmentId{1};
         BuildPagingArgs args;
         args.buffer = room.data();
         args.buffer_bytes = room.size();
         args.operation = &operation;
         ignore(port(w).build_paging(args));
       }},
      {"DxgkDdiSetRootPageTable", kPassive, Level::kLane,
       [](World& w) { ignore(port(w).set_root_page_table(kSome, {})); }},
      {"DxgkDdiGetRootPageTableSize", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).get_root_page_table_size(8)); }},
      {"DxgkDdiQueryDependentEngineGroup", kPassive, Level::kLane,
       [](World& w) { ignore(port(w).query_dependent_engines(NodeOrdinal{1}, 2)); }},
      {"DxgkDdiQueryEngineStatus", kPassive, Level::kLane,
       [](World& w) { ignore(port(w).query_engine_status(NodeOrdinal{1})); }},
      {"DxgkDdiResetEngine", kPassive, Level::kLane,
       [](World& w) { ignore(port(w).reset_engine(NodeOrdinal{1})); }},
      {"DxgkDdiCreateHwContext", kPassive, Level::kZero,
       [](World& w) {
         ignore(HwQueuePort(port(w)).create_hw_context(kSome, 0x80, NodeOrdinal{1}, 1, {}));
       }},
      {"DxgkDdiDestroyHwContext", kPassive, Level::kZero,
       [](World& w) { ignore(HwQueuePort(port(w)).destroy_hw_context(kSome)); }},
      {"DxgkDdiCreateHwQueue", kPassive, Level::kZero,
       [](World& w) { ignore(HwQueuePort(port(w)).create_hw_queue(kSome, {})); }},
      {"DxgkDdiDestroyHwQueue", kPassive, Level::kZero,
       [](World& w) { ignore(HwQueuePort(port(w)).destroy_hw_queue(kSome)); }},
      {"DxgkDdiSubmitCommandToHwQueue", kDispatch, Level::kZero,
       [](World& w) { ignore(HwQueuePort(port(w)).submit({.queue = kSome})); }},
      {"DxgkDdiSetupPriorityBands", kPassive, Level::kLane,
       [](World& w) { ignore(HwSchedulingPort(port(w)).setup_priority_bands({})); }},
      {"DxgkDdiSetContextSchedulingProperties", kPassive, Level::kLane,
       [](World& w) { ignore(HwSchedulingPort(port(w)).set_context_properties(kSome, {})); }},
      {"DxgkDdiSuspendContext", kPassive, Level::kLane,
       [](World& w) { ignore(HwSchedulingPort(port(w)).suspend(kSome, 7)); }},
      {"DxgkDdiResumeContext", kPassive, Level::kLane,
       [](World& w) { ignore(HwSchedulingPort(port(w)).resume(kSome)); }},
      {"DxgkDdiResetHwEngine", kPassive, Level::kLane,
       [](World& w) { ignore(HwSchedulingPort(port(w)).reset_engine(NodeOrdinal{1})); }},
      {"DxgkDdiResumeHwEngine", kPassive, Level::kLane,
       [](World& w) { ignore(HwSchedulingPort(port(w)).resume_engine(NodeOrdinal{1})); }},
      {"DxgkDdiCreateNativeFence", kPassive, Level::kZero,
       [](World& w) {
         std::array<std::byte, kNativeFencePrivateBytes> data{};
         ignore(NativeFencePort(port(w)).create(0x40, false, data));
       }},
      {"DxgkDdiDestroyNativeFence", kPassive, Level::kZero,
       [](World& w) { ignore(NativeFencePort(port(w)).destroy(kSome)); }},
      {"DxgkDdiOpenNativeFence", kPassive, Level::kZero,
       [](World& w) { ignore(NativeFencePort(port(w)).open(kSome, 0x40, kSome, 1, 2)); }},
      {"DxgkDdiCloseNativeFence", kPassive, Level::kZero,
       [](World& w) { ignore(NativeFencePort(port(w)).close(kSome)); }},
      {"DxgkDdiUpdateMonitoredValues", nt::kDeviceLevel, Level::kBeside,
       [](World& w) { ignore(NativeFencePort(port(w)).update_monitored(kSome, 5, kSome)); }},
      {"DxgkDdiUpdateCurrentValuesFromCpu", nt::kDeviceLevel, Level::kBeside,
       [](World& w) { ignore(NativeFencePort(port(w)).update_current(kSome, 5, kSome)); }},
  };
}

std::vector<Row> display_rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel;
  return {
      {kPresentDisplayOnly, kPassive, Level::kZero,
       [](World& w) { ignore(port(w).present_display_only({})); }, DXGKDDI_INTERFACE_VERSION_WIN8},
      {"DxgkDdiQueryChildStatus", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).query_child_status(2, false)); }},
      {"DxgkDdiQueryDeviceDescriptor", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).query_device_descriptor(2)); }},
      {"DxgkDdiIsSupportedVidPn", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).is_supported_vidpn(kSome)); }},
      {"DxgkDdiEnumVidPnCofuncModality", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).enum_cofunc_modality(kSome, EnumPivot::kNone, 0, 0)); }},
      {"DxgkDdiQueryVidPnHWCapability", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).query_vidpn_hw_capability(kSome, 1, 2)); }},
      {"DxgkDdiRecommendFunctionalVidPn", kPassive, Level::kTwo,
       [](World& w) {
         const std::array<uint32_t, 1> targets = {2};
         ignore(port(w).recommend_functional_vidpn(kSome, targets));
       }},
      {"DxgkDdiRecommendMonitorModes", kPassive, Level::kTwo,
       [](World& w) { ignore(port(w).recommend_monitor_modes(2, kSome, kSome)); }},
      {"DxgkDdiCommitVidPn", kPassive, Level::kTwo,
       [](World& w) { ignore(port(w).commit_vidpn(kSome, 1, kSome)); }},
      {"DxgkDdiUpdateActiveVidPnPresentPath", kPassive, Level::kTwo,
       [](World& w) { ignore(port(w).update_active_present_path({})); }},
      {"DxgkDdiSetVidPnSourceVisibility", kPassive, Level::kTwo,
       [](World& w) { ignore(port(w).set_source_visibility(1, true)); }},
      {"DxgkDdiSetPointerPosition", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).set_pointer_position(1, 2, 3, true)); }},
      {"DxgkDdiSetPointerShape", kPassive, Level::kZero,
       [](World& w) { ignore(port(w).set_pointer_shape({})); }},
      {"DxgkDdiSetVidPnSourceAddress", kPassive, Level::kTwo,
       [](World& w) { ignore(port(w).set_source_address({.source = 1})); }},
      {"DxgkDdiSetVidPnSourceAddress", nt::kDeviceLevel, Level::kBeside,
       [](World& w) {
         ignore(port(w).flip({.source = 1, .kind = SourceAddressArgs::Kind::kFlipImmediate}));
       }},
      {"DxgkDdiControlInterrupt", kPassive, Level::kTwo,
       [](World& w) { ignore(port(w).control_vsync(1, true)); }, DXGKDDI_INTERFACE_VERSION_WIN8},
      {"DxgkDdiControlInterrupt2", kPassive, Level::kTwo,
       [](World& w) { ignore(port(w).control_vsync(1, true)); }, DXGKDDI_INTERFACE_VERSION_WDDM2_0},
      {"DxgkDdiControlInterrupt3", kPassive, Level::kTwo,
       [](World& w) { ignore(port(w).control_vsync(1, true)); }},
      {"DxgkDdiGetScanLine", kPassive, Level::kZero,
       [](World& w) {
         bool blank = false;
         uint32_t line = 0;
         ignore(port(w).get_scan_line(2, &blank, &line));
       }},
  };
}

std::vector<Row> all_rows() {
  std::vector<Row> rows = life_rows();
  for (auto&& more : {object_rows(), work_rows(), display_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

/// With LowIrqlPreemptCommand, for the row that says PASSIVE_LEVEL; of a display-only driver, for
/// the row of its own entry.
void prepare(World& world, const Row& row) {
  if (row.entry == kPresentDisplayOnly) {
    world.miniport.hooks.driver_entry = [&](DRIVER_OBJECT* object, UNICODE_STRING* path) {
      return initialize_display_only(object, path, world.miniport.make_table());
    };
  }
  if (std::string_view(row.entry) != "DxgkDdiPreemptCommand") return;
  world.miniport.config.caps = [low = row.irql == nt::kPassiveLevel](DXGK_DRIVERCAPS& caps) {
    caps.SchedulingCaps.LowIrqlPreemptCommand = low ? 1 : 0;
  };
}

/// Runs the row's call the way its class asks for.
void make(World& world, const Row& row) {
  if (!row.call) return;
  if (row.level == Level::kTwo) world.adapter->enter_level_two();
  row.call(world);
  if (row.level == Level::kTwo) world.adapter->leave_level_two();
}

TEST(DdiTable, EachEntryIsCalledAtItsLevelAndInItsClass) {
  DXGKIT_COVERS("IRQL-01", "IRQL-02", "IRQL-03");
  in_both_modes([] {
    for (const Row& row : all_rows()) {
      SCOPED_TRACE(row.entry);
      World world(row.version);
      prepare(world, row);
      world.up();
      make(world, row);
      world.down();
      world.adapter.reset();
      world.driver.reset();
      // A row of one entry at two levels is told by what its call did; the others by every call.
      const std::vector<Seen> calls = world.seen(row.entry);
      ASSERT_FALSE(calls.empty());
      for (const Seen& one : calls) {
        EXPECT_EQ(one.irql, row.irql);
        EXPECT_EQ(one.frame, row.entry);
      }
      if (std::string_view(row.entry) == "DxgkDdiUnload") continue;  // of no adapter
      // The host is asked to see to what levels two and three promise, each time, and only then.
      using Notice = std::pair<std::string, AdapterHost::SyncLevel>;
      const auto level =
          row.level == Level::kTwo ? AdapterHost::SyncLevel::kTwo : AdapterHost::SyncLevel::kThree;
      const bool told = row.level == Level::kTwo || row.level == Level::kThree;
      std::vector<Notice> notices;
      for (const Notice& notice : world.host.exclusive) {
        if (notice.first == row.entry) notices.push_back(notice);
      }
      EXPECT_EQ(notices, std::vector<Notice>(told ? calls.size() : 0, Notice(row.entry, level)));
    }
  });
}

TEST(DdiTable, ADriverThatReturnsAtAnotherLevelIsTold) {
  DXGKIT_COVERS("IRQL-01");
  in_both_modes([] {
    for (const Row& row : all_rows()) {
      SCOPED_TRACE(row.entry);
      World world(row.version);
      prepare(world, row);
      world.noted.leaves_raised = row.entry;
      world.up();
      make(world, row);
      world.down();
      world.adapter.reset();
      world.driver.reset();
      const size_t calls = world.seen(row.entry).size();
      for (const verifier::Finding& finding : world.findings.all()) {
        if (finding.rule != "IRQL-01") continue;
        EXPECT_EQ(finding.ddi, row.entry);
        EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      }
      EXPECT_EQ(world.findings.count("IRQL-01"), calls);
    }
  });
}

TEST(DdiTable, LevelZeroWaitsForLevelTwoAndOthersDoNot) {
  DXGKIT_COVERS("IRQL-03", "IRQL-08", "IRQL-09");
  runtime::make_sim_runtime(1)->run_main([] {
    for (const Row& row : all_rows()) {
      if (!row.call || row.level == Level::kTwo || row.level == Level::kThree) continue;
      SCOPED_TRACE(row.entry);
      World world(row.version);
      prepare(world, row);
      world.up();
      world.noted.calls.clear();
      world.adapter->enter_level_two();
      const auto thread = runtime::Runtime::current().spawn("caller", [&] { row.call(world); });
      for (int i = 0; i < 100; ++i) runtime::Runtime::current().yield();
      EXPECT_EQ(world.seen(row.entry).empty(), row.level == Level::kZero);
      world.adapter->leave_level_two();
      thread->join();
      EXPECT_FALSE(world.seen(row.entry).empty());
      world.down();
    }
  });
}

/// What the rulebook's words for a level allow.
bool fits(Level level, const std::string& text) {
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  switch (level) {
    case Level::kZero:  // classes of level one whose calls the kernel keeps apart itself (IRQL-04)
      return text.starts_with("0") || has("else 0") || (text.starts_with("1") && !has("scheduler"));
    case Level::kBeside:
      return text.starts_with("0") || has("with the ISR");
    case Level::kLane:
      return text == "1" || has("1 scheduler");
    case Level::kTwo:
      return has("2");
    case Level::kThree:
      return text.starts_with("3");
  }
  return false;
}

bool allows(const std::string& text, nt::Irql irql) {
  if (text == "any") return true;
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  if (irql == nt::kPassiveLevel) return has("PASSIVE") || text.starts_with("up to");
  return irql == nt::kDispatchLevel ? has("DISPATCH") : irql == nt::kDeviceLevel && has("DIRQL");
}

TEST(DdiTable, IsTheRulebooks) {
  DXGKIT_COVERS("IRQL-01");
  const std::map<std::string, DdiRule> rules = testing::read_ddi_rules(DDI_RULES);
  std::set<std::string> rows;
  for (const Row& row : all_rows()) {
    SCOPED_TRACE(row.entry);
    rows.insert(row.entry);
    const auto rule = rules.find(row.entry);
    ASSERT_NE(rule, rules.end());
    EXPECT_TRUE(allows(rule->second.irql, row.irql)) << rule->second.irql;
    EXPECT_TRUE(fits(row.level, rule->second.sync_level)) << rule->second.sync_level;
  }
  // Every entry the port calls is in the table above.
  std::set<std::string> called;
  for (const SupportEntry& entry : ddi_support()) {
    if (entry.support != Support::kRefused) called.insert(std::string(entry.name));
  }
  EXPECT_EQ(rows, called);
}

}  // namespace
}  // namespace dxgkit::port
