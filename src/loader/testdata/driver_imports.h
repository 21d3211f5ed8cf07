// The imports of testdata/tiny_driver.c, for tests; and the system's protection of its pages.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "loader/image.h"

namespace dxgkit::loader {

__attribute__((ms_abi)) inline void* fake_allocate(uint32_t, uint64_t bytes, uint32_t) {
  return std::malloc(bytes);
}
__attribute__((ms_abi)) inline void fake_free(void* memory, uint32_t) { std::free(memory); }
inline const uint8_t kNotPresent = 1;

inline ImportAnswer resolve(const ImportRequest& request) {
  const std::string_view name = request.name;
  if (name == "ExAllocatePoolWithTag") return {reinterpret_cast<const void*>(&fake_allocate), 0};
  if (name == "ExFreePoolWithTag") return {reinterpret_cast<const void*>(&fake_free), 0};
  if (name == "KdDebuggerNotPresent") return {&kNotPresent, sizeof(kNotPresent)};
  return {};
}

/// Protection of the page at `address`, from the kernel's own list: "r-xp" and so on.
inline std::string protection_of(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t from = 0, to = 0;
    char flags[8] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %7s", &from, &to, flags) != 3) continue;
    const auto at = reinterpret_cast<uint64_t>(address);
    if (at >= from && at < to) return flags;
  }
  return "";
}

}  // namespace dxgkit::loader
