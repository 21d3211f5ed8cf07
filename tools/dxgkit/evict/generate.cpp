#include "tools/dxgkit/evict/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dxgkit::tool::evict {
namespace {

constexpr uint64_t kKib = 1024;
constexpr uint64_t kMib = 1024 * kKib;

/// The same numbers everywhere for one seed.
class Chance {
 public:
  explicit Chance(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Pages between two sizes, evenly in the logarithm.
  uint64_t size(uint64_t least, uint64_t most) {
    const double ratio = static_cast<double>(most) / static_cast<double>(least);
    const double bytes = static_cast<double>(least) * std::pow(ratio, unit());
    return std::max<uint64_t>(1, static_cast<uint64_t>(bytes) / 4096) * 4096;
  }
  void shuffle(std::vector<uint32_t>& list) {
    for (uint32_t i = static_cast<uint32_t>(list.size()); i > 1; --i) {
      std::swap(list[i - 1], list[below(i)]);
    }
  }

 private:
  uint64_t state_;
};

class Builder {
 public:
  uint32_t add(uint64_t bytes) {
    trace_.ids.push_back(trace_.bytes.size() + 1);
    trace_.bytes.push_back(bytes);
    return static_cast<uint32_t>(trace_.bytes.size() - 1);
  }
  std::vector<uint32_t> add_many(uint32_t count, Chance& chance, uint64_t least, uint64_t most) {
    std::vector<uint32_t> made;
    for (uint32_t i = 0; i < count; ++i) made.push_back(add(chance.size(least, most)));
    return made;
  }
  void submit(std::vector<uint32_t> list, uint32_t process = 0) {
    std::vector<uint32_t> unique;
    for (const uint32_t allocation : list) {
      if (std::ranges::find(unique, allocation) == unique.end()) unique.push_back(allocation);
    }
    trace_.submissions.push_back(
        {.process = process, .first = trace_.references.size(), .count = unique.size()});
    trace_.references.insert(trace_.references.end(), unique.begin(), unique.end());
    trace_.processes = std::max(trace_.processes, process + 1);
  }
  Trace take() { return std::move(trace_); }

 private:
  Trace trace_;
};

/// Ranks 0..n-1 with probability falling as rank^-exponent.
class Zipf {
 public:
  Zipf(uint32_t n, double exponent) {
    double sum = 0;
    for (uint32_t i = 0; i < n; ++i) {
      sum += std::pow(i + 1, -exponent);
      upto_.push_back(sum);
    }
  }
  uint32_t draw(Chance& chance) const {
    const double at = chance.unit() * upto_.back();
    const auto found = std::ranges::upper_bound(upto_, at);
    return static_cast<uint32_t>(std::min<std::ptrdiff_t>(
        found - upto_.begin(), static_cast<std::ptrdiff_t>(upto_.size()) - 1));
  }

 private:
  std::vector<double> upto_;
};

// --- the three the figures are given for ---

/// 12 render targets in every frame, 480 textures of 588 in a window that moves on by one texture
/// per frame; 16 textures a submission.
Trace frames(uint64_t seed, bool shuffled) {
  Chance chance(seed);
  Builder builder;
  const auto targets = builder.add_many(12, chance, 4 * kMib, 32 * kMib);
  const auto textures = builder.add_many(588, chance, 64 * kKib, 16 * kMib);
  for (uint32_t frame = 0; frame < 240; ++frame) {
    std::vector<uint32_t> window;
    for (uint32_t i = 0; i < 480; ++i) window.push_back(textures[(frame + i) % 588]);
    if (shuffled) chance.shuffle(window);
    for (uint32_t i = 0; i < 480; i += 16) {
      std::vector<uint32_t> list(window.begin() + i, window.begin() + i + 16);
      list.push_back(targets[i / 40]);
      builder.submit(std::move(list));
    }
  }
  return builder.take();
}
Trace frame(uint64_t seed) { return frames(seed, false); }
Trace shuffled_frame(uint64_t seed) { return frames(seed, true); }

/// 64 layers: forward, backward, optimizer with two moments a weight.
Trace training(uint64_t seed) {
  constexpr uint32_t kLayers = 64;
  Chance chance(seed);
  Builder builder;
  const auto weights = builder.add_many(kLayers, chance, 2 * kMib, 32 * kMib);
  const auto outputs = builder.add_many(kLayers + 1, chance, 2 * kMib, 32 * kMib);
  std::vector<uint32_t> gradients;
  std::vector<uint32_t> moments;
  std::vector<uint32_t> variances;
  Trace sizes;
  Chance again(seed);
  for (uint32_t i = 0; i < kLayers; ++i) {
    const uint64_t bytes = again.size(2 * kMib, 32 * kMib);
    gradients.push_back(builder.add(bytes));
    moments.push_back(builder.add(bytes));
    variances.push_back(builder.add(bytes));
  }
  for (uint32_t step = 0; step < 40; ++step) {
    for (uint32_t i = 0; i < kLayers; ++i) {
      builder.submit({outputs[i], weights[i], outputs[i + 1]});
    }
    for (uint32_t i = kLayers; i-- > 0;) {
      builder.submit({outputs[i + 1], outputs[i], weights[i], gradients[i]});
    }
    for (uint32_t i = 0; i < kLayers; ++i) {
      builder.submit({weights[i], gradients[i], moments[i], variances[i]});
    }
  }
  return builder.take();
}

/// Independent draws, rank^-0.9 over 2,000 allocations of as many sizes.
Trace zipf(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  auto all = builder.add_many(2000, chance, 16 * kKib, 16 * kMib);
  chance.shuffle(all);
  const Zipf law(2000, 0.9);
  for (uint32_t i = 0; i < 20'000; ++i) {
    std::vector<uint32_t> list;
    for (uint32_t n = 1 + chance.below(4); n-- > 0;) list.push_back(all[law.draw(chance)]);
    builder.submit(std::move(list));
  }
  return builder.take();
}

// --- held out ---

/// A place that wanders; allocations near it are used.
Trace walk(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto all = builder.add_many(1000, chance, 64 * kKib, 8 * kMib);
  uint32_t at = 500;
  for (uint32_t i = 0; i < 30'000; ++i) {
    at = (at + 1000 + chance.below(13) - 6) % 1000;
    builder.submit({all[at], all[(at + chance.below(40)) % 1000]});
  }
  return builder.take();
}

/// An inner loop many times, then a step of the outer loop.
Trace nested(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto all = builder.add_many(900, chance, 64 * kKib, 8 * kMib);
  const auto common = builder.add_many(30, chance, 64 * kKib, 8 * kMib);
  for (uint32_t outer = 0; outer < 8; ++outer) {
    for (uint32_t block = 0; block < 9; ++block) {
      for (uint32_t inner = 0; inner < 5; ++inner) {
        for (uint32_t i = 0; i < 100; ++i) {
          builder.submit({all[block * 100 + i], common[i % 30]});
        }
      }
    }
  }
  return builder.take();
}

/// Two programs with loops of their own take turns, for long.
Trace alternating(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto one = builder.add_many(400, chance, 64 * kKib, 8 * kMib);
  const auto two = builder.add_many(300, chance, 64 * kKib, 16 * kMib);
  const Zipf law(300, 0.8);
  size_t at = 0;
  for (uint32_t turn = 0; turn < 40; ++turn) {
    const uint32_t length = 600 + chance.below(600);
    for (uint32_t i = 0; i < length; ++i, ++at) builder.submit({one[at % 400]}, 0);
    for (uint32_t i = 0; i < length; ++i) {
      builder.submit({two[law.draw(chance)], two[law.draw(chance)]}, 1);
    }
  }
  return builder.take();
}

/// A loop and independent draws, submission by submission.
Trace mixed(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto loop = builder.add_many(400, chance, 64 * kKib, 8 * kMib);
  const auto other = builder.add_many(600, chance, 64 * kKib, 8 * kMib);
  const Zipf law(600, 0.9);
  size_t at = 0;
  for (uint32_t i = 0; i < 30'000; ++i) {
    if (chance.below(2) == 0) {
      builder.submit({loop[at++ % 400]}, 0);
    } else {
      builder.submit({other[law.draw(chance)], other[law.draw(chance)]}, 1);
    }
  }
  return builder.take();
}

/// A hot set, and now and then everything once.
Trace scans(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto hot = builder.add_many(300, chance, 64 * kKib, 8 * kMib);
  const auto cold = builder.add_many(700, chance, 64 * kKib, 8 * kMib);
  const Zipf law(300, 0.6);
  for (uint32_t round = 0; round < 20; ++round) {
    for (uint32_t i = 0; i < 1500; ++i) builder.submit({hot[law.draw(chance)]});
    for (const uint32_t allocation : cold) {
      builder.submit({allocation, hot[law.draw(chance)]}, 1);
    }
  }
  return builder.take();
}

/// The popular allocations change completely, again and again.
Trace shifts(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  auto all = builder.add_many(1200, chance, 64 * kKib, 8 * kMib);
  const Zipf law(1200, 1.1);
  for (uint32_t phase = 0; phase < 12; ++phase) {
    chance.shuffle(all);
    for (uint32_t i = 0; i < 3000; ++i) {
      builder.submit({all[law.draw(chance)], all[law.draw(chance)]});
    }
  }
  return builder.take();
}

/// Decoding with references on both sides, filters, and a stream of bitstream buffers.
Trace video(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto bits = builder.add_many(64, chance, 256 * kKib, 2 * kMib);
  std::vector<uint32_t> surfaces;
  for (uint32_t i = 0; i < 48; ++i) surfaces.push_back(builder.add(12 * kMib));
  std::vector<uint32_t> filtered;
  for (uint32_t i = 0; i < 24; ++i) filtered.push_back(builder.add(24 * kMib));
  const auto overlays = builder.add_many(40, chance, 64 * kKib, 4 * kMib);
  uint32_t group = 0;
  for (uint32_t i = 0; i < 4000; ++i, group += 4) {
    // I0 P4 B2 B1 B3, shown in order.
    const auto surface = [&](uint32_t n) { return surfaces[(group + n) % 48]; };
    builder.submit({bits[(group + 4) % 64], surface(0), surface(4)});
    builder.submit({bits[(group + 2) % 64], surface(0), surface(4), surface(2)});
    builder.submit({bits[(group + 1) % 64], surface(0), surface(2), surface(1)});
    builder.submit({bits[(group + 3) % 64], surface(2), surface(4), surface(3)});
    for (uint32_t n = 0; n < 4; ++n) {
      builder.submit({surface(n), filtered[(group + n) % 24]}, 1);
      builder.submit({filtered[(group + n) % 24], overlays[chance.below(40)]}, 1);
    }
  }
  return builder.take();
}

/// Layers in order for batches of requests, each with caches that live for a while.
Trace inference(uint64_t seed) {
  constexpr uint32_t kLayers = 80;
  Chance chance(seed);
  Builder builder;
  const auto weights = builder.add_many(kLayers, chance, 8 * kMib, 16 * kMib);
  const auto caches = builder.add_many(600, chance, 256 * kKib, 4 * kMib);
  const auto scratch = builder.add_many(4, chance, 4 * kMib, 16 * kMib);
  struct Request {
    uint32_t first, left;
  };
  std::vector<Request> live;
  uint32_t next = 0;
  for (uint32_t step = 0; step < 400; ++step) {
    while (live.size() < 2 + step / 40 % 5) {
      live.push_back({next, 5 + chance.below(40)});
      next = (next + 40) % 600;
    }
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      std::vector<uint32_t> list{weights[layer], scratch[layer % 4]};
      for (const Request& request : live) list.push_back(caches[request.first + layer / 2]);
      builder.submit(std::move(list));
    }
    for (Request& request : live) --request.left;
    std::erase_if(live, [](const Request& request) { return request.left == 0; });
  }
  return builder.take();
}

/// A camera over a map of tiles: nearer tiles also at finer levels; it turns back now and then.
Trace streaming(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  constexpr int kSide = 24;
  std::vector<uint32_t> coarse;
  std::vector<uint32_t> fine;
  for (int i = 0; i < kSide * kSide; ++i) {
    coarse.push_back(builder.add(chance.size(64 * kKib, 256 * kKib)));
    fine.push_back(builder.add(chance.size(1 * kMib, 4 * kMib)));
  }
  const auto targets = builder.add_many(8, chance, 8 * kMib, 32 * kMib);
  double x = kSide / 2.0;
  double y = kSide / 2.0;
  double angle = 0;
  for (uint32_t frame = 0; frame < 2500; ++frame) {
    angle += (chance.unit() - 0.5) * 0.4;
    if (chance.below(120) == 0) angle += 3.0;
    x = std::clamp(x + std::cos(angle) * 0.15, 1.0, kSide - 2.0);
    y = std::clamp(y + std::sin(angle) * 0.15, 1.0, kSide - 2.0);
    if (x < 1.1 || y < 1.1 || x > kSide - 2.1 || y > kSide - 2.1) angle += 1.5;
    for (int dy = -6; dy <= 6; ++dy) {
      std::vector<uint32_t> list{targets[static_cast<size_t>(dy + 6) % 8]};
      for (int dx = -6; dx <= 6; ++dx) {
        const int tx = static_cast<int>(x) + dx;
        const int ty = static_cast<int>(y) + dy;
        if (tx < 0 || ty < 0 || tx >= kSide || ty >= kSide) continue;
        const int distance = dx * dx + dy * dy;
        const auto tile = static_cast<size_t>(ty * kSide + tx);
        if (distance <= 36) list.push_back(coarse[tile]);
        if (distance <= 9) list.push_back(fine[tile]);
      }
      builder.submit(std::move(list));
    }
  }
  return builder.take();
}

/// Round and round, wider than memory.
Trace loop(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto all = builder.add_many(700, chance, 64 * kKib, 8 * kMib);
  for (uint32_t i = 0; i < 40 * 700; ++i) builder.submit({all[i % 700]});
  return builder.take();
}

/// No order at all.
Trace uniform(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto all = builder.add_many(800, chance, 64 * kKib, 8 * kMib);
  for (uint32_t i = 0; i < 30'000; ++i) builder.submit({all[chance.below(800)]});
  return builder.take();
}

/// From 4 KiB to a gigabyte.
Trace extremes(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  auto all = builder.add_many(1500, chance, 4 * kKib, 256 * kKib);
  for (uint32_t i = 0; i < 30; ++i) all.push_back(builder.add(chance.size(64 * kMib, 1024 * kMib)));
  chance.shuffle(all);
  const Zipf law(1530, 0.7);
  uint32_t at = 0;
  for (uint32_t i = 0; i < 25'000; ++i) {
    std::vector<uint32_t> list{all[law.draw(chance)]};
    if (i % 5 == 0) list.push_back(all[at++ % 1530]);
    builder.submit(std::move(list));
  }
  return builder.take();
}

/// The best case of LRU: only recency matters (stack distances fall off steeply).
Trace recency(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto all = builder.add_many(800, chance, 64 * kKib, 8 * kMib);
  std::vector<uint32_t> stack = all;
  chance.shuffle(stack);
  for (uint32_t i = 0; i < 30'000; ++i) {
    const double u = chance.unit();
    const auto depth = static_cast<size_t>(std::min(799.0, std::pow(u, 3.0) * 800.0));
    const uint32_t used = stack[depth];
    stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(depth));
    stack.insert(stack.begin(), used);
    builder.submit({used});
  }
  return builder.take();
}

/// Levels of a game: each with loops of its own, some of it shared, earlier ones come back.
Trace levels(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto shared = builder.add_many(80, chance, 64 * kKib, 16 * kMib);
  std::vector<std::vector<uint32_t>> parts;
  for (int i = 0; i < 6; ++i) parts.push_back(builder.add_many(200, chance, 64 * kKib, 8 * kMib));
  for (uint32_t visit = 0; visit < 18; ++visit) {
    const auto& part = parts[visit < 6 ? visit : chance.below(6)];
    for (uint32_t round = 0; round < 25; ++round) {
      for (uint32_t i = 0; i < 200; i += 4) {
        if (chance.below(4) == 0) continue;
        builder.submit({part[i], part[i + 1], part[i + 2], part[i + 3], shared[chance.below(80)]});
      }
    }
  }
  return builder.take();
}

/// New buffers all the time, each used three times and never again, beside a steady set.
Trace transient(uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto steady = builder.add_many(400, chance, 64 * kKib, 8 * kMib);
  std::vector<uint32_t> last;
  const Zipf law(400, 0.7);
  for (uint32_t i = 0; i < 20'000; ++i) {
    std::vector<uint32_t> list{steady[law.draw(chance)], steady[law.draw(chance)]};
    if (i % 20 == 0) last.insert(last.begin(), builder.add(chance.size(64 * kKib, 2 * kMib)));
    if (last.size() > 3) last.resize(3);
    if (i % 20 < 3 && i % 20 < last.size()) list.push_back(last[i % 20]);
    builder.submit(std::move(list));
  }
  return builder.take();
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> kAll{
      {"frame", "12 render targets, a drifting window of 480 of 588 textures", frame, true},
      {"training", "forward, backward and optimizer over 64 layers", training, true},
      {"zipf", "independent draws, rank^-0.9, of 2,000 sizes", zipf, true},
      {"shuffled-frame", "frame, with its draws in another order each time", shuffled_frame, false},
      {"walk", "a place that wanders", walk, false},
      {"nested", "loops in loops", nested, false},
      {"alternating", "two programs take turns", alternating, false},
      {"mixed", "a loop and independent draws, interleaved", mixed, false},
      {"scans", "a hot set, and now and then everything once", scans, false},
      {"shifts", "what is popular changes altogether", shifts, false},
      {"video", "a decoder with references on both sides, and filters", video, false},
      {"inference", "layers in order for a varying batch with caches", inference, false},
      {"streaming", "a camera over a map of tiles", streaming, false},
      {"loop", "round and round", loop, false},
      {"uniform", "no order at all", uniform, false},
      {"extremes", "from 4 KiB to 1 GiB", extremes, false},
      {"recency", "recency is all there is", recency, false},
      {"levels", "parts with loops of their own that come back", levels, false},
      {"transient", "short-lived buffers beside a steady set", transient, false},
  };
  return kAll;
}

std::optional<Trace> generate(std::string_view family, uint64_t seed) {
  for (const Family& known : families()) {
    if (known.name == family) return known.make(seed);
  }
  return std::nullopt;
}

Trace churn(uint32_t count, uint64_t references, uint64_t seed) {
  Chance chance(seed);
  Builder builder;
  const auto all = builder.add_many(count, chance, 64 * kKib, 4 * kMib);
  for (uint64_t i = 0; i < references; ++i) builder.submit({all[chance.below(count)]});
  return builder.take();
}

}  // namespace dxgkit::tool::evict
