#include "record/jobs.h"

#include <d3dkmthk.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/arithmetic.h"
#include "record/message.h"

namespace dxgkit::record {
namespace {

using Data = std::vector<std::byte>;

template <typename T>
T as(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

uint64_t number_in(const Data& data, size_t offset, size_t width) {
  uint64_t value = 0;
  std::memcpy(&value, data.data() + offset, width);
  return value;
}

/// One call with its messages taken apart.
class Parsed {
 public:
  explicit Parsed(const Call& call)
      : call_(call),
        request_(*read_request(call.request)),  // the reader of the file has looked
        reply_(*read_reply(request_, call.request, call.reply)) {}

  std::string_view name() const { return arguments::functions()[call_.function].name; }
  const std::vector<Block>& blocks() const { return request_.blocks; }
  const std::vector<wire::WindowNote>& windows() const { return reply_.windows; }

  std::span<const std::byte> sent(size_t block) const {
    const Block& one = request_.blocks[block];
    return std::span(call_.request).subspan(one.at, one.bytes);
  }
  /// As it came back; as it was sent if it did not.
  std::span<const std::byte> returned(size_t block) const {
    for (const Reply::Content& content : reply_.contents) {
      if (content.block == block) return content.bytes;
    }
    return sent(block);
  }
  template <typename T>
  T arguments() const {
    return as<T>(returned(0));
  }
  /// The first block that a member of this name leads to, from the given one on.
  std::optional<size_t> block(std::string_view name, size_t from = 1) const {
    for (size_t i = from; i < request_.blocks.size(); ++i) {
      const Block& one = request_.blocks[i];
      if (one.there && one.field != nullptr && name == one.field->name) return i;
    }
    return std::nullopt;
  }
  std::span<const std::byte> sent(std::string_view name) const {
    const auto found = block(name);
    return found ? sent(*found) : std::span<const std::byte>{};
  }
  std::span<const std::byte> note(arguments::Memory memory) const {
    for (const NoteAt& one : request_.notes) {
      if (static_cast<arguments::Memory>(one.note.memory) == memory)
        return std::span(call_.request).subspan(one.at, one.note.bytes);
    }
    return {};
  }

 private:
  const Call& call_;
  const Request request_;
  const Reply reply_;
};

template <typename T>
std::vector<T> list_of(std::span<const std::byte> bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), all.size() * sizeof(T));
  return all;
}

Data copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

/// Goes through the calls in the order in which they returned.
class Reading {
 public:
  Reading(const Recording& recording, uint64_t room) : recording_(recording), room_(room) {}

  Work read() {
    for (size_t i = 0; i < recording_.calls.size(); ++i) {
      const Call& call = recording_.calls[i];
      for (const Reached& fence : call.fences) reached(fence.owner, fence.value);
      if (!call.unrecorded.empty()) continue;
      for (const Bytes& bytes : call.memory) {
        if (bytes.seen == 0) move(bytes);
      }
      if (call.result < 0) continue;
      read_one(i, Parsed(call));
    }
    for (size_t i = 0; i < states_.size(); ++i) end_of_result(i);
    find_sizes();
    return std::move(work_);
  }

 private:
  /// What is known of an allocation while the calls go by.
  struct State {
    Data content;  // empty before its first lock
    bool known = true;
    bool plain = true;  // its creation can be repeated
    uint32_t locks = 0;
    std::optional<size_t> writer;  // the submission that wrote it last, until something else writes
    bool result_seen = false;
    std::vector<std::pair<size_t, size_t>> fresh_in;  // jobs that name it before its first lock
  };
  struct Context {
    uint32_t device = 0, node = 0;
    Data data;
  };
  struct Signal {
    uint32_t fence = 0;
    uint64_t value = 0;
    uint32_t context = 0;
    size_t submitted = 0;  // so many had been
  };
  struct Submitted {
    uint32_t context = 0;
    bool complete = false;
    std::optional<size_t> job;  // whose results are known once somebody has seen them
  };

  void read_one(size_t index, const Parsed& call) {
    const std::string_view name = call.name();
    if (name == "D3DKMTCreateAllocation" || name == "D3DKMTCreateAllocation2") {
      create(call);
    } else if (name == "D3DKMTCreateContext") {
      const auto args = call.arguments<D3DKMT_CREATECONTEXT>();
      contexts_[args.hContext] = {args.hDevice, args.NodeOrdinal,
                                  copy(call.sent("pPrivateDriverData"))};
    } else if (name == "D3DKMTQueryAdapterInfo") {
      if (call.arguments<D3DKMT_QUERYADAPTERINFO>().Type == KMTQAITYPE_UMDRIVERPRIVATE)
        work_.adapter = copy(call.sent("pPrivateDriverData"));
    } else if (name == "D3DKMTEscape") {
      const auto args = call.arguments<D3DKMT_ESCAPE>();
      Data data = copy(call.sent("pPrivateDriverData"));
      if (args.Type == D3DKMT_ESCAPE_DRIVERPRIVATE && args.Flags.Value == 0 && !data.empty() &&
          std::ranges::find(work_.escapes, data) == work_.escapes.end())
        work_.escapes.push_back(std::move(data));
    } else if (name == "D3DKMTRender") {
      render(index, call);
    } else if (name == "D3DKMTSignalSynchronizationObjectFromGpu") {
      signalled(call.arguments<D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU>().hContext, call);
    } else if (name == "D3DKMTSignalSynchronizationObjectFromGpu2") {
      for (const uint32_t context : list_of<uint32_t>(call.sent("BroadcastContextArray")))
        signalled(context, call);
    } else if (name == "D3DKMTWaitForIdle") {
      complete_all_of(call.arguments<D3DKMT_WAITFORIDLE>().hDevice);
    } else if (name == "D3DKMTWaitForSynchronizationObjectFromCpu" &&
               call.arguments<D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU>().hAsyncEvent ==
                   nullptr) {
      const auto fences = list_of<uint32_t>(call.sent("ObjectHandleArray"));
      const auto values = list_of<uint64_t>(call.sent("FenceValueArray"));
      const bool any =
          call.arguments<D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU>().Flags.WaitAny != 0;
      for (size_t i = 0; i < std::min(fences.size(), values.size()) && !(any && i > 0); ++i) {
        if (!any || fences.size() == 1) reached(fences[i], values[i]);
      }
    }
    look(recording_.calls[index], call);
    if (name == "D3DKMTUnlock2") unlock(call.arguments<D3DKMT_UNLOCK2>().hAllocation);
    if (name == "D3DKMTUnlock") {
      for (const uint32_t one : list_of<uint32_t>(call.sent("phAllocations"))) unlock(one);
    }
    if (name == "D3DKMTDestroyAllocation" || name == "D3DKMTDestroyAllocation2") {
      for (const uint32_t one : list_of<uint32_t>(call.sent("phAllocationList"))) forget(one);
    }
  }

  void create(const Parsed& call) {
    const auto args = call.arguments<D3DKMT_CREATEALLOCATION>();
    const auto list = call.name() == "D3DKMTCreateAllocation2" ? call.block("pAllocationInfo2")
                                                               : call.block("pAllocationInfo");
    if (!list) return;
    const Block& infos = call.blocks()[*list];
    // The private data of each element, breadth first: no other block has this name behind it.
    size_t data = *list;
    for (size_t at = 0; at + infos.element_bytes <= infos.bytes; at += infos.element_bytes) {
      do {
        ++data;
      } while (data < call.blocks().size() && call.blocks()[data].there &&
               std::string_view(call.blocks()[data].field->name) != "pPrivateDriverData");
      if (data >= call.blocks().size()) return;
      const auto handle = as<uint32_t>(call.returned(*list).subspan(at));
      State state;
      state.plain = call.sent(0).size() >= sizeof args && args.PrivateDriverDataSize == 0;
      if (call.name() == "D3DKMTCreateAllocation2")
        state.plain = state.plain &&
                      as<D3DDDI_ALLOCATIONINFO2>(call.sent(*list).subspan(at)).Flags.Value == 0;
      else
        state.plain =
            state.plain && as<D3DDDI_ALLOCATIONINFO>(call.sent(*list).subspan(at)).Flags.Value == 0;
      forget(handle);
      handles_[handle] = states_.size();
      states_.push_back(std::move(state));
      JobAllocation made;
      if (call.blocks()[data].there) {
        made.asked = copy(call.sent(data));
        made.made = copy(call.returned(data));
      }
      work_.allocations.push_back(std::move(made));
    }
  }

  void forget(uint32_t handle) {
    const auto found = handles_.find(handle);
    if (found == handles_.end()) return;
    end_of_result(found->second);
    handles_.erase(found);
  }

  /// Something else is about to change the allocation: what the program has seen is the result.
  void end_of_result(size_t allocation) {
    State& state = states_[allocation];
    const auto job =
        state.writer && state.result_seen ? submitted_[*state.writer].job : std::optional<size_t>();
    if (job) {
      for (Job::Memory& memory : work_.jobs[*job].allocations) {
        if (memory.allocation == allocation) keep(memory.after, state.content);
      }
    }
    state.writer.reset();
    state.result_seen = false;
  }

  void keep(std::optional<Data>& to, const Data& content) {
    if (content.size() > room_) return;
    room_ -= content.size();
    to = content;
  }

  void move(const Bytes& bytes) {
    const auto found = handles_.find(bytes.allocation);
    if (found == handles_.end()) return;
    State& state = states_[found->second];
    if (bytes.seen == 0) end_of_result(found->second);
    if (range_within(bytes.offset, bytes.bytes.size(), state.content.size()))
      std::memcpy(state.content.data() + bytes.offset, bytes.bytes.data(), bytes.bytes.size());
  }

  /// What the program sees after a call.
  void look(const Call& made, const Parsed& call) {
    for (const wire::WindowNote& note : call.windows()) {
      if (static_cast<arguments::Memory>(note.memory) != arguments::Memory::kLock) continue;
      const auto found = handles_.find(note.owner);
      if (found == handles_.end()) continue;
      State& state = states_[found->second];
      JobAllocation& allocation = work_.allocations[found->second];
      allocation.size_bytes = note.bytes;
      // A new window shows everything once more, and begins with zeros.
      if (state.locks == 0) show(state, note.bytes);
      if (!allocation.locked) {
        allocation.locked = true;
        for (const auto& [job, place] : state.fresh_in) {
          std::optional<Data>& before = work_.jobs[job].allocations[place].before;
          keep(before, Data(state.content.size()));
        }
        state.fresh_in.clear();
      }
      ++state.locks;
    }
    for (const Bytes& bytes : made.memory) {
      if (bytes.seen != 0) move(bytes);
    }
    const bool waits = call.name() == "D3DKMTWaitForIdle" ||
                       call.name() == "D3DKMTInvalidateCache" ||
                       call.name() == "D3DKMTWaitForSynchronizationObjectFromCpu";
    for (const auto& [handle, index] : handles_) {
      State& state = states_[index];
      const bool locked_now =
          std::ranges::any_of(call.windows(), [&](const wire::WindowNote& note) {
            return static_cast<arguments::Memory>(note.memory) == arguments::Memory::kLock &&
                   note.owner == handle;
          });
      if (!locked_now && !(waits && state.locks != 0)) continue;
      const bool complete = !state.writer || submitted_[*state.writer].complete;
      state.known = complete;
      if (state.writer && complete) state.result_seen = true;
    }
  }

  /// A recording may say anything: all that is shown has a limit.
  void show(State& state, uint64_t bytes) {
    shown_ -= state.content.size();
    state.content.clear();
    if (bytes > kMaxContent || bytes > kMaxShown - shown_) return;
    state.content.assign(bytes, std::byte{0});
    shown_ += bytes;
  }

  void unlock(uint32_t handle) {
    const auto found = handles_.find(handle);
    if (found != handles_.end() && states_[found->second].locks != 0)
      --states_[found->second].locks;
  }

  void render(size_t index, const Parsed& call) {
    const auto args = call.arguments<D3DKMT_RENDER>();
    const auto context = contexts_.find(args.hContext);
    Job job;
    job.call = index + 1;
    bool usable = context != contexts_.end() && args.CommandOffset == 0 &&
                  as<D3DKMT_RENDER>(call.sent(0)).Flags.NullRendering == 0;
    if (context != contexts_.end()) {
      job.node = context->second.node;
      job.context = context->second.data;
    }
    job.commands = copy(call.note(arguments::Memory::kCommands));
    job.patches = copy(call.note(arguments::Memory::kPatches));
    usable = usable && job.commands.size() == args.CommandLength;
    std::map<size_t, uint32_t> numbers;  // of allocations in the job
    for (const auto& one :
         list_of<D3DDDI_ALLOCATIONLIST>(call.note(arguments::Memory::kAllocations))) {
      JobUse use{.write = one.WriteOperation != 0};
      if (one.hAllocation != 0) {
        const auto found = handles_.find(one.hAllocation);
        if (found == handles_.end()) return;  // opened from elsewhere: nobody knows what it is
        const auto [number, added] =
            numbers.try_emplace(found->second, static_cast<uint32_t>(job.allocations.size()));
        if (added) job.allocations.emplace_back().allocation = found->second;
        use.allocation = number->second;
        job.allocations[use.allocation].written |= use.write;
        usable = usable && states_[found->second].plain;
      }
      job.uses.push_back(use);
    }
    submit(std::move(job), args.hContext, usable);
  }

  void submit(Job job, uint32_t context, bool usable) {
    const size_t number = work_.jobs.size();
    usable = usable && is_new(job);
    // What comes out is known only if all that went in is.
    const bool reproducible = std::ranges::all_of(
        job.allocations, [&](const Job::Memory& one) { return states_[one.allocation].known; });
    for (size_t place = 0; place < job.allocations.size(); ++place) {
      Job::Memory& memory = job.allocations[place];
      State& state = states_[memory.allocation];
      if (usable && state.known && !state.content.empty()) keep(memory.before, state.content);
      if (usable && state.known && state.content.empty())
        state.fresh_in.emplace_back(number, place);
      if (!memory.written) continue;
      end_of_result(memory.allocation);
      state.known = false;
      state.writer = submitted_.size();
    }
    submitted_.emplace_back().context = context;
    if (!usable) return;
    if (reproducible) submitted_.back().job = number;
    work_.jobs.push_back(std::move(job));
  }

  bool is_new(const Job& job) {
    Data key = job.commands;
    const auto add = [&key](const auto& value) {
      const auto bytes = std::as_bytes(std::span(&value, 1));
      key.insert(key.end(), bytes.begin(), bytes.end());
    };
    for (const JobUse& use : job.uses) {
      add(use.allocation);
      add(use.write);
    }
    for (const Job::Memory& one : job.allocations) {
      const Data& asked = work_.allocations[one.allocation].asked;
      key.insert(key.end(), asked.begin(), asked.end());
    }
    key.insert(key.end(), job.patches.begin(), job.patches.end());
    add(job.node);
    return known_jobs_.emplace(reinterpret_cast<const char*>(key.data()), key.size()).second;
  }

  void signalled(uint32_t context, const Parsed& call) {
    const auto fences = list_of<uint32_t>(call.sent("ObjectHandleArray"));
    const auto values = list_of<uint64_t>(call.sent("MonitoredFenceValueArray"));
    for (size_t i = 0; i < std::min(fences.size(), values.size()); ++i)
      signals_.push_back({fences[i], values[i], context, submitted_.size()});
  }

  /// The fence has at least this value: what stood before its signals is done.
  void reached(uint32_t fence, uint64_t value) {
    std::erase_if(signals_, [&](const Signal& signal) {
      if (signal.fence != fence || signal.value > value) return false;
      for (size_t i = 0; i < signal.submitted; ++i) {
        if (submitted_[i].context == signal.context) submitted_[i].complete = true;
      }
      return true;
    });
  }

  void complete_all_of(uint32_t device) {
    for (Submitted& one : submitted_) {
      const auto context = contexts_.find(one.context);
      if (context != contexts_.end() && context->second.device == device) one.complete = true;
    }
  }

  /// Where the size stands in one of the two private data of allocations.
  std::optional<SizeField> field_of(Data JobAllocation::*which, bool may_be_missing) const {
    std::set<size_t> lengths;
    for (const JobAllocation& one : work_.allocations) {
      if (one.locked) lengths.insert((one.*which).size());
    }
    for (const size_t length : lengths) {
      for (const size_t width : {size_t{8}, size_t{4}}) {
        for (size_t at = 0; at + width <= length; at += 4) {
          std::set<uint64_t> agree;
          bool differs = false;
          for (const JobAllocation& one : work_.allocations) {
            if (!one.locked || (one.*which).size() != length) continue;
            const uint64_t value = number_in(one.*which, at, width);
            // A lock shows whole pages.
            if (value != 0 && value <= one.size_bytes && one.size_bytes - value < kPageBytes)
              agree.insert(value);
            else if (!may_be_missing || value != 0)
              differs = true;
          }
          if (!differs && agree.size() >= 2) return SizeField{at, width, length};
        }
      }
    }
    return std::nullopt;
  }

  void find_sizes() {
    work_.asked_size = field_of(&JobAllocation::asked, true);
    const auto made = field_of(&JobAllocation::made, false);
    for (JobAllocation& one : work_.allocations) {
      if (made && one.made.size() == made->data_bytes)
        one.size_bytes = number_in(one.made, made->offset, made->width);
    }
  }

  static constexpr uint64_t kMaxContent = uint64_t{64} << 20, kMaxShown = uint64_t{1} << 30;

  const Recording& recording_;
  uint64_t room_;
  uint64_t shown_ = 0;  // bytes of content in all states
  Work work_;
  std::vector<State> states_;  // of work_.allocations
  std::map<uint32_t, size_t> handles_;
  std::map<uint32_t, Context> contexts_;
  std::vector<Submitted> submitted_;
  std::vector<Signal> signals_;
  std::set<std::string> known_jobs_;  // their bytes
};

}  // namespace

Work work_of(const Recording& recording, uint64_t content_bytes_max) {
  return Reading(recording, content_bytes_max).read();
}

}  // namespace dxgkit::record
