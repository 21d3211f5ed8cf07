// Device models in shared objects (device_plugin.h).
#pragma once

#include <expected>
#include <functional>
#include <string>

#include "bus/device.h"
#include "devices/plugin/device_plugin.h"

namespace dxgkit::plugin {

/// The type of device in a file. The file stays loaded for the process's life. The error is one
/// sentence without a full stop that begins with the path: no such file, not a plug-in, another
/// version of the interface, a missing function or option.
std::expected<bus::DeviceType, std::string> load(const std::string& path);

/// The type of device that `functions`, which live as long as the process, describe, under a name.
/// For models that are part of the program. One thread at a
/// time. The error is one sentence without a full stop that begins with the name.
std::expected<bus::DeviceType, std::string> type_of(const std::string& name,
                                                    const DxgkitDevice* functions);

/// Code of a plug-in that a thread is in, or that stopped there. Signal-safe to read.
struct Crash {
  const char* path = "";  // of the plug-in, as given
  /// "read": the function of DxgkitDevice; "" on a thread of the plug-in's own.
  const char* function = "";
};

/// For handlers of processor faults and aborts: the plug-in code that the calling thread was in
/// when it was interrupted. `context` is the handler's third argument. Signal-safe.
bool crashed_in_plugin(const void* context, Crash* crash);
/// Installs handlers for faults and aborts in code of a plug-in. They end the process with exit
/// code `exit_code` and one line on stderr that names the plug-in and begins with "dxgkit: ". Other
/// faults go to the handlers that were installed before. Call it before any nt::Kernel is made.
/// Once per process: a second call changes the exit code only.
void report_crashes(int exit_code);
/// Writes the text of that line, without "dxgkit: " and line feed, into `out` of `size` bytes,
/// terminated. Signal-safe.
void crash_text(const Crash& crash, int signal, char* out, size_t size);

}  // namespace dxgkit::plugin
