// Jobs of the exerciser: a client plug-in plans, records and checks them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "base/spelling.h"
#include "dxgk/core/process.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/content_history.h"
#include "tools/dxgkit/verify/wrong_result.h"
#include "trace/trace.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint64_t kCommandBytes = 64 * 1024;
constexpr uint32_t kPrivateBytesMax = 4096;
constexpr uint64_t kPiecesMax = 3;  // a mapping is made in so many

/// Buffers and lists are as large as the driver said.
void report_no_room(Bench& bench, const ClientContext& context, uint32_t node,
                    const std::string& error) {
  if (!bench.running()) return;
  bench.findings().report(
      {.rule = "REND-31",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiCreateContext",
       .actual =
           fmt::format("On node {}, where a context has {} bytes for commands, {} and {}, the "
                       "client plug-in could not record a job: {}.",
                       node, context.command_bytes, counted(context.list_size, "allocation"),
                       counted(context.patches_size, "patch location"), error),
       .expected = "A context has room for what the driver's user mode records.",
       .fix = "Compare DmaBufferSize, AllocationListSize and PatchLocationListSize of "
              "DXGK_CONTEXTINFO with what user mode needs.",
       .windows = "Applications fail.",
       .confidence = verifier::Confidence::kInferred});
}

uint64_t pages_of(const ClientAllocation& allocation) {
  return align_up(allocation.size_bytes, kPageBytes) / kPageBytes;
}

}  // namespace

void report_result(Bench& bench, const std::string& actual) {
  bench.findings().report(wrong_result(actual, bench.gpu_addresses()));
}

void report_refusal(Bench& bench, Status status) {
  // What a driver says of commands it does not like (REND-16).
  constexpr Status kRefusals[] = {Status::kPrivilegedInstruction, Status::kIllegalInstruction,
                                  Status::kInvalidParameter,      Status::kInvalidUserBuffer,
                                  Status::kInvalidHandle,         Status::kGraphicsDriverMismatch};
  // No step takes memory away while jobs are submitted.
  const bool lacking = status == Status::kNoMemory && !bench.mutated();
  if (!lacking && std::ranges::find(kRefusals, status) == std::end(kRefusals)) return;
  bench.findings().report(
      {.rule = "REND-31",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiRender",
       .actual =
           fmt::format("A job of the client plug-in was refused with {}{}.", status_text(status),
                       lacking ? ", and no request of the driver for memory failed" : ""),
       .expected = "Commands within the limits of the driver's user-mode interface are accepted.",
       .fix = lacking ? "STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER asks for another DMA buffer. Find "
                        "where a full one, or a full list, is answered otherwise."
                      : "Find the check that refuses it, and compare it with the command the "
                        "plug-in recorded.",
       .why = "The plug-in records nothing else than what its driver documents.",
       .windows = "Applications fail."});
}

std::string lost_text(Client& client, D3DKMT_HANDLE device) {
  return std::string(kLostDevice) +
         (client.page_faulted(device)
              ? "a page fault, though all its addresses were mapped and its memory resident"
              : "work that is right");
}

Answer<std::unique_ptr<Job>> Job::create(Bench& bench, Client& client, D3DKMT_HANDLE device,
                                         uint64_t seed, uint32_t node) {
  std::unique_ptr<Job> job(new Job(bench, client, device));
  job->seed_ = seed;
  job->node_ = node;
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code.has_value()) return std::unexpected(code.error());
  job->code_ = *code;
  Answer<std::vector<DxgkitClientAllocation>> wanted = job->code_->plan(seed, node);
  if (!wanted.has_value()) return std::unexpected(wanted.error());
  job->wanted_ = std::move(*wanted);
  for (const DxgkitClientAllocation& one : job->wanted_) {
    Answer<std::vector<std::byte>> data = job->code_->pack_allocation(one);
    if (!data.has_value()) return std::unexpected(data.error());
    job->allocations_.push_back({0, one.size_bytes, std::move(*data)});
  }
  const Answer<D3DKMT_HANDLE> made =
      client.create_allocations(device, job->allocations_, /*as_resource=*/false);
  if (!made.has_value()) return std::unexpected(made.error());
  if (bench.gpu_addresses()) {
    DXGKIT_VERIFY_TRY(job->create_commands());
    DXGKIT_VERIFY_TRY(job->map_at(bench, {}));
  }
  for (size_t i = 0; i < job->wanted_.size(); ++i) {
    const ClientAllocation& one = job->allocations_[i];
    job->handles_.push_back({job->wanted_[i], one.private_data.data(),
                             static_cast<uint32_t>(one.private_data.size()), 0});
  }
  DXGKIT_VERIFY_TRY(job->fill());
  return job;
}

Answer<void> Job::create_commands() {
  DxgkitClientAllocation wanted{};
  wanted.size_bytes = kCommandBytes;
  wanted.usage = DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_COMMANDS;
  Answer<std::vector<std::byte>> data = code_->pack_allocation(wanted);
  if (!data.has_value()) return std::unexpected(data.error());
  commands_ = {0, wanted.size_bytes, std::move(*data)};
  const Answer<D3DKMT_HANDLE> made =
      client_.create_allocations(device_, {&commands_, 1}, /*as_resource=*/false);
  if (!made.has_value()) return std::unexpected(made.error());
  MapWish wish;
  wish.allocation = commands_.handle;
  wish.pages = pages_of(commands_);
  wish.execute = true;
  const Answer<uint64_t> address = client_.map(device_, wish);
  if (!address.has_value()) return std::unexpected(address.error());
  commands_address_ = *address;
  private_data_.resize(kPrivateBytesMax);
  return {};
}

Answer<void> Job::map_at(Bench& bench, std::span<const uint64_t> addresses) {
  addresses_.clear();
  for (size_t i = 0; i < allocations_.size(); ++i) {
    MapWish whole;
    whole.allocation = allocations_[i].handle;
    whole.pages = pages_of(allocations_[i]);
    uint64_t base = addresses.empty() ? 0 : addresses[i];
    const uint64_t pieces = base == 0 ? 1 : std::min(kPiecesMax, whole.pages);
    for (const size_t piece : bench.shuffled(pieces)) {
      MapWish wish = whole;
      wish.offset_pages = whole.pages * piece / pieces;
      wish.pages = whole.pages * (piece + 1) / pieces - wish.offset_pages;
      wish.base = base == 0 ? 0 : base + wish.offset_pages * kPageBytes;
      const Answer<uint64_t> address = client_.map(device_, wish);
      if (!address.has_value()) return std::unexpected(address.error());
      if (base == 0) base = *address;
    }
    addresses_.push_back(base);
  }
  return {};
}

Answer<void> Job::unmap() {
  for (size_t i = 0; i < addresses_.size(); ++i) {
    DXGKIT_VERIFY_TRY(
        client_.free_addresses(addresses_[i], pages_of(allocations_[i]) * kPageBytes));
  }
  addresses_.clear();
  return {};
}

Answer<void> Job::spoil() {
  constexpr uint32_t kBoth = DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_GPU_WRITES;
  for (uint32_t i = 0; i < allocations_.size(); ++i) {
    if ((usage(i) & kBoth) == kBoth) DXGKIT_VERIFY_TRY(fill_one(i));
    if (!is_result(i)) continue;
    const Answer<std::byte*> view = client_.lock(device_, allocations_[i].handle);
    if (!view.has_value()) return std::unexpected(view.error());
    std::memset(*view, static_cast<int>(kSpoilt), wanted_[i].size_bytes);
    DXGKIT_VERIFY_TRY(client_.unlock(device_, allocations_[i].handle));
  }
  return {};
}

Answer<bool> Job::spoilt() {
  for (uint32_t i = 0; i < allocations_.size(); ++i) {
    if (!is_result(i)) continue;
    const Answer<std::byte*> view = client_.lock(device_, allocations_[i].handle);
    if (!view.has_value()) return std::unexpected(view.error());
    const bool same = std::all_of(*view, *view + wanted_[i].size_bytes,
                                  [](std::byte byte) { return byte == kSpoilt; });
    DXGKIT_VERIFY_TRY(client_.unlock(device_, allocations_[i].handle));
    if (!same) return false;
  }
  return true;
}

DxgkitClientJob Job::description() const {
  DxgkitClientJob job{};
  job.seed = seed_;
  job.node = node_;
  job.allocation_count = static_cast<uint32_t>(handles_.size());
  job.allocations = handles_.data();
  return job;
}

Answer<void> Job::fill() {
  for (uint32_t i = 0; i < allocations_.size(); ++i) {
    if ((usage(i) & DXGKIT_CLIENT_CPU_WRITES) != 0) DXGKIT_VERIFY_TRY(fill_one(i));
  }
  return {};
}

Answer<void> Job::fill_one(uint32_t allocation) {
  const D3DKMT_HANDLE handle = allocations_[allocation].handle;
  const Answer<std::byte*> view = client_.lock(device_, handle);
  if (!view.has_value()) return std::unexpected(view.error());
  const Answer<void> filled =
      code_->fill(description(), allocation, {*view, wanted_[allocation].size_bytes});
  DXGKIT_VERIFY_TRY(client_.unlock(device_, handle));
  return filled;
}

Answer<DxgkitClientJob> Job::record(ClientContext& context, uint64_t busy_ns) {
  return record_with(context, busy_ns,
                     [&](DxgkitClientJob& job) -> Answer<void> { return code_->record(job); });
}

Answer<DxgkitClientJob> Job::record_with(ClientContext& context, uint64_t busy_ns,
                                         const Recorder& recorder) {
  std::vector<DxgkitClientUse> uses(context.list_size);
  std::vector<DxgkitClientPatch> patches(context.patches_size);
  DxgkitClientJob job = description();
  job.busy_ns = busy_ns;
  job.commands = context.commands;
  job.command_bytes_max = context.command_bytes;
  job.uses = uses.data();
  job.use_count_max = context.list_size;
  job.patches = patches.data();
  job.patch_count_max = context.patches_size;
  if (const Answer<void> recorded = recorder(job); !recorded.has_value()) {
    report_no_room(bench_, context, node_, recorded.error());
    return std::unexpected(recorded.error());
  }
  for (uint32_t i = 0; i < job.use_count; ++i) {
    context.list[i] = {};
    const uint32_t named = uses[i].allocation;
    if (named != DXGKIT_CLIENT_NO_ALLOCATION)
      context.list[i].hAllocation = allocations_[named].handle;
    context.list[i].WriteOperation = uses[i].write != 0;
  }
  static_assert(sizeof(DxgkitClientPatch) == sizeof(D3DDDI_PATCHLOCATIONLIST));
  if (job.patch_count != 0)
    std::memcpy(context.patches, patches.data(), job.patch_count * sizeof(patches[0]));
  job.uses = nullptr;
  job.patches = nullptr;
  return job;
}

Answer<DxgkitClientJob> Job::record_virtual(uint64_t busy_ns) {
  return record_virtual_with(
      busy_ns, [&](DxgkitClientJob& job) -> Answer<void> { return code_->record(job); });
}

Answer<DxgkitClientJob> Job::record_virtual_with(uint64_t busy_ns, const Recorder& recorder) {
  const Answer<std::byte*> view = client_.lock(device_, commands_.handle);
  if (!view.has_value()) return std::unexpected(view.error());
  DxgkitClientJob job = description();
  job.busy_ns = busy_ns;
  job.commands = *view;
  job.command_bytes_max = static_cast<uint32_t>(commands_.size_bytes);
  job.addresses = addresses_.data();
  job.commands_address = commands_address_;
  job.private_data = private_data_.data();
  job.private_bytes_max = static_cast<uint32_t>(private_data_.size());
  const Answer<void> recorded = recorder(job);
  DXGKIT_VERIFY_TRY(client_.unlock(device_, commands_.handle));
  if (!recorded.has_value()) return std::unexpected(recorded.error());
  job.commands = nullptr;
  return job;
}

Answer<void> Job::submit_virtual(const ClientContext& context, uint64_t busy_ns,
                                 bool null_rendering) {
  const Answer<DxgkitClientJob> job = record_virtual(busy_ns);
  if (!job.has_value()) return std::unexpected(job.error());
  std::vector<D3DKMT_HANDLE> named{commands_.handle};
  for (const ClientAllocation& one : allocations_) named.push_back(one.handle);
  DXGKIT_VERIFY_TRY(client_.make_resident(device_, named));
  const NTSTATUS status =
      client_.try_submit(context.handle, commands_address_, job->command_bytes,
                         std::span(private_data_).first(job->private_bytes), null_rendering);
  submission_ = client_.submissions();
  DXGKIT_VERIFY_TRY(client_.evict(device_, named));  // it stays for queued work
  return check_answer("D3DKMTSubmitCommand", status);
}

Answer<std::optional<Job::Overreach>> Job::submit_overreach(ClientContext& context,
                                                            uint32_t variant) {
  std::optional<DxgkitClientOverreach> made;
  const auto recorder = [&](DxgkitClientJob& job) -> Answer<void> {
    auto answer = code_->record_overreach(job, variant);
    if (!answer.has_value()) return std::unexpected(answer.error());
    made = *answer;
    return {};
  };
  const bool addresses = commands_address_ != 0;
  const Answer<DxgkitClientJob> job =
      addresses ? record_virtual_with(0, recorder) : record_with(context, 0, recorder);
  if (!job.has_value()) return std::unexpected(job.error());
  if (!made) return std::nullopt;
  if (!addresses) {
    return Overreach{
        *made, client_.try_render(context, job->command_bytes, job->use_count, job->patch_count)};
  }
  std::vector<D3DKMT_HANDLE> named{commands_.handle};
  for (const ClientAllocation& one : allocations_) named.push_back(one.handle);
  DXGKIT_VERIFY_TRY(client_.make_resident(device_, named));
  return Overreach{*made, client_.try_submit(context.handle, commands_address_, job->command_bytes,
                                             std::span(private_data_).first(job->private_bytes))};
}

Answer<NTSTATUS> Job::submit_spoilt(Bench& bench, const ClientContext& context, size_t how) {
  const Answer<DxgkitClientJob> job = record_virtual(0);
  if (!job.has_value()) return std::unexpected(job.error());
  uint32_t bytes = job->command_bytes;
  uint64_t address = commands_address_;
  std::span<std::byte> private_data = std::span(private_data_).first(job->private_bytes);
  const Answer<std::byte*> view = client_.lock(device_, commands_.handle);
  if (!view.has_value()) return std::unexpected(view.error());
  std::byte* const commands = *view;
  switch (how % 5) {
    case 0:  // cut short
      bytes = static_cast<uint32_t>(bench.random() % (bytes + 1)) & ~7U;
      break;
    case 1:  // a few bytes changed
      for (int change = 0; change < 3 && bytes != 0; ++change)
        commands[bench.random() % bytes] = static_cast<std::byte>(bench.random());
      break;
    case 2:  // all of it
      for (uint32_t at = 0; at < bytes; ++at) commands[at] = static_cast<std::byte>(bench.random());
      break;
    case 3:  // from the middle on
      address += bench.random() % (bytes + 1) & ~uint64_t{3};
      break;
    default:
      if (private_data.empty()) private_data = std::span(private_data_).first(16);
      for (std::byte& byte : private_data) byte = static_cast<std::byte>(bench.random());
      break;
  }
  DXGKIT_VERIFY_TRY(client_.unlock(device_, commands_.handle));
  std::vector<D3DKMT_HANDLE> named{commands_.handle};
  for (const ClientAllocation& one : allocations_) named.push_back(one.handle);
  DXGKIT_VERIFY_TRY(client_.make_resident(device_, named));
  return client_.try_submit(context.handle, address, bytes, private_data);
}

Answer<void> Job::submit(ClientContext& context, uint64_t busy_ns, bool null_rendering) {
  if (commands_address_ != 0) return submit_virtual(context, busy_ns, null_rendering);
  const Answer<DxgkitClientJob> job = record(context, busy_ns);
  if (!job.has_value()) return std::unexpected(job.error());
  const NTSTATUS status = client_.try_render(context, job->command_bytes, job->use_count,
                                             job->patch_count, null_rendering);
  submission_ = client_.submissions();
  // A device that is lost refuses everything.
  if (!is_success(from_ntstatus(status)) && bench_.running() && client_.active(device_))
    report_refusal(bench_, from_ntstatus(status));
  return check_answer("D3DKMTRender", status);
}

Answer<void> Job::check() {
  const DxgkitClientJob job = description();
  for (uint32_t i = 0; i < allocations_.size(); ++i) {
    if ((wanted_[i].usage & DXGKIT_CLIENT_CPU_READS) == 0) continue;
    const Answer<std::byte*> view = client_.lock(device_, allocations_[i].handle);
    if (!view.has_value()) return std::unexpected(view.error());
    const Answer<void> right = code_->check(job, i, {*view, wanted_[i].size_bytes});
    DXGKIT_VERIFY_TRY(client_.unlock(device_, allocations_[i].handle));
    if (!right.has_value()) {
      return std::unexpected(fmt::format("job {} on node {}: allocation {}: {}{}", seed_, node_, i,
                                         right.error(), history()));
    }
  }
  return {};
}

std::string Job::history() const {
  const trace::Recorder* const recorder = trace::current();
  if (recorder == nullptr) return {};
  const std::string text = content_history(
      {.events = recorder->events(), .names = recorder->names(), .threads = {}, .dropped = 0},
      {.process = client_.process().number(),
       .process_name = client_.process().name(),
       .submission = submission_,
       .thread = bench_.runtime().thread_number()});
  return text.empty() ? text : "; " + text;
}

Answer<void> Job::destroy() {
  DXGKIT_VERIFY_TRY(unmap());
  std::vector<D3DKMT_HANDLE> handles;
  for (const ClientAllocation& one : allocations_) handles.push_back(one.handle);
  if (commands_address_ != 0) {
    DXGKIT_VERIFY_TRY(client_.free_addresses(commands_address_, commands_.size_bytes));
    handles.push_back(commands_.handle);
  }
  return client_.destroy_allocations(device_, handles);
}

}  // namespace dxgkit::tool::verify
