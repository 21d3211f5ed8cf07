// The exporters, on small recordings whose story is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <set>

#include "trace/story.h"
#include "trace/trace.h"

namespace dxgkit::trace {
namespace {

using testing::HasSubstr;

Event at(int64_t time, EventKind kind, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0,
         uint64_t d = 0, uint16_t node = kNoNode, uint32_t thread = 0) {
  return {.time_ns = time,
          .thread = thread,
          .kind = static_cast<uint16_t>(kind),
          .node = node,
          .a = a,
          .b = b,
          .c = c,
          .d = d};
}

/// One packet completes, a second is preempted, resubmitted and faults, a third never leaves its
/// queue.
Recording packets() {
  Recording r;
  r.names = {"DxgkDdiPatch", "DxgkCbNotifyInterrupt", "Render <1>", "SUB-13"};
  r.threads = {"main", "worker \"x\""};
  r.events = {
      at(100, EventKind::kObjectName, 7, 2, 1),
      at(100, EventKind::kSegment, 0, 1, 4096, 1 << 20),
      at(100, EventKind::kObjectName, 9, 2, 2),
      at(100, EventKind::kAllocationCreated, 50, 9, 0, 8192),
      at(105, EventKind::kBudget, 9, 1, 65536, 8192),
      at(110, EventKind::kPacketQueued, 1, 7, 2, 0, 0),
      at(111, EventKind::kPlaced, 50, 1, 4096, 8192),
      at(112, EventKind::kPacketReady, 1, 7, 0, 0, 0),
      at(113, EventKind::kDdiEnter, 0, 0, 0, 0, 0),
      at(114, EventKind::kCallbackEnter, 1, 2),
      at(114, EventKind::kCallbackExit, 1, 1),
      at(116, EventKind::kDdiExit, 0, 0xC000000D, 0),
      at(117, EventKind::kPacketPatched, 1, 7, 3, 0, 0),
      // The device starts before the submitting thread has said so.
      at(118, EventKind::kHardwareStart, 0, 0, 1, 0, 0, 1),
      at(119, EventKind::kPacketSubmitted, 1, 7, 1, 0, 0),
      at(119, EventKind::kPacketQueued, 2, 7, 2, 0, 0),
      at(120, EventKind::kPacketSubmitted, 2, 7, 2, 1, 0),
      at(130, EventKind::kHardwareEnd, 0, 0, 1, 0, 0, 1),
      at(131, EventKind::kInterrupt, 1, 0, 1, 0, 0, 1),
      at(131, EventKind::kDpcQueued, 0, 0, 0, 0, 0, 1),
      at(132, EventKind::kHardwareStart, 0, 0, 2, 0, 0, 1),
      at(133, EventKind::kDpcRun, 0, 0, 0, 0, 0, 1),
      at(134, EventKind::kPacketCompleted, 1, 7, 1, 0, 0),
      at(140, EventKind::kHardwareEnd, 0, 0, 2, 0, 0, 1),
      at(141, EventKind::kPacketPreempted, 2, 7, 2, 0, 0),
      at(142, EventKind::kPacketSubmitted, 2, 7, 3, 0, 0),
      at(143, EventKind::kHardwareStart, 0, 0, 3, 0, 0, 1),
      at(144, EventKind::kPacketQueued, 3, 7, 2, 1, 0),
      at(150, EventKind::kHardwareEnd, 0, 0, 3, 0, 0, 1),
      at(151, EventKind::kPacketFaulted, 2, 7, 3, 0, 0),
      at(152, EventKind::kEvicted, 50, 1, 4096, 8192),
      at(153, EventKind::kFinding, 3, 2),
      at(160, EventKind::kHardwareStart, 0, 0, 99, 0, 0, 1),
      at(160, EventKind::kDdiEnter, 0, 0, 0, 0, 0),
  };
  return r;
}

TEST(Schema, EveryKindInUseHasANameAndTheTableIsInOrder) {
  std::set<std::string> names;
  uint16_t last = 0;
  for (const KindInfo& info : schema()) {
    EXPECT_GT(static_cast<uint16_t>(info.kind), last);
    last = static_cast<uint16_t>(info.kind);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(kind_info(last), &info);
  }
  EXPECT_EQ(kind_info(0), nullptr);
  EXPECT_EQ(kind_info(0xFFFF), nullptr);
  EXPECT_TRUE(kind_info(1)->arguments[0].is_name_id);
}

TEST(Text, OneStableLinePerEvent) {
  Recording r;
  r.names = {"DxgkDdiPatch", "a \"b\"\nc"};
  r.dropped = 2;
  r.events = {at(5, EventKind::kDdiEnter, 0, 2, 0, 0, 1),
              at(70, EventKind::kDdiExit, 0, 0xC000000D, 0), at(71, EventKind::kMarker, 1, 0, 9),
              at(71, EventKind::kMarker, 5)};
  r.events.push_back({.time_ns = 72, .thread = 4, .kind = 999, .node = kNoNode, .a = 1, .d = 2});
  EXPECT_EQ(to_text(r),
            "dropped 2\n"
            "           5 t0 ddi_enter node=1 name=\"DxgkDdiPatch\" irql=2 argument=0\n"
            "          70 t0 ddi_exit name=\"DxgkDdiPatch\" status=0xc000000d irql=0\n"
            "          71 t0 marker text=\"a \\x22b\\x22\\x0ac\" c=9\n"
            "          71 t0 marker text=\"name 5\"\n"
            "          72 t4 kind_999 a=1 d=2\n");
}

TEST(Report, TellsThePacketsStory) {
  const std::string json = to_report_json(packets());
  EXPECT_THAT(json,
              testing::StartsWith("{\"format\":\"dxgkit-report\",\"version\":1,\"start_ns\":100,"
                                  "\"duration_ns\":60,\"events\":34,\"dropped\":0,"
                                  "\"threads\":[\"main\",\"worker \\\"x\\\"\"],"
                                  "\"nodes\":{\"columns\":[\"node\",\"name\",\"busy_ns\"],"
                                  "\"rows\":[[0,null,27]]},"
                                  "\"contexts\":{\"columns\":[\"context\",\"name\",\"packets\","
                                  "\"process\",\"device\"],"
                                  "\"rows\":[[7,\"Render \\u003c1>\",3,null,null]]},"));
  EXPECT_THAT(json, HasSubstr("\"rows\":[[1,7,0,2,10,12,17,3,19,18,30,34,\"completed\",1,0],"
                              "[2,7,0,2,19,null,null,null,20,32,50,51,\"faulted\",2,0],"
                              "[3,7,0,2,44,null,null,null,null,null,null,null,\"pending\",0,1]]"));
  EXPECT_THAT(json, HasSubstr("\"rows\":[[1,0,7,0,1,19,18,30,34,\"completed\",0],"
                              "[2,0,7,0,2,20,32,40,41,\"preempted\",1],"
                              "[2,1,7,0,3,42,43,50,51,\"faulted\",0]]"));
  EXPECT_THAT(json, HasSubstr("\"hardware\":{\"columns\":[\"node\",\"fence\",\"start\",\"end\","
                              "\"packet\"],\"rows\":[[0,1,18,30,1],[0,2,32,40,2],[0,3,43,50,2],"
                              "[0,99,60,null,null]]}"));
  EXPECT_THAT(json, HasSubstr("\"interrupts\":{\"columns\":[\"time\",\"node\",\"type\",\"fence\","
                              "\"thread\"],\"rows\":[[31,0,1,1,1]]}"));
  EXPECT_THAT(json, HasSubstr("\"dpcs\":{\"columns\":[\"queued\",\"run\",\"node\",\"thread\"],"
                              "\"rows\":[[31,33,0,1]]}"));
  EXPECT_THAT(json, HasSubstr("[[0,0,\"ddi\",\"DxgkDdiPatch\",13,16,3221225485,0,0],"
                              "[0,1,\"callback\",\"DxgkCbNotifyInterrupt\",14,14,1,2,null],"
                              "[0,0,\"ddi\",\"DxgkDdiPatch\",60,null,null,0,0]]"));
  EXPECT_THAT(json, HasSubstr("\"rows\":[[\"ddi\",\"DxgkDdiPatch\",1,1,3,3,3,3,3],"
                              "[\"callback\",\"DxgkCbNotifyInterrupt\",1,0,0,0,0,0,0]]"));
  EXPECT_THAT(json, HasSubstr("\"segments\":{\"columns\":[\"segment\",\"base\",\"size\",\"peak\"],"
                              "\"rows\":[[1,4096,1048576,8192]]}"));
  EXPECT_THAT(json, HasSubstr("\"allocations\":{\"columns\":[\"allocation\",\"size\",\"created\","
                              "\"destroyed\",\"process\"],\"rows\":[[50,8192,0,null,9]]}"));
  EXPECT_THAT(json, HasSubstr("\"budgets\":{\"columns\":[\"time\",\"process\",\"group\","
                              "\"budget\",\"usage\"],\"rows\":[[5,9,1,65536,8192]]}"));
  EXPECT_THAT(json, HasSubstr("\"placements\":{\"columns\":[\"allocation\",\"segment\",\"offset\","
                              "\"size\",\"from\",\"to\"],\"rows\":[[50,1,4096,8192,11,52]]}"));
  EXPECT_THAT(json, HasSubstr("\"usage\":{\"columns\":[\"segment\",\"time\",\"bytes\"],"
                              "\"rows\":[[1,11,8192],[1,52,0]]}"));
  EXPECT_THAT(json, HasSubstr("\"findings\":{\"columns\":[\"time\",\"rule\",\"severity\","
                              "\"thread\"],\"rows\":[[53,\"SUB-13\",2,0]]}"));
}

// Causes have tables of their own, and a refused call has what was noted inside it.
TEST(Report, TellsCauses) {
  Recording r;
  r.names = {"D3DKMTLock", "DxgkDdiCreateAllocation", "D3DKMTCreateAllocation"};
  r.events = {
      at(1, EventKind::kContextOwner, 7, 9, 0x40000040),
      at(2, EventKind::kPacketQueued, 1, 7),
      at(3, EventKind::kEvicted, 50, 1, 4096, 8192),
      at(3, EventKind::kWhyEvicted, 50, 1, 51, 1),
      at(4, EventKind::kWhyEvicted, 52, 1, 51, 1),  // the eviction is not in the recording
      at(5, EventKind::kWhyBusy, 1, 7, 1, 51),
      at(6, EventKind::kThunkEnter, 0, 9),
      at(6, EventKind::kWhyRefused, 4, 0x40000080, 4, 1),
      at(7, EventKind::kThunkExit, 0, 0xC000000D),
      at(8, EventKind::kThunkEnter, 2, 9),
      at(8, EventKind::kDdiEnter, 1),
      at(9, EventKind::kDdiExit, 1, 0xC0000017),
      at(9, EventKind::kThunkExit, 2, 0xC0000017),
      at(10, EventKind::kThunkEnter, 0, 9),
      at(10, EventKind::kWhyRefused, 3, 5, 4, 0),  // it went on another way
      at(11, EventKind::kThunkExit, 0, 0),
      at(12, EventKind::kWhyDeviceLost, 9, 0x40000040, 3),
      at(12, EventKind::kWhyDeviceLost, 8, 0x40000040, 4),  // closed
  };
  r.events.push_back({.time_ns = 13,
                      .kind = static_cast<uint16_t>(EventKind::kWhyPreempted),
                      .node = 2,
                      .a = 1,
                      .b = 7,
                      .c = 1,
                      .d = 12});
  r.events.push_back({.time_ns = 14,
                      .kind = static_cast<uint16_t>(EventKind::kWhyTimeout),
                      .node = 2,
                      .a = 1,
                      .b = 7,
                      .c = 11,
                      .d = 12});
  const std::string json = to_report_json(r);
  EXPECT_THAT(json, HasSubstr("\"rows\":[[7,null,1,9,1073741888]]"));
  EXPECT_THAT(json, HasSubstr("\"evictions\":{\"columns\":[\"time\",\"allocation\",\"segment\","
                              "\"offset\",\"size\",\"reason\",\"for_allocation\","
                              "\"for_packet\"],\"rows\":[[2,50,1,4096,8192,1,51,1]]}"));
  EXPECT_THAT(json, HasSubstr("\"allocation\"],\"rows\":[[4,1,7,1,51]]}"));
  EXPECT_THAT(json, HasSubstr("\"fence\"],\"rows\":[[12,2,1,7,1,12]]}"));
  EXPECT_THAT(json, HasSubstr("\"preemption\"],\"rows\":[[13,2,1,7,11,12]]}"));
  EXPECT_THAT(json, HasSubstr("\"state\"],\"rows\":[[11,9,1073741888,3]]}"));
  EXPECT_THAT(json,
              HasSubstr("\"ddi_status\"],\"rows\":[[5,6,0,\"D3DKMTLock\",9,3221225485,4,"
                        "1073741952,4,1,null,null],[7,8,0,\"D3DKMTCreateAllocation\",9,3221225495,"
                        "null,null,null,null,\"DxgkDdiCreateAllocation\",3221225495]]}"));
}

// What is needed for the state at a moment: handles, addresses with the entries of page tables, and
// the packets of an engine that hangs. A view and entries belong to what their thread said before.
TEST(Report, HasHandlesAddressesAndHungPackets) {
  Recording r;
  r.events = {
      at(10, EventKind::kHandleOpened, 2, 0x40000000, 4, 77),
      at(11, EventKind::kHandleOpened, 2, 0x40000040, 1, 0),
      at(12, EventKind::kHandleClosed, 2, 0x40000000),
      at(12, EventKind::kHandleClosed, 2, 0x40000000),  // not open: ignored
      at(13, EventKind::kGpuVaSpace, 2, 30, 2, 0x909),
      at(14, EventKind::kGpuVaMapped, 2, 0x1000, 0x2000, 77),
      at(14, EventKind::kGpuVaMapped, 3, 0x5000, 0x1000, 78, kNoNode, 1),  // of another thread
      at(14, EventKind::kGpuVaView, 2, 0x3000, 1),
      at(15, EventKind::kPageTableWrite, 2, 0, 0x8000, 1),
      at(15, EventKind::kPageTableEntries, 9, 9, 9, 9, kNoNode, 1),  // no table on its thread
      at(15, EventKind::kPageTableEntries, 0x1000, 2, 40, uint64_t{1} << 32 | 0x21),
      at(16, EventKind::kPageTablesLost, 2),
      at(17, EventKind::kGpuVaFreed, 2, 0x1000, 0x2000),
      at(18, EventKind::kGpuVaSpaceEnded, 2),
      at(19, EventKind::kHungBuffer, 5, 1, 0x9000, 64, 3),
      at(19, EventKind::kHungPatch, 5, 8, 77, 0x100),
      at(19, EventKind::kHungBytes, 5, 16, 0x0807060504030201, 0x100F0E0D0C0B0A09),
  };
  const std::string json = to_report_json(r);
  EXPECT_THAT(json, HasSubstr("\"handles\":{\"columns\":[\"process\",\"handle\",\"type\",\"names\","
                              "\"from\",\"to\"],\"rows\":[[2,1073741824,4,77,0,2],"
                              "[2,1073741888,1,0,1,null]]}"));
  EXPECT_THAT(json, HasSubstr("\"index_bits\"],\"rows\":[[3,2,30,2,2313]]}"));
  EXPECT_THAT(json, HasSubstr("\"protection\"],\"rows\":[[4,2,\"mapped\",4096,8192,77,12288,1],"
                              "[7,2,\"freed\",4096,8192,null,null,null],"
                              "[8,2,\"ended\",0,0,null,null,null]]}"));
  EXPECT_THAT(json, HasSubstr("\"apart\"],\"rows\":[[5,2,0,1,32768,4096,2,40,33,1],"
                              "[6,2,null,null,null,null,null,null,null,null],"
                              "[8,2,null,null,null,null,null,null,null,null]]}"));
  EXPECT_THAT(json, HasSubstr("\"hung_buffers\":{\"columns\":[\"time\",\"node\",\"packet\","
                              "\"segment\",\"address\",\"bytes\"],\"rows\":[[9,3,5,1,36864,64]]}"));
  EXPECT_THAT(json, HasSubstr("\"allocation_offset\"],\"rows\":[[9,5,8,77,256]]}"));
  EXPECT_THAT(json, HasSubstr("[[9,5,16,\"100f0e0d0c0b0a090807060504030201\"]]"));
}

// Strings of a driver cannot break out of the JSON or of the page around it; numbers stay exact.
TEST(Report, SurvivesHostileNamesAndLargeNumbers) {
  Recording r;
  r.names = {"</script>\xFF\xE2\x82\x01\\\"\xE2\x82\xAC"};
  r.events = {at(1, EventKind::kMarker, 0), at(1, EventKind::kSyncSignal, 1, UINT64_MAX, 0)};
  const std::string json = to_report_json(r);
  EXPECT_THAT(json,
              HasSubstr("\"\\u003c/script>\\ufffd\\ufffd\\ufffd\\u0001\\\\\\\"\xE2\x82\xAC\""));
  EXPECT_THAT(json, HasSubstr("[0,\"signal\",1,\"18446744073709551615\",0]"));
  EXPECT_EQ(json.find('<'), std::string::npos);
  EXPECT_EQ(json.find('\n'), std::string::npos);
}

TEST(Report, AnEmptyRecordingIsStillAReport) {
  const std::string json = to_report_json({});
  EXPECT_THAT(json, HasSubstr("\"duration_ns\":0,\"events\":0"));
  EXPECT_THAT(json, HasSubstr("\"packets\":{\"columns\":["));
}

// A recording whose beginning was dropped, or whose calls were unwound, tells what it can.
TEST(Story, ToleratesMissingEnds) {
  Recording r;
  r.names = {"outer", "inner"};
  r.events = {
      at(1, EventKind::kDdiExit, 0, 0),               // its enter was lost
      at(2, EventKind::kPacketCompleted, 9, 1, 5),    // its queueing was lost
      at(3, EventKind::kHardwareEnd, 0, 0, 5, 0, 2),  // its start was lost
      at(4, EventKind::kEvicted, 3, 1, 0, 4096),      // its placement was lost
      at(5, EventKind::kDdiEnter, 0, 0),
      at(6, EventKind::kDdiEnter, 1, 0),
      at(7, EventKind::kDdiExit, 0, 0),  // unwinds the inner call
      at(8, EventKind::kHardwareStart, 0, 0, 6, 0, 2),
      at(9, EventKind::kHardwareStart, 0, 0, 7, 0, 2),  // the first never said it ended
  };
  const Story story = tell(r);
  ASSERT_EQ(story.calls.size(), 2u);
  EXPECT_EQ(story.calls[0].end, 7);
  EXPECT_EQ(story.calls[1].end, 7);
  EXPECT_EQ(story.calls[0].status, 0u);
  EXPECT_EQ(story.calls[1].status, std::nullopt);
  ASSERT_EQ(story.packets.size(), 1u);
  EXPECT_EQ(story.packets[0].outcome, Outcome::kCompleted);
  EXPECT_TRUE(story.usage.empty());
  ASSERT_EQ(story.busy.size(), 2u);
  EXPECT_EQ(story.busy[0].end, 9);
  EXPECT_EQ(story.busy[1].end, std::nullopt);
}

/// The Perfetto bytes as a reader sees them, parsed field by field.
struct ParsedTrack {
  std::string name;
  uint64_t parent = 0;
  bool is_counter = false;
  bool is_thread = false;
  bool is_process = false;
  std::vector<std::string> log;  // "[time name", "]time", "!time name", "=time value"
  std::vector<std::string> open;
};

class ParsedTrace {
 public:
  explicit ParsedTrace(const std::string& bytes) {
    protozero::pbf_reader trace(bytes);
    while (trace.next()) {
      EXPECT_EQ(trace.tag(), 1u);
      packet(trace.get_message());
    }
    EXPECT_TRUE(first_cleared_);
  }
  const ParsedTrack& track(const std::string& path) const {
    for (const auto& [uuid, each] : tracks_) {
      if (path_of(uuid) == path) return each;
    }
    ADD_FAILURE() << "no track " << path;
    static const ParsedTrack none;
    return none;
  }
  const std::map<uint64_t, ParsedTrack>& tracks() const { return tracks_; }

 private:
  std::string path_of(uint64_t uuid) const {
    const ParsedTrack& each = tracks_.at(uuid);
    return each.parent == 0 ? each.name : path_of(each.parent) + "/" + each.name;
  }
  void packet(protozero::pbf_reader packet) {
    int64_t time = -1;
    bool has_event = false;
    uint32_t sequence = 0;
    protozero::pbf_reader event;
    while (packet.next()) {
      switch (packet.tag()) {
        case 8:
          time = static_cast<int64_t>(packet.get_uint64());
          break;
        case 10:
          sequence = packet.get_uint32();
          break;
        case 11:
          event = packet.get_message();
          has_event = true;
          break;
        case 12:
          intern(packet.get_message());
          break;
        case 13: {
          const uint32_t flags = packet.get_uint32();
          if (!seen_any_) first_cleared_ = flags == 1;
          break;
        }
        case 60:
          describe(packet.get_message());
          break;
        default:
          ADD_FAILURE() << "unknown field " << packet.tag();
          packet.skip();
      }
    }
    seen_any_ = true;
    EXPECT_EQ(sequence, 1u);
    if (has_event) take(time, event);
  }
  void intern(protozero::pbf_reader interned) {
    while (interned.next(2)) {
      protozero::pbf_reader entry = interned.get_message();
      uint64_t iid = 0;
      std::string name;
      while (entry.next()) {
        if (entry.tag() == 1) {
          iid = entry.get_uint64();
        } else {
          name = entry.get_string();
        }
      }
      EXPECT_NE(iid, 0u);
      EXPECT_TRUE(names_.emplace(iid, name).second);
    }
  }
  void describe(protozero::pbf_reader descriptor) {
    uint64_t uuid = 0;
    ParsedTrack parsed;
    while (descriptor.next()) {
      switch (descriptor.tag()) {
        case 1:
          uuid = descriptor.get_uint64();
          break;
        case 2:
          parsed.name = descriptor.get_string();
          break;
        case 5:
          parsed.parent = descriptor.get_uint64();
          break;
        case 3:
          parsed.is_process = true;
          descriptor.skip();
          break;
        case 4:
          parsed.is_thread = true;
          descriptor.skip();
          break;
        case 8:
          parsed.is_counter = true;
          descriptor.skip();
          break;
        default:
          ADD_FAILURE() << "unknown field " << descriptor.tag();
          descriptor.skip();
      }
    }
    EXPECT_NE(uuid, 0u);
    EXPECT_TRUE(parsed.parent == 0 || tracks_.contains(parsed.parent));
    EXPECT_TRUE(tracks_.emplace(uuid, parsed).second) << "a track described twice";
  }
  void take(int64_t time, protozero::pbf_reader event) {
    EXPECT_GE(time, last_time_) << "packets are in order of time";
    last_time_ = time;
    int32_t type = 0;
    uint64_t uuid = 0;
    int64_t counter = -1;
    std::string name;
    while (event.next()) {
      switch (event.tag()) {
        case 9:
          type = event.get_enum();
          break;
        case 10:
          name = names_.at(event.get_uint64());
          break;
        case 11:
          uuid = event.get_uint64();
          break;
        case 30:
          counter = event.get_int64();
          break;
        case 4:
        case 47:
          event.skip();
          break;
        default:
          ADD_FAILURE() << "unknown field " << event.tag();
          event.skip();
      }
    }
    ASSERT_TRUE(tracks_.contains(uuid));
    ParsedTrack& on = tracks_.at(uuid);
    EXPECT_EQ(on.is_counter, type == 4);
    const std::string when = std::to_string(time);
    switch (type) {
      case 1:
        on.open.push_back(name);
        on.log.push_back("[" + when + " " + name);
        break;
      case 2:
        ASSERT_FALSE(on.open.empty()) << "an end without a begin on " << on.name;
        on.open.pop_back();
        on.log.push_back("]" + when);
        break;
      case 3:
        on.log.push_back("!" + when + " " + name);
        break;
      case 4:
        on.log.push_back("=" + when + " " + std::to_string(counter));
        break;
      default:
        ADD_FAILURE() << "type " << type;
    }
  }

  std::map<uint64_t, ParsedTrack> tracks_;
  std::map<uint64_t, std::string> names_;
  int64_t last_time_ = 0;
  bool seen_any_ = false;
  bool first_cleared_ = false;
};

TEST(Perfetto, DrawsTheKnownRecording) {
  const ParsedTrace trace(to_perfetto(packets()));
  using Log = std::vector<std::string>;
  EXPECT_TRUE(trace.track("dxgkit").is_process);
  EXPECT_TRUE(trace.track("dxgkit/main").is_thread);
  EXPECT_EQ(trace.track("dxgkit/main").log, (Log{"[113 DxgkDdiPatch", "[114 DxgkCbNotifyInterrupt",
                                                 "]114", "]116", "[160 DxgkDdiPatch", "]160"}));
  EXPECT_EQ(trace.track("dxgkit/Node 0/hardware").log,
            (Log{"[118 packet 1", "]130", "[132 packet 2", "]140", "[143 packet 2", "]150",
                 "[160 fence 99", "]160"}));
  EXPECT_EQ(trace.track("dxgkit/Node 0/hardware queue").log,
            (Log{"[119 packet 1", "]134", "[142 packet 2", "]151"}));
  EXPECT_EQ(trace.track("dxgkit/Node 0/hardware queue 2").log, (Log{"[120 packet 2", "]141"}));
  EXPECT_EQ(trace.track("dxgkit/Node 0/interrupts").log, (Log{"!131 interrupt type 1"}));
  EXPECT_EQ(trace.track("dxgkit/Node 0/DPCs").log, (Log{"!131 queued", "!133 run"}));
  EXPECT_EQ(trace.track("dxgkit/Context 7 Render <1>/software queue").log,
            (Log{"[110 packet 1", "]119", "[119 packet 2", "]120", "[144 packet 3", "]160"}));
  EXPECT_EQ(trace.track("dxgkit/Segment 1 placed").log, (Log{"=111 8192", "=152 0"}));
  EXPECT_EQ(trace.track("dxgkit/Adapter").log, (Log{"!153 finding SUB-13"}));
}

/// A small generator of event soup: nothing in it need make sense.
class Soup {
 public:
  explicit Soup(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t draw(uint64_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % bound;
  }
  Recording recording() {
    Recording r;
    r.names = {"one", "two", "three"};
    const auto kinds = schema();
    int64_t time = 0;
    for (int i = 0; i < 400; ++i) {
      time += static_cast<int64_t>(draw(3));
      const KindInfo& info = kinds[draw(kinds.size())];
      r.events.push_back(at(time, info.kind, draw(5), draw(4), draw(6), draw(9000),
                            draw(4) == 0 ? kNoNode : static_cast<uint16_t>(draw(3)),
                            static_cast<uint32_t>(draw(3))));
    }
    return r;
  }

 private:
  uint64_t state_;
};

/// A strict reader of JSON (RFC 8259) that keeps nothing but whether the text is well formed.
class JsonChecker {
 public:
  explicit JsonChecker(std::string_view text) : text_(text) {}
  bool well_formed() { return value() && at_ == text_.size(); }

 private:
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  bool string() {
    if (!take('"')) return false;
    while (at_ < text_.size() && text_[at_] != '"') {
      const auto byte = static_cast<unsigned char>(text_[at_++]);
      if (byte < 0x20) return false;
      if (byte != '\\') continue;
      if (take('u')) {
        for (int i = 0; i < 4; ++i) {
          if (at_ >= text_.size() || !std::isxdigit(static_cast<unsigned char>(text_[at_++]))) {
            return false;
          }
        }
      } else if (!take('"') && !take('\\')) {
        return false;
      }
    }
    return take('"');
  }
  bool number() {
    const size_t begin = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ > begin && (text_[begin] != '0' || at_ == begin + 1);
  }
  template <typename Element>
  bool sequence(char close, const Element& element) {
    if (take(close)) return true;
    do {
      if (!element()) return false;
    } while (take(','));
    return take(close);
  }
  bool value() {
    if (take('{')) {
      return sequence('}', [&] { return string() && take(':') && value(); });
    }
    if (take('[')) return sequence(']', [&] { return value(); });
    return word("null") || string() || number();
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Whatever the events are, slices on every track are paired and properly nested, and the bytes
// parse.
TEST(Perfetto, SlicesBalanceOnEveryTrackForAnyEvents) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Recording recording = Soup(seed).recording();
    const std::string bytes = to_perfetto(recording);
    EXPECT_EQ(bytes, to_perfetto(recording));
    const ParsedTrace trace(bytes);
    for (const auto& [uuid, track] : trace.tracks()) {
      EXPECT_TRUE(track.open.empty()) << track.name;
      // Only thread tracks nest; on the others slices follow one another.
      size_t depth = 0;
      for (const std::string& entry : track.log) {
        if (entry[0] == '[') ++depth;
        if (entry[0] == ']') --depth;
        EXPECT_TRUE(track.is_thread || depth <= 1) << track.name;
      }
    }
    const std::string json = to_report_json(recording);
    EXPECT_TRUE(JsonChecker(json).well_formed()) << json;
  }
}

}  // namespace
}  // namespace dxgkit::trace
