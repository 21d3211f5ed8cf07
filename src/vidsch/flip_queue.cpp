#include "vidsch/flip_queue.h"

#include <algorithm>

#include "base/check.h"

namespace dxgkit::vidsch {

FlipQueue::FlipQueue(FlipPort& port, uint32_t most_in_hardware)
    : port_(port), most_in_hardware_(std::max(most_in_hardware, 1U)) {}

void FlipQueue::announce(const FlipRequest& flip) {
  DXGKIT_CHECK(flips_.empty() || flips_.back().flip.id < flip.id);
  flips_.push_back({flip, State::kAnnounced});
}

void FlipQueue::reach(uint64_t id) {
  const auto found = std::ranges::find(flips_, id, [](const Entry& one) { return one.flip.id; });
  if (found == flips_.end() || found->state != State::kAnnounced) return;
  found->state = State::kReached;
  advance();
}

bool FlipQueue::cancel(uint64_t id) {
  const auto found = std::ranges::find(flips_, id, [](const Entry& one) { return one.flip.id; });
  if (found == flips_.end() || found->state == State::kHardware) return false;
  flips_.erase(found);
  advance();
  return true;
}

void FlipQueue::finish_front() {
  const Entry over = flips_.front();
  flips_.pop_front();
  if (over.state == State::kHardware) --hardware_;
  shown_ = over.flip.surface;
  syncs_shown_ = 0;
  port_.done(over.flip);
}

void FlipQueue::advance() {
  while (hardware_ < flips_.size()) {
    Entry& next = flips_[hardware_];
    if (next.state != State::kReached) return;  // later flips wait for it
    const FlipRequest& flip = next.flip;
    const uint64_t before = hardware_ == 0 ? shown_ : flips_[hardware_ - 1].flip.surface;
    if (flip.by_driver) {  // it is on its way already
      next.state = State::kHardware;
      ++hardware_;
      continue;
    }
    if (flip.surface == before) {  // DISP-10: nothing to program, only to wait
      if (hardware_ != 0) return;
      if (flip.interval != 0) {
        next.state = State::kHolds;
        syncs_shown_ = 0;
        return;
      }
      finish_front();
      continue;
    }
    if (flip.interval == 0) {
      // It would overtake a flip that waits for its sync. It has replaced a flip that came at once.
      const bool only_immediate = std::all_of(
          flips_.begin(), flips_.begin() + static_cast<std::ptrdiff_t>(hardware_),
          [](const Entry& one) { return one.flip.interval == 0 && !one.flip.by_driver; });
      if (!only_immediate) return;
      next.state = State::kHardware;
      ++hardware_;
      const FlipRequest now = flip;  // `done` may not move it, erasing does
      port_.program(now, true);
      while (hardware_ > 1) finish_front();
      continue;
    }
    if (hardware_ >= most_in_hardware_) return;  // DISP-06
    // A report must be unambiguous: no surface twice, and no other flip beside one that came at
    // once.
    if (flip.surface == shown_) return;
    for (size_t i = 0; i < hardware_; ++i) {
      if (flips_[i].flip.surface == flip.surface || flips_[i].flip.interval == 0) return;
    }
    if (flip.interval > 1) {  // the frame before it must be on the screen, and that for long enough
      if (hardware_ != 0 || syncs_shown_ + 1 < flip.interval) return;
    }
    next.state = State::kHardware;
    ++hardware_;
    port_.program(flip, false);
  }
}

FlipQueue::Vsync FlipQueue::vsync(uint64_t surface) {
  Vsync result = Vsync::kShown;
  if (surface == shown_) {
    ++syncs_shown_;
    if (!flips_.empty() && flips_.front().state == State::kHolds &&
        syncs_shown_ >= flips_.front().flip.interval) {
      finish_front();
    }
  } else {
    size_t position = 0;
    while (position < hardware_ && flips_[position].flip.surface != surface) ++position;
    if (position == hardware_) {
      result = Vsync::kUnknown;
    } else {
      result = Vsync::kFlipped;
      for (size_t i = 0; i <= position; ++i) finish_front();
    }
  }
  advance();
  return result;
}

void FlipQueue::show(uint64_t surface) {
  while (!flips_.empty()) finish_front();
  shown_ = surface;
  syncs_shown_ = 0;
}

bool FlipQueue::validate() const {
  size_t hardware = 0;
  for (size_t i = 0; i < flips_.size(); ++i) {
    if (i > 0 && flips_[i - 1].flip.id >= flips_[i].flip.id) return false;
    if (flips_[i].state == State::kHardware) {
      if (i != hardware) return false;
      ++hardware;
    }
    if (flips_[i].state == State::kHolds && i != 0) return false;
  }
  return hardware == hardware_;
}

}  // namespace dxgkit::vidsch
