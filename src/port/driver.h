// A loaded miniport: its image, its DRIVER_INITIALIZATION_DATA, its declared version.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "nt/kernel.h"
#include "verifier/findings.h"

namespace dxgkit::port {

/// How a driver's code got into the process: an ELF twin (loader), or an entry point compiled into
/// a test.
struct DriverSource {
  std::string name;  // for messages
  std::string path;  // ELF file; empty for `entry`
  /// DriverEntry in the Win64 ABI, as NTSTATUS(DRIVER_OBJECT*, UNICODE_STRING*). Only when path is
  /// empty. Such a driver calls DxgkInitialize through `nt::find_export("DxgkInitialize")` or links
  /// the export directly.
  void* entry = nullptr;
};

class Driver {
 public:
  /// Loads, binds imports, calls DriverEntry (PASSIVE_LEVEL), takes the table given to
  /// DxgkInitialize (LIFE-01..04). kInvalidImageFormat: not a driver; kInvalidParameter /
  /// kRevisionMismatch: refused table (a finding says which entry); else DriverEntry's own failure.
  /// Nothing stays loaded on failure.
  static Result<std::unique_ptr<Driver>> load(nt::Kernel& kernel, verifier::Findings& findings,
                                              const DriverSource& source, std::string* message);
  /// DxgkDdiUnload, then the image goes.
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
