// Objects that a driver has not released when it is unloaded.
#include "nt/leaks.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/spelling.h"
#include "nt/executive.h"
#include "nt/kernel_impl.h"

namespace dxgkit::nt {
namespace {

struct LeakRule {
  std::string_view what;
  const char* rule;
  const char* expected;
  const char* fix;
  uint32_t bugcheck_code;  // the bug check of Windows once it runs or frees the leaked object
};
constexpr LeakRule kLeakRules[] = {
    {"timer", "NT-12", "No timer is queued when the code of its DPC goes.",
     "Cancel every timer and flush its DPC (KeCancelTimer, KeFlushQueuedDpcs) in "
     "DxgkDdiStopDevice.",
     0xC7},
    {"queued DPC", "NT-13", "No DPC is queued when its code goes.",
     "Stop what queues it, then call KeFlushQueuedDpcs.", 0xC7},
    {"thread", "NT-14", "The threads of a driver have ended before it is unloaded.",
     "Signal the thread to end and wait for its object, in DxgkDdiStopDevice.", 0xCE},
    {"queued work item", "NT-14", "Work items have run before the driver is unloaded.",
     "Wait until the last work item has run before DxgkDdiUnload returns.", 0xCE},
};

const LeakRule* rule_of(std::string_view what) {
  for (const LeakRule& rule : kLeakRules) {
    if (rule.what == what) return &rule;
  }
  return nullptr;
}

/// Adds a leak for what was counted, if anything was.
void add_total(const Kernel& kernel, const char* what, const std::string& tag,
               const LeakTotal& total, std::vector<TakenMemory>& taken) {
  if (total.count == 0) return;
  taken.push_back({to_leak(kernel, what, tag, total), total.first.ddi});
}

}  // namespace

Leak to_leak(const Kernel& kernel, const char* what, const std::string& tag,
             const LeakTotal& total) {
  return {what,
          tag,
          total.count,
          total.bytes,
          total.first.ddi[0] == 0 ? "" : to_text(kernel, total.first),
          total.first.caller};
}

uint64_t memory_mark(const Kernel& kernel) {
  runtime::MutexLock lock(kernel.impl().memory_lock);
  return kernel.impl().next_sequence;
}

std::vector<TakenMemory> memory_taken(const Kernel& kernel, uint64_t from, uint64_t to) {
  const Kernel::Impl& state = kernel.impl();
  std::vector<TakenMemory> result;
  std::map<std::string, LeakTotal> by_tag;
  LeakTotal contiguous, mdls, mappings;
  const auto count = [&](LeakTotal& total, uint64_t bytes, uint64_t sequence, const Origin& taken) {
    if (sequence >= from && sequence < to) total.add(bytes, sequence, taken);
  };
  runtime::MutexLock lock(state.memory_lock);
  for (const auto& [address, block] : state.pool)
    count(by_tag[tag_text(block.tag)], block.bytes, block.sequence, block.allocated);
  for (const auto& [address, block] : state.contiguous)
    count(contiguous, block.page_count * kPageBytes, block.sequence, block.taken);
  for (const auto& [address, mdl] : state.mdls) count(mdls, mdl.bytes, mdl.sequence, mdl.taken);
  for (const auto& [address, mapping] : state.mappings)
    count(mappings, mapping.bytes, mapping.sequence, mapping.taken);
  for (const auto& [tag, total] : by_tag) add_total(kernel, "pool", tag, total, result);
  add_total(kernel, "contiguous memory", "", contiguous, result);
  add_total(kernel, "MDL", "", mdls, result);
  add_total(kernel, "mapping", "", mappings, result);
  return result;
}

std::vector<Leak> Kernel::leaks() const {
  std::vector<TakenMemory> taken = memory_taken(*this, 0, UINT64_MAX);
  std::vector<Leak> result;
  {
    runtime::MutexLock lock(impl_->dispatcher_lock);
    LeakTotal armed, running, handles;
    for (const auto& [address, timer] : impl_->timers) {
      if (timer.armed) armed.add(0, timer.sequence, timer.set_by);
    }
    for (const auto& [address, thread] : impl_->threads) {
      if (!thread->ended) running.add(0, thread->sequence, thread->started_by);
    }
    for (const auto& [value, handle] : impl_->handles)
      handles.add(0, handle.sequence, handle.taken);
    add_total(*this, "timer", "", armed, taken);
    add_total(*this, "thread", "", running, taken);
    add_total(*this, "handle", "", handles, taken);
    for (TakenMemory& one : taken) result.push_back(std::move(one.leak));
  }
  if (const uint32_t dpcs = impl_->dpcs_outstanding.load(); dpcs > 0)
    result.push_back({"queued DPC", "", dpcs, 0, "", nullptr});
  add_executive_leaks(*this, result);
  return result;
}

namespace {

/// "2 handles", "2 pool".
std::string amount_text(const Leak& leak) {
  for (const std::string_view mass : {"pool", "contiguous memory", "pages of an MDL"}) {
    if (leak.what == mass) return fmt::format("{} {}", leak.count, leak.what);
  }
  return counted(leak.count, leak.what);
}

}  // namespace

size_t Kernel::report_leaks(const char* when) {
  const std::vector<Leak> found = leaks();
  for (const Leak& leak : found) {
    const LeakRule* const rule = rule_of(leak.what);
    std::string actual = fmt::format("{}: {} left", when, amount_text(leak));
    if (!leak.tag.empty()) actual += fmt::format(" with tag '{}'", leak.tag);
    if (leak.bytes > 0) actual += fmt::format(", {} bytes", leak.bytes);
    const char* const verb = leak.what == "timer"    ? "queued by KeSetTimer in"
                             : leak.what == "thread" ? "started by"
                                                     : "taken by";
    if (!leak.first.empty())
      actual += fmt::format("; {}{} {}", leak.count == 1 ? "" : "the first was ", verb, leak.first);
    actual += '.';
    findings_.report(
        {.rule = rule == nullptr ? "LIFE-20" : rule->rule,
         .severity =
             rule == nullptr ? verifier::Severity::kViolation : verifier::Severity::kBugCheck,
         .ddi = "DxgkDdiUnload",
         .actual = std::move(actual),
         .expected = rule == nullptr
                         ? "A driver gives back everything it took before it is unloaded."
                         : rule->expected,
         .fix = rule == nullptr
                    ? "Free it in DxgkDdiStopDevice, DxgkDdiRemoveDevice or DxgkDdiUnload, "
                      "whichever mirrors where it was taken."
                    : rule->fix,
         .bugcheck_code = rule == nullptr ? 0 : rule->bugcheck_code,
         .place = place_of(leak.caller)});
  }
  const size_t overruns = report_pool_overruns(*this, when);
  quiesce();
  clear_executive(*this);
  free_leaked_memory(*this);
  return found.size() + overruns;
}

}  // namespace dxgkit::nt
