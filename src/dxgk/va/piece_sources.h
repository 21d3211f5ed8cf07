// What address spaces show, as plans of page tables ask for it.
#pragma once

#include <cstdint>
#include <vector>

#include "dxgk/va/gpu_space.h"
#include "dxgk/va/va_floor.h"
#include "gpuva/page_tables.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

/// What a process's space maps, with the places its allocations have. Lane.
class MappedPieces final : public gpuva::PieceSource {
 public:
  MappedPieces(VaFloor& floor, const GpuSpace& space) : floor_(floor), space_(space) {}
  void pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const override;

 private:
  void append(const gpuva::Mapping& mapping, std::vector<gpuva::Piece>* out) const
      DXGKIT_REQUIRES(on_lane);
  void place(const gpuva::Mapping& mapping, const vidmm::Placement& where,
             std::vector<gpuva::Piece>* out, gpuva::Piece piece) const DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
  const GpuSpace& space_;
};

/// What others say, but of spans of which nothing is said. The spans are in order.
class AllBut final : public gpuva::PieceSource {
 public:
  AllBut(const gpuva::PieceSource& others, const gpuva::PageSpans& hidden)
      : others_(others), hidden_(hidden) {}
  void pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const override;

 private:
  const gpuva::PieceSource& others_;
  const gpuva::PageSpans& hidden_;
};

/// What others say, with pages of the kernel's in place of what is not resident: so that all tables
/// are there that will be needed.
class AllThere final : public gpuva::PieceSource {
 public:
  AllThere(const gpuva::PieceSource& others, uint64_t dummy_page)
      : others_(others), dummy_page_(dummy_page) {}
  void pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const override;

 private:
  const gpuva::PieceSource& others_;
  const uint64_t dummy_page_;
};

}  // namespace dxgkit::dxgk
