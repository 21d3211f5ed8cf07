// Flips of one video present source: their order, when they go to hardware, when they are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace dxgkit::vidsch {

/// One change of the picture of a source.
struct FlipRequest {
  uint64_t id = 0;         // the caller's; rises along the queue
  uint64_t surface = 0;    // the surface to show: the address that vertical sync reports
  uint32_t interval = 1;   // 0: at once; n: not before the previous frame was shown for n syncs
  bool by_driver = false;  // a DMA buffer flips, so nothing is programmed
};

/// The interface that the queue needs. Any mutating call of FlipQueue may call it. It may not call
/// the queue back.
class FlipPort {
 public:
  virtual ~FlipPort() = default;
  /// Programs the surface's address into the display: at once, or for the next vertical sync.
  virtual void program(const FlipRequest& flip, bool at_once) = 0;
  /// The flip is over: its surface is on the screen, and the surface before it is not.
  virtual void done(const FlipRequest& flip) = 0;
};

//  announce()            reach()               room, interval           vsync(surface)
//  ---------> kAnnounced --------> kReached --------------------> kHardware ------------> done()
//                 | cancel()           | same surface as before it          (superseded: done())
//                 v                    '-----> kHolds --- interval syncs --> done()
//               gone
/// Lane: the adapter's. Costs O(flips pending), which clients' limits keep small.
class FlipQueue {
 public:
  /// `most_in_hardware`: MaxQueuedFlipOnVSync; 0 counts as 1.
  FlipQueue(FlipPort& port, uint32_t most_in_hardware);

  /// Appends a flip; ids must rise. Nothing is programmed before reach().
  void announce(const FlipRequest& flip);
  /// The GPU has finished the work before the flip. Flips reached out of order wait for flips
  /// announced earlier. Unknown ids are ignored, because they may have been cancelled.
  void reach(uint64_t id);
  /// The flip will never be reached: removes it without done(). False: unknown, or in hardware.
  bool cancel(uint64_t id);

  enum class Vsync {
    kShown,    // the same surface is still shown
    kFlipped,  // a queued flip has taken effect
    kUnknown,  // a surface that no flip asked for
  };
  /// A vertical sync of the source's leading output, with the surface that is shown from now on.
  Vsync vsync(uint64_t surface);
  /// A mode set: `surface` is shown from now on, and every pending flip is over (done(), in order).
  void show(uint64_t surface);

  uint64_t shown() const { return shown_; }
  size_t pending() const { return flips_.size(); }
  size_t in_hardware() const { return hardware_; }
  /// True if a vertical sync is needed for progress.
  bool needs_vsync() const { return !flips_.empty() && flips_.front().state != State::kAnnounced; }
  /// Checks: hardware first, bounded, ids rising.
  bool validate() const;

 private:
  enum class State : uint8_t { kAnnounced, kReached, kHolds, kHardware };
  struct Entry {
    FlipRequest flip;
    State state = State::kAnnounced;
  };
  /// Programs the flips that may go.
  void advance();
  void finish_front();

  FlipPort& port_;
  const uint32_t most_in_hardware_;
  std::deque<Entry> flips_;  // flips in hardware come first
  size_t hardware_ = 0;
  uint64_t shown_ = 0;
  uint64_t syncs_shown_ = 0;  // vertical syncs since the sync that began to show it
};

}  // namespace dxgkit::vidsch
