// What drivers of the second model (WDDM 2.0) do wrong before the first packet: softgpu_wddm2 with
// one function in its way.
#include "tests/mutants/mutants.h"

namespace mutants {
namespace {

using Query = DXGK_QUERYSEGMENTOUT4;
using Descriptor = DXGK_SEGMENTDESCRIPTOR4;

void (*change_query)(Query* query, bool first_pass);

NTSTATUS NTAPI query_changed(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const bool segments = args->Type == DXGKQAITYPE_QUERYSEGMENT4;
  auto* query = static_cast<Query*>(args->pOutputData);
  const bool first_pass = segments && query->NbSegment == 0;
  const NTSTATUS status = original.DxgkDdiQueryAdapterInfo(context, args);
  if (NT_SUCCESS(status) && segments) change_query(query, first_pass);
  return status;
}
void with_query(DRIVER_INITIALIZATION_DATA* table, void (*change)(Query*, bool)) {
  change_query = change;
  table->DxgkDdiQueryAdapterInfo = query_changed;
}
Descriptor* at(Query* query, UINT index) {
  return reinterpret_cast<Descriptor*>(query->pSegmentDescriptor +
                                       index * query->SegmentDescriptorStride);
}

void stride_of_its_own(DRIVER_INITIALIZATION_DATA* table) {
  with_query(table, [](Query* query, bool first_pass) {
    if (!first_pass) query->SegmentDescriptorStride = 8;
  });
}
void apertures_two(DRIVER_INITIALIZATION_DATA* table) {
  with_query(table, [](Query* query, bool first_pass) {
    query->NbSegment = 3;
    if (first_pass) return;
    RtlCopyMemory(at(query, 2), at(query, 1), sizeof(Descriptor));
    at(query, 2)->BaseAddress.QuadPart += 0x100000000000;
  });
}
void host_aperture_of_visible(DRIVER_INITIALIZATION_DATA* table) {
  with_query(table, [](Query* query, bool first_pass) {
    if (first_pass) return;
    at(query, 0)->Flags.CpuVisible = 1;
    at(query, 0)->Flags.SupportsCpuHostAperture = 1;
  });
}
void host_aperture_only_cached(DRIVER_INITIALIZATION_DATA* table) {
  with_query(table, [](Query* query, bool first_pass) {
    if (!first_pass) at(query, 0)->Flags.SupportsCachedCpuHostAperture = 1;
  });
}
void system_memory_reserved(DRIVER_INITIALIZATION_DATA* table) {
  with_query(table, [](Query* query, bool first_pass) {
    if (!first_pass) at(query, 1)->Flags.ReservedSysMem = 1;
  });
}
void bad_ranges_untold(DRIVER_INITIALIZATION_DATA* table) {
  with_query(table, [](Query* query, bool first_pass) {
    if (!first_pass) at(query, 0)->NumInvalidMemoryRanges = 2;
  });
}
void bad_ranges_beyond_count(DRIVER_INITIALIZATION_DATA* table) {
  with_query(table, [](Query* query, bool first_pass) {
    if (!first_pass) at(query, 0)->NumInvalidMemoryRanges = 0x7FFFFFFF;
  });
}

// Its video memory is behind a host aperture that is not set up yet.
NTSTATUS NTAPI map_too_early(IN_CONST_HANDLE, IN_CONST_PDXGKARG_MAPCPUHOSTAPERTURE) {
  return STATUS_DEVICE_NOT_READY;
}
NTSTATUS NTAPI unmap_anything(IN_CONST_HANDLE, IN_CONST_PDXGKARG_UNMAPCPUHOSTAPERTURE) {
  return STATUS_SUCCESS;
}
void host_aperture_not_ready(DRIVER_INITIALIZATION_DATA* table) {
  with_query(table, [](Query* query, bool first_pass) {
    if (first_pass) return;
    at(query, 0)->Flags.CpuVisible = 0;
    at(query, 0)->Flags.SupportsCpuHostAperture = 1;
    at(query, 0)->CpuHostAperture.PhysicalAddress =
        static_cast<UINT64>(at(query, 0)->CpuTranslatedAddress.QuadPart);
    at(query, 0)->CpuHostAperture.SizeInPages = 16;
    at(query, 0)->Size *= 2;  // more than its BAR shows: that is what apertures are for
    at(query, 0)->CommitLimit *= 2;
  });
  table->DxgkDdiMapCpuHostAperture = map_too_early;
  table->DxgkDdiUnmapCpuHostAperture = unmap_anything;
}

}  // namespace

const Mutant kStartMutants[] = {
    {"stride_of_its_own", stride_of_its_own, nullptr},
    {"apertures_two", apertures_two, nullptr},
    {"host_aperture_of_visible", host_aperture_of_visible, nullptr},
    {"host_aperture_only_cached", host_aperture_only_cached, nullptr},
    {"system_memory_reserved", system_memory_reserved, nullptr},
    {"host_aperture_not_ready", host_aperture_not_ready, nullptr},
    {"bad_ranges_untold", bad_ranges_untold, nullptr},
    {"bad_ranges_beyond_count", bad_ranges_beyond_count, nullptr},
    {nullptr, nullptr, nullptr},
};
const Mutant kObjectMutants[] = {{nullptr, nullptr, nullptr}};
const Mutant kWorkMutants[] = {{nullptr, nullptr, nullptr}};
const Mutant kExecutiveMutants[] = {{nullptr, nullptr, nullptr}};
const Mutant kTimeoutMutants[] = {{nullptr, nullptr, nullptr}};

}  // namespace mutants
