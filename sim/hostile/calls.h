// The form of the arguments of each implemented D3DKMT call. Generated from the ABI's layout facts
// (generate_calls.py), so that a new thunk is called at random as soon as it exists.
#pragma once

#include <ntdef.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace dxgkit::hostile {

/// The kind of value that a member takes, by its type and name.
enum class Kind : uint8_t {
  kNumber,
  kSmall,  // an enumeration, an ordinal, a fence value
  kCount,  // of some list beside it
  kBytes,  // a size, a length, an offset
  kPages,
  kFlags,
  kReserved,
  kHandle,        // D3DKMT_HANDLE
  kNtHandle,      // HANDLE: a file descriptor
  kAddress,       // of the GPU
  kList,          // pointer to records
  kBuffer,        // pointer to bytes
  kPrivateData,   // pointer to bytes for the driver
  kPrivateBytes,  // their size
  kMemory,        // pointer to pages
  kOpaque,        // pointer that only the kernel reads
  kFunction,
};

/// The kind of object that a handle names.
enum class Pool : uint8_t {
  kAdapter,
  kDevice,
  kContext,
  kAllocation,
  kResource,
  kSync,
  kPagingQueue,
  kKeyedMutex,
  kHwContext,
  kHwQueue,
  kGlobal,
};
inline constexpr size_t kPoolCount = 11;

struct Field {
  const char* name;  // dotted where records nest
  uint16_t offset;
  uint8_t size;    // of one element
  uint16_t count;  // of an array in place
  Kind kind;
  Pool pool;       // kHandle
  int16_t record;  // kList: index in records()
  uint64_t mask;   // kFlags: bits with a meaning
};
struct Record {
  const char* name;
  uint32_t size;
  std::span<const Field> fields;
};
struct Call {
  const char* name;
  NTSTATUS (*run)(void* arguments);
  int16_t record;
};

std::span<const Record> records();
std::span<const Call> calls();

}  // namespace dxgkit::hostile
