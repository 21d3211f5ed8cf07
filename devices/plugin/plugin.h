// Device models in shared objects (device_plugin.h).
#pragma once

#include <expected>
#include <functional>
#include <string>

#include "bus/device.h"
#include "devices/plugin/device_plugin.h"

namespace dxgkit::plugin {

/// The type of device behind a file. The file stays loaded for the process's life. The error is one
/// sentence without a full stop that begins with the path: no such file, no plug-in, another
/// version of the interface, a function or option that is missing.
std::expected<bus::DeviceType, std::string> load(const std::string& path);

/// The type of device that `functions`, which live as long as the process, describe, under a name.
/// For models that are part of the program. One thread at a
/// time. The error is one sentence without a full stop that begins with the name.
std::expected<bus::DeviceType, std::string> type_of(const std::string& name,
                                                    const DxgkitDevice* functions);

/// Code of a plug-in that a thread is in, or that stopped there. Signal-safe to read.
struct Crash {
  const char* path = "";      // of the plug-in, as given
  const char* function = "";  // "read": the function of DxgkitDevice; "" on a thread of its own
};

/// For handlers of processor faults and aborts: whether the calling thread was in code of a plug-in
/// when it was interrupted. `context` is the handler's third argument. Signal-safe.
bool crashed_in_plugin(const void* context, Crash* crash);
/// Installs handlers that end the process with exit code `exit_code` and one line on stderr that
/// names the plug-in when a fault or an abort comes out of its code; others go on to the handlers
/// that were there before. To be called before any nt::Kernel is made. The line begins with
/// "dxgkit: ". Once per process: a second call changes the exit code only.
void report_crashes(int exit_code);
/// The text of that line, without "dxgkit: " and line feed, into `out` of `size` bytes, terminated.
/// Signal-safe.
void crash_text(const Crash& crash, int signal, char* out, size_t size);

}  // namespace dxgkit::plugin
