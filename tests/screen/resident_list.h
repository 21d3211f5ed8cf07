// How a test's client of WDDM 2.0 keeps resident what a submission names.
#pragma once

#include <d3dkmthk.h>
#include <gtest/gtest.h>

#include <vector>

namespace dxgkit {

/// The list of a device. Without open() all calls do nothing, as for a driver below 2.0.
class ResidentList {
 public:
  void open(D3DKMT_HANDLE device) {
    queue_.hDevice = device;
    EXPECT_EQ(D3DKMTCreatePagingQueue(&queue_), 0);
  }
  void close() {
    if (queue_.hPagingQueue == 0) return;
    D3DDDI_DESTROYPAGINGQUEUE destroy{};
    destroy.hPagingQueue = queue_.hPagingQueue;
    EXPECT_EQ(D3DKMTDestroyPagingQueue(&destroy), 0);
    queue_ = {};
  }

  /// Before a submission. It does not run before all of them are there.
  NTSTATUS add(const std::vector<D3DKMT_HANDLE>& allocations) const {
    if (queue_.hPagingQueue == 0 || allocations.empty()) return 0;
    D3DDDI_MAKERESIDENT resident{};
    resident.hPagingQueue = queue_.hPagingQueue;
    resident.NumAllocations = static_cast<UINT>(allocations.size());
    resident.AllocationList = allocations.data();
    resident.Flags.CantTrimFurther = 1;
    const NTSTATUS status = D3DKMTMakeResident(&resident);
    return status > 0 ? 0 : status;  // STATUS_PENDING: soon
  }
  /// Behind the submission: they leave when there is no room.
  void let_go(const std::vector<D3DKMT_HANDLE>& allocations) const {
    if (queue_.hPagingQueue == 0 || allocations.empty()) return;
    D3DKMT_EVICT evict{};
    evict.hDevice = queue_.hDevice;
    evict.NumAllocations = static_cast<UINT>(allocations.size());
    evict.AllocationList = allocations.data();
    evict.Flags.EvictOnlyIfNecessary = 1;
    EXPECT_EQ(D3DKMTEvict(&evict), 0);
  }

 private:
  D3DKMT_CREATEPAGINGQUEUE queue_{};
};

}  // namespace dxgkit
