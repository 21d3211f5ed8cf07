// The kernel's own objects in the driver: the paging process, its device and its context (LIFE-07).
#pragma once

#include "base/ids.h"
#include "base/status.h"
#include "bus/machine.h"
#include "dxgk/core/adapter_core.h"

namespace dxgkit::dxgk {

class AddressSpaces;
class GpuVa;
class PagingBuffers;
class PagingExecutor;
class Submission;

/// Not on the lane, except where a call says otherwise.
class SystemObjects {
 public:
  struct Parts {
    PagingExecutor& paging;
    PagingBuffers& paging_buffers;
    Submission& submission;
    GpuVa* gpu_va = nullptr;  // null: the patch model
  };
  explicit SystemObjects(AdapterCore& core) : core_(core) {}

  /// Makes them in the driver. `spaces` is null in the patch model; elsewhere the context submits
  /// by GPU virtual address. The driver's failure passes through; destroy() is for what was made
  /// then, too.
  Status make(AddressSpaces* spaces);
  /// Makes what paging needs, behind make(). A failure passes through.
  Status start_paging(const Parts& parts);
  void destroy();
  /// After the device has stopped.
  void free_dummy_page();
  /// The driver's handle of the paging context, of the device without contexts. Any thread.
  void* context() const { return context_; }
  /// What unmapped apertures show (PAGE-29). Any thread.
  bus::PageFrame dummy_page() const { return dummy_page_; }

 private:
  AdapterCore& core_;
  void* process_ = nullptr;
  bool has_process_ = false;
  void* device_ = nullptr;
  bool has_device_ = false;
  void* context_ = nullptr;
  bool has_context_ = false;
  ContextId paging_context_;
  bus::PageFrame dummy_page_;
  bool has_dummy_page_ = false;
};

}  // namespace dxgkit::dxgk
