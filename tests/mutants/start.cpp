// What goes wrong before the first packet: DriverEntry, the table, the start, caps and segments.
#include "tests/mutants/mutants.h"

namespace mutants {
namespace {

// --- DriverEntry ---

NTSTATUS entry_forgets_initialize(PDRIVER_OBJECT, PUNICODE_STRING, DRIVER_INITIALIZATION_DATA*) {
  return STATUS_SUCCESS;
}

NTSTATUS entry_initializes_twice(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                 DRIVER_INITIALIZATION_DATA* table) {
  const NTSTATUS status = DxgkInitialize(driver, path, table);
  (void)DxgkInitialize(driver, path, table);
  return status;
}

NTSTATUS entry_hides_status(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                            DRIVER_INITIALIZATION_DATA* table) {
  const NTSTATUS status = DxgkInitialize(driver, path, table);
  return NT_SUCCESS(status) ? STATUS_UNSUCCESSFUL : status;
}

// --- the table ---

void version_of_nobody(DRIVER_INITIALIZATION_DATA* table) { table->Version = 0x1234; }
void version_of_the_future(DRIVER_INITIALIZATION_DATA* table) { table->Version = 0x7FFF0000; }
void table_without_paging(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiBuildPagingBuffer = nullptr;
}
void table_without_patch(DRIVER_INITIALIZATION_DATA* table) { table->DxgkDdiPatch = nullptr; }

/// The driver is sane; what the test put into its registry is not.
void software_key_without_driver(DRIVER_INITIALIZATION_DATA*) {}

// --- AddDevice, StartDevice ---

NTSTATUS NTAPI failing_add(IN_CONST_PDEVICE_OBJECT, OUT_PPVOID) {
  return STATUS_INSUFFICIENT_RESOURCES;
}
void add_fails(DRIVER_INITIALIZATION_DATA* table) { table->DxgkDdiAddDevice = failing_add; }

NTSTATUS NTAPI failing_start(IN_CONST_PVOID, IN_PDXGK_START_INFO, IN_PDXGKRNL_INTERFACE, OUT_PULONG,
                             OUT_PULONG) {
  return static_cast<NTSTATUS>(0xE0001234);
}
void start_answers_garbage(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = failing_start;
}

NTSTATUS NTAPI start_seventeen(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                               IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources,
                               OUT_PULONG children) {
  const NTSTATUS status = original.DxgkDdiStartDevice(context, info, dxgk, sources, children);
  *sources = 17;
  return status;
}
void start_with_17_sources(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = start_seventeen;
}

NTSTATUS NTAPI start_silent(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                            IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG, OUT_PULONG) {
  ULONG sources = 0, children = 0;
  return original.DxgkDdiStartDevice(context, info, dxgk, &sources, &children);
}
void start_leaves_outputs(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = start_silent;
}

NTSTATUS NTAPI start_looks_further(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                                   IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources,
                                   OUT_PULONG children) {
  DXGK_DEVICE_INFO device{};
  if (NT_SUCCESS(dxgk->DxgkCbGetDeviceInformation(dxgk->DeviceHandle, &device))) {
    const CM_PARTIAL_RESOURCE_LIST& list =
        device.TranslatedResourceList->List[0].PartialResourceList;
    for (ULONG i = 0; i <= list.Count; ++i)
      (void)*static_cast<const volatile UCHAR*>(&list.PartialDescriptors[i].Type);
  }
  return original.DxgkDdiStartDevice(context, info, dxgk, sources, children);
}
void start_reads_one_resource_more(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiStartDevice = start_looks_further;
}

// --- caps ---

using ChangeCaps = void (*)(DXGK_DRIVERCAPS* caps);
ChangeCaps change_caps;
NTSTATUS NTAPI query_changed_caps(IN_CONST_HANDLE context,
                                  IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = original.DxgkDdiQueryAdapterInfo(context, args);
  if (NT_SUCCESS(status) && args->Type == DXGKQAITYPE_DRIVERCAPS)
    change_caps(static_cast<DXGK_DRIVERCAPS*>(args->pOutputData));
  return status;
}
template <typename Change>
void with_caps(DRIVER_INITIALIZATION_DATA* table, Change change) {
  change_caps = change;
  table->DxgkDdiQueryAdapterInfo = query_changed_caps;
}

void caps_without_nodes(DRIVER_INITIALIZATION_DATA* table) {
  with_caps(table,
            [](DXGK_DRIVERCAPS* caps) { caps->GpuEngineTopology.NbAsymetricProcessingNodes = 0; });
}
void caps_paging_node_unknown(DRIVER_INITIALIZATION_DATA* table) {
  with_caps(table, [](DXGK_DRIVERCAPS* caps) { caps->MemoryManagementCaps.PagingNode = 5; });
}
void caps_preempt_without_engines(DRIVER_INITIALIZATION_DATA* table) {
  with_caps(table, [](DXGK_DRIVERCAPS* caps) {
    caps->SchedulingCaps.MultiEngineAware = 0;
    caps->SchedulingCaps.CancelCommandAware = 0;
    caps->MemoryManagementCaps.PagingNode = 0;
  });
}
void caps_short_address(DRIVER_INITIALIZATION_DATA* table) {
  with_caps(table,
            [](DXGK_DRIVERCAPS* caps) { caps->HighestAcceptableAddress.QuadPart = 0xFFFFFF; });
}
void caps_claim_wddm12(DRIVER_INITIALIZATION_DATA* table) {
  with_caps(table, [](DXGK_DRIVERCAPS* caps) { caps->WDDMVersion = DXGKDDI_WDDMv1_2; });
}
void caps_of_a_later_version(DRIVER_INITIALIZATION_DATA* table) {
  with_caps(table, [](DXGK_DRIVERCAPS* caps) { caps->WDDMVersion = DXGKDDI_WDDMv1; });
}
void caps_engine_reset_unfilled(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryEngineStatus = nullptr;
  table->DxgkDdiResetEngine = nullptr;
}

NTSTATUS NTAPI query_small_caps(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  // Written against the newest headers, told to the kernel as an old version.
  if (args->Type == DXGKQAITYPE_DRIVERCAPS && args->OutputDataSize < 592)
    return STATUS_BUFFER_TOO_SMALL;
  return original.DxgkDdiQueryAdapterInfo(context, args);
}
void caps_of_newer_kit(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryAdapterInfo = query_small_caps;
}

// --- segments ---

using ChangeSegments = void (*)(DXGK_QUERYSEGMENTOUT3* query, bool first_pass);
ChangeSegments change_segments;
NTSTATUS NTAPI query_changed_segments(IN_CONST_HANDLE context,
                                      IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = original.DxgkDdiQueryAdapterInfo(context, args);
  if (NT_SUCCESS(status) && args->Type == DXGKQAITYPE_QUERYSEGMENT3) {
    auto* query = static_cast<DXGK_QUERYSEGMENTOUT3*>(args->pOutputData);
    change_segments(query, query->pSegmentDescriptor == nullptr);
  }
  return status;
}
template <typename Change>
void with_segments(DRIVER_INITIALIZATION_DATA* table, Change change) {
  change_segments = change;
  table->DxgkDdiQueryAdapterInfo = query_changed_segments;
}

void segments_first_pass_writes(DRIVER_INITIALIZATION_DATA* table) {
  with_segments(table, [](DXGK_QUERYSEGMENTOUT3* query, bool first_pass) {
    if (first_pass) query->PagingBufferSize = 4096;
  });
}
void segment_without_size(DRIVER_INITIALIZATION_DATA* table) {
  with_segments(table, [](DXGK_QUERYSEGMENTOUT3* query, bool first_pass) {
    if (!first_pass) query->pSegmentDescriptor[0].Size = 0;
  });
}
void segment_paging_in_local(DRIVER_INITIALIZATION_DATA* table) {
  with_segments(table, [](DXGK_QUERYSEGMENTOUT3* query, bool first_pass) {
    if (!first_pass) query->PagingBufferSegmentId = 1;
  });
}
void segments_none(DRIVER_INITIALIZATION_DATA* table) {
  with_segments(table, [](DXGK_QUERYSEGMENTOUT3* query, bool) { query->NbSegment = 0; });
}
void segment_commit_above_size(DRIVER_INITIALIZATION_DATA* table) {
  with_segments(table, [](DXGK_QUERYSEGMENTOUT3* query, bool first_pass) {
    if (!first_pass)
      query->pSegmentDescriptor[0].CommitLimit = query->pSegmentDescriptor[0].Size + 4096;
  });
}
/// One descriptor changed; `which` counts from 0.
template <int which, typename Change>
void change_descriptor(DRIVER_INITIALIZATION_DATA* table, Change) {
  with_segments(table, [](DXGK_QUERYSEGMENTOUT3* query, bool first_pass) {
    if (!first_pass) Change{}(&query->pSegmentDescriptor[which], query);
  });
}
using Descriptor = DXGK_SEGMENTDESCRIPTOR3;
using Query = DXGK_QUERYSEGMENTOUT3;

NTSTATUS NTAPI query_refuses_segments(IN_CONST_HANDLE context,
                                      IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  if (args->Type == DXGKQAITYPE_QUERYSEGMENT3) return STATUS_UNSUCCESSFUL;
  return original.DxgkDdiQueryAdapterInfo(context, args);
}
void segments_query_fails(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiQueryAdapterInfo = query_refuses_segments;
}
void segments_count_changes(DRIVER_INITIALIZATION_DATA* table) {
  with_segments(table, [](DXGK_QUERYSEGMENTOUT3* query, bool first_pass) {
    if (!first_pass) --query->NbSegment;
  });
}
void segments_too_many(DRIVER_INITIALIZATION_DATA* table) {
  with_segments(table, [](DXGK_QUERYSEGMENTOUT3* query, bool first_pass) {
    if (first_pass) query->NbSegment = 33;
  });
}
void segment_agp_unasked(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<1>(table, [](Descriptor* one, Query*) {
    one->Flags.Value = 0;
    one->Flags.Agp = 1;
  });
}
/// On a machine with an AGP slot.
void segment_agp_twice(DRIVER_INITIALIZATION_DATA* table) {
  with_segments(table, [](DXGK_QUERYSEGMENTOUT3* query, bool first_pass) {
    query->NbSegment = 3;
    if (first_pass) return;
    for (UINT i = 1; i < 3; ++i) {
      query->pSegmentDescriptor[i] = query->pSegmentDescriptor[0];
      query->pSegmentDescriptor[i].Flags.Value = 0;
      query->pSegmentDescriptor[i].Flags.Agp = 1;
    }
  });
}
void segment_unknown_flag(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<0>(table, [](Descriptor* one, Query*) { one->Flags.Value |= 1U << 31; });
}
void segment_wraps(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<0>(table, [](Descriptor* one, Query*) { one->BaseAddress.QuadPart = -4096; });
}
void segment_of_odd_size(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<0>(table, [](Descriptor* one, Query*) {
    one->Size -= 512;
    one->CommitLimit = one->Size;
  });
}
void segment_banks_descend(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<0>(table, [](Descriptor* one, Query*) {
    static SIZE_T ends[] = {0x80000, 0x40000};
    one->Flags.UseBanking = 1;
    one->NbOfBanks = 3;
    one->pBankRangeTable = ends;
  });
}
void segment_without_banks(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<0>(table, [](Descriptor* one, Query*) { one->Flags.UseBanking = 1; });
}
void segment_end_of_what(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<0>(table, [](Descriptor* one, Query*) { one->SystemMemoryEndAddress = 0xFFF; });
}
void segment_reserved_used(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<0>(table, [](Descriptor* one, Query*) { one->Reserved = 5; });
}
void segment_hibernates_awake(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<0>(table,
                       [](Descriptor* one, Query*) { one->Flags.PreservedDuringHibernate = 1; });
}
void segment_coherent_memory(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<0>(table, [](Descriptor* one, Query*) { one->Flags.CacheCoherent = 1; });
}
void segments_overlap(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<1>(table, [](Descriptor* one, Query* query) {
    one->BaseAddress = query->pSegmentDescriptor[0].BaseAddress;
  });
}
void segment_paging_of_nothing(DRIVER_INITIALIZATION_DATA* table) {
  change_descriptor<0>(table, [](Descriptor*, Query* query) { query->PagingBufferSize = 0; });
}
void segment_agp_beside_others(DRIVER_INITIALIZATION_DATA* table) {
  with_segments(table, [](DXGK_QUERYSEGMENTOUT3* query, bool first_pass) {
    if (!first_pass) query->pSegmentDescriptor[1].Flags.Agp = 1;
  });
}

}  // namespace

const Mutant kStartMutants[] = {
    {"entry_forgets_initialize", nullptr, entry_forgets_initialize},
    {"entry_initializes_twice", nullptr, entry_initializes_twice},
    {"entry_hides_status", nullptr, entry_hides_status},
    {"version_of_nobody", version_of_nobody, nullptr},
    {"version_of_the_future", version_of_the_future, nullptr},
    {"table_without_paging", table_without_paging, nullptr},
    {"table_without_patch", table_without_patch, nullptr},
    {"software_key_without_driver", software_key_without_driver, nullptr},
    {"add_fails", add_fails, nullptr},
    {"start_answers_garbage", start_answers_garbage, nullptr},
    {"start_with_17_sources", start_with_17_sources, nullptr},
    {"start_leaves_outputs", start_leaves_outputs, nullptr},
    {"start_reads_one_resource_more", start_reads_one_resource_more, nullptr},
    {"caps_without_nodes", caps_without_nodes, nullptr},
    {"caps_paging_node_unknown", caps_paging_node_unknown, nullptr},
    {"caps_preempt_without_engines", caps_preempt_without_engines, nullptr},
    {"caps_short_address", caps_short_address, nullptr},
    {"caps_claim_wddm12", caps_claim_wddm12, nullptr},
    {"caps_of_a_later_version", caps_of_a_later_version, nullptr},
    {"caps_engine_reset_unfilled", caps_engine_reset_unfilled, nullptr},
    {"caps_of_newer_kit", caps_of_newer_kit, nullptr},
    {"segments_first_pass_writes", segments_first_pass_writes, nullptr},
    {"segment_without_size", segment_without_size, nullptr},
    {"segment_paging_in_local", segment_paging_in_local, nullptr},
    {"segments_none", segments_none, nullptr},
    {"segment_commit_above_size", segment_commit_above_size, nullptr},
    {"segment_agp_beside_others", segment_agp_beside_others, nullptr},
    {"segments_query_fails", segments_query_fails, nullptr},
    {"segments_count_changes", segments_count_changes, nullptr},
    {"segments_too_many", segments_too_many, nullptr},
    {"segment_agp_unasked", segment_agp_unasked, nullptr},
    {"segment_agp_twice", segment_agp_twice, nullptr},
    {"segment_unknown_flag", segment_unknown_flag, nullptr},
    {"segment_wraps", segment_wraps, nullptr},
    {"segment_of_odd_size", segment_of_odd_size, nullptr},
    {"segment_banks_descend", segment_banks_descend, nullptr},
    {"segment_without_banks", segment_without_banks, nullptr},
    {"segment_end_of_what", segment_end_of_what, nullptr},
    {"segment_reserved_used", segment_reserved_used, nullptr},
    {"segment_hibernates_awake", segment_hibernates_awake, nullptr},
    {"segment_coherent_memory", segment_coherent_memory, nullptr},
    {"segments_overlap", segments_overlap, nullptr},
    {"segment_paging_of_nothing", segment_paging_of_nothing, nullptr},
    {nullptr, nullptr, nullptr},
};

}  // namespace mutants
