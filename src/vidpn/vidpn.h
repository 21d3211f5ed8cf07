// The VidPN manager of one adapter. It opens networks to the driver for the length of one DDI call,
// serves the documented Win64 interfaces on them, and reports the driver's mistakes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "vidpn/edid.h"
#include "vidpn/network.h"
#include "vidpn/types.h"

namespace dxgkit::verifier {
class Findings;
}
namespace dxgkit::nt {
class Kernel;
}

namespace dxgkit::vidpn {

/// Status codes of this area without a name in base/status.h (the ABI's numbers).
inline constexpr Status kAccessDenied = Status::kAccessDenied;
inline constexpr Status kNotFound = Status{0xC0000225};
inline constexpr Status kInvalidDisplayAdapter = Status{0xC01E0002};
inline constexpr Status kInvalidVidPnTopology = Status{0xC01E0300};
inline constexpr Status kVidPnTopologyNotSupported = Status{0xC01E0301};
inline constexpr Status kInvalidVidPn = Status{0xC01E0303};
inline constexpr Status kInvalidSource = Status{0xC01E0304};
inline constexpr Status kInvalidTarget = Status{0xC01E0305};
inline constexpr Status kModeNotPinned = Status{0x401E0307};  // success class
inline constexpr Status kInvalidSourceModeSet = Status{0xC01E0308};
inline constexpr Status kInvalidTargetModeSet = Status{0xC01E0309};
inline constexpr Status kInvalidFrequency = Status{0xC01E030A};
inline constexpr Status kInvalidActiveRegion = Status{0xC01E030B};
inline constexpr Status kInvalidTotalRegion = Status{0xC01E030C};
inline constexpr Status kInvalidSourceMode = Status{0xC01E0310};
inline constexpr Status kInvalidTargetMode = Status{0xC01E0311};
inline constexpr Status kPinnedModeMustRemain = Status{0xC01E0312};
inline constexpr Status kPathAlreadyInTopology = Status{0xC01E0313};
inline constexpr Status kModeAlreadyInModeSet = Status{0xC01E0314};
inline constexpr Status kInvalidPath = Status{0xC01E0319};
inline constexpr Status kInvalidFrequencyRangeSet = Status{0xC01E031B};
inline constexpr Status kInvalidFrequencyRange = Status{0xC01E031C};
inline constexpr Status kNoPreferredMode = Status{0x401E031E};  // success class
inline constexpr Status kStaleModeSet = Status{0xC01E0320};
inline constexpr Status kInvalidMonitorModeSet = Status{0xC01E0321};
inline constexpr Status kInvalidMonitorMode = Status{0xC01E0322};
inline constexpr Status kNoRecommendedFunctionalVidPn = Status{0xC01E0323};
inline constexpr Status kModeIdMustBeUnique = Status{0xC01E0324};
inline constexpr Status kPathNotInTopology = Status{0xC01E0327};
inline constexpr Status kInvalidDescriptorSet = Status{0xC01E032A};
inline constexpr Status kInvalidDescriptor = Status{0xC01E032B};
inline constexpr Status kResourcesNotRelated = Status{0xC01E0330};
inline constexpr Status kMonitorNotConnected = Status{0xC01E0338};
inline constexpr Status kSourceNotInTopology = Status{0xC01E0339};
inline constexpr Status kInvalidPrimarySurfaceSize = Status{0xC01E033A};
inline constexpr Status kInvalidVisibleRegionSize = Status{0xC01E033B};
inline constexpr Status kInvalidStride = Status{0xC01E033C};
inline constexpr Status kInvalidPixelFormat = Status{0xC01E033D};
inline constexpr Status kInvalidColorBasis = Status{0xC01E033E};
inline constexpr Status kInvalidAccessMode = Status{0xC01E033F};
inline constexpr Status kTargetNotInTopology = Status{0xC01E0340};
inline constexpr Status kInvalidImportance = Status{0xC01E0344};
inline constexpr Status kInvalidTransformation = Status{0xC01E0345};
inline constexpr Status kInvalidGammaRamp = Status{0xC01E0347};
inline constexpr Status kModeNotInModeSet = Status{0xC01E034A};
inline constexpr Status kDataSetIsEmpty = Status{0x401E034B};  // success class
inline constexpr Status kNoMoreElements = Status{0x401E034C};  // success class
inline constexpr Status kInvalidPathContent = Status{0xC01E034E};
inline constexpr Status kInvalidCopyProtection = Status{0xC01E034F};
inline constexpr Status kUnassignedModeSetExists = Status{0xC01E0350};
inline constexpr Status kInvalidScanlineOrdering = Status{0xC01E0352};
inline constexpr Status kMaxPathsReached = Status{0xC01E0359};

/// DDIs that give the driver a VidPN or a monitor mode set, and what the driver may change there:
enum class Ddi {
  kIsSupportedVidPn,          // nothing
  kRecommendFunctionalVidPn,  // everything
  kRecommendVidPnTopology,    // paths
  kEnumVidPnCofuncModality,   // mode sets but the pivot's, path support, multisampling; not the
                              // paths
  kCommitVidPn,               // nothing
  kSetTimingsFromVidPn,       // nothing
  kQueryVidPnHwCapability,    // nothing
  kRecommendMonitorModes,     // the monitor source mode set; no VidPN
  kOther,                     // any other DDI: no VidPN; monitors may be inspected
};
/// "DxgkDdiEnumVidPnCofuncModality"; "" for kOther.
const char* to_string(Ddi ddi);

struct ManagerConfig {
  Profile profile;
  verifier::Findings* findings = nullptr;  // required
  /// The place in findings comes from the kernel, and bug checks stop the driver through it. Null
  /// in tests: then a bug check is a finding only.
  nt::Kernel* kernel = nullptr;
  /// The driver is a loaded image, so its calls come through the kernel's doors. Needs `kernel`.
  bool image_driver = false;
  /// The DeviceHandle of StartDevice, which drivers give to the monitor interface.
  const void* adapter_handle = nullptr;
  /// Windows asserts VIDPN-04 only on a test-signed machine. If false, a breach is a violation, and
  /// the call is refused.
  bool test_signing = true;
};

class DdiCall;

/// All VidPN state of one adapter that a driver can reach.
///
/// Thread-safe, because IsSupportedVidPn and EnumVidPnCofuncModality are reentrant DDIs. Locks: one
/// per process to find the manager of a handle, then one per manager. No lock is held while
/// findings are reported or a driver call is abandoned. Destroy the manager when the driver cannot
/// run any more.
class Manager {
 public:
  explicit Manager(ManagerConfig config);
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  const Profile& profile() const;

  /// DxgkCbQueryVidPnInterface: the table of `version` (1; 2 for drivers of WDDM 2.x) for any
  /// handle of ours. kInvalidVidPn: not an open VidPN. STATUS_NOT_SUPPORTED: no such version.
  /// STATUS_INVALID_PARAMETER: null `table`.
  /// `*table` is unchanged unless STATUS_SUCCESS. PASSIVE_LEVEL (VIDPN-23).
  static Status query_vidpn_interface(const void* vidpn, uint32_t version, const void** table);
  /// DxgkCbQueryMonitorInterface: version 1 or 2. kInvalidDisplayAdapter: the handle is not the
  /// adapter_handle of a manager.
  static Status query_monitor_interface(const void* adapter, uint32_t version, const void** table);

  /// A monitor arrives at, changes at, or leaves a target. Mode sets acquired before become stale
  /// (kStaleModeSet). A target that is not in the profile is our bug.
  void connect_monitor(uint32_t target, Monitor monitor);
  void disconnect_monitor(uint32_t target);
  /// Null when no monitor is connected. Valid until the next connect or disconnect.
  const Monitor* monitor(uint32_t target) const;

  /// The number of monitor references that the driver still holds outside any DDI call; one
  /// VIDPN-07 finding each. Call it at StopDevice.
  size_t report_leaks();
  /// Live handles and infos, for tests.
  size_t open_objects() const;

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  friend class DdiCall;
  std::unique_ptr<Impl> impl_;
};

/// The part of the network that must not change while EnumVidPnCofuncModality runs (D3DKMDT_EPT_*
/// and ids).
struct Pivot {
  enum class Kind : uint32_t { kSource = 1, kTarget = 2, kScaling = 3, kRotation = 4, kNone = 5 };
  Kind kind = Kind::kNone;
  uint32_t source = kNoId,
           target = kNoId;  // kSource: source; kTarget: target; else the path, if one is meant
};

/// One call of a display DDI, seen from the kernel: opens the VidPN to the driver, and closes it
/// again.
///
///   DdiCall call(manager, Ddi::kEnumVidPnCofuncModality, constraining, pivot);
///   args.hConstrainingVidPn = static_cast<D3DKMDT_HVIDPN>(call.vidpn());
///   const Status status = port.enum_vidpn_cofunc_modality(args);
///   const Network result = call.finish(status);
///
/// On the thread that makes the call; calls nest. Handles of the call die with finish(): use
/// afterwards is VIDPN-06.
class DdiCall {
 public:
  /// For a DDI that gets a VidPN. `network` must be valid (network.h).
  DdiCall(Manager& manager, Ddi ddi, Network network, Pivot pivot = {});
  /// For RecommendMonitorModes and the monitor at `target`, which must be connected (otherwise it
  /// is our bug). With kOther and no target: for a DDI that may only inspect monitors.
  DdiCall(Manager& manager, Ddi ddi, std::optional<uint32_t> target = std::nullopt);
  /// Closes the call as an abandoned one, unless finish() did.
  ~DdiCall();
  DdiCall(const DdiCall&) = delete;
  DdiCall& operator=(const DdiCall&) = delete;

  /// The value for DXGKARG_*::h...VidPn. Null without a network.
  void* vidpn() const;
  /// The value for DXGKARG_RECOMMENDVIDPNTOPOLOGY::hFallbackTopology and the like: the topology of
  /// the same VidPN.
  void* topology() const;
  /// The value for DXGKARG_RECOMMENDMONITORMODES; null otherwise.
  void* monitor_mode_set() const;
  const void* monitor_mode_set_interface() const;

  /// Before the driver is called: the `nth` of the interface functions that it calls in this DDI
  /// answers STATUS_NO_MEMORY without an effect. 1 is the first; 0, as at the start: none does.
  /// Releases do not count, because they fail for wrong arguments only. Functions of the monitor
  /// interface count in RecommendMonitorModes only: elsewhere a driver may do without them.
  void fail_function(uint32_t nth);
  /// The function that failed so, "pfnCreateNewModeInfo". Null: the driver called fewer.
  const char* failed_function() const;

  /// The driver returned `status`. Takes back objects that the driver did not release (VIDPN-07,
  /// one finding per object), checks the result as the DDI asks, and closes the handles. After
  /// EnumVidPnCofuncModality the result must be cofunctional (VIDPN-19), after
  /// RecommendFunctionalVidPn functional (VIDPN-16). Returns the network as the driver left it;
  /// after a failure status it must not be used. Modes that the driver added to the monitor are in
  /// Manager::monitor(). `abandoned`: the driver never returned, and nothing is checked.
  Network finish(Status status, bool abandoned = false);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Checks a network before DxgkDdiCommitVidPn, or a recommended network. Every path must be well
/// formed, and every source and target in it must have a pinned mode. Reports VIDPN-16, VIDPN-17
/// and VIDPN-20 against `ddi`. True: functional. The kernel must call it: a driver never sees the
/// commit of a network that is not functional.
bool check_functional(const Network& network, const Profile& profile, verifier::Findings& findings,
                      const char* ddi);
/// Checks the result that EnumVidPnCofuncModality made from `before`. Reports VIDPN-19. True: no
/// finding.
bool check_cofunctional(const Network& before, const Network& after, const Pivot& pivot,
                        const Profile& profile, verifier::Findings& findings);

}  // namespace dxgkit::vidpn
