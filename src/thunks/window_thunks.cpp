// Windows, as far as the kernel looks at them.
#include <algorithm>
#include <utility>

#include "dxgk/display/display.h"
#include "thunks/call.h"
#include "thunks/client.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Display;
using dxgk::Process;
using dxgk::Ref;
using dxgk::Screen;

constexpr Status kPresentOccluded{0xC01E0006};  // STATUS_GRAPHICS_PRESENT_OCCLUDED

/// Nobody owns the source exclusively, so that the desktop is on it.
bool shows_desktop(dxgk::System::Impl& system, const Screen& screen) {
  const Ref<Adapter> adapter = system.find(screen.adapter);
  if (!adapter) return false;
  dxgk::GatePass pass(adapter->core().gate());
  if (!pass || !adapter->core().running()) return false;
  Display* const display = adapter->floor().display;
  return display != nullptr && !display->is_exclusive(screen.source);
}

Status check_occlusion(Process& process, const D3DKMT_CHECKOCCLUSION& args) {
  dxgk::System::Impl& system = process.system().impl();
  std::optional<std::vector<Screen>> parts;
  {
    runtime::MutexLock lock(system.mutex);
    parts = system.screens.find_window(reinterpret_cast<uintptr_t>(args.hWindow));
  }
  if (!parts.has_value()) return Status::kInvalidParameter;
  const bool visible = parts->empty() || std::ranges::any_of(*parts, [&](const Screen& screen) {
                         return shows_desktop(system, screen);
                       });
  return visible ? Status::kSuccess : kPresentOccluded;
}

}  // namespace

uint64_t make_window(dxgk::System& system, std::vector<Screen> screens) {
  runtime::MutexLock lock(system.impl().mutex);
  return system.impl().screens.make_window(std::move(screens));
}

bool delete_window(dxgk::System& system, uint64_t window) {
  runtime::MutexLock lock(system.impl().mutex);
  return system.impl().screens.delete_window(window);
}

}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCheckOcclusion(const D3DKMT_CHECKOCCLUSION* args) {
  return call<D3DKMTCheckOcclusion>(args, dxgkit::thunks::check_occlusion);
}

}  // extern "C"
