#include "port/ddi/mdl_pool.h"

#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "nt/layout.h"

namespace dxgkit::port {

MdlPool::~MdlPool() {
  for (const Words& mdl : mdls_) kernel_.release_mdl(mdl.data());
}

nt::Mdl* MdlPool::make(std::span<const uint64_t> pages) {
  Words storage{nt::HeapAllocator<uint64_t>(kernel_.heap())};
  if (!spare_.empty()) {
    storage = std::move(spare_.back());
    spare_.pop_back();
  }
  constexpr size_t kHeaderWords = sizeof(nt::Mdl) / sizeof(uint64_t);
  storage.assign(kHeaderWords + pages.size(), 0);
  auto* mdl = reinterpret_cast<nt::Mdl*>(storage.data());
  // Size has 16 bits. Long lists wrap here as on Windows, where drivers use ByteCount.
  mdl->size = static_cast<int16_t>(static_cast<uint16_t>(storage.size() * sizeof(uint64_t)));
  mdl->flags = nt::kMdlPagesLocked;
  mdl->byte_count = static_cast<uint32_t>(
      std::min<uint64_t>(pages.size() * kPageBytes, UINT32_MAX & ~uint64_t{4095}));
  std::ranges::copy(pages, mdl->pages());
  mdls_.push_back(std::move(storage));  // the words stay where they are
  ++issued_;
  return mdl;
}

void MdlPool::release(uint64_t count) {
  constexpr size_t kSpareMax = 64;
  for (; released_ < count; ++released_) {
    Words& storage = mdls_.front();
    kernel_.release_mdl(storage.data());
    if (spare_.size() < kSpareMax) spare_.push_back(std::move(storage));
    mdls_.pop_front();
  }
}

}  // namespace dxgkit::port
