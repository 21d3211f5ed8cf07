// Pages of the kernel's own that entries show where there is nothing else to show.
#pragma once

#include "base/status.h"
#include "bus/machine.h"
#include "dxgk/core/adapter_core.h"
#include "gpuva/geometry.h"
#include "gpuva/page_tables.h"

namespace dxgkit::dxgk {

/// Constant from make() on.
class StandInPages {
 public:
  StandInPages(AdapterCore& core, const gpuva::Geometry& geometry)
      : core_(core), geometry_(geometry) {}
  ~StandInPages();
  StandInPages(const StandInPages&) = delete;
  StandInPages& operator=(const StandInPages&) = delete;

  /// VA-22: without a Zero bit in entries, a page of zeros that nobody can write stands for them.
  /// `dummy_page` outlives this. kNoMemory: nothing stays.
  Status make(bus::PageFrame dummy_page);
  /// What a mapping of zeros shows.
  gpuva::PteSource zeros() const;
  /// What pages show that are not in use: so their tables stay, and a driver that strays changes
  /// nothing.
  gpuva::PteSource nothing() const;
  bus::PageFrame dummy_page() const { return dummy_page_; }

 private:
  AdapterCore& core_;
  const gpuva::Geometry geometry_;
  bus::PageFrame dummy_page_;
  bus::PageFrame zero_page_;
  bool has_zero_page_ = false;
};

}  // namespace dxgkit::dxgk
