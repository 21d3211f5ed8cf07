// Names for clang's thread-safety analysis; nothing for other compilers.
#pragma once

#if defined(__clang__)
#define DXGKIT_ANNOTATE(x) __attribute__((x))
#else
#define DXGKIT_ANNOTATE(x)
#endif

#define DXGKIT_CAPABILITY(name) DXGKIT_ANNOTATE(capability(name))
#define DXGKIT_SCOPED_CAPABILITY DXGKIT_ANNOTATE(scoped_lockable)
#define DXGKIT_GUARDED_BY(x) DXGKIT_ANNOTATE(guarded_by(x))
#define DXGKIT_REQUIRES(...) DXGKIT_ANNOTATE(requires_capability(__VA_ARGS__))
#define DXGKIT_EXCLUDES(...) DXGKIT_ANNOTATE(locks_excluded(__VA_ARGS__))
#define DXGKIT_ACQUIRE(...) DXGKIT_ANNOTATE(acquire_capability(__VA_ARGS__))
#define DXGKIT_RELEASE(...) DXGKIT_ANNOTATE(release_capability(__VA_ARGS__))
#define DXGKIT_TRY_ACQUIRE(...) DXGKIT_ANNOTATE(try_acquire_capability(__VA_ARGS__))
#define DXGKIT_ASSERT_CAPABILITY(x) DXGKIT_ANNOTATE(assert_capability(x))
#define DXGKIT_NO_THREAD_SAFETY_ANALYSIS DXGKIT_ANNOTATE(no_thread_safety_analysis)

namespace dxgkit {

class DXGKIT_CAPABILITY("role") LaneRole {};

/// "On the lane of the adapter at hand", for the analysis. DXGKIT_REQUIRES(on_lane) marks functions
/// that only the lane may call, DXGKIT_GUARDED_BY(on_lane) marks state that only the lane may
/// touch. Work that is given to a runtime::Lane has the capability: `lane.run([&]()
/// DXGKIT_REQUIRES(on_lane) { ... })`. The name stands for the lanes of all adapters; only
/// Lane::assert_current tells them apart.
inline constexpr LaneRole on_lane;

}  // namespace dxgkit
