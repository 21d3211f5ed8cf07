// A loaded miniport: its image, its DRIVER_INITIALIZATION_DATA, its declared version.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "nt/kernel.h"
#include "verifier/findings.h"

namespace dxgkit::port {

/// How a driver's code got into the process: an image of either form (loader), or an entry point
/// compiled into a test.
struct DriverSource {
  std::string name;  // for messages
  std::string path;  // .sys (PE) or ELF file; empty for `entry`
  /// DriverEntry in the Win64 ABI, as NTSTATUS(DRIVER_OBJECT*, UNICODE_STRING*). Used only if path
  /// is empty. Such a driver calls DxgkInitialize through `nt::find_export("DxgkInitialize")` or
  /// links the export directly.
  void* entry = nullptr;
  /// Receives the table given to DxgkInitialize before it is judged, for reports. The table has the
  /// size of its version. During DriverEntry, on its thread. Not called for an unknown version.
  std::function<void(bool display_only, uint32_t version, std::span<const std::byte> table)>
      on_table = {};
};

/// Entries of the initialization data without which this kernel refuses a driver (LIFE-03), in the
/// order in which they are reported. `table`: a copy of the data, of the size its version has.
std::vector<std::string_view> mandatory_entries(bool display_only, uint32_t version,
                                                std::span<const std::byte> table);

class Driver {
 public:
  /// Loads, binds imports, calls DriverEntry (PASSIVE_LEVEL), takes the table given to
  /// DxgkInitialize (LIFE-01..04). kInvalidImageFormat: not a driver; kInvalidParameter /
  /// kRevisionMismatch: refused table (a finding says which entry); else DriverEntry's own failure.
  /// Nothing stays loaded on failure.
  static Result<std::unique_ptr<Driver>> load(nt::Kernel& kernel, verifier::Findings& findings,
                                              const DriverSource& source, std::string* message);
  /// Calls DxgkDdiUnload and unmaps the image.
  ~Driver();

  uint32_t interface_version() const;
  const std::string& name() const;
  bool display_only() const;

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  Driver();
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::port
