// Private data that is nearly right: what user mode sends, with one thing in it changed.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/spelling.h"
#include "nt/leaks.h"
#include "tools/dxgkit/verify/balance.h"
#include "tools/dxgkit/verify/facts.h"

namespace dxgkit::tool::verify {
namespace {

using Data = std::vector<std::byte>;

/// Of longer data only so many places are changed, evenly spread.
constexpr size_t kPlacesMax = 96;
constexpr uint32_t kExamplesMax = 64;  // of a plug-in that never ends
/// Accepted allocations that are there at once, in segments beside a job.
constexpr size_t kTogether = 12;
constexpr runtime::TimeNs kUntilIdle = 100 * runtime::kMillisecond;

const char* kind_text(uint32_t kind) {
  return kind == DXGKIT_CLIENT_DATA_ALLOCATION ? "an allocation"
         : kind == DXGKIT_CLIENT_DATA_CONTEXT  ? "a context"
         : kind == DXGKIT_CLIENT_DATA_ESCAPE   ? "an escape"
                                               : "an escape with HardwareAccess";
}
const char* ddi_of(uint32_t kind) {
  return kind == DXGKIT_CLIENT_DATA_ALLOCATION ? "DxgkDdiCreateAllocation"
         : kind == DXGKIT_CLIENT_DATA_CONTEXT  ? "DxgkDdiCreateContext"
                                               : "DxgkDdiEscape";
}

/// The data with one change, and what was changed.
struct Spoilt {
  Data data;
  std::string how;
};

/// Values beside a number, and at its ends.
template <typename Number>
std::vector<Number> neighbours(Number was) {
  constexpr auto kSign = static_cast<Number>(Number{1} << (sizeof(Number) * 8 - 1));
  std::vector<Number> all = {0,
                             1,
                             static_cast<Number>(~Number{0}),
                             kSign,
                             static_cast<Number>(was + 1),
                             static_cast<Number>(was - 1),
                             static_cast<Number>(was ^ kSign),
                             static_cast<Number>(was * 2)};
  return all;
}

template <typename Number>
void change_numbers(const Data& from, std::vector<Spoilt>& out) {
  const size_t places = from.size() / sizeof(Number);
  const size_t stride = std::max<size_t>(1, (places + kPlacesMax - 1) / kPlacesMax);
  for (size_t place = 0; place < places; place += stride) {
    const size_t at = place * sizeof(Number);
    Number was = 0;
    std::memcpy(&was, from.data() + at, sizeof(was));
    for (const Number value : neighbours(was)) {
      Spoilt one{from, fmt::format("{} bytes at {:#x} made {:#x}", sizeof(Number), at, value)};
      std::memcpy(one.data.data() + at, &value, sizeof(value));
      out.push_back(std::move(one));
    }
    if (sizeof(Number) == 4 && at + 8 <= from.size()) {
      Spoilt swapped{from, fmt::format("4 bytes at {:#x} swapped with the next", at)};
      std::swap_ranges(swapped.data.begin() + static_cast<ptrdiff_t>(at),
                       swapped.data.begin() + static_cast<ptrdiff_t>(at + 4),
                       swapped.data.begin() + static_cast<ptrdiff_t>(at + 4));
      out.push_back(std::move(swapped));
    }
  }
}

/// Shorter data first; what has the same length in the order of its bytes.
struct DataOrder {
  bool operator()(const Data& a, const Data& b) const {
    if (a.size() != b.size()) return a.size() < b.size();
    return !a.empty() && std::memcmp(a.data(), b.data(), a.size()) < 0;
  }
};
using KnownData = std::set<Data, DataOrder>;

/// The data as it is first, then with each change; no data twice.
std::vector<Spoilt> spoil(const Data& from, KnownData& known) {
  std::vector<Spoilt> all{{from, "as the client makes it"}};
  change_numbers<uint32_t>(from, all);
  change_numbers<uint8_t>(from, all);
  for (const size_t size : {size_t{0}, size_t{1}, from.size() / 2, from.size() - 1}) {
    all.push_back({Data(from.begin(), from.begin() + static_cast<ptrdiff_t>(size)),
                   fmt::format("cut to {} of {} bytes", size, from.size())});
  }
  all.push_back({from, "with one byte more"});
  all.back().data.push_back(std::byte{0});
  std::erase_if(all, [&](const Spoilt& one) { return !known.insert(one.data).second; });
  return all;
}

class Exchange {
 public:
  Exchange(Bench& bench, Plugin::Instance& code)
      : bench_(bench), code_(code), client_(bench, "sends private data") {}

  Answer<void> run() {
    DXGKIT_VERIFY_TRY(client_.open_adapter());
    const Answer<D3DKMT_HANDLE> device = client_.create_device();
    if (!device) return std::unexpected(device.error());
    device_ = *device;
    DXGKIT_VERIFY_TRY(allocations());
    for (uint32_t node = 0; node < bench_.node_count(); ++node) DXGKIT_VERIFY_TRY(contexts(node));
    DXGKIT_VERIFY_TRY(escapes(DXGKIT_CLIENT_DATA_ESCAPE));
    DXGKIT_VERIFY_TRY(escapes(DXGKIT_CLIENT_DATA_HARDWARE_ESCAPE));
    return client_.destroy_device(device_);
  }
  /// The escapes alone, as the client makes them: they may tell of work.
  Answer<void> ask() {
    DXGKIT_VERIFY_TRY(client_.open_adapter());
    const Answer<D3DKMT_HANDLE> device = client_.create_device();
    if (!device) return std::unexpected(device.error());
    const Answer<std::vector<Data>> all = with_examples(DXGKIT_CLIENT_DATA_ESCAPE, {});
    if (!all) return std::unexpected(all.error());
    for (const Data& data : *all) {
      const auto send = [&](Data& sent) { return client_.try_escape(*device, sent, false); };
      const Answer<bool> taken =
          exchange(DXGKIT_CLIENT_DATA_ESCAPE, {data, "as the client makes it"}, send);
      if (!taken) return std::unexpected(taken.error());
    }
    return client_.destroy_device(*device);
  }
  std::string text() const {
    return fmt::format(
        "{} refused, {} accepted, {} of them escapes; {}", refused_, accepted_, escapes_,
        bench_.plugin()->judges() ? fmt::format("{} judged wrong", wrong_) : "client has no judge");
  }
  size_t wrong() const { return wrong_; }

 private:
  Answer<std::vector<Data>> with_examples(uint32_t kind, std::vector<Data> all) {
    for (uint32_t index = 0; index < kExamplesMax; ++index) {
      Answer<Data> data = code_.example(kind, index);
      if (!data) return std::unexpected(data.error());
      if (data->empty()) break;
      all.push_back(std::move(*data));
    }
    return all;
  }

  /// Sends one; `send` leaves what was made to `unmake`. True if the driver accepted it.
  Answer<bool> exchange(uint32_t kind, const Spoilt& one,
                        const std::function<NTSTATUS(Data& data)>& send) {
    Data data = one.data;
    const Status status = from_ntstatus(send(data));
    if (!bench_.running()) {
      return std::unexpected(
          fmt::format("private data of {} ended the adapter: {}", kind_text(kind), one.how));
    }
    is_success(status) ? ++accepted_ : ++refused_;
    DxgkitClientAnswer answer{};
    answer.kind = kind;
    answer.status = to_ntstatus(status);
    answer.no_memory = status == Status::kNoMemory || status == Status::kInsufficientResources ||
                       status == Status::kGraphicsNoVideoMemory;
    answer.bytes = static_cast<uint32_t>(one.data.size());
    answer.sent = one.data.data();
    answer.returned = data.data();
    DxgkitClientAllocationFacts facts{};
    if (kind == DXGKIT_CLIENT_DATA_ALLOCATION && is_success(status)) {
      const port::AllocationInfo info = bench_.shortage().last_allocation();
      facts = {.size_bytes = info.size,
               .alignment = info.alignment,
               .read_segments = info.supported_read,
               .write_segments = info.supported_write,
               .eviction_segments = info.eviction,
               .preferred = info.preferred,
               .flags = info.flags,
               .renaming_max = info.maximum_renaming,
               .priority = info.priority};
      answer.allocation = &facts;
    }
    const std::string wrong = code_.judge(answer);
    if (wrong.empty()) return is_success(status);
    ++wrong_;
    if (wrong_ <= kReported) report(kind, one, status, wrong);
    return is_success(status);
  }

  void report(uint32_t kind, const Spoilt& one, Status status, const std::string& wrong) {
    bench_.findings().report(
        {.rule = "LIFE-25",
         .severity = verifier::Severity::kViolation,
         .ddi = ddi_of(kind),
         .actual =
             fmt::format("Private data of {}, {}, got {}, and client {} says: {}.", kind_text(kind),
                         one.how, status_text(status), bench_.plugin()->name(), wrong),
         .expected = "The answer that the interface of driver and user mode asks for.",
         .fix = "Compare the checks of this data, member by member, with what user mode may send.",
         .confidence = verifier::Confidence::kInferred});
  }

  /// A refused call keeps nothing. If it did, it is repeated, so that a cache does not count.
  template <typename Send>
  void check_refusal(uint32_t kind, uint64_t mark, const Spoilt& one, const Send& send) {
    if (nt::memory_taken(bench_.kernel(), mark, UINT64_MAX).empty()) return;
    Balance balance(bench_);
    for (int round = 0; round < 3; ++round) {
      Data data = one.data;
      if (is_success(from_ntstatus(send(data)))) return;  // then it is not the same any more
      balance.end_round();
    }
    balance.report(fmt::format("{} that was refused", kind_text(kind)));
  }

  Answer<void> allocations() {
    const Answer<std::vector<DxgkitClientAllocation>> wanted = code_.plan(bench_.random(), 0);
    if (!wanted) return std::unexpected(wanted.error());
    std::vector<Data> planned;
    for (const DxgkitClientAllocation& one : *wanted) {
      Answer<Data> data = code_.pack_allocation(one);
      if (!data) return std::unexpected(data.error());
      planned.push_back(std::move(*data));
    }
    const Answer<std::vector<Data>> all =
        with_examples(DXGKIT_CLIENT_DATA_ALLOCATION, std::move(planned));
    if (!all) return std::unexpected(all.error());
    KnownData known;
    for (const Data& data : *all) {
      if (data.empty()) continue;
      for (const Spoilt& one : spoil(data, known)) {
        D3DKMT_HANDLE made = 0;
        const auto send = [&](Data& sent) {
          ClientAllocation allocation{0, 0, sent};
          const NTSTATUS status = client_.try_create_allocation(device_, allocation);
          sent = std::move(allocation.private_data);
          made = allocation.handle;
          return status;
        };
        const uint64_t mark = nt::memory_mark(bench_.kernel());
        const Answer<bool> taken = exchange(DXGKIT_CLIENT_DATA_ALLOCATION, one, send);
        if (!taken) return std::unexpected(taken.error());
        if (*taken) {
          made_.push_back(made);
          if (made_.size() >= kTogether) DXGKIT_VERIFY_TRY(use_made());
        } else {
          check_refusal(DXGKIT_CLIENT_DATA_ALLOCATION, mark, one, send);
        }
      }
    }
    return use_made();
  }

  /// What was accepted goes to segments, stays there while a job runs, and comes back.
  Answer<void> use_made() {
    const std::vector<D3DKMT_HANDLE> made = std::exchange(made_, {});
    if (made.empty()) return {};
    for (const D3DKMT_HANDLE handle : made) {
      const Result<vidmm::Placement> place =
          bench_.exercise().memory().page_in(client_.process(), handle);
      if (!place.has_value() && place.error() != Status::kNoMemory &&
          place.error() != Status::kGraphicsNoVideoMemory) {
        return std::unexpected(fmt::format("an accepted allocation could not be brought in: {}",
                                           status_text(place.error())));
      }
    }
    const Answer<Data> data = code_.pack_context(0);
    if (!data) return std::unexpected(data.error());
    Answer<ClientContext> context = client_.create_context(device_, 0, *data);
    if (!context) return std::unexpected(context.error());
    const Answer<std::unique_ptr<Job>> job =
        Job::create(bench_, client_, device_, bench_.random(), 0);
    if (!job) return std::unexpected(job.error());
    DXGKIT_VERIFY_TRY((*job)->submit(*context));
    DXGKIT_VERIFY_TRY(client_.wait_idle(device_));
    if (const Answer<void> right = (*job)->check(); !right) {
      report_result(bench_, "Beside allocations with unusual private data: " + right.error());
      return right;
    }
    DXGKIT_VERIFY_TRY((*job)->destroy());
    DXGKIT_VERIFY_TRY(client_.destroy_context(context->handle));
    for (const D3DKMT_HANDLE handle : made) {
      if (const Status out = bench_.exercise().memory().page_out(client_.process(), handle);
          !is_success(out)) {
        return std::unexpected(
            fmt::format("an accepted allocation could not be evicted: {}", status_text(out)));
      }
    }
    return client_.destroy_allocations(device_, made);
  }

  Answer<void> contexts(uint32_t node) {
    const Answer<Data> packed = code_.pack_context(node);
    if (!packed) return std::unexpected(packed.error());
    const Answer<std::vector<Data>> all = with_examples(DXGKIT_CLIENT_DATA_CONTEXT, {*packed});
    if (!all) return std::unexpected(all.error());
    KnownData known;
    for (const Data& data : *all) {
      if (data.empty()) continue;
      for (const Spoilt& one : spoil(data, known)) {
        ClientContext context;
        const auto send = [&](Data& sent) {
          return client_.try_create_context(device_, node, sent, &context);
        };
        const uint64_t mark = nt::memory_mark(bench_.kernel());
        const Answer<bool> taken = exchange(DXGKIT_CLIENT_DATA_CONTEXT, one, send);
        if (!taken) return std::unexpected(taken.error());
        if (*taken) {
          DXGKIT_VERIFY_TRY(client_.destroy_context(context.handle));
        } else {
          check_refusal(DXGKIT_CLIENT_DATA_CONTEXT, mark, one, send);
        }
      }
    }
    return {};
  }

  /// Only with an example: what a driver does at an escape that nobody sends is for no one to say.
  Answer<void> escapes(uint32_t kind) {
    const Answer<std::vector<Data>> all = with_examples(kind, {});
    if (!all) return std::unexpected(all.error());
    KnownData known;
    for (const Data& data : *all) {
      for (const Spoilt& one : spoil(data, known)) {
        const auto send = [&](Data& sent) {
          return client_.try_escape(device_, sent, kind == DXGKIT_CLIENT_DATA_HARDWARE_ESCAPE);
        };
        const uint64_t mark = nt::memory_mark(bench_.kernel());
        const Answer<bool> taken = exchange(kind, one, send);
        if (!taken) return std::unexpected(taken.error());
        if (*taken) {
          ++escapes_;
        } else {
          check_refusal(kind, mark, one, send);
        }
      }
    }
    return {};
  }

  static constexpr size_t kReported = 8;
  Bench& bench_;
  Plugin::Instance& code_;
  Client client_;
  D3DKMT_HANDLE device_ = 0;
  std::vector<D3DKMT_HANDLE> made_;  // accepted allocations that are not used yet
  size_t refused_ = 0, accepted_ = 0, escapes_ = 0, wrong_ = 0;
};

Outcome nearly_right(Bench& bench) {
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return Outcome::failed(code.error());
  Exchange exchange(bench, **code);
  const Answer<void> done = exchange.run();
  if (!done) return Outcome::failed(done.error());
  return exchange.wrong() == 0 ? Outcome::ok(exchange.text()) : Outcome::failed(exchange.text());
}

/// UMDRIVERPRIVATE with the size that the client asks with, and sizes beside it.
Outcome sizes(Bench& bench) {
  const DxgkitClient& functions = bench.plugin()->functions();
  const uint32_t right = functions.umd_private_bytes;
  if (right == 0) return Outcome::skipped("the client asks for no private data of the adapter");
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return Outcome::failed(code.error());
  size_t asked = 0, refused = 0, wrong = 0;
  Client client(bench, "umd private");
  if (const Answer<void> open = client.open_adapter(); !open) return Outcome::failed(open.error());
  const auto ask = [&](uint32_t bytes) -> std::optional<Data> {
    Data data(std::max(bytes, right));
    if (functions.fill_umd_private != nullptr) functions.fill_umd_private(data.data(), right);
    data.resize(bytes);
    const Data sent = data;
    ++asked;
    const Status status = from_ntstatus(client.query_umd_private(data));
    if (bench.running() && !bench.judge_adapter(**code, status, sent, data).empty()) ++wrong;
    if (is_success(status)) return data;
    ++refused;
    return std::nullopt;
  };
  const std::optional<Data> first = ask(right);
  if (!first) return Outcome::failed("the size that the client opened with is refused now");
  for (const uint32_t bytes : {uint32_t{1}, right / 2, right - 1, right, right + 1, right * 2}) {
    if (bytes == 0) continue;
    const std::optional<Data> answer = ask(bytes);
    if (!bench.running()) return Outcome::failed(fmt::format("it ended at {} bytes", bytes));
    if (answer && bytes >= right && !std::equal(first->begin(), first->end(), answer->begin())) {
      bench.findings().report(
          {.rule = "LIFE-17",
           .severity = verifier::Severity::kViolation,
           .ddi = "DxgkDdiQueryAdapterInfo",
           .actual = fmt::format("UMDRIVERPRIVATE with {} bytes begins otherwise than with {}.",
                                 bytes, right),
           .expected = "The same answer at each time, as far as there is room.",
           .fix = "Answer from what StartDevice found out once, and write each member."});
    }
  }
  if (wrong != 0) return Outcome::failed(fmt::format("{} answers are wrong", wrong));
  return Outcome::ok(fmt::format("{}, {} refused", counted(asked, "time"), refused));
}

constexpr Step kSteps[] = {
    {"umd-private-sizes", "ask for private data with nearly the right size", Step::Needs::kClient,
     sizes},
    {"nearly-right-data", "private data with one thing changed at a time", Step::Needs::kClient,
     nearly_right},
};

}  // namespace

Answer<void> judge_escapes(Bench& bench) {
  // What clients have left behind is paged out, and the driver may call a node busy until then.
  const runtime::TimeNs deadline = bench.runtime().now() + kUntilIdle;
  while (bench.running() && !bench.exercise().engines_are_idle()) {
    if (bench.runtime().now() >= deadline) return {};
    bench.runtime().sleep_for(runtime::kMillisecond);
  }
  if (!bench.running()) return {};
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return std::unexpected(code.error());
  Exchange exchange(bench, **code);
  DXGKIT_VERIFY_TRY(exchange.ask());
  if (exchange.wrong() != 0) return std::unexpected("an escape has a wrong answer");
  return {};
}

std::span<const Step> private_data_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
