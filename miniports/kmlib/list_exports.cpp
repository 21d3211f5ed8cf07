// Prints the export table of the kernel as a module definition, from which an import library for
// PE drivers is made.
#include <cstdio>
#include <string_view>

#include "nt/kernel.h"

int main() {
  std::puts("LIBRARY ntoskrnl.exe\nEXPORTS");
  for (const dxgkit::nt::Export& entry : dxgkit::nt::exports()) {
    // The graphics kernel exports nothing to drivers: the display library finds the way.
    if (std::string_view(entry.name).starts_with("Dxgk")) continue;
    std::printf("  %s%s\n", entry.name, entry.data_bytes != 0 ? " DATA" : "");
  }
  // What the compiler itself refers to must link even while the kernel has none: a driver that gets
  // there is then told so by name.
  for (const char* name : {"__C_specific_handler"}) {
    if (dxgkit::nt::find_export(name) == nullptr) std::printf("  %s\n", name);
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
