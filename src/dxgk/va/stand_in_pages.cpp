#include "dxgk/va/stand_in_pages.h"

namespace dxgkit::dxgk {

StandInPages::~StandInPages() {
  if (has_zero_page_) core_.machine().free_contiguous(zero_page_, 1);
}

Status StandInPages::make(bus::PageFrame dummy_page) {
  dummy_page_ = dummy_page;
  if (geometry_.zero) return Status::kSuccess;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(zero_page_, core_.machine().allocate_contiguous(1));
  has_zero_page_ = true;
  return Status::kSuccess;
}

gpuva::PteSource StandInPages::zeros() const {
  gpuva::PteSource source;
  if (geometry_.zero) {
    source.kind = gpuva::PteSource::Kind::kZero;
    return source;
  }
  source.kind = gpuva::PteSource::Kind::kSame;
  source.read_only = true;
  source.no_execute = geometry_.no_execute;
  source.first_page = zero_page_.value;
  return source;
}

gpuva::PteSource StandInPages::nothing() const {
  gpuva::PteSource source;
  source.kind = gpuva::PteSource::Kind::kSame;
  source.first_page = dummy_page_.value;
  return source;
}

}  // namespace dxgkit::dxgk
