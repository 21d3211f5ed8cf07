// The output of to_text can be read back; other text is refused with its line.
#include <gtest/gtest.h>

#include <random>

#include "trace/trace.h"

namespace dxgkit::trace {
namespace {

Event at(int64_t time, EventKind kind, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0,
         uint64_t d = 0, uint16_t node = kNoNode) {
  return {.time_ns = time,
          .thread = 3,
          .kind = static_cast<uint16_t>(kind),
          .node = node,
          .a = a,
          .b = b,
          .c = c,
          .d = d};
}

TEST(ReadText, GivesBackEveryKindOfEvent) {
  Recording written;
  written.names = {"first \"name\"\n\x01\\", "second"};
  written.dropped = 7;
  int64_t time = 0;
  for (const KindInfo& info : schema()) {
    uint64_t values[4] = {};
    for (size_t i = 0; i < 4; ++i) {
      if (info.arguments[i].is_name_id) {
        values[i] = i % 2;
      } else {
        values[i] = info.arguments[i].name != nullptr ? UINT64_MAX - i : i;
      }
    }
    written.events.push_back(
        at(time, info.kind, values[0], values[1], values[2], values[3], time % 2 == 0 ? 1 : 9));
    ++time;
  }
  written.events.push_back({.time_ns = 99, .kind = 999, .a = 5, .d = 6});
  const std::string text = to_text(written);
  const auto read = from_text(text);
  ASSERT_TRUE(read.has_value()) << read.error();
  EXPECT_EQ(read->dropped, 7U);
  EXPECT_EQ(read->events.size(), written.events.size());
  EXPECT_EQ(to_text(*read), text);
}

TEST(ReadText, SaysWhichLineIsWrong) {
  const auto error = [](std::string_view text) {
    const auto read = from_text(text);
    return read.has_value() ? std::string() : read.error();
  };
  EXPECT_EQ(error(""), "");
  EXPECT_EQ(error("\n  \n"), "");
  EXPECT_EQ(error("# run {\"size\":-1}\n5 t1 dpc_run\n #"), "");  // comments
  EXPECT_EQ(error("5 t1 dpc_run\nx"),
            "line 2: 'x' is not a time in nanoseconds; this is not a trace as text");
  EXPECT_EQ(error("9223372036854775808 t1 dpc_run").substr(0, 7), "line 1:");
  EXPECT_EQ(error("5 1 dpc_run"), "line 1: '1' is not a thread like t5");
  EXPECT_EQ(error("5 t4294967296 dpc_run"), "line 1: 't4294967296' is not a thread like t5");
  EXPECT_EQ(error("5 t1 nonsense"), "line 1: 'nonsense' is no kind of event");
  EXPECT_EQ(error("5 t1 kind_70000"), "line 1: 'kind_70000' is no kind of event");
  EXPECT_EQ(error("5 t1 evicted size"), "line 1: 'size' is not an argument like node=1");
  EXPECT_EQ(error("5 t1 evicted size=-1"), "line 1: '-1' of 'size' is not a number below 2^64");
  EXPECT_EQ(error("5 t1 evicted packet=1"),
            "line 1: 'packet' is no argument of this kind of event");
  EXPECT_EQ(error("5 t1 evicted node=65536"), "line 1: there is no node 65536");
  EXPECT_EQ(error("5 t1 marker text=\"abc"), "line 1: the text of 'text' does not end");
  EXPECT_EQ(error("5 t1 marker text=\"\\xg0\""), "line 1: the text of 'text' does not end");
  EXPECT_EQ(error("dropped many"), "line 1: 'dropped' wants a number of events");
  EXPECT_EQ(error(std::string("\x0A\xB1\xFF")),
            "line 2: '?\?' is not a time in nanoseconds; this is not a trace as text");
}

TEST(ReadText, SurvivesWhatIsNoText) {
  Recording recording;
  recording.names = {"name"};
  recording.events = {at(5, EventKind::kGpuVaMapped, 1, 0x200000, 4096, 9),
                      at(6, EventKind::kDdiEnter, 0, 1, 2, 0, 3)};
  const std::string good = to_text(recording);
  std::mt19937_64 random(1);
  size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (uint64_t changes = random() % 4; changes-- != 0;)
      text[random() % text.size()] = static_cast<char>(random());
    text.resize(random() % 8 == 0 ? random() % text.size() : text.size());
    const auto read = from_text(text);
    if (!read.has_value()) {
      EXPECT_TRUE(read.error().starts_with("line ")) << read.error();
      continue;
    }
    ++accepted;
    const auto again = from_text(to_text(*read));  // what was accepted can be written
    ASSERT_TRUE(again.has_value()) << again.error();
  }
  EXPECT_GT(accepted, 1000U);
}

}  // namespace
}  // namespace dxgkit::trace
