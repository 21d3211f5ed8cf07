// Every DDI the port calls, with a call of each: for tests of what they have in common.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "dxgkit/abi_versions.h"
#include "port/ddi/hw_queue.h"
#include "port/ddi/hw_scheduling.h"
#include "port/ddi/native_fence.h"
#include "port/port_world_test.h"

namespace dxgkit::port::every_ddi {

using testing::ScriptedMiniport;

inline constexpr size_t kEntries = std::size(abi::kDriverInitializationData);

struct Seen {
  std::string entry, frame;  // what was called, and as what
  nt::Irql irql = 0;
  bool pageable_is_there = false;  // Record::pageable
};

/// The calls in the driver; one world at a time.
struct Record {
  std::vector<Seen> calls;
  std::array<void*, kEntries> scripted{};  // what goes on to the scripted miniport
  std::string leaves_raised;               // the entry that returns at another level
  std::string stops_the_machine;           // the entry that makes a bug check
  std::string without;                     // the entry that the driver does not have
  std::string fails;                       // the entry that answers `answer`
  NTSTATUS answer = to_ntstatus(Status::kInvalidParameter);
  void* pageable = nullptr;  // paged pool
  /// Looks at the eight words that hold the arguments, as far as there are any.
  std::function<void(std::string_view entry, const uint64_t* arguments)> look;
};
inline Record* record = nullptr;

/// Whether the processor would get at it just now; it does not bring back what was paged out.
inline bool is_accessible(void* address) {
  char byte = 0;
  const iovec here{&byte, 1}, there{address, 1};
  return address != nullptr && process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}
inline void note(std::string_view entry) {
  const nt::CallFrame& frame = nt::CallFrame::current();
  record->calls.push_back(
      {std::string(entry), frame.name(), frame.irql(), is_accessible(record->pageable)});
}
inline void stop_the_machine() {
  reinterpret_cast<void(NTAPI*)(uint32_t)>(
      const_cast<void*>(nt::find_export("KeBugCheck")->address))(0x116);
}
inline void leave(std::string_view entry) {
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
  const std::string_view name = abi::kDriverInitializationData[I].name;
  note(name);
  if (record->look) {
    const uint64_t arguments[] = {a, b, c, d, e, f, g, h};
    record->look(name, arguments);
  }
  if (record->stops_the_machine == name) stop_the_machine();
  using Entry = uint64_t(NTAPI*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                 uint64_t, uint64_t);
  uint64_t answer = 0;
  if (record->scripted[I] != nullptr)
    answer = reinterpret_cast<Entry>(record->scripted[I])(a, b, c, d, e, f, g, h);
  if (record->fails == name) answer = static_cast<uint32_t>(record->answer);
  leave(name);
  return answer;
}
template <size_t... I>
constexpr auto make_stubs(std::index_sequence<I...>) {
  return std::array{&entry_stub<I>...};
}
inline constexpr auto kStubs = make_stubs(std::make_index_sequence<kEntries>());

/// These do what the scripted miniport does, so that an adapter comes up.
inline const std::set<std::string_view> kScripted = {
    "DxgkDdiAddDevice",    "DxgkDdiStartDevice",      "DxgkDdiStopDevice",
    "DxgkDdiRemoveDevice", "DxgkDdiQueryAdapterInfo", "DxgkDdiUnload",
    "DxgkDdiDpcRoutine",   "DxgkDdiInterruptRoutine", "DxgkDdiGetNodeMetadata"};

inline void fill(DRIVER_INITIALIZATION_DATA& table) {
  auto* const bytes = reinterpret_cast<std::byte*>(&table);
  for (size_t i = 0; i < kEntries; ++i) {
    const abi::TableEntry& entry = abi::kDriverInitializationData[i];
    if (!entry.name.starts_with("DxgkDdi") || entry.since > table.Version) continue;
    if (kScripted.contains(entry.name))
      std::memcpy(&record->scripted[i], bytes + entry.offset_bytes, sizeof(void*));
    const auto stub = record->without == entry.name ? nullptr : kStubs[i];
    std::memcpy(bytes + entry.offset_bytes, &stub, sizeof stub);
  }
}

inline constexpr const char* kPresentDisplayOnly = "DxgkDdiPresentDisplayOnly";

/// DriverEntry of a display-only driver: the same entries at their places in its table, and the one
/// entry that no other kind has.
inline NTSTATUS initialize_display_only(DRIVER_OBJECT* object, UNICODE_STRING* path,
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
  table.DxgkDdiPresentDisplayOnly = [](const HANDLE, const DXGKARG_PRESENT_DISPLAYONLY* args)
                                        NTAPI -> NTSTATUS {
    note(kPresentDisplayOnly);
    const auto pointer = reinterpret_cast<uint64_t>(args);
    if (record->look) record->look(kPresentDisplayOnly, &pointer);
    leave(kPresentDisplayOnly);
    return record->fails == kPresentDisplayOnly ? record->answer : STATUS_SUCCESS;
  };
  const auto initialize =
      reinterpret_cast<NTSTATUS(NTAPI*)(DRIVER_OBJECT*, UNICODE_STRING*, const void*)>(
          const_cast<void*>(nt::find_export("DxgkInitializeDisplayOnlyDriver")->address));
  return initialize(object, path, &table);
}

/// The visible behaviour of a class of synchronization.
enum class Level {
  kZero,    // waits while level two is held
  kBeside,  // at any time
  kLane,    // level one of the scheduler: the lane's, which overlaps with no level-two call
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
    ASSERT_EQ(adapter->life().add_device(), Status::kSuccess);
    PreStartAnswer answer;
    static_cast<void>(adapter->life().exchange_pre_start(&answer));
    ASSERT_TRUE(adapter->life().start_device().has_value());
    static_cast<void>(adapter->caps().query_driver_caps());
    up_ = true;
  }
  void down() {
    if (!up_) return;
    if (seen("DxgkDdiStopDeviceAndReleasePostDisplayOwnership").empty())
      static_cast<void>(adapter->life().stop_device());
    static_cast<void>(adapter->life().remove_device());
  }
  std::vector<Seen> seen(std::string_view entry) const {
    std::vector<Seen> found;
    for (const Seen& one : noted.calls) {
      if (one.entry == entry) found.push_back(one);
    }
    return found;
  }
  Record noted;
  Status last = Status::kSuccess;  // what the call of the row came back with

 private:
  bool up_ = false;
};

struct Row {
  const char* entry;
  nt::Irql irql;
  Level level;
  std::function<Status(World&)> call;
  uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
};

inline void* const kSome = reinterpret_cast<void*>(uint64_t{0x5000});  // a driver's handle

inline AdapterPort& port(World& world) { return *world.adapter; }

inline Status status_of(Status status) { return status; }
inline Status status_of(const RenderResult& result) { return result.status; }
inline Status status_of(const BuildPagingResult& result) { return result.status; }
template <typename T>
Status status_of(const Result<T>& result) {
  return result.has_value() ? Status::kSuccess : result.error();
}

inline PatchArgs patch_args() {
  PatchArgs args;
  args.context = kSome;
  args.fence = SubmissionFenceId{0x31};
  return args;
}

inline std::vector<Row> life_rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel;
  return {
      {"DxgkDdiAddDevice", kPassive, Level::kThree, nullptr},
      {"DxgkDdiExchangePreStartInfo", kPassive, Level::kThree, nullptr},
      {"DxgkDdiStartDevice", kPassive, Level::kThree, nullptr},
      {"DxgkDdiStopDevice", kPassive, Level::kThree, nullptr},
      {"DxgkDdiRemoveDevice", kPassive, Level::kThree, nullptr},
      {"DxgkDdiUnload", kPassive, Level::kThree, nullptr},
      {"DxgkDdiQueryAdapterInfo", kPassive, Level::kBeside,
       [](World& w) { return status_of(port(w).caps().query_segments()); }},
      {"DxgkDdiInterruptRoutine", nt::kDeviceLevel, Level::kBeside,
       [](World& w) {
         DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
         data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
         return w.miniport.raise(data) ? Status::kSuccess : Status::kDeviceRemoved;
       }},
      {"DxgkDdiDpcRoutine", nt::kDispatchLevel, Level::kBeside,
       [](World& w) {
         DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
         data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
         return w.miniport.raise(data) ? Status::kSuccess : Status::kDeviceRemoved;
       }},
      {"DxgkDdiQueryChildRelations", kPassive, Level::kThree,
       [](World& w) { return status_of(port(w).children().query_child_relations(2)); }},
      {"DxgkDdiStopDeviceAndReleasePostDisplayOwnership", kPassive, Level::kThree,
       [](World& w) {
         DisplayInformation out;
         return status_of(port(w).life().stop_device_and_release(1, &out));
       }},
      {"DxgkDdiSetPowerState", kPassive, Level::kThree,
       [](World& w) {
         return status_of(port(w).power().set_power_state(std::nullopt, PowerState::kD3));
       }},
      {"DxgkDdiNotifySurpriseRemoval", kPassive, Level::kBeside,
       [](World& w) { return status_of(port(w).power().notify_surprise_removal(false)); }},
      {"DxgkDdiSetPowerComponentFState", kPassive, Level::kBeside,
       [](World& w) {
         static_cast<void>(port(w).power().query_power_components());
         return status_of(port(w).power().set_component_f_state(3, 1));
       }},
      {"DxgkDdiGetNodeMetadata", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).caps().get_node_metadata(NodeOrdinal{1})); }},
      {"DxgkDdiResetFromTimeout", kPassive, Level::kThree,
       [](World& w) { return status_of(port(w).timeouts().reset_from_timeout()); }},
      {"DxgkDdiRestartFromTimeout", kPassive, Level::kThree,
       [](World& w) { return status_of(port(w).timeouts().restart_from_timeout()); }},
      {"DxgkDdiCollectDbgInfo2", kPassive, Level::kZero,
       [](World& w) { return port(w).timeouts().collect_debug_info(0x141), Status::kSuccess; }},
      {"DxgkDdiCollectDbgInfo", kPassive, Level::kZero,
       [](World& w) { return port(w).timeouts().collect_debug_info(0x141), Status::kSuccess; },
       DXGKDDI_INTERFACE_VERSION_WDDM2_0},
      {"DxgkDdiSystemDisplayEnable", nt::kHighLevel, Level::kBeside,
       [](World& w) {
         uint32_t width = 0, height = 0, format = 0;
         return status_of(port(w).scanout().system_display_enable(1, &width, &height, &format));
       }},
      {"DxgkDdiSystemDisplayWrite", nt::kHighLevel, Level::kBeside,
       [](World& w) {
         const std::array<std::byte, 64> pixels{};
         return status_of(port(w).scanout().system_display_write(pixels, 4, 4, 16, 1, 2));
       }},
  };
}

inline std::vector<Row> object_rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel;
  return {
      {"DxgkDdiCreateProcess", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).objects().create_process(0x40, false)); }},
      {"DxgkDdiDestroyProcess", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).objects().destroy_process(kSome)); }},
      {"DxgkDdiCreateDevice", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).objects().create_device(0x60, false)); }},
      {"DxgkDdiDestroyDevice", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).objects().destroy_device(kSome)); }},
      {"DxgkDdiCreateContext", kPassive, Level::kZero,
       [](World& w) {
         return status_of(
             port(w).objects().create_context(kSome, 0x80, NodeOrdinal{4}, 1, false, {}));
       }},
      {"DxgkDdiDestroyContext", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).objects().destroy_context(kSome)); }},
      {"DxgkDdiCreateAllocation", kPassive, Level::kZero,
       [](World& w) {
         std::array<AllocationInfo, 2> infos;
         void* resource = nullptr;
         return status_of(port(w).allocations().create_allocations(infos, {}, false, &resource));
       }},
      {"DxgkDdiDestroyAllocation", kPassive, Level::kZero,
       [](World& w) {
         const std::array<void*, 5> handles = {kSome, kSome, kSome, kSome, kSome};
         return status_of(port(w).allocations().destroy_allocations(handles, nullptr, false));
       }},
      {"DxgkDdiOpenAllocation", kPassive, Level::kZero,
       [](World& w) {
         std::array<OpenInfo, 3> infos;
         return status_of(port(w).allocations().open_allocations(kSome, infos, {}, true, 0));
       }},
      {"DxgkDdiCloseAllocation", kPassive, Level::kZero,
       [](World& w) {
         const std::array<void*, 4> handles = {kSome, kSome, kSome, kSome};
         return status_of(port(w).allocations().close_allocations(kSome, handles));
       }},
      {"DxgkDdiDescribeAllocation", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).allocations().describe_allocation(kSome)); }},
      {"DxgkDdiGetStandardAllocationDriverData", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).allocations().describe_shared_primary({.width = 8, .height = 4}));
       }},
      {"DxgkDdiValidateUpdateAllocationProperty", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).allocations().validate_property_update(kSome, {}));
       }},
      {"DxgkDdiAcquireSwizzlingRange", kPassive, Level::kZero,
       [](World& w) {
         SwizzlingRange range;
         range.allocation = kSome;
         range.range = 3;
         return status_of(port(w).cpu_access().acquire_swizzling_range(&range));
       },
       DXGKDDI_INTERFACE_VERSION_WDDM1_3},
      {"DxgkDdiReleaseSwizzlingRange", kPassive, Level::kZero,
       [](World& w) {
         return port(w).cpu_access().release_swizzling_range(kSome, 1, 2), Status::kSuccess;
       },
       DXGKDDI_INTERFACE_VERSION_WDDM1_3},
      {"DxgkDdiMapCpuHostAperture", kPassive, Level::kZero,
       [](World& w) {
         const std::array<uint32_t, 2> aperture = {2, 4};
         const std::array<uint64_t, 2> segment = {5, 6};
         return status_of(
             port(w).cpu_access().map_cpu_host_aperture(kSome, SegmentId{2}, aperture, segment));
       }},
      {"DxgkDdiUnmapCpuHostAperture", kPassive, Level::kZero,
       [](World& w) {
         const std::array<uint32_t, 3> aperture = {2, 4, 8};
         return status_of(port(w).cpu_access().unmap_cpu_host_aperture(SegmentId{2}, aperture));
       }},
      {"DxgkDdiEscape", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).objects().escape(kSome, kSome, 0, {})); }},
  };
}

inline std::vector<Row> work_rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel, kDispatch = nt::kDispatchLevel;
  return {
      {"DxgkDdiRender", kPassive, Level::kZero,
       [](World& w) {
         RenderArgs args;
         args.command_length = 24;
         return status_of(port(w).rendering().render(args));
       }},
      {"DxgkDdiRenderKm", kPassive, Level::kZero,
       [](World& w) {
         RenderArgs args;
         args.render_km = true;
         args.command_length = 40;
         return status_of(port(w).rendering().render(args));
       }},
      {"DxgkDdiPresent", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).rendering().present({})); }},
      {"DxgkDdiPatch", kPassive, Level::kLane,
       [](World& w) { return status_of(port(w).submission().patch(patch_args())); }},
      {"DxgkDdiSubmitCommand", kDispatch, Level::kLane,
       [](World& w) {
         SubmitArgs args;
         args.context = kSome;
         args.fence = SubmissionFenceId{0x32};
         args.node = NodeOrdinal{5};
         return status_of(port(w).submission().submit(args));
       }},
      {"DxgkDdiSubmitCommandVirtual", kDispatch, Level::kLane,
       [](World& w) {
         SubmitVirtualArgs args;
         args.context = kSome;
         args.fence = SubmissionFenceId{0x33};
         args.node = NodeOrdinal{6};
         return status_of(port(w).submission().submit_virtual(args));
       }},
      {"DxgkDdiValidateSubmitCommand", kPassive, Level::kZero,
       [](World& w) {
         const std::array<void*, 3> contexts = {kSome, kSome, kSome};
         ValidateSubmitArgs args;
         args.contexts = contexts;
         return status_of(port(w).rendering().validate_submit(args));
       }},
      {"DxgkDdiPreemptCommand", kDispatch, Level::kLane,
       [](World& w) {
         return status_of(port(w).submission().preempt(NodeOrdinal{2}, SubmissionFenceId{0x34}));
       }},
      {"DxgkDdiPreemptCommand", kPassive, Level::kLane,
       [](World& w) {
         return status_of(port(w).submission().preempt(NodeOrdinal{2}, SubmissionFenceId{0x34}));
       }},
      {"DxgkDdiCancelCommand", kPassive, Level::kLane,
       [](World& w) { return status_of(port(w).submission().cancel(patch_args())); }},
      {"DxgkDdiCancelCommand", kPassive, Level::kLane,
       [](World& w) {
         SubmitVirtualArgs args;
         args.fence = SubmissionFenceId{0x31};
         return status_of(port(w).submission().cancel(args));
       }},
      {"DxgkDdiQueryCurrentFence", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).submission().query_current_fence(NodeOrdinal{3}));
       }},
      {"DxgkDdiBuildPagingBuffer", kPassive, Level::kLane,
       [](World& w) {
         std::array<std::byte, 64> room{};
         PagingOperation operation;
         operation.kind = PagingOperation::Kind::kFill;
         operation.size_bytes = 4096;
         operation.segment = SegmentId{1};
         BuildPagingArgs args;
         args.buffer = room.data();
         args.buffer_bytes = room.size();
         args.operation = &operation;
         return status_of(port(w).paging().build_paging(args));
       }},
      {"DxgkDdiSetRootPageTable", kPassive, Level::kLane,
       [](World& w) {
         return status_of(
             port(w).gpu_va().set_root_page_table(kSome, {{SegmentId{2}, 0x7000}, 512}));
       }},
      {"DxgkDdiGetRootPageTableSize", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).gpu_va().get_root_page_table_size(8)); }},
      {"DxgkDdiQueryDependentEngineGroup", kPassive, Level::kLane,
       [](World& w) {
         return status_of(port(w).timeouts().query_dependent_engines(NodeOrdinal{2}, 3));
       }},
      {"DxgkDdiQueryEngineStatus", kPassive, Level::kLane,
       [](World& w) { return status_of(port(w).timeouts().query_engine_status(NodeOrdinal{4})); }},
      {"DxgkDdiResetEngine", kPassive, Level::kLane,
       [](World& w) { return status_of(port(w).timeouts().reset_engine(NodeOrdinal{5})); }},
      {"DxgkDdiCreateHwContext", kPassive, Level::kZero,
       [](World& w) {
         return status_of(
             port(w).hw_queues().create_hw_context(kSome, 0x84, NodeOrdinal{6}, 1, {}));
       }},
      {"DxgkDdiDestroyHwContext", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).hw_queues().destroy_hw_context(kSome)); }},
      {"DxgkDdiCreateHwQueue", kPassive, Level::kZero,
       [](World& w) {
         return status_of(
             port(w).hw_queues().create_hw_queue(kSome, {.handle = 0x88, .private_data = {}}));
       }},
      {"DxgkDdiDestroyHwQueue", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).hw_queues().destroy_hw_queue(kSome)); }},
      {"DxgkDdiSubmitCommandToHwQueue", kDispatch, Level::kZero,
       [](World& w) {
         return status_of(
             port(w).hw_queues().submit({.queue = kSome, .progress_fence = 0x1'0000'0002}));
       }},
      {"DxgkDdiSetupPriorityBands", kPassive, Level::kLane,
       [](World& w) { return status_of(port(w).hw_scheduling().setup_priority_bands({})); }},
      {"DxgkDdiSetContextSchedulingProperties", kPassive, Level::kLane,
       [](World& w) {
         return status_of(port(w).hw_scheduling().set_context_properties(
             kSome, {.band = PriorityBand::kRealtime}));
       }},
      {"DxgkDdiSuspendContext", kPassive, Level::kLane,
       [](World& w) { return status_of(port(w).hw_scheduling().suspend(kSome, 7)); }},
      {"DxgkDdiResumeContext", kPassive, Level::kLane,
       [](World& w) { return status_of(port(w).hw_scheduling().resume(kSome)); }},
      {"DxgkDdiResetHwEngine", kPassive, Level::kLane,
       [](World& w) { return status_of(port(w).hw_scheduling().reset_engine(NodeOrdinal{7})); }},
      {"DxgkDdiResumeHwEngine", kPassive, Level::kLane,
       [](World& w) { return status_of(port(w).hw_scheduling().resume_engine(NodeOrdinal{8})); }},
      {"DxgkDdiCreateCpuEvent", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).cpu_events().create(kSome, 0x4C)); }},
      {"DxgkDdiDestroyCpuEvent", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).cpu_events().destroy(kSome)); }},
      {"DxgkDdiCreateNativeFence", kPassive, Level::kZero,
       [](World& w) {
         std::array<std::byte, kNativeFencePrivateBytes> data{};
         return status_of(port(w).native_fences().create(0x44, false, data));
       }},
      {"DxgkDdiDestroyNativeFence", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).native_fences().destroy(kSome)); }},
      {"DxgkDdiOpenNativeFence", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).native_fences().open(kSome, 0x48, kSome, 1, 2)); }},
      {"DxgkDdiCloseNativeFence", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).native_fences().close(kSome)); }},
      {"DxgkDdiUpdateMonitoredValues", nt::kDeviceLevel, Level::kBeside,
       [](World& w) {
         return status_of(port(w).native_fences().update_monitored(kSome, 5, kSome));
       }},
      {"DxgkDdiUpdateCurrentValuesFromCpu", nt::kDeviceLevel, Level::kBeside,
       [](World& w) { return status_of(port(w).native_fences().update_current(kSome, 6, kSome)); }},
  };
}

inline std::vector<Row> display_rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel;
  return {
      {kPresentDisplayOnly, kPassive, Level::kZero,
       [](World& w) {
         return status_of(
             port(w).scanout().present_display_only({.source = 2, .moves = {}, .dirty = {}}));
       },
       DXGKDDI_INTERFACE_VERSION_WIN8},
      {"DxgkDdiQueryChildStatus", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).children().query_child_status(2, false)); }},
      {"DxgkDdiCalibrateGpuClock", nt::kDispatchLevel, Level::kZero,
       [](World& w) { return status_of(port(w).clock().calibrate(NodeOrdinal{2})); },
       DXGKDDI_INTERFACE_VERSION_WDDM1_3},
      {"DxgkDdiQueryDeviceDescriptor", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).children().query_device_descriptor(2)); }},
      {"DxgkDdiIsSupportedVidPn", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).vidpn().is_supported_vidpn(kSome)); }},
      {"DxgkDdiEnumVidPnCofuncModality", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).vidpn().enum_cofunc_modality(kSome, EnumPivot::kSource, 1, 2));
       }},
      {"DxgkDdiQueryVidPnHWCapability", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).vidpn().query_vidpn_hw_capability(kSome, 1, 2)); }},
      {"DxgkDdiQueryInterface", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).interfaces().ask_panel(0x41)); }},
      {"DxgkDdiRecommendFunctionalVidPn", kPassive, Level::kTwo,
       [](World& w) {
         const std::array<uint32_t, 1> targets = {2};
         return status_of(port(w).vidpn().recommend_functional_vidpn(kSome, targets));
       }},
      {"DxgkDdiRecommendMonitorModes", kPassive, Level::kTwo,
       [](World& w) {
         return status_of(port(w).vidpn().recommend_monitor_modes(2, kSome, kSome));
       }},
      {"DxgkDdiCommitVidPn", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).vidpn().commit_vidpn(kSome, 1, kSome)); }},
      {"DxgkDdiUpdateActiveVidPnPresentPath", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).vidpn().update_active_present_path({})); }},
      {"DxgkDdiSetVidPnSourceVisibility", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).vidpn().set_source_visibility(1, true)); }},
      {"DxgkDdiSetPointerPosition", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).scanout().set_pointer_position(1, 2, 3, true)); }},
      {"DxgkDdiSetPointerShape", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).scanout().set_pointer_shape({.source = 3, .pixels = {}}));
       }},
      {"DxgkDdiSetVidPnSourceAddress", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).scanout().set_source_address({.source = 1})); }},
      {"DxgkDdiSetVidPnSourceAddress", nt::kDeviceLevel, Level::kBeside,
       [](World& w) {
         return status_of(port(w).scanout().flip(
             {.source = 1, .kind = SourceAddressArgs::Kind::kFlipImmediate}));
       }},
      {"DxgkDdiControlInterrupt", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).scanout().control_vsync(1, true)); },
       DXGKDDI_INTERFACE_VERSION_WIN8},
      {"DxgkDdiControlInterrupt2", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).scanout().control_vsync(1, true)); },
       DXGKDDI_INTERFACE_VERSION_WDDM2_0},
      {"DxgkDdiControlInterrupt3", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).scanout().control_vsync(1, true)); }},
      {"DxgkDdiGetScanLine", kPassive, Level::kZero,
       [](World& w) {
         bool blank = false;
         uint32_t line = 0;
         return status_of(port(w).scanout().get_scan_line(2, &blank, &line));
       }},
  };
}

/// Entries that few drivers have.
inline std::vector<Row> optional_rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel;
  return {
      {"DxgkDdiCreateOverlay", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).overlays().create(2, {})); }},
      {"DxgkDdiUpdateOverlay", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).overlays().update(kSome, {})); }},
      {"DxgkDdiFlipOverlay", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).overlays().flip(kSome, {}, {})); }},
      {"DxgkDdiDestroyOverlay", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).overlays().destroy(kSome)); }},
      {"DxgkDdiNotifyAcpiEvent", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).notices().acpi_event({.event = 0x81})); }},
      {"DxgkDdiDispatchIoRequest", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).notices().io_request(1, {.code = 0x23})); }},
      {"DxgkDdiControlEtwLogging", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).notices().control_etw_logging(true)); }},
      {"DxgkDdiResetDevice", nt::kHighLevel, Level::kBeside,
       [](World& w) { return status_of(port(w).notices().reset_device()); }},
      {"DxgkDdiSetStablePowerState", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).notices().set_stable_power(true)); }},
      {"DxgkDdiSetDisplayPrivateDriverFormat", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).scanout().set_private_format(1, kSome, 2)); }},
      {"DxgkDdiCollectDiagnosticInfo", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).diagnostics().collect(DiagnosticPort::After::kStartDevice));
       }},
      {"DxgkDdiQueryDiagnosticTypesSupport", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).diagnostics().query_types(DiagnosticCategory::kProgressions));
       }},
      {"DxgkDdiControlDiagnosticReporting", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).diagnostics().control(DiagnosticCategory::kProgressions, 1));
       }},
      {"DxgkDdiGetChildContainerId", kPassive, Level::kZero,
       [](World& w) {
         ContainerId id{};
         return status_of(port(w).children().get_container_id(3, {}, &id));
       }},
      {"DxgkDdiPowerRuntimeControlRequest", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).power().runtime_notice(PowerPort::RuntimePhase::kStarted));
       }},
      {"DxgkDdiStopCapture", kPassive, Level::kTwo,
       [](World& w) { return status_of(port(w).allocations().stop_capture(kSome)); }},
      {"DxgkDdiCreateProtectedSession", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).protected_sessions().create(0x6F, {})); }},
      {"DxgkDdiDestroyProtectedSession", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).protected_sessions().destroy(kSome)); }},
  };
}

}  // namespace dxgkit::port::every_ddi

#include "port/every_plane_ddi_test.h"

namespace dxgkit::port::every_ddi {

inline std::vector<Row> all_rows() {
  std::vector<Row> rows = life_rows();
  for (auto&& more : {object_rows(), work_rows(), display_rows(), plane_rows(), optional_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

/// With LowIrqlPreemptCommand, for the row that says PASSIVE_LEVEL; of a display-only driver, for
/// the row of its own entry.
inline void prepare(World& world, const Row& row) {
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
inline void make(World& world, const Row& row) {
  if (!row.call) return;
  if (row.level == Level::kTwo) world.adapter->levels().enter_level_two();
  world.last = row.call(world);
  if (row.level == Level::kTwo) world.adapter->levels().leave_level_two();
}

}  // namespace dxgkit::port::every_ddi
