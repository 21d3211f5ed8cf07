#include "tools/dxgkit/verify/recorded_client.h"

#include <d3dkmthk.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/arithmetic.h"
#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {
namespace {

using record::Job;
using record::JobAllocation;
using Data = std::vector<std::byte>;

/// Of an allocation whose size nothing in the recording tells.
constexpr uint64_t kGuessedBytes = kPageBytes;

/// The sentence that a function of a plug-in returns; it lives until the next call on this thread.
const char* sentence(std::string text) {
  static thread_local std::string last;
  last = std::move(text);
  return last.c_str();
}

const char* hand_over(const Data& from, void* data, uint32_t capacity, uint32_t* bytes) {
  if (from.size() > capacity) return "too little room";
  if (!from.empty()) std::memcpy(data, from.data(), from.size());
  *bytes = static_cast<uint32_t>(from.size());
  return nullptr;
}

class RecordedClient {
 public:
  RecordedClient(record::Work work, const std::string& program)
      : work_(std::move(work)), name_("recording of " + program) {
    for (size_t i = 0; i < work_.jobs.size(); ++i) {
      const Job& job = work_.jobs[i];
      const bool fits = !job.allocations.empty() && job.allocations.size() <= kJobAllocationsMax &&
                        std::ranges::all_of(job.allocations, [&](const Job::Memory& memory) {
                          return size_of(allocation(memory)) <= kJobAllocationBytesMax;
                        });
      auto& jobs = of_node_[job.node];
      // One context of a node is enough for all its jobs.
      if (fits && (jobs.empty() || work_.jobs[jobs.front()].context == job.context))
        jobs.push_back(i);
    }
    for (const JobAllocation& one : work_.allocations) {
      if (!one.asked.empty() && std::ranges::find(examples_, one.asked) == examples_.end())
        examples_.push_back(one.asked);
    }
  }

  const char* name() const { return name_.c_str(); }
  uint32_t adapter_bytes() const {
    return work_.adapter ? static_cast<uint32_t>(work_.adapter->size()) : 0;
  }
  void fill_adapter(void* data, uint32_t bytes) const {
    if (bytes == adapter_bytes() && bytes != 0) std::memcpy(data, work_.adapter->data(), bytes);
  }

  const char* pack_context(uint32_t node, void* data, uint32_t capacity, uint32_t* bytes) const {
    const Job* const job = job_of(0, node);
    if (job == nullptr) return no_work(node);
    return hand_over(job->context, data, capacity, bytes);
  }

  const char* pack_allocation(const DxgkitClientAllocation& wanted, void* data, uint32_t capacity,
                              uint32_t* bytes) const {
    // The host gives back what `plan` said, with the number of the allocation.
    if (wanted.reserved != 0 && wanted.reserved <= work_.allocations.size())
      return hand_over(work_.allocations[wanted.reserved - 1].asked, data, capacity, bytes);
    if (wanted.width != 0 || wanted.height != 0) return "the recording has no images";
    if (!work_.asked_size) return "the recording does not say where a size stands";
    const record::SizeField& field = *work_.asked_size;
    for (const auto& [node, jobs] : of_node_) {
      for (const size_t number : jobs) {
        const Job& job = work_.jobs[number];
        for (const Job::Memory& memory : job.allocations) {
          Data asked = allocation(memory).asked;
          if (usage_of(job, memory) != wanted.usage || asked.size() != field.data_bytes) continue;
          uint64_t size = 0;
          std::memcpy(&size, asked.data() + field.offset, field.width);
          if (size == 0) continue;
          std::memcpy(asked.data() + field.offset, &wanted.size_bytes, field.width);
          return hand_over(asked, data, capacity, bytes);
        }
      }
    }
    return "no allocation of the recording is used like that";
  }

  const char* plan(uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted, uint32_t capacity,
                   uint32_t* count) const {
    const Job* const job = job_of(seed, node);
    if (job == nullptr) return no_work(node);
    if (job->allocations.size() > capacity) return "too little room";
    for (size_t i = 0; i < job->allocations.size(); ++i) {
      const Job::Memory& memory = job->allocations[i];
      wanted[i] = {};
      wanted[i].size_bytes = size_of(allocation(memory));
      wanted[i].usage = usage_of(*job, memory);
      wanted[i].reserved = static_cast<uint32_t>(memory.allocation + 1);
    }
    *count = static_cast<uint32_t>(job->allocations.size());
    return nullptr;
  }

  const char* fill(const DxgkitClientJob& asked, uint32_t index, void* view,
                   uint64_t view_bytes) const {
    const Job* const job = job_of(asked.seed, asked.node);
    if (job == nullptr || index >= job->allocations.size() || !job->allocations[index].before)
      return "there is nothing to fill";
    const Data& before = *job->allocations[index].before;
    // The program saw whole pages.
    std::memcpy(view, before.data(), std::min<uint64_t>(before.size(), view_bytes));
    return nullptr;
  }

  const char* record(DxgkitClientJob& asked) const {
    const Job* const job = job_of(asked.seed, asked.node);
    if (job == nullptr) return no_work(asked.node);
    static_assert(sizeof(DxgkitClientPatch) == sizeof(D3DDDI_PATCHLOCATIONLIST));
    const size_t patches = job->patches.size() / sizeof(DxgkitClientPatch);
    if (job->commands.size() > asked.command_bytes_max) return "the command buffer is too short";
    if (job->uses.size() > asked.use_count_max) return "the allocation list is too short";
    if (patches > asked.patch_count_max) return "the list of patch locations is too short";
    std::memcpy(asked.commands, job->commands.data(), job->commands.size());
    asked.command_bytes = static_cast<uint32_t>(job->commands.size());
    for (size_t i = 0; i < job->uses.size(); ++i) {
      const record::JobUse& use = job->uses[i];
      asked.uses[i] = {use.allocation, use.write ? 1U : 0U};
    }
    asked.use_count = static_cast<uint32_t>(job->uses.size());
    if (patches != 0) std::memcpy(asked.patches, job->patches.data(), job->patches.size());
    asked.patch_count = static_cast<uint32_t>(patches);
    return nullptr;
  }

  const char* check(const DxgkitClientJob& asked, uint32_t index, const void* view,
                    uint64_t view_bytes) const {
    const Job* const job = job_of(asked.seed, asked.node);
    if (job == nullptr || index >= job->allocations.size()) return "there is nothing to check";
    const Job::Memory& memory = job->allocations[index];
    const auto& right = memory.written ? memory.after : memory.before;
    if (!right) return "there is nothing to check";
    const size_t bytes = std::min<uint64_t>(right->size(), view_bytes);
    const std::span now(static_cast<const std::byte*>(view), bytes);
    const auto [is, was] = std::ranges::mismatch(now, std::span(*right).first(bytes));
    if (is == now.end()) return nullptr;
    return sentence(
        fmt::format("byte {} of allocation {} of call {} is {:#04x}, and in the recording {:#04x}",
                    is - now.begin(), index, job->call, std::to_integer<unsigned>(*is),
                    std::to_integer<unsigned>(*was)));
  }

  const char* example(uint32_t kind, uint32_t index, void* data, uint32_t capacity,
                      uint32_t* bytes) const {
    *bytes = 0;
    const auto& all = kind == DXGKIT_CLIENT_DATA_ESCAPE ? work_.escapes : examples_;
    if (kind != DXGKIT_CLIENT_DATA_ESCAPE && kind != DXGKIT_CLIENT_DATA_ALLOCATION) return nullptr;
    return index < all.size() ? hand_over(all[index], data, capacity, bytes) : nullptr;
  }

 private:
  const JobAllocation& allocation(const Job::Memory& memory) const {
    return work_.allocations[memory.allocation];
  }
  static uint64_t size_of(const JobAllocation& one) {
    return one.size_bytes == 0 ? kGuessedBytes : one.size_bytes;
  }
  const Job* job_of(uint64_t seed, uint32_t node) const {
    const auto found = of_node_.find(node);
    if (found == of_node_.end() || found->second.empty()) return nullptr;
    return &work_.jobs[found->second[mixed(seed) % found->second.size()]];
  }
  static const char* no_work(uint32_t node) {
    return sentence(fmt::format("it has no work for node {} that can be done alone", node));
  }
  /// All that went in can be put there again.
  bool comparable(const Job& job) const {
    return std::ranges::all_of(job.allocations, [&](const Job::Memory& memory) {
      return !allocation(memory).locked || memory.before.has_value();
    });
  }
  uint32_t usage_of(const Job& job, const Job::Memory& memory) const {
    const auto& result = memory.written ? memory.after : memory.before;
    return (memory.written ? DXGKIT_CLIENT_GPU_WRITES : 0U) |
           (memory.before ? DXGKIT_CLIENT_CPU_WRITES : 0U) |
           (result && comparable(job) ? DXGKIT_CLIENT_CPU_READS : 0U);
  }

  const record::Work work_;
  const std::string name_;
  std::map<uint32_t, std::vector<size_t>> of_node_;  // numbers of jobs
  std::vector<Data> examples_;                       // of allocations
};

std::unique_ptr<RecordedClient>& the_client() {
  static std::unique_ptr<RecordedClient> client;
  return client;
}
const RecordedClient& of(void* client) { return *static_cast<RecordedClient*>(client); }

}  // namespace

const DxgkitClient* make_recorded_client(record::Work work, const std::string& program) {
  the_client() = std::make_unique<RecordedClient>(std::move(work), program);
  static DxgkitClient functions{};
  functions.version = DXGKIT_CLIENT_VERSION;
  functions.size_bytes = sizeof functions;
  functions.name = the_client()->name();
  functions.umd_private_bytes = the_client()->adapter_bytes();
  functions.fill_umd_private = [](void* data, uint32_t bytes) {
    the_client()->fill_adapter(data, bytes);
  };
  functions.open = [](const DxgkitClientAdapter*, void** client) -> const char* {
    *client = the_client().get();
    return nullptr;
  };
  functions.close = [](void*) {};
  functions.pack_context = [](void* client, uint32_t node, void* data, uint32_t capacity,
                              uint32_t* bytes) {
    return of(client).pack_context(node, data, capacity, bytes);
  };
  functions.pack_allocation = [](void* client, const DxgkitClientAllocation* wanted, void* data,
                                 uint32_t capacity, uint32_t* bytes) {
    return of(client).pack_allocation(*wanted, data, capacity, bytes);
  };
  functions.plan = [](void* client, uint64_t seed, uint32_t node, DxgkitClientAllocation* wanted,
                      uint32_t capacity, uint32_t* count) {
    return of(client).plan(seed, node, wanted, capacity, count);
  };
  functions.fill = [](void* client, const DxgkitClientJob* job, uint32_t index, void* view,
                      uint64_t bytes) { return of(client).fill(*job, index, view, bytes); };
  functions.record = [](void* client, DxgkitClientJob* job) { return of(client).record(*job); };
  functions.check = [](void* client, const DxgkitClientJob* job, uint32_t index, const void* view,
                       uint64_t bytes) { return of(client).check(*job, index, view, bytes); };
  functions.example = [](void* client, uint32_t kind, uint32_t index, void* data, uint32_t capacity,
                         uint32_t* bytes) {
    return of(client).example(kind, index, data, capacity, bytes);
  };
  return &functions;
}

}  // namespace dxgkit::tool::verify
