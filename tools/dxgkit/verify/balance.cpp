#include "tools/dxgkit/verify/balance.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/spelling.h"
#include "nt/leaks.h"
#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {
namespace {

bool same_routine(const nt::Leak& a, const nt::Leak& b) {
  return a.what == b.what && a.tag == b.tag && a.caller == b.caller;
}

}  // namespace

Balance::Balance(Bench& bench) : bench_(bench), marks_{nt::memory_mark(bench.kernel())} {}

void Balance::end_round() { marks_.push_back(nt::memory_mark(bench_.kernel())); }

bool Balance::left_something() const {
  const size_t rounds = marks_.size() - 1;
  return rounds != 0 &&
         !nt::memory_taken(bench_.kernel(), marks_[rounds - 1], marks_[rounds]).empty();
}

void Balance::report(const std::string& what) {
  const size_t rounds = marks_.size() - 1;
  if (rounds < 2 || bench_.kernel().driver_is_dead()) return;
  const nt::Kernel& kernel = bench_.kernel();
  std::vector<nt::TakenMemory> left = nt::memory_taken(kernel, marks_[0], marks_[1]);
  for (size_t round = 1; round < rounds && !left.empty(); ++round) {
    const std::vector<nt::TakenMemory> here =
        nt::memory_taken(kernel, marks_[round], marks_[round + 1]);
    std::erase_if(left, [&](const nt::TakenMemory& one) {
      return std::ranges::none_of(
          here, [&](const nt::TakenMemory& other) { return same_routine(one.leak, other.leak); });
    });
  }
  for (const auto& [leak, ddi] : left) {
    if (!bench_.is_new_leak(leak)) continue;
    std::string kept = leak.what;
    if (!leak.tag.empty()) kept += fmt::format(" with tag '{}'", leak.tag);
    bench_.findings().report(
        {.rule = "LIFE-20",
         .severity = verifier::Severity::kViolation,
         .ddi = ddi.empty() ? "DxgkDdiUnload" : ddi,
         .actual = fmt::format("{} bytes of {} are left of each of {} that made {}{}.", leak.bytes,
                               kept, counted(rounds, "round"), what,
                               leak.first.empty() ? "" : "; taken by " + leak.first),
         .expected = "What is made for an object goes with the object, or when making it fails.",
         .fix = "Free it in the DDI that destroys the object, and on the way out of the DDI that "
                "makes it once something after it has failed.",
         .why =
             "The memory comes back when the driver is unloaded at the earliest: until then each "
             "client takes some of the system's.",
         .place = kernel.place_of(leak.caller)});
  }
}

}  // namespace dxgkit::tool::verify
