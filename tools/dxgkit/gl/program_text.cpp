#include "tools/dxgkit/gl/program_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/spelling.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/picture.h"

namespace dxgkit::gl {

Rows program_rows(const std::vector<ProgramRecord>& programs) {
  Rows rows;
  for (const ProgramRecord& program : programs) {
    const SessionCounts& counts = program.counts;
    std::string text =
        fmt::format("{}, {}, {}, {}", counted(counts.frames, "frame"),
                    counted(counts.streams, "command stream"),
                    counted(counts.transfers, "transfer"), counted(counts.resources, "resource"));
    if (!program.wrong.empty()) text += "; lost its connection: " + program.wrong;
    rows.emplace_back(name_for_people(program.name), std::move(text));
  }
  return rows;
}

nlohmann::ordered_json programs_json(const std::vector<ProgramRecord>& programs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ProgramRecord& program : programs)
    list.push_back({{"name", program.name},
                    {"frames", program.counts.frames},
                    {"streams", program.counts.streams},
                    {"transfers", program.counts.transfers},
                    {"resources", program.counts.resources},
                    {"wrong", program.wrong}});
  return list;
}

int write_frame(const std::string& path, const std::vector<ProgramRecord>& programs) {
  const auto shown = std::ranges::max_element(
      programs, {}, [](const ProgramRecord& one) { return one.counts.frames; });
  std::optional<tool::Picture> picture;
  if (shown != programs.end() && shown->frame.has_value())
    picture = picture_of(*shown->frame, tool::kPictureSideMax);
  if (!picture.has_value()) {
    tool::say(stderr, "dxgkit: --frame: no program has shown a picture in a window\n");
    return tool::kExitFailed;
  }
  if (const auto written = tool::write_png(path, *picture); !written.has_value())
    return tool::not_written(written.error());
  return tool::kExitDone;
}

}  // namespace dxgkit::gl
