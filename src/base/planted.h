// Bugs we plant on purpose, to see that the simulation finds them. Only in builds of their own
// (DXGKIT_PLANTED_BUGS=ON): everywhere else each of these is the constant false.
#pragma once

namespace dxgkit {

/// The environment's DXGKIT_PLANT is this name. Any thread.
bool is_planted(const char* name);

}  // namespace dxgkit

#ifdef DXGKIT_PLANTED_BUGS
/// True: the bug of that name is to happen here. Names are identifiers, one per bug; a bug may need
/// several places. Cost: none in builds without bugs.
#define DXGKIT_PLANTED(name)                                 \
  ([] {                                                      \
    static const bool planted = ::dxgkit::is_planted(#name); \
    return planted;                                          \
  }())
#else
#define DXGKIT_PLANTED(name) false
#endif
