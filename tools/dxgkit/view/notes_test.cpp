// Notes behind a trace: what is written comes back, and hostile notes lose what a page could not
// show.
#include "tools/dxgkit/view/notes.h"

#include <gtest/gtest.h>

namespace dxgkit::tool {
namespace {

using nlohmann::ordered_json;

verifier::Finding finding() {
  verifier::Finding one{.rule = "PATCH-08",
                        .ddi = "DxgkDdiPatch",
                        .actual = "It wrote \xFF behind the buffer.",
                        .expected = "no write",
                        .fix = "Write less."};
  one.place.image = "mygpu.sys";
  one.place.symbol = "Patch+0x14";
  one.place.registers = "rax=00007f0000000000";
  one.place.stack = {"mygpu.sys+0x1a2c Patch+0x14"};
  return one;
}

TEST(Notes, WhatIsWrittenIsReadAndTheTraceStaysAsItWas) {
  const std::string trace = "           5 t1 dpc_run\n";
  const ordered_json frame = {{"program", "gears"}, {"picture", "data:image/png;base64,AA=="},
                              {"number", 3},        {"time_ns", int64_t{77}},
                              {"width", 4},         {"height", 2U}};
  const ordered_json run = {{"result", "failed"},
                            {"driver", "mygpu.sys"},
                            {"sections", {{{"title", "Times"}, {"rows", ordered_json::array()}}}},
                            {"findings", findings_for_page({finding()})},
                            {"frames", {frame}}};
  std::string text = trace + notes_line(run);
  EXPECT_EQ(text.find("rax="), std::string::npos);  // two runs with one seed have the same bytes
  EXPECT_EQ(text.find("Times"), std::string::npos);
  const ordered_json notes = take_notes(&text);
  EXPECT_EQ(text, trace);
  EXPECT_EQ(notes["result"], "failed");
  EXPECT_EQ(notes["driver"], "mygpu.sys");
  EXPECT_EQ(notes["findings"][0]["rule"], "PATCH-08");
  EXPECT_EQ(notes["findings"][0]["severity"], "violation");
  EXPECT_EQ(notes["findings"][0]["fix"], "Write less.");
  EXPECT_EQ(notes["findings"][0]["place"]["stack"][0], "mygpu.sys+0x1a2c Patch+0x14");
  EXPECT_EQ(notes["frames"][0], frame);
}

TEST(Notes, WithoutAnythingToSayThereIsNoLine) {
  EXPECT_EQ(notes_line(nullptr), "");
  EXPECT_EQ(notes_line({{"sections", ordered_json::array()}}), "");
  std::string text = "5 t1 dpc_run\n";
  EXPECT_EQ(take_notes(&text), ordered_json::object());
  EXPECT_EQ(text, "5 t1 dpc_run\n");
  text.clear();
  EXPECT_EQ(take_notes(&text), ordered_json::object());
}

TEST(Notes, HostileOnesLoseWhatAPageCannotShow) {
  const auto read = [](std::string line) {
    std::string text = "# run " + std::move(line);
    return take_notes(&text);
  };
  EXPECT_EQ(read("no json"), ordered_json::object());
  EXPECT_EQ(read("[1]"), ordered_json::object());
  EXPECT_EQ(read(std::string(100000, '[')), ordered_json::object());
  EXPECT_EQ(read(R"({"result":7,"driver":{},"findings":3,"frames":{"a":1},"rules":{}})"),
            ordered_json::object());
  const ordered_json one = read(
      R"({"findings":[1,{"rule":5,"before":[1,"x"],"place":{"stack":"s","source":[2,{"line":-1}]},"windows":{}}]})");
  EXPECT_EQ(one["findings"].dump(),
            R"([{"before":["x"],"place":{"stack":[],"source":[{"line":0}]}}])");
  const std::string numbers = R"("number":1,"time_ns":2,"width":3,"height":4)";
  for (const char* picture : {"https://example.org/a.png", "data:image/png;base64,\\\"><b>",
                              "data:text/html;base64,AA=="})
    EXPECT_EQ(read(std::string("{\"frames\":[{") + numbers + ",\"picture\":\"" + picture + "\"}]}"),
              ordered_json::object());
  EXPECT_EQ(
      read(
          R"({"frames":[{"number":1,"time_ns":-2,"width":3,"height":4,"picture":"data:image/png;base64,AA=="}]})"),
      ordered_json::object());
}

}  // namespace
}  // namespace dxgkit::tool
