// A stack whose driver has native fences (tests/support/scripted_native_fences.h).
#pragma once

#include <optional>

#include "tests/contract/gpu_va_fixture.h"
#include "tests/support/scripted_native_fences.h"

namespace dxgkit::contract {

using dxgkit::testing::ScriptedNativeFences;

class NativeStack : public GpuVaStack {
 public:
  NativeStack() : native(std::in_place, miniport, gpu) {}
  ~NativeStack() {
    blocking([&] { system.reset(); });
    driver.reset();
    if (!expect_leaks) {
      EXPECT_EQ(native->live(), 0U) << "fences nobody closed or destroyed";
    }
    native.reset();
  }
  std::optional<ScriptedNativeFences> native;
};

}  // namespace dxgkit::contract
