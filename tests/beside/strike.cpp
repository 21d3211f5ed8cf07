#include "tests/beside/strike.h"

#include "runtime/lane.h"
#include "runtime/runtime.h"

// The linker (--wrap) sends the calls of everybody else to the second of each pair.
extern "C" bool real_guarded_copy(void* to, const void* from,
                                  size_t bytes) asm("__real__ZN6dxgkit12guarded_copyEPvPKvm");
extern "C" bool seen_guarded_copy(void* to, const void* from,
                                  size_t bytes) asm("__wrap__ZN6dxgkit12guarded_copyEPvPKvm");
extern "C" void real_lane_run(dxgkit::runtime::Lane* lane, dxgkit::runtime::FunctionRef work) asm(
    "__real__ZN6dxgkit7runtime4Lane3runENS0_11FunctionRefE");
extern "C" void seen_lane_run(dxgkit::runtime::Lane* lane, dxgkit::runtime::FunctionRef work) asm(
    "__wrap__ZN6dxgkit7runtime4Lane3runENS0_11FunctionRefE");

namespace dxgkit::beside {
namespace {

Strike* the_one = nullptr;

}  // namespace

struct Places {
  static void reached() {
    if (the_one != nullptr) the_one->reached();
  }
};

Strike::Strike(size_t at, std::function<void()> act)
    : at_(at), act_(std::move(act)), thread_(runtime::Runtime::current().thread_number()) {
  the_one = this;
}

Strike::~Strike() { the_one = nullptr; }

void Strike::reached() {
  if (acting_ || runtime::Runtime::current().thread_number() != thread_) return;
  if (++places_ != at_) return;
  acting_ = true;
  act_();
  acting_ = false;
}

}  // namespace dxgkit::beside

bool seen_guarded_copy(void* to, const void* from, size_t bytes) {
  dxgkit::beside::Places::reached();
  return real_guarded_copy(to, from, bytes);
}

void seen_lane_run(dxgkit::runtime::Lane* lane, dxgkit::runtime::FunctionRef work) {
  // A driver's callback is on the lane already: nothing comes between.
  if (!lane->is_current()) dxgkit::beside::Places::reached();
  real_lane_run(lane, work);
}
