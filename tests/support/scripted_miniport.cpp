#include "tests/support/scripted_miniport.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "dxgkit/abi_versions.h"
#include "nt/kernel.h"
#include "nt/layout.h"

namespace dxgkit::testing {
namespace {

constexpr size_t kSlots = 64;
constexpr uint64_t kBarBytes = 64 << 20;
constexpr uint32_t kObjectMagic = 0x5C81B7ED;

/// What a handle of the driver points to.
/// Stays until its miniport goes, so that a handle that is used again is known for sure.
struct Object {
  uint32_t magic = kObjectMagic;
  ScriptedMiniport* owner = nullptr;
  uint32_t kernel_handle = 0;
  void* made_before = nullptr;
};

// Which miniport a slot's DriverEntry belongs to. Written when a miniport is made or goes, read in
// calls between.
std::array<std::atomic<ScriptedMiniport*>, kSlots>& slots() {
  static std::array<std::atomic<ScriptedMiniport*>, kSlots> table{};
  return table;
}

/// Registers nobody uses: the scripted driver talks to its device through the test.
class NoRegisters : public bus::MmioHandler {
 public:
  uint64_t mmio_read(uint64_t, uint32_t) override { return 0; }
  void mmio_write(uint64_t, uint32_t, uint64_t) override {}
};

std::vector<std::byte> copy_bytes(const void* data, size_t bytes) {
  if (data == nullptr || bytes == 0) return {};
  const auto* start = static_cast<const std::byte*>(data);
  return {start, start + bytes};
}

template <typename To, typename From>
std::vector<To> copy_list(const From* data, size_t count) {
  static_assert(sizeof(To) == sizeof(From));
  std::vector<To> list(data == nullptr ? 0 : count);
  if (!list.empty()) std::memcpy(static_cast<void*>(list.data()), data, count * sizeof(To));
  return list;
}

std::vector<uint64_t> pages_of(const MDL* mdl) {
  if (mdl == nullptr) return {};
  const auto* header = reinterpret_cast<const nt::Mdl*>(mdl);
  const size_t count = (uint64_t{header->byte_offset} + header->byte_count + 4095) / 4096;
  return {header->pages(), header->pages() + count};
}

constexpr NTSTATUS status_of(Status status) { return to_ntstatus(status); }

ScriptedSegment segment(uint64_t base, uint64_t size, bool aperture, bool cpu_visible) {
  ScriptedSegment result;
  result.flags.Aperture = aperture ? 1 : 0;
  result.flags.CpuVisible = cpu_visible ? 1 : 0;
  result.base_address = base;
  result.size = size;
  if (cpu_visible && !aperture) result.cpu_translated_address = ScriptedSegment::kBarAddress;
  return result;
}

}  // namespace

size_t ScriptedCalls::count(std::string_view ddi) const {
  return static_cast<size_t>(std::ranges::count(order, ddi));
}

/// The Win64 functions of the driver. hAdapter is the miniport itself; other handles are Objects.
struct ScriptedMiniport::Thunks {
  static ScriptedMiniport& self(const void* adapter) {
    return *static_cast<ScriptedMiniport*>(const_cast<void*>(adapter));
  }
  static ScriptedMiniport& owner(const void* handle) {
    const auto* object = static_cast<const Object*>(handle);
    DXGKIT_CHECK(object != nullptr && object->magic == kObjectMagic);
    return *object->owner;
  }

  template <size_t kSlot>
  static NTSTATUS NTAPI driver_entry(DRIVER_OBJECT* object, UNICODE_STRING* path) {
    ScriptedMiniport& me = *slots()[kSlot].load();
    me.note("DriverEntry");
    return me.hooks.driver_entry ? me.hooks.driver_entry(object, path)
                                 : me.default_driver_entry(object, path);
  }
  template <size_t kSlot>
  static void NTAPI unload() {
    ScriptedMiniport& me = *slots()[kSlot].load();
    me.note("DxgkDdiUnload");
    if (me.hooks.unload) me.hooks.unload();
  }
  template <size_t kSlot>
  static NTSTATUS NTAPI add_device(DEVICE_OBJECT*, void** context) {
    ScriptedMiniport& me = *slots()[kSlot].load();
    me.note("DxgkDdiAddDevice");
    if (me.hooks.add_device) return me.hooks.add_device(context);
    *context = me.adapter_context();
    return status_of(Status::kSuccess);
  }

  static NTSTATUS NTAPI start_device(void* adapter, DXGK_START_INFO* info,
                                     DXGKRNL_INTERFACE* callbacks, ULONG* sources,
                                     ULONG* children) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiStartDevice");
    std::memset(&me.callbacks_, 0, sizeof(me.callbacks_));
    std::memcpy(&me.callbacks_, callbacks,
                std::min<size_t>(callbacks->Size, sizeof(me.callbacks_)));
    {
      runtime::MutexLock lock(me.lock_);
      me.calls_.callbacks = me.callbacks_;
    }
    return me.hooks.start_device ? me.hooks.start_device(info, callbacks, sources, children)
                                 : me.default_start_device(info, callbacks, sources, children);
  }
  static NTSTATUS NTAPI stop_device(void* adapter) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiStopDevice");
    return me.hooks.stop_device ? me.hooks.stop_device() : status_of(Status::kSuccess);
  }
  static NTSTATUS NTAPI remove_device(void* adapter) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiRemoveDevice");
    return me.hooks.remove_device ? me.hooks.remove_device() : status_of(Status::kSuccess);
  }
  static NTSTATUS NTAPI set_power_state(void* adapter, ULONG uid, DEVICE_POWER_STATE state,
                                        POWER_ACTION action) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiSetPowerState");
    return me.hooks.set_power_state ? me.hooks.set_power_state(uid, state, action)
                                    : status_of(Status::kSuccess);
  }
  static NTSTATUS NTAPI notify_surprise_removal(void* adapter, DXGK_SURPRISE_REMOVAL_TYPE type) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiNotifySurpriseRemoval");
    return me.hooks.notify_surprise_removal ? me.hooks.notify_surprise_removal(type)
                                            : status_of(Status::kSuccess);
  }
  static NTSTATUS NTAPI set_power_component_f_state(void* adapter, UINT component, UINT f_state) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiSetPowerComponentFState");
    return me.hooks.set_power_component_f_state
               ? me.hooks.set_power_component_f_state(component, f_state)
               : status_of(Status::kSuccess);
  }
  static BOOLEAN NTAPI interrupt(void* adapter, ULONG message) {
    ScriptedMiniport& me = self(adapter);
    {
      runtime::MutexLock lock(me.lock_);
      ++me.calls_.interrupts;
    }
    return me.hooks.interrupt ? me.hooks.interrupt(message) : me.default_interrupt(message);
  }
  static void NTAPI dpc(void* adapter) {
    ScriptedMiniport& me = self(adapter);
    {
      runtime::MutexLock lock(me.lock_);
      ++me.calls_.dpcs;
    }
    if (me.hooks.dpc) {
      me.hooks.dpc();
    } else {
      me.default_dpc();
    }
  }
  static NTSTATUS NTAPI query_child_relations(void* adapter, DXGK_CHILD_DESCRIPTOR* relations,
                                              ULONG bytes) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiQueryChildRelations");
    if (me.hooks.query_child_relations) return me.hooks.query_child_relations(relations, bytes);
    for (ULONG i = 0; i < me.config.children; ++i) {
      relations[i].ChildDeviceType = TypeOther;
      relations[i].ChildUid = i + 1;
    }
    return status_of(Status::kSuccess);
  }
  static NTSTATUS NTAPI query_adapter_info(void* adapter, const DXGKARG_QUERYADAPTERINFO* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiQueryAdapterInfo");
    if (me.config.record) {
      QueryCall call;
      call.args = *args;
      call.in = copy_bytes(args->pInputData, args->InputDataSize);
      call.out_before = copy_bytes(args->pOutputData, args->OutputDataSize);
      runtime::MutexLock lock(me.lock_);
      me.calls_.queries.push_back(std::move(call));
    }
    return me.hooks.query_adapter_info ? me.hooks.query_adapter_info(args)
                                       : me.default_query_adapter_info(args);
  }
  static NTSTATUS NTAPI get_node_metadata(void* adapter, UINT node,
                                          DXGKARG_GETNODEMETADATA* metadata) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiGetNodeMetadata");
    if (me.hooks.get_node_metadata) return me.hooks.get_node_metadata(node, metadata);
    if (node >= me.config.nodes) return status_of(Status::kInvalidParameter);
    metadata->EngineType = node == 0 ? DXGK_ENGINE_TYPE_3D : DXGK_ENGINE_TYPE_COPY;
    if (me.config.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_0) metadata->GpuMmuSupported = TRUE;
    return status_of(Status::kSuccess);
  }

  static void* make_object(ScriptedMiniport& me, uint32_t kernel_handle) {
    ++me.live_objects_;
    auto* const object = new Object{kObjectMagic, &me, kernel_handle, me.last_object_.load()};
    while (!me.last_object_.compare_exchange_weak(object->made_before, object)) {
    }
    return object;
  }
  static void destroy_object(void* handle) {
    auto* object = static_cast<Object*>(handle);
    DXGKIT_CHECK(object != nullptr && object->magic == kObjectMagic);
    --object->owner->live_objects_;
    object->magic = 0;
  }
  static uint32_t kernel_handle(const void* handle) {
    return static_cast<uint32_t>(reinterpret_cast<uint64_t>(handle));
  }

  static NTSTATUS NTAPI create_process(void* adapter, DXGKARG_CREATEPROCESS* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiCreateProcess");
    return me.hooks.create_process ? me.hooks.create_process(args)
                                   : me.default_create_process(args);
  }
  static NTSTATUS NTAPI destroy_process(void* adapter, void* process) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiDestroyProcess");
    return me.hooks.destroy_process ? me.hooks.destroy_process(process)
                                    : me.default_destroy_process(process);
  }
  static NTSTATUS NTAPI create_device(void* adapter, DXGKARG_CREATEDEVICE* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiCreateDevice");
    if (me.config.record) {
      runtime::MutexLock lock(me.lock_);
      me.calls_.create_devices.push_back(*args);
    }
    return me.hooks.create_device ? me.hooks.create_device(args) : me.default_create_device(args);
  }
  static NTSTATUS NTAPI destroy_device(void* device) {
    ScriptedMiniport& me = owner(device);
    me.note("DxgkDdiDestroyDevice");
    if (me.hooks.destroy_device) return me.hooks.destroy_device(device);
    destroy_object(device);
    return status_of(Status::kSuccess);
  }
  static NTSTATUS NTAPI create_context(void* device, DXGKARG_CREATECONTEXT* args) {
    ScriptedMiniport& me = owner(device);
    me.note("DxgkDdiCreateContext");
    if (me.config.record) {
      runtime::MutexLock lock(me.lock_);
      me.calls_.create_contexts.push_back(*args);
    }
    return me.hooks.create_context ? me.hooks.create_context(device, args)
                                   : me.default_create_context(device, args);
  }
  static NTSTATUS NTAPI destroy_context(void* context) {
    ScriptedMiniport& me = owner(context);
    me.note("DxgkDdiDestroyContext");
    return me.hooks.destroy_context ? me.hooks.destroy_context(context)
                                    : me.default_destroy_context(context);
  }
  static NTSTATUS NTAPI create_allocation(void* adapter, DXGKARG_CREATEALLOCATION* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiCreateAllocation");
    if (me.config.record) {
      CreateAllocationCall call{
          *args, {args->pAllocationInfo, args->pAllocationInfo + args->NumAllocations}};
      runtime::MutexLock lock(me.lock_);
      me.calls_.create_allocations.push_back(std::move(call));
    }
    return me.hooks.create_allocation ? me.hooks.create_allocation(args)
                                      : me.default_create_allocation(args);
  }
  static NTSTATUS NTAPI destroy_allocation(void* adapter, const DXGKARG_DESTROYALLOCATION* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiDestroyAllocation");
    if (me.config.record) {
      runtime::MutexLock lock(me.lock_);
      for (UINT i = 0; i < args->NumAllocations; ++i)
        me.calls_.destroyed_allocations.push_back(args->pAllocationList[i]);
    }
    return me.hooks.destroy_allocation ? me.hooks.destroy_allocation(args)
                                       : me.default_destroy_allocation(args);
  }
  static NTSTATUS NTAPI open_allocation(void* device, const DXGKARG_OPENALLOCATION* args) {
    ScriptedMiniport& me = owner(device);
    me.note("DxgkDdiOpenAllocation");
    if (me.config.record) {
      runtime::MutexLock lock(me.lock_);
      me.calls_.open_allocations.push_back(*args);
    }
    return me.hooks.open_allocation ? me.hooks.open_allocation(device, args)
                                    : me.default_open_allocation(device, args);
  }
  static NTSTATUS NTAPI close_allocation(void* device, const DXGKARG_CLOSEALLOCATION* args) {
    ScriptedMiniport& me = owner(device);
    me.note("DxgkDdiCloseAllocation");
    if (me.config.record) {
      runtime::MutexLock lock(me.lock_);
      for (UINT i = 0; i < args->NumAllocations; ++i)
        me.calls_.closed_allocations.push_back(args->pOpenHandleList[i]);
    }
    return me.hooks.close_allocation ? me.hooks.close_allocation(device, args)
                                     : me.default_close_allocation(device, args);
  }
  static NTSTATUS NTAPI escape(void* adapter, const DXGKARG_ESCAPE* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiEscape");
    return me.hooks.escape ? me.hooks.escape(args) : status_of(Status::kSuccess);
  }
  static NTSTATUS render_either(void* context, DXGKARG_RENDER* args, bool km) {
    ScriptedMiniport& me = owner(context);
    me.note(km ? "DxgkDdiRenderKm" : "DxgkDdiRender");
    if (me.config.record) {
      RenderCall call;
      call.context = context;
      call.render_km = km;
      call.args = *args;
      call.command = copy_bytes(args->pCommand, args->CommandLength);
      call.allocations =
          copy_list<port::AllocationListEntry>(args->pAllocationList, args->AllocationListSize);
      call.patches_in =
          copy_list<port::PatchLocation>(args->pPatchLocationListIn, args->PatchLocationListInSize);
      call.private_before = copy_bytes(args->pDmaBufferPrivateData, args->DmaBufferPrivateDataSize);
      runtime::MutexLock lock(me.lock_);
      me.calls_.renders.push_back(std::move(call));
    }
    const auto& hook = km ? me.hooks.render_km : me.hooks.render;
    return hook ? hook(context, args) : me.default_render(context, args);
  }
  static NTSTATUS NTAPI render(void* context, DXGKARG_RENDER* args) {
    return render_either(context, args, false);
  }
  static NTSTATUS NTAPI render_km(void* context, DXGKARG_RENDER* args) {
    return render_either(context, args, true);
  }
  static NTSTATUS NTAPI patch(void* adapter, const DXGKARG_PATCH* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiPatch");
    if (me.config.record) {
      PatchCall call;
      call.args = *args;
      call.dma = copy_bytes(args->pDmaBuffer, args->DmaBufferSize);
      call.private_data = copy_bytes(args->pDmaBufferPrivateData, args->DmaBufferPrivateDataSize);
      call.allocations =
          copy_list<port::AllocationListEntry>(args->pAllocationList, args->AllocationListSize);
      call.patches =
          copy_list<port::PatchLocation>(args->pPatchLocationList, args->PatchLocationListSize);
      runtime::MutexLock lock(me.lock_);
      me.calls_.patches.push_back(std::move(call));
    }
    return me.hooks.patch ? me.hooks.patch(args) : me.default_patch(args);
  }
  static NTSTATUS NTAPI submit(void* adapter, const DXGKARG_SUBMITCOMMAND* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiSubmitCommand");
    if (me.config.record) {
      SubmitCall call{*args,
                      copy_bytes(args->pDmaBufferPrivateData, args->DmaBufferPrivateDataSize)};
      runtime::MutexLock lock(me.lock_);
      me.calls_.submits.push_back(std::move(call));
    }
    return me.hooks.submit ? me.hooks.submit(args) : me.default_submit(args);
  }
  static NTSTATUS NTAPI preempt(void* adapter, const DXGKARG_PREEMPTCOMMAND* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiPreemptCommand");
    if (me.config.record) {
      runtime::MutexLock lock(me.lock_);
      me.calls_.preempts.push_back(*args);
    }
    return me.hooks.preempt ? me.hooks.preempt(args) : me.default_preempt(args);
  }
  static NTSTATUS NTAPI cancel(void* adapter, const DXGKARG_CANCELCOMMAND* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiCancelCommand");
    if (me.config.record) {
      CancelCall call;
      call.args = *args;
      call.allocations =
          copy_list<port::AllocationListEntry>(args->pAllocationList, args->AllocationListSize);
      call.patches =
          copy_list<port::PatchLocation>(args->pPatchLocationList, args->PatchLocationListSize);
      runtime::MutexLock lock(me.lock_);
      me.calls_.cancels.push_back(std::move(call));
    }
    return me.hooks.cancel ? me.hooks.cancel(args) : status_of(Status::kSuccess);
  }
  static NTSTATUS NTAPI build_paging(void* adapter, DXGKARG_BUILDPAGINGBUFFER* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiBuildPagingBuffer");
    if (me.config.record) {
      PagingCall call;
      call.args = *args;
      if (args->Operation == DXGK_OPERATION_TRANSFER) {
        if (args->Transfer.Source.SegmentId == 0)
          call.source_pages = pages_of(args->Transfer.Source.pMdl);
        if (args->Transfer.Destination.SegmentId == 0)
          call.destination_pages = pages_of(args->Transfer.Destination.pMdl);
      } else if (args->Operation == DXGK_OPERATION_MAP_APERTURE_SEGMENT) {
        call.source_pages = pages_of(args->MapApertureSegment.pMdl);
      } else if (args->Operation == DXGK_OPERATION_MAP_APERTURE_SEGMENT2) {
        const DXGK_ADL& adl = args->MapApertureSegment2.Adl;
        for (UINT32 i = 0; i < adl.PageCount; ++i) {
          call.source_pages.push_back(adl.Flags.Contiguous != 0 ? adl.BasePageNumber + i
                                                                : adl.Pages[i]);
        }
      }
      runtime::MutexLock lock(me.lock_);
      me.calls_.paging.push_back(std::move(call));
    }
    return me.hooks.build_paging ? me.hooks.build_paging(args) : me.default_build_paging(args);
  }
  static NTSTATUS NTAPI query_current_fence(void* adapter, DXGKARG_QUERYCURRENTFENCE* args) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiQueryCurrentFence");
    return me.hooks.query_current_fence ? me.hooks.query_current_fence(args)
                                        : me.default_query_current_fence(args);
  }
  static NTSTATUS NTAPI reset_from_timeout(void* adapter) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiResetFromTimeout");
    if (me.hooks.reset_from_timeout) return me.hooks.reset_from_timeout();
    runtime::MutexLock lock(me.lock_);
    for (auto& fences : me.outstanding_) fences.clear();
    return status_of(Status::kSuccess);
  }
  static NTSTATUS NTAPI restart_from_timeout(void* adapter) {
    ScriptedMiniport& me = self(adapter);
    me.note("DxgkDdiRestartFromTimeout");
    return me.hooks.restart_from_timeout ? me.hooks.restart_from_timeout()
                                         : status_of(Status::kSuccess);
  }

  struct Entries {
    NTSTATUS(NTAPI* entry)(DRIVER_OBJECT*, UNICODE_STRING*);
    void(NTAPI* unload)();
    NTSTATUS(NTAPI* add_device)(DEVICE_OBJECT*, void**);
  };
  template <size_t... kIndexes>
  static std::array<Entries, kSlots> make_entries(std::index_sequence<kIndexes...>) {
    return {Entries{&driver_entry<kIndexes>, &unload<kIndexes>, &add_device<kIndexes>}...};
  }
  static const Entries& entries(size_t slot) {
    static const std::array<Entries, kSlots> table =
        make_entries(std::make_index_sequence<kSlots>());
    return table[slot];
  }
};

ScriptedMiniport::ScriptedMiniport() {
  for (slot_ = 0; slot_ < kSlots; ++slot_) {
    ScriptedMiniport* expected = nullptr;
    if (slots()[slot_].compare_exchange_strong(expected, this)) break;
  }
  DXGKIT_CHECK(slot_ < kSlots);
  config.segments = {segment(0x1'0000'0000, kBarBytes, false, true),
                     segment(0x2'0000'0000, 256 << 20, false, false),
                     segment(0x4'0000'0000, 64 << 20, true, true)};
  memory_fd_ = memfd_create("scripted", MFD_CLOEXEC);
  DXGKIT_CHECK(memory_fd_ >= 0 && ftruncate(memory_fd_, kBarBytes) == 0);
  registers_ = std::make_unique<NoRegisters>();
  std::vector<bus::Bar> bars(2);
  bars[0].kind = bus::BarKind::kRegisters;
  bars[0].size = 64 * 1024;
  bars[0].registers = registers_.get();
  bars[1].kind = bus::BarKind::kMemory;
  bars[1].size = kBarBytes;
  bars[1].memory = {memory_fd_, 0, kBarBytes};
  function_ = std::make_unique<bus::PciFunction>(
      bus::PciIdentity{.vendor_id = 0x1AF4, .device_id = 0x5C81}, std::move(bars));
}

ScriptedMiniport::~ScriptedMiniport() {
  function_.reset();
  close(memory_fd_);
  slots()[slot_].store(nullptr);
  for (auto* object = static_cast<Object*>(last_object_.load()); object != nullptr;)
    delete std::exchange(object, static_cast<Object*>(object->made_before));
}

void ScriptedMiniport::note(const char* ddi) {
  runtime::MutexLock lock(lock_);
  const auto known =
      std::ranges::find_if(counts_, [&](const auto& entry) { return entry.first == ddi; });
  if (known == counts_.end()) {
    counts_.emplace_back(ddi, 1);
  } else {
    ++known->second;
  }
  if (config.record) calls_.order.emplace_back(ddi);
}

port::DriverSource ScriptedMiniport::source() {
  return {.name = "scripted",
          .path = {},
          .entry = reinterpret_cast<void*>(Thunks::entries(slot_).entry)};
}

NTSTATUS ScriptedMiniport::dxgk_initialize(DRIVER_OBJECT* object, UNICODE_STRING* path,
                                           const void* table) {
  const auto initialize =
      reinterpret_cast<NTSTATUS(NTAPI*)(DRIVER_OBJECT*, UNICODE_STRING*, const void*)>(
          const_cast<void*>(nt::find_export("DxgkInitialize")->address));
  return initialize(object, path, table);
}

DRIVER_INITIALIZATION_DATA ScriptedMiniport::make_table() const {
  DRIVER_INITIALIZATION_DATA table;
  std::memset(&table, 0, sizeof(table));
  table.Version = config.version;
  table.DxgkDdiAddDevice = reinterpret_cast<PDXGKDDI_ADD_DEVICE>(Thunks::entries(slot_).add_device);
  table.DxgkDdiUnload = reinterpret_cast<PDXGKDDI_UNLOAD>(Thunks::entries(slot_).unload);
#define DXGKIT_SET(entry, thunk) \
  table.entry = reinterpret_cast<decltype(table.entry)>(&Thunks::thunk)
  DXGKIT_SET(DxgkDdiStartDevice, start_device);
  DXGKIT_SET(DxgkDdiStopDevice, stop_device);
  DXGKIT_SET(DxgkDdiRemoveDevice, remove_device);
  DXGKIT_SET(DxgkDdiSetPowerState, set_power_state);
  DXGKIT_SET(DxgkDdiInterruptRoutine, interrupt);
  DXGKIT_SET(DxgkDdiDpcRoutine, dpc);
  DXGKIT_SET(DxgkDdiQueryChildRelations, query_child_relations);
  DXGKIT_SET(DxgkDdiQueryAdapterInfo, query_adapter_info);
  DXGKIT_SET(DxgkDdiCreateDevice, create_device);
  DXGKIT_SET(DxgkDdiDestroyDevice, destroy_device);
  DXGKIT_SET(DxgkDdiCreateAllocation, create_allocation);
  DXGKIT_SET(DxgkDdiDestroyAllocation, destroy_allocation);
  DXGKIT_SET(DxgkDdiOpenAllocation, open_allocation);
  DXGKIT_SET(DxgkDdiCloseAllocation, close_allocation);
  DXGKIT_SET(DxgkDdiEscape, escape);
  DXGKIT_SET(DxgkDdiRender, render);
  DXGKIT_SET(DxgkDdiPatch, patch);
  DXGKIT_SET(DxgkDdiSubmitCommand, submit);
  DXGKIT_SET(DxgkDdiPreemptCommand, preempt);
  DXGKIT_SET(DxgkDdiBuildPagingBuffer, build_paging);
  DXGKIT_SET(DxgkDdiQueryCurrentFence, query_current_fence);
  DXGKIT_SET(DxgkDdiResetFromTimeout, reset_from_timeout);
  DXGKIT_SET(DxgkDdiRestartFromTimeout, restart_from_timeout);
  if (config.multi_engine_aware) {
    DXGKIT_SET(DxgkDdiCreateContext, create_context);
    DXGKIT_SET(DxgkDdiDestroyContext, destroy_context);
  }
  if (config.version >= DXGKDDI_INTERFACE_VERSION_WIN7) DXGKIT_SET(DxgkDdiRenderKm, render_km);
  if (config.version >= DXGKDDI_INTERFACE_VERSION_WIN8 && config.cancel_command_aware)
    DXGKIT_SET(DxgkDdiCancelCommand, cancel);
  if (config.version >= DXGKDDI_INTERFACE_VERSION_WIN8) {
    DXGKIT_SET(DxgkDdiNotifySurpriseRemoval, notify_surprise_removal);
    DXGKIT_SET(DxgkDdiSetPowerComponentFState, set_power_component_f_state);
  }
  if (config.version >= DXGKDDI_INTERFACE_VERSION_WDDM1_3)
    DXGKIT_SET(DxgkDdiGetNodeMetadata, get_node_metadata);
  if (config.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_0) {
    DXGKIT_SET(DxgkDdiCreateProcess, create_process);
    DXGKIT_SET(DxgkDdiDestroyProcess, destroy_process);
  }
#undef DXGKIT_SET
  if (config.version >= DXGKDDI_INTERFACE_VERSION_WIN8 &&
      config.version < DXGKDDI_INTERFACE_VERSION_WDDM1_3) {
    // Its caps promise them; an adapter reset follows.
    table.DxgkDdiQueryDependentEngineGroup = [](void*,
                                                DXGKARG_QUERYDEPENDENTENGINEGROUP* args) NTAPI {
      args->DependentNodeOrdinalMask = ULONGLONG{1} << args->NodeOrdinal;
      return STATUS_SUCCESS;
    };
    table.DxgkDdiQueryEngineStatus = [](void*, DXGKARG_QUERYENGINESTATUS* args) NTAPI {
      args->EngineStatus.Value = 0;
      return STATUS_SUCCESS;
    };
    table.DxgkDdiResetEngine = [](void*, DXGKARG_RESETENGINE*)
                                   NTAPI { return STATUS_UNSUCCESSFUL; };
  }
  if (config.table) config.table(table);
  return table;
}

NTSTATUS ScriptedMiniport::default_driver_entry(DRIVER_OBJECT* object, UNICODE_STRING* path) {
  {
    runtime::MutexLock lock(lock_);
    outstanding_.assign(config.nodes, {});
    last_completed_.assign(config.nodes, 0);
  }
  const DRIVER_INITIALIZATION_DATA table = make_table();
  return dxgk_initialize(object, path, &table);
}

NTSTATUS ScriptedMiniport::default_start_device(DXGK_START_INFO*, DXGKRNL_INTERFACE*,
                                                ULONG* sources, ULONG* children) {
  *sources = config.video_present_sources;
  *children = config.children;
  forget_outstanding();  // the device begins anew
  return status_of(Status::kSuccess);
}

BOOLEAN ScriptedMiniport::default_interrupt(ULONG) {
  bool any = false;
  for (;;) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    {
      runtime::MutexLock lock(lock_);
      if (pending_.empty()) break;
      data = pending_.front();
      pending_.pop_front();
    }
    any = true;
    callbacks_.DxgkCbNotifyInterrupt(callbacks_.DeviceHandle, &data);
  }
  if (!any) return FALSE;
  callbacks_.DxgkCbQueueDpc(callbacks_.DeviceHandle);
  return TRUE;
}

void ScriptedMiniport::default_dpc() { callbacks_.DxgkCbNotifyDpc(callbacks_.DeviceHandle); }

NTSTATUS ScriptedMiniport::default_create_process(DXGKARG_CREATEPROCESS* args) {
  args->hKmdProcess = Thunks::make_object(*this, Thunks::kernel_handle(args->hDxgkProcess));
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_destroy_process(void* process) {
  Thunks::destroy_object(process);
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_destroy_context(void* context) {
  Thunks::destroy_object(context);
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_create_device(DXGKARG_CREATEDEVICE* args) {
  const uint32_t handle = Thunks::kernel_handle(args->hDevice);
  if (!config.multi_engine_aware) {
    // Without contexts the device carries the sizes. Static: the kernel reads it right after the
    // call.
    static thread_local DXGK_DEVICEINFO info;
    info = {};
    info.DmaBufferSize = config.dma_buffer_bytes;
    info.DmaBufferSegmentSet = config.dma_segment_set;
    info.DmaBufferPrivateDataSize = config.dma_private_bytes;
    info.AllocationListSize = config.allocation_list_size;
    info.PatchLocationListSize = config.patch_list_size;
    args->pInfo = &info;
  }
  args->hDevice = Thunks::make_object(*this, handle);
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_create_context(void*, DXGKARG_CREATECONTEXT* args) {
  args->ContextInfo.DmaBufferSize = config.dma_buffer_bytes;
  args->ContextInfo.DmaBufferSegmentSet = config.dma_segment_set;
  args->ContextInfo.DmaBufferPrivateDataSize = config.dma_private_bytes;
  args->ContextInfo.AllocationListSize = config.allocation_list_size;
  args->ContextInfo.PatchLocationListSize = config.patch_list_size;
  args->hContext = Thunks::make_object(*this, Thunks::kernel_handle(args->hContext));
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_create_allocation(DXGKARG_CREATEALLOCATION* args) {
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    DXGK_ALLOCATIONINFO& info = args->pAllocationInfo[i];
    ScriptedAllocation wanted = config.default_allocation;
    if (info.PrivateDriverDataSize == sizeof(wanted)) {
      ScriptedAllocation given;
      std::memcpy(&given, info.pPrivateDriverData, sizeof(given));
      if (given.magic == ScriptedAllocation{}.magic) wanted = given;
    }
    const uint32_t everywhere = (uint32_t{1} << config.segments.size()) - 1;
    info.Size = wanted.size;
    info.PitchAlignedSize = wanted.pitch_aligned_size;
    if (config.version >= DXGKDDI_INTERFACE_VERSION_WDDM3_0)
      std::memcpy(&info.Flags2, &wanted.flags2, sizeof(wanted.flags2));
    info.Alignment = wanted.alignment;
    info.SupportedReadSegmentSet = wanted.supported_read != 0 ? wanted.supported_read : everywhere;
    info.SupportedWriteSegmentSet =
        wanted.supported_write != 0 ? wanted.supported_write : everywhere;
    info.EvictionSegmentSet = wanted.eviction;
    std::memcpy(&info.PreferredSegment, &wanted.preferred, sizeof(wanted.preferred));
    std::memcpy(&info.HintedBank, &wanted.bank_hints, sizeof(wanted.bank_hints));
    std::memcpy(&info.Flags, &wanted.flags, sizeof(wanted.flags));
    info.AllocationPriority =
        wanted.priority != 0 ? wanted.priority : D3DDDI_ALLOCATIONPRIORITY_NORMAL;
    info.hAllocation = Thunks::make_object(*this, 0);
  }
  if (args->Flags.Resource != 0) args->hResource = Thunks::make_object(*this, 0);
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_destroy_allocation(const DXGKARG_DESTROYALLOCATION* args) {
  for (UINT i = 0; i < args->NumAllocations; ++i) Thunks::destroy_object(args->pAllocationList[i]);
  if (args->Flags.DestroyResource != 0) Thunks::destroy_object(args->hResource);
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_open_allocation(void*, const DXGKARG_OPENALLOCATION* args) {
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    args->pOpenAllocation[i].hDeviceSpecificAllocation =
        Thunks::make_object(*this, args->pOpenAllocation[i].hAllocation);
  }
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_close_allocation(void*, const DXGKARG_CLOSEALLOCATION* args) {
  for (UINT i = 0; i < args->NumAllocations; ++i) Thunks::destroy_object(args->pOpenHandleList[i]);
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_render(void*, DXGKARG_RENDER* args) {
  if (args->CommandLength > args->DmaSize ||
      args->PatchLocationListInSize > args->PatchLocationListOutSize) {
    return status_of(Status::kGraphicsInsufficientDmaBuffer);
  }
  auto* dma = static_cast<std::byte*>(args->pDmaBuffer);
  if (args->CommandLength > 0) std::memcpy(dma, args->pCommand, args->CommandLength);
  for (UINT i = 0; i < args->PatchLocationListInSize; ++i) {
    const D3DDDI_PATCHLOCATIONLIST& patch = args->pPatchLocationListIn[i];
    args->pPatchLocationListOut[i] = patch;
    if (patch.AllocationIndex >= args->AllocationListSize)
      return status_of(Status::kInvalidParameter);
    if (uint64_t{patch.PatchOffset} + 8 > args->CommandLength)
      return status_of(Status::kInvalidParameter);
    const DXGK_ALLOCATIONLIST& entry = args->pAllocationList[patch.AllocationIndex];
    if (entry.SegmentId == 0) continue;
    const uint64_t address =
        static_cast<uint64_t>(entry.PhysicalAddress.QuadPart) + patch.AllocationOffset;
    std::memcpy(dma + patch.PatchOffset, &address, sizeof(address));
  }
  args->pDmaBuffer = dma + args->CommandLength;
  args->pPatchLocationListOut += args->PatchLocationListInSize;
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_patch(const DXGKARG_PATCH* args) {
  for (UINT i = 0; i < args->PatchLocationListSubmissionLength; ++i) {
    const D3DDDI_PATCHLOCATIONLIST& patch =
        args->pPatchLocationList[args->PatchLocationListSubmissionStart + i];
    const DXGK_ALLOCATIONLIST& entry = args->pAllocationList[patch.AllocationIndex];
    if (entry.hDeviceSpecificAllocation == nullptr) continue;
    const uint64_t address =
        static_cast<uint64_t>(entry.PhysicalAddress.QuadPart) + patch.AllocationOffset;
    std::memcpy(static_cast<std::byte*>(args->pDmaBuffer) + patch.PatchOffset, &address,
                sizeof(address));
  }
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_submit(const DXGKARG_SUBMITCOMMAND* args) {
  const uint32_t node = config.version >= DXGKDDI_INTERFACE_VERSION_WIN8 ? args->NodeOrdinal : 0;
  {
    runtime::MutexLock lock(lock_);
    if (node >= outstanding_.size()) return status_of(Status::kInvalidParameter);
    outstanding_[node].push_back(args->SubmissionFenceId);
  }
  if (config.auto_complete) complete(node, args->SubmissionFenceId);
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_preempt(const DXGKARG_PREEMPTCOMMAND* args) {
  if (config.auto_preempt)
    preempted(args->NodeOrdinal, args->PreemptionFenceId, last_completed(args->NodeOrdinal));
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_build_paging(DXGKARG_BUILDPAGINGBUFFER* args) {
  if (args->DmaSize < sizeof(PagingRecord))
    return status_of(Status::kGraphicsInsufficientDmaBuffer);
  PagingRecord record;
  record.operation = static_cast<uint32_t>(args->Operation);
  {
    runtime::MutexLock lock(lock_);
    record.sequence = calls_.paging.empty() ? 0 : calls_.paging.size() - 1;
  }
  std::memcpy(args->pDmaBuffer, &record, sizeof(record));
  args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + sizeof(record);
  return status_of(Status::kSuccess);
}

NTSTATUS ScriptedMiniport::default_query_current_fence(DXGKARG_QUERYCURRENTFENCE* args) {
  args->CurrentFence = last_completed(args->NodeOrdinal);
  return status_of(Status::kSuccess);
}

}  // namespace dxgkit::testing
