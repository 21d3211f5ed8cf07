// Binds threads to client processes for the D3DKMT entry points.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dxgk/core/screens.h"
#include "dxgk/system.h"

namespace dxgkit::thunks {

/// While a ClientScope lives, D3DKMT* functions (d3dkmthk.h) called by this thread act for
/// `process` of `system`. Scopes nest. A thread that is bound to no process gets
/// STATUS_INVALID_PARAMETER from every thunk.
class ClientScope {
 public:
  ClientScope(dxgk::System& system, dxgk::Process& process);
  ~ClientScope();
  ClientScope(const ClientScope&) = delete;
  ClientScope& operator=(const ClientScope&) = delete;

 private:
  const std::shared_ptr<dxgk::Process> process_;
  void* previous_;
};

/// A handle with which threads of `holder` name `target` where a D3DKMT function takes hProcess, as
/// OpenProcess gives it on Windows. `access`: rights of dxgk::process_access. 0: one of them has
/// ended, or `target` belongs to another system. The handle ends with its closing, or with
/// `holder`; it stays when `target` ends, and calls with it are refused then. Any thread.
uint64_t open_process(dxgk::Process& holder, dxgk::Process& target, uint32_t access);
/// False: it is no handle of `holder`.
bool close_process_handle(dxgk::Process& holder, uint64_t handle);

/// What clients may do with an object directory.
enum class ObjectDirectoryUse { kLookUp, kNameObjects };
/// A descriptor that clients pass as RootDirectory of object attributes: their names are names of
/// the directory then. There is a directory for each path, such as "\\BaseNamedObjects". The
/// caller closes the descriptor. -1: no descriptor is left.
int open_object_directory(dxgk::System& system, std::u16string path, ObjectDirectoryUse use);

/// What a window system and an enumerator of devices tell clients on Windows. Any thread.
///
/// The name of a screen for D3DKMTOpenAdapterFromGdiDisplayName ("\\\\.\\DISPLAY1"); empty if there
/// is no such adapter or source.
std::u16string screen_name(dxgk::System& system, dxgk::Luid adapter, uint32_t source);
/// The path of an adapter's device interface, for D3DKMTOpenAdapterFromDeviceName; empty if there
/// is no such adapter.
std::u16string device_interface_path(dxgk::System& system, dxgk::Luid adapter);
/// A number for a device context of a screen, which clients pass as HDC
/// (D3DKMTOpenAdapterFromHdc); 0 if there is no such screen. It ends with its deletion, or with the
/// adapter.
uint64_t make_screen_context(dxgk::System& system, dxgk::Luid adapter, uint32_t source);
/// False: there is no such context.
bool delete_screen_context(dxgk::System& system, uint64_t context);

/// A number for a window whose client area lies on these screens, which clients pass as HWND
/// (D3DKMTCheckOcclusion); 0 if one of them does not exist. Without screens its client area is
/// empty. It ends with its deletion.
uint64_t make_window(dxgk::System& system, std::vector<dxgk::Screen> screens);
/// False: there is no such window.
bool delete_window(dxgk::System& system, uint64_t window);

}  // namespace dxgkit::thunks
