// Runs the bit-field and GUID checks of the driver's target and of the native one.
#include <cstdio>

#include "layout_report.h"

extern "C" __attribute__((ms_abi)) void dxgkit_layout_driver(LayoutReport* report);
extern "C" __attribute__((ms_abi)) void dxgkit_layout_native(LayoutReport* report);

static int show(const char* target, const LayoutReport& report) {
  if (report.failed != 0) {
    std::printf("  %s: %d of %d run-time checks failed, first %s\n", target, report.failed,
                report.checked, report.first_failure);
    return 1;
  }
  std::printf("  %s: %d bit-fields and guids checked by a run\n", target, report.checked);
  return report.checked == 0 ? 1 : 0;
}

int main() {
  LayoutReport driver{};
  LayoutReport native{};
  dxgkit_layout_driver(&driver);
  dxgkit_layout_native(&native);
  return show("x86_64-pc-windows-msvc-elf", driver) | show("native", native);
}
