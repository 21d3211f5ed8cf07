// Internals of Driver, for this folder only.
#pragma once

#include <dispmprt.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/fixed_memory.h"
#include "base/interface_versions.h"
#include "loader/image.h"
#include "port/core/driver_table.h"
#include "port/driver.h"
#include "port/io_objects.h"

namespace dxgkit::port {

struct Driver::Impl : DriverTable, InFixedMemory {
  Impl(nt::Kernel& kernel_in, verifier::Findings& findings_in)
      : kernel(kernel_in), findings(findings_in) {}
  ~Impl();

  /// The body of DxgkInitialize: checks the table and copies what the declared version has.
  Status take_table(const void* data, bool is_display_only);
  /// Where the function is that the driver gave for a DDI; empty: it gave none.
  verifier::Place entry_place(std::string_view ddi) const;

  nt::Kernel& kernel;
  verifier::Findings& findings;
  std::string name;
  std::function<void(bool, uint32_t, std::span<const std::byte>)> on_table;
  std::unique_ptr<loader::Image> image;
  bool display_only = false;
  bool loaded = false;  // DriverEntry succeeded: Unload is owed
  uint32_t initialize_calls = 0;
  Status initialize_status = Status::kUnsuccessful;
  // The arguments of DriverEntry; drivers keep pointers into them until they are unloaded.
  std::optional<DriverObject> object;
  std::u16string registry_path;
};

}  // namespace dxgkit::port
