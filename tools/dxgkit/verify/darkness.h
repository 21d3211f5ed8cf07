// Screens that show nothing for a while.
#pragma once

#include <utility>

#include "dxgk/display_exercise.h"
#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

/// No screen shows anything while it lives, so that no primary is in use: an adapter can be reset,
/// and nothing has to be paged in behind a reset or a sleep.
class Darkness {
 public:
  explicit Darkness(Bench& bench) : bench_(bench) {
    if (bench.exercise().video_present_sources() == 0) return;
    Result<dxgk::DisplayExercise> exercise =
        dxgk::DisplayExercise::on(bench.system(), bench.luid());
    if (exercise.has_value()) cleared_ = is_success(exercise->clear());
  }
  ~Darkness() {
    if (cleared_ && bench_.running()) static_cast<void>(end());
  }
  Darkness(const Darkness&) = delete;
  Darkness& operator=(const Darkness&) = delete;

  /// The screens show something again.
  Status end() {
    if (!std::exchange(cleared_, false)) return Status::kSuccess;
    Result<dxgk::DisplayExercise> exercise =
        dxgk::DisplayExercise::on(bench_.system(), bench_.luid());
    return exercise.has_value() ? exercise->show_monitors() : exercise.error();
  }

 private:
  Bench& bench_;
  bool cleared_ = false;
};

}  // namespace dxgkit::tool::verify
