// Switches of the adapter verifier: paths that work takes rarely, taken always (REND-28).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dxgkit::dxgk {

/// What is not here is not implemented. None of them changes what correct drivers and clients
/// compute; a client that ignores what an offer costs it notices kAlwaysDiscardOffer.
enum class VerifierSwitch : uint8_t {
  kAlwaysRepatch,       // each part of a DMA buffer is patched twice before it is submitted
  kFailProbeAndLock,    // pinning a client's memory fails once, and is done again
  kAlwaysDiscardOffer,  // offered content of a memory segment is given up as soon as it is idle
  kNeverDiscardOffer,   // offered content is written back under pressure, as if it was not offered
  kForceComplexLock,    // a lock moves content to system memory, although the CPU could see it
  kNeverPrepatch,       // the driver is not told where allocations are before it patches
  kTakeSplitPoint,      // a DMA buffer is cut at each split point, although all of it fits
  kFailAcquireSwizzlingRange,  // no range is free: the lock takes another way
  kNoDemotion,      // others are evicted before a less preferred segment is taken; evicted content
                    // is not parked in an aperture
  kFailDefragPass,  // nothing is moved inside a segment to join what is free
};
inline constexpr size_t kVerifierSwitches = 10;

struct VerifierSwitchName {
  VerifierSwitch which;
  uint32_t bit;           // of D3DKMT_ADAPTER_VERIFIER_VIDMM_FLAGS
  std::string_view name;  // of the member there
};
inline constexpr std::array<VerifierSwitchName, kVerifierSwitches> kVerifierSwitchNames{{
    {VerifierSwitch::kAlwaysRepatch, 0, "AlwaysRepatch"},
    {VerifierSwitch::kFailProbeAndLock, 2, "FailProbeAndLock"},
    {VerifierSwitch::kAlwaysDiscardOffer, 3, "AlwaysDiscardOffer"},
    {VerifierSwitch::kNeverDiscardOffer, 4, "NeverDiscardOffer"},
    {VerifierSwitch::kForceComplexLock, 5, "ForceComplexLock"},
    {VerifierSwitch::kNeverPrepatch, 6, "NeverPrepatch"},
    {VerifierSwitch::kTakeSplitPoint, 8, "TakeSplitPoint"},
    {VerifierSwitch::kFailAcquireSwizzlingRange, 9, "FailAcquireSwizzlingRange"},
    {VerifierSwitch::kNoDemotion, 13, "NoDemotion"},
    {VerifierSwitch::kFailDefragPass, 14, "FailDefragPass"},
}};

/// Which are on.
struct VerifierSwitches {
  uint32_t on = 0;  // bit n: the switch of number n
  bool has(VerifierSwitch which) const { return (on >> static_cast<uint32_t>(which) & 1U) != 0; }
  void set(VerifierSwitch which) { on |= 1U << static_cast<uint32_t>(which); }
};

}  // namespace dxgkit::dxgk
