// Why an access of the GPU faulted, from what the kernel knows of the address.
#pragma once

#include <cstdint>
#include <string>

#include "dxgk/va/gpu_space.h"
#include "dxgk/va/va_floor.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Lane: the adapter's. Changes nothing.
class FaultExplainer {
 public:
  struct Fault {
    std::string reason;  // a few words: "memory that was freed"
    std::string story;   // sentences: what is, or was, mapped there, what is near, the tables
    std::string advice;
  };
  explicit FaultExplainer(VaFloor& floor) : floor_(floor) {}

  /// Why an access faulted, as far as can be known. `process`: whose space the work ran in, 0: the
  /// paging process's.
  Fault explain(uint32_t process, uint64_t address, bool write) DXGKIT_REQUIRES(on_lane);

 private:
  std::string tell_tables(const GpuSpace& space, uint64_t page) DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
};

}  // namespace dxgkit::dxgk
