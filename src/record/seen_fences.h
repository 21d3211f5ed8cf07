// What a program may have seen of its fences.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "record/recording.h"
#include "wire/kernel_memory.h"

namespace dxgkit::record {

class SeenFences {
 public:
  /// Fences of the program that have reached something since the last look.
  std::vector<Reached> news_of(wire::KernelMemory& memory) {
    std::vector<Reached> news;
    memory.visit_fences([&](uint32_t owner, uint64_t value) {
      const auto [known, added] = seen_.try_emplace(owner, 0);
      if (known->second == value) return;
      known->second = value;
      news.push_back({.owner = owner, .value = value});
    });
    return news;
  }

 private:
  std::map<uint32_t, uint64_t> seen_;
};

}  // namespace dxgkit::record
