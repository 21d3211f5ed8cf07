#include "tools/dxgkit/verify/content_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/spelling.h"
#include "vidmm/types.h"
#include "vidsch/scheduler.h"

namespace dxgkit::tool::verify {
namespace {

using trace::Event;
using trace::EventKind;

bool is(const Event& event, EventKind kind) { return event.kind == static_cast<uint16_t>(kind); }

/// So many moves are named, the last ones.
constexpr size_t kMovesNamed = 4;

class History {
 public:
  History(const trace::Recording& recording, const ContentQuestion& question)
      : names_(recording.names), question_(question) {
    const std::span<const Event> all(recording.events);
    // Numbers of processes begin anew in each machine.
    size_t begin = all.size();
    for (size_t i = 0; i < all.size(); ++i) {
      if (is(all[i], EventKind::kObjectName) && all[i].a == question.process &&
          all[i].c == static_cast<uint64_t>(trace::ObjectClass::kProcess) &&
          name(all[i].b) == question.process_name)
        begin = i;
      // Of all machines; the last one's count.
      if (is(all[i], EventKind::kSegment)) segments_.push_back(all[i]);
    }
    events_ = all.subspan(begin);
  }

  std::string text() {
    find_allocation();
    if (allocation_ == 0) return {};
    find_packets();
    const size_t ran = find_run();
    std::string text = packet_text();
    const std::string place = place_text(ran);
    const std::string before = moves_text(0, ran), after = moves_text(ran, events_.size());
    if (packets_.empty()) {
      if (before.empty()) return {};
      return "its memory was " + before;
    }
    if (!place.empty()) text += ", with this memory at " + place;
    if (!before.empty()) text += "; before that the memory was " + before;
    text += after.empty() ? "; nothing moved the memory afterwards"
                          : "; afterwards the memory was " + after;
    return text;
  }

 private:
  std::string_view name(uint64_t id) const {
    return id < names_.size() ? std::string_view(names_[id]) : std::string_view();
  }

  void find_allocation() {
    for (const Event& event : events_) {
      if (is(event, EventKind::kLocked) && event.thread == question_.thread) allocation_ = event.a;
    }
  }

  /// The packets that were queued inside the call that submitted the job.
  void find_packets() {
    uint64_t calls = 0;
    const Event* call = nullptr;
    for (const Event& event : events_) {
      if (is(event, EventKind::kThunkEnter) && event.b == question_.process &&
          (name(event.a) == "D3DKMTRender" || name(event.a) == "D3DKMTSubmitCommand") &&
          ++calls == question_.submission) {
        call = &event;
        continue;
      }
      if (call == nullptr || event.thread != call->thread) continue;
      if (is(event, EventKind::kThunkExit) && event.a == call->a) return;
      constexpr auto kPagingPacket = static_cast<uint64_t>(vidsch::PacketKind::kPaging);
      if (is(event, EventKind::kPacketQueued) && event.c != kPagingPacket)
        packets_.push_back(event.a);
    }
  }

  bool is_mine(const Event& event) const {
    return std::ranges::find(packets_, event.a) != packets_.end();
  }

  /// The number of the event with which the last packet of the job was on hardware first.
  size_t find_run() {
    size_t last = events_.size();
    std::set<uint64_t> seen;
    for (size_t i = 0; i < events_.size(); ++i) {
      const Event& event = events_[i];
      if (is(event, EventKind::kPacketPatched) && is_mine(event)) patches_ = event.c;
      if (is(event, EventKind::kPacketPreempted) && is_mine(event)) ++preempted_;
      if (!is(event, EventKind::kPacketSubmitted) || !is_mine(event)) continue;
      fence_ = event.c;
      node_ = event.node;
      if (seen.insert(event.a).second) last = i;
    }
    return last;
  }

  std::string packet_text() const {
    if (packets_.empty()) return {};
    std::string text = packets_.size() == 1
                           ? fmt::format("its packet {}", packets_.front())
                           : fmt::format("it was {}, the last, {},",
                                         counted(packets_.size(), "packet"), packets_.back());
    if (!node_.has_value()) return text + " was never submitted";
    text += fmt::format(" ran as fence {} of node {}", fence_, *node_);
    if (preempted_ != 0) text += ", after preemption";
    if (patches_.has_value())
      text += fmt::format(", patched at {} place{}", *patches_, *patches_ == 1 ? "" : "s");
    return text;
  }

  /// "0x43000 (segment 1)"
  std::string address_text(uint64_t segment, uint64_t offset) const {
    const auto found = std::ranges::find_if(segments_.rbegin(), segments_.rend(),
                                            [&](const Event& event) { return event.b == segment; });
    if (found == segments_.rend())
      return fmt::format("offset {:#x} of segment {}", offset, segment);
    return fmt::format("{:#x} (segment {})", found->c + offset, segment);
  }

  std::string place_text(size_t when) const {
    const Event* placed = nullptr;
    const Event* mapped = nullptr;
    for (const Event& event : events_.first(when)) {
      if (is(event, EventKind::kPlaced) && event.a == allocation_) placed = &event;
      if (is(event, EventKind::kEvicted) && event.a == allocation_) placed = nullptr;
      if (is(event, EventKind::kGpuVaMapped) && event.d == allocation_) mapped = &event;
    }
    std::string text = placed != nullptr ? address_text(placed->b, placed->c) : "";
    if (mapped != nullptr)
      text += fmt::format("{}GPU virtual address {:#x}", text.empty() ? "" : ", ", mapped->b);
    return text;
  }

  /// "paged in to 0x43000 (segment 1), then paged out from there"; empty: nothing happened to it.
  std::string moves_text(size_t begin, size_t end) const {
    std::vector<std::string> moves;
    for (size_t i = begin; i < end; ++i) {
      const Event& event = events_[i];
      if (is(event, EventKind::kPagingOperation) && event.b == allocation_ &&
          event.a == static_cast<uint64_t>(vidmm::PagingOp::Kind::kFill))
        moves.emplace_back(fmt::format("filled with {} bytes", event.c));
      if (event.a != allocation_) continue;
      if (is(event, EventKind::kPageIn))
        moves.emplace_back("paged in to " + address_text(event.b, event.c));
      if (is(event, EventKind::kPageOut))
        moves.emplace_back("paged out from " + address_text(event.b, event.c));
      if (is(event, EventKind::kApertureMapped))
        moves.emplace_back("mapped into the aperture at " + address_text(event.b, event.c));
      if (is(event, EventKind::kApertureUnmapped))
        moves.emplace_back("unmapped from the aperture at " + address_text(event.b, event.c));
    }
    const size_t first = moves.size() > kMovesNamed ? moves.size() - kMovesNamed : 0;
    std::string text =
        first == 0 ? "" : fmt::format("moved {} time{}, then ", first, first == 1 ? "" : "s");
    for (size_t i = first; i < moves.size(); ++i) text += (i == first ? "" : ", then ") + moves[i];
    return text;
  }

  const std::vector<std::string>& names_;
  const ContentQuestion& question_;
  std::span<const Event> events_;
  std::vector<Event> segments_;
  uint64_t allocation_ = 0;
  std::vector<uint64_t> packets_;
  uint64_t fence_ = 0, preempted_ = 0;
  std::optional<uint16_t> node_;
  std::optional<uint64_t> patches_;
};

}  // namespace

std::string content_history(const trace::Recording& recording, const ContentQuestion& question) {
  return History(recording, question).text();
}

}  // namespace dxgkit::tool::verify
