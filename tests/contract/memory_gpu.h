// A GPU that carries out paging buffers on memory, so that content is seen to survive.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {

/// Takes over DxgkDdiSubmitCommand of the scripted miniport: at submission every operation of the
/// paging buffer happens at once. Segment 1 is the device's memory BAR, segment 2 an array, segment
/// 3 a page table (or, as an AGP segment, the machine's GART). What an operation may not ask for
/// fails the test.
class MemoryGpu {
 public:
  explicit MemoryGpu(Stack& stack);
  ~MemoryGpu();
  MemoryGpu(const MemoryGpu&) = delete;
  MemoryGpu& operator=(const MemoryGpu&) = delete;
  /// Where a GPU address leads, for at most the rest of its page.
  std::byte* at(uint64_t address);
  size_t transfers_in = 0, transfers_out = 0, fills = 0, inits = 0, touches = 0, lost = 0;
  /// What context resources are filled with.
  static constexpr std::byte kInitial{0xC7};

 private:
  std::byte* system(uint64_t frame);
  void run(const DXGKARG_SUBMITCOMMAND& args);
  void carry_out(const testing::PagingCall& call);
  void map(uint64_t first, uint64_t count, const std::vector<uint64_t>& pages, uint64_t skipped);

  Stack& stack_;
  std::byte* visible_ = nullptr;  // the BAR, mapped when it is looked at first
  std::vector<std::byte> hidden_;
  std::map<uint64_t, uint64_t> aperture_;  // page of segment 3 -> frame
};

}  // namespace dxgkit::contract
