// Layouts of the I/O manager's objects, which drivers read and write inline (x64). Compared with
// abi/include/wdm.h in io_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nt/layout.h"

namespace dxgkit::nt {

struct IoStatusBlock {  // IO_STATUS_BLOCK
  union {
    int32_t status;
    void* pointer;
  };
  uint64_t information;
};
static_assert(sizeof(IoStatusBlock) == 16);

struct DeviceObject {  // DEVICE_OBJECT
  int16_t type;        // 3
  uint16_t size;
  int32_t reference_count;
  void* driver_object;
  DeviceObject* next_device;
  DeviceObject* attached_device;
  void* current_irp;
  void* timer;
  uint32_t flags, characteristics;
  void* vpb;
  void* extension;
  uint32_t device_type;
  int8_t stack_size;
  std::byte rest[336 - 80];
};
static_assert(sizeof(DeviceObject) == 336);

struct FileObject {  // FILE_OBJECT
  int16_t type;      // 5
  int16_t size;
  DeviceObject* device;
  void* vpb;
  void* context[2];
  std::byte rest1[216 - 40];
};
static_assert(sizeof(FileObject) == 216);

struct Irp;
using CompletionRoutine = int32_t(__attribute__((ms_abi)) *)(DeviceObject*, Irp*, void*);

struct IoStackLocation {  // IO_STACK_LOCATION
  struct DeviceControl {
    uint32_t output_length, padding1;
    uint32_t input_length, padding2;
    uint32_t code, padding3;
    void* type3_input;
  };
  struct Transfer {
    uint32_t length, padding1;
    uint32_t key, padding2;
    int64_t offset;
  };
  uint8_t major, minor, flags, control;
  uint32_t padding;
  union {
    DeviceControl device_control;
    Transfer transfer;
    void* arguments[4];
  };
  DeviceObject* device;
  FileObject* file;
  CompletionRoutine completion;
  void* context;
};
static_assert(sizeof(IoStackLocation) == 72);

inline constexpr uint8_t kIrpMjRead = 0x03, kIrpMjWrite = 0x04, kIrpMjFlush = 0x09,
                         kIrpMjDeviceControl = 0x0E, kIrpMjInternalDeviceControl = 0x0F,
                         kIrpMjShutdown = 0x10, kIrpMjPnp = 0x1B;
inline constexpr uint8_t kStackPendingReturned = 0x01, kStackInvokeOnCancel = 0x20,
                         kStackInvokeOnSuccess = 0x40, kStackInvokeOnError = 0x80;

struct Irp {     // IRP; its stack locations follow
  int16_t type;  // 6
  uint16_t size;
  uint32_t padding;
  Mdl* mdl;
  uint32_t flags, padding1;
  void* system_buffer;
  ListEntry thread_list;
  IoStatusBlock io_status;
  int8_t requestor_mode;
  uint8_t pending_returned;
  int8_t stack_count, current_location;
  uint8_t cancel, cancel_irql;
  int8_t apc_environment;
  uint8_t allocation_flags;
  IoStatusBlock* user_iosb;
  Kevent* user_event;
  void* overlay[2];
  void* cancel_routine;
  void* user_buffer;
  void* driver_context[4];
  void* thread;
  void* auxiliary_buffer;
  ListEntry list_entry;
  IoStackLocation* current_stack;
  FileObject* original_file;
  void* extension;

  IoStackLocation* stack() { return reinterpret_cast<IoStackLocation*>(this + 1); }
};
static_assert(sizeof(Irp) == 208);
static_assert(offsetof(Irp, user_buffer) == 112 && offsetof(Irp, current_stack) == 184);

}  // namespace dxgkit::nt
