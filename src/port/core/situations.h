// What an adapter's driver is confronted with, for who wants to know (verifier/situations.h).
#pragma once

#include "port/core/display_situations.h"
#include "port/core/life_situations.h"
#include "port/core/object_situations.h"
#include "port/core/paging_situations.h"
#include "port/core/work_situations.h"

namespace dxgkit::port {

/// One class for each kind of situation. The families of DDIs tell them of each call.
struct Situations {
  explicit Situations(verifier::SituationLog& log_in)
      : log(log_in), life(log_in), objects(log_in), paging(log_in), work(log_in), display(log_in) {}
  /// For a situation that is nothing but the call.
  void reach(verifier::Situation situation) { log.reach(situation); }

  verifier::SituationLog& log;
  LifeSituations life;
  ObjectSituations objects;
  PagingSituations paging;
  WorkSituations work;
  DisplaySituations display;
};

}  // namespace dxgkit::port
