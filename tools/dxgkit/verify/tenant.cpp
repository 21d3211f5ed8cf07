#include "tools/dxgkit/verify/tenant.h"

#include <algorithm>

#include "base/arithmetic.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint64_t kPieces = 3;  // of a mapping, one after the other

}  // namespace

Answer<void> Tenant::open(uint64_t seed, uint64_t grain_pages) {
  seed_ = seed;
  large_ = grain_pages > kGrainPages;
  DXGKIT_VERIFY_TRY(worker_.open());
  memory_device_ = worker_.device;
  if (memory_ == Memory::kOwnDevice) {
    const Answer<D3DKMT_HANDLE> made = client().create_device();
    if (!made) return std::unexpected(made.error());
    memory_device_ = *made;
  }
  Answer<std::unique_ptr<Job>> job = another_job();
  if (!job) return std::unexpected(job.error());
  job_ = std::move(*job);
  pages_ = 0;
  for (size_t i = 0; i < job_->allocations().size(); ++i) {
    offsets_.push_back(pages_);
    pages_ += align_up(pages_of(i), grain_pages);
  }
  return {};
}

Answer<std::unique_ptr<Job>> Tenant::another_job() {
  Answer<std::unique_ptr<Job>> job = Job::create(bench_, client(), memory_device_, seed_, node_);
  if (!job) return std::unexpected(job.error());
  // Its allocations have addresses of their own. They get others.
  DXGKIT_VERIFY_TRY((*job)->unmap());
  return job;
}

uint64_t Tenant::pages_of(size_t allocation) const {
  return align_up(job_->allocations()[allocation].size_bytes, kPageBytes) / kPageBytes;
}

Answer<void> Tenant::settle(uint64_t first_page) {
  const Answer<uint64_t> base =
      client().reserve(memory_device_, pages_ * kPageBytes, first_page * kPageBytes);
  if (!base) return std::unexpected(base.error());
  base_ = *base;
  addresses_.clear();
  for (const uint64_t offset : offsets_) addresses_.push_back(base_ + offset * kPageBytes);
  job_->assume_addresses(addresses_);
  return map_all();
}

Answer<void> Tenant::map_all() {
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const uint64_t pages = pages_of(i);
    const uint64_t pieces = std::min(kPieces, pages);
    for (const size_t piece : bench_.shuffled(pieces)) {
      // Large pages stay large where a piece ends between two of them.
      const auto cut = [&](uint64_t number) {
        const uint64_t page = pages * number / pieces;
        return number == pieces ? pages : align_down(page, large_ ? kGrainPages : 1);
      };
      MapWish wish;
      wish.allocation = job_->allocations()[i].handle;
      const PagePiece some{i, cut(piece), cut(piece + 1) - cut(piece)};
      if (some.pages != 0) DXGKIT_VERIFY_TRY(map(some, wish));
    }
  }
  return {};
}

Answer<void> Tenant::map(const PagePiece& piece, MapWish wish) {
  wish.base = addresses_[piece.allocation] + piece.first * kPageBytes;
  wish.pages = piece.pages;
  wish.offset_pages = wish.allocation == 0 ? 0 : piece.first;
  const Answer<uint64_t> address = client().map(memory_device_, wish);
  if (!address) return std::unexpected(address.error());
  return {};
}

Answer<void> Tenant::leave() {
  job_->forget_addresses();
  const uint64_t base = std::exchange(base_, 0);
  return client().free_addresses(base, pages_ * kPageBytes);
}

Answer<std::string> Tenant::run_unchecked() {
  DXGKIT_VERIFY_TRY(job_->spoil());
  DXGKIT_VERIFY_TRY(job_->submit(worker_.contexts[node_]));
  std::string wrong;
  const Answer<bool> kept = worker_.idle(&wrong);
  if (!kept) return std::unexpected(kept.error());
  return wrong;
}

Answer<std::string> Tenant::run() {
  Answer<std::string> wrong = run_unchecked();
  if (!wrong || !wrong->empty()) return wrong;
  const Answer<void> right = job_->check();
  return right ? std::string() : right.error();
}

Answer<std::string> Tenant::run_into_fault(uint32_t access, std::span<const AddressRange> places) {
  DXGKIT_VERIFY_TRY(job_->spoil());
  // The engine may be faster than the calls after the submission.
  const Answer<void> sent = job_->submit(worker_.contexts[node_]);
  if (!sent && client().active(worker_.device)) return std::unexpected(sent.error());
  static_cast<void>(client().wait_idle(worker_.device));
  const bool stays = client().active(worker_.device);
  const bool faulted = client().page_faulted(worker_.device);
  const Answer<bool> untouched = job_->spoilt();
  if (!untouched) return std::unexpected(untouched.error());
  std::string wrong;
  if (!*untouched)
    wrong = stays ? "the work went through and wrote the memory" : "the memory was written";
  else if (stays)
    wrong = "no page fault was reported";
  else if (!faulted)
    wrong = "the device was lost, and not to a page fault";
  if (wrong.empty()) judge_fault(bench_, client(), worker_.device, node_, access, places);
  if (!stays) {
    DXGKIT_VERIFY_TRY(client().destroy_device(worker_.device));
    DXGKIT_VERIFY_TRY(worker_.open_device());
  }
  return wrong;
}

}  // namespace dxgkit::tool::verify
