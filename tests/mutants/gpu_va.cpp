// What goes wrong with GPU virtual addresses. An image of its own: softgpu with the 2.0 interface,
// in the model of four levels.
#include "tests/mutants/mutants.h"

namespace mutants {
namespace {

using ChangeAnswer = void (*)(const DXGKARG_QUERYADAPTERINFO* args);
ChangeAnswer change_answer;
NTSTATUS NTAPI query_changed(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = original.DxgkDdiQueryAdapterInfo(context, args);
  if (NT_SUCCESS(status)) change_answer(args);
  return status;
}
void with_answer(DRIVER_INITIALIZATION_DATA* table, ChangeAnswer change) {
  change_answer = change;
  table->DxgkDdiQueryAdapterInfo = query_changed;
}

template <typename T>
T* answer_to(const DXGKARG_QUERYADAPTERINFO* args, DXGK_QUERYADAPTERINFOTYPE type) {
  return args->Type == type ? static_cast<T*>(args->pOutputData) : nullptr;
}
DXGK_DRIVERCAPS* caps_of(const DXGKARG_QUERYADAPTERINFO* args) {
  return answer_to<DXGK_DRIVERCAPS>(args, DXGKQAITYPE_DRIVERCAPS);
}
DXGK_GPUMMUCAPS* mmu_of(const DXGKARG_QUERYADAPTERINFO* args) {
  return answer_to<DXGK_GPUMMUCAPS>(args, DXGKQAITYPE_GPUMMUCAPS);
}
/// The description of one level, if that is asked for.
DXGK_PAGE_TABLE_LEVEL_DESC* level_of(const DXGKARG_QUERYADAPTERINFO* args, WORD level) {
  auto* desc = answer_to<DXGK_PAGE_TABLE_LEVEL_DESC>(args, DXGKQAITYPE_PAGETABLELEVELDESC);
  if (desc == nullptr) return nullptr;
  const auto* in = static_cast<const DXGK_QUERYPAGETABLELEVELDESCIN*>(args->pInputData);
  return in->LevelIndex == level ? desc : nullptr;
}

// --- caps and levels ---

void va_both_models(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = caps_of(args)) caps->MemoryManagementCaps.IoMmuSupported = 1;
  });
}
void va_of_the_processor(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = caps_of(args)) {
      caps->MemoryManagementCaps.GpuMmuSupported = 0;
      caps->MemoryManagementCaps.IoMmuSupported = 1;
    }
  });
}
void va_without_saying_so(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = caps_of(args)) caps->MemoryManagementCaps.VirtualAddressingSupported = 0;
  });
}
void va_seven_levels(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = mmu_of(args)) caps->PageTableLevelCount = 7;
  });
}
void va_bits_do_not_add_up(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = mmu_of(args)) caps->VirtualAddressBitCount = 47;
  });
}
void va_table_of_half_pages(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* desc = level_of(args, 2)) desc->PageTableSizeInBytes = 6144;
  });
}
void va_large_table_in_system_memory(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* desc = level_of(args, 3)) {
      desc->PageTableSegmentId = 0;
      desc->PageTableSizeInBytes = 8192;
    }
  });
}
void va_processor_writes_video_memory(DRIVER_INITIALIZATION_DATA* table) {
  with_answer(table, [](const DXGKARG_QUERYADAPTERINFO* args) {
    if (auto* caps = mmu_of(args)) caps->PageTableUpdateMode = DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
  });
}
void va_without_root_entry(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiSetRootPageTable = nullptr;
}

// --- reservations ---

void reserve(HANDLE process, UINT64 bytes) {
  DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE range = {};
  range.hDxgkProcess = process;
  range.SizeInBytes = bytes;
  (void)dxgk->DxgkCbReserveGpuVirtualAddressRange(dxgk->DeviceHandle, &range);
}

NTSTATUS NTAPI create_process_reserving_pages(IN_CONST_HANDLE context,
                                              INOUT_PDXGKARG_CREATEPROCESS args) {
  reserve(args->hDxgkProcess, 4096);
  return original.DxgkDdiCreateProcess(context, args);
}
void va_reserves_part_of_a_table(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateProcess = create_process_reserving_pages;
}

HANDLE kernel_process;
NTSTATUS NTAPI create_process_remembered(IN_CONST_HANDLE context,
                                         INOUT_PDXGKARG_CREATEPROCESS args) {
  kernel_process = args->hDxgkProcess;
  return original.DxgkDdiCreateProcess(context, args);
}
NTSTATUS NTAPI create_device_reserving(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEDEVICE args) {
  reserve(kernel_process, UINT64{2} << 20);
  return original.DxgkDdiCreateDevice(context, args);
}
void va_reserves_late(DRIVER_INITIALIZATION_DATA* table) {
  table->DxgkDdiCreateProcess = create_process_remembered;
  table->DxgkDdiCreateDevice = create_device_reserving;
}

}  // namespace

#define MUTANT(name) \
  { #name, name, nullptr }
const Mutant kGpuVaMutants[] = {
    MUTANT(va_both_models),
    MUTANT(va_of_the_processor),
    MUTANT(va_without_saying_so),
    MUTANT(va_seven_levels),
    MUTANT(va_bits_do_not_add_up),
    MUTANT(va_table_of_half_pages),
    MUTANT(va_large_table_in_system_memory),
    MUTANT(va_processor_writes_video_memory),
    MUTANT(va_without_root_entry),
    MUTANT(va_reserves_part_of_a_table),
    MUTANT(va_reserves_late),
    {nullptr, nullptr, nullptr},
};
#undef MUTANT

}  // namespace mutants
