#include "tools/dxgkit/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/spelling.h"
#include "tools/dxgkit/hang.h"
#include "tools/dxgkit/picture.h"
#include "tools/dxgkit/report.h"
#include "tools/dxgkit/view/notes.h"

namespace dxgkit::tool {
namespace {

std::string bytes_text(uint64_t bytes) {
  if (bytes >= uint64_t{1} << 30)
    return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
  if (bytes >= uint64_t{1} << 20)
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  if (bytes >= uint64_t{1} << 10)
    return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
  return fmt::format("{} bytes", bytes);
}

std::string time_text(runtime::DurationNs ns) {
  const double value = static_cast<double>(ns);
  if (ns >= runtime::kSecond) return fmt::format("{:.2f} s", value / 1e9);
  if (ns >= runtime::kMillisecond) return fmt::format("{:.1f} ms", value / 1e6);
  return fmt::format("{:.1f} us", value / 1e3);
}

/// The size of video memory, with its share of the working set unless it is the default quarter.
std::string video_memory_text(const Summary& summary) {
  const uint64_t vram = summary.config.vram_bytes;
  const uint64_t used = summary.plan.working_set_bytes;
  const bool large_pages = summary.config.model == MemoryModel::kLargePages;
  const uint64_t page_bytes = large_pages ? uint64_t{64} << 10 : kPageBytes;
  if (vram >= used / 4 && vram - used / 4 < page_bytes) return bytes_text(vram);
  return fmt::format("{}, {:.0f} % of the working set", bytes_text(vram),
                     100.0 * static_cast<double>(vram) / static_cast<double>(used));
}

struct Section {
  std::string title;
  std::vector<std::pair<std::string, std::string>> rows;
};

std::vector<Section> sections(const Summary& summary) {
  const Plan& plan = summary.plan;
  const dxgk::AdapterStatistics& s = summary.outcome.statistics;
  Section job{
      "Job",
      {{"driver", summary.config.driver_name},
       {"mode", summary.config.mode == Mode::kSim ? fmt::format("sim, seed {}", summary.config.seed)
                                                  : "os"},
       {"picture", fmt::format("{} x {}, {}", plan.width, plan.height,
                               bytes_text(uint64_t{plan.width} * plan.height * kPixelBytes))},
       {"tiles", fmt::format("{} of {} x {}", plan.tiles.size(), plan.tile_side, plan.tile_side)},
       {"working set", bytes_text(plan.working_set_bytes)},
       {"video memory", video_memory_text(summary)}}};
  if (summary.config.model.has_value())
    job.rows.insert(job.rows.begin() + 1, {"model", model_name(*summary.config.model)});
  if (summary.config.client_api == ClientApi::kUmd)
    job.rows.insert(job.rows.begin() + 1, {"clients", "callbacks of a user-mode driver"});
  Section gpu{"GPU work",
              {{"packets", fmt::format("{}", s.packets_submitted - s.packets_resubmitted)},
               {"submitted again", fmt::format("{}", s.packets_resubmitted)},
               {"of them paging", fmt::format("{}", s.paging_packets)},
               {"patch locations", fmt::format("{}", s.patch_locations)},
               {"interrupts", fmt::format("{}", s.interrupts)},
               {"fence signals", fmt::format("{}", s.sync_signals)}}};
  Section memory{"Memory",
                 {{"page-ins", fmt::format("{}, {}", s.page_ins, bytes_text(s.bytes_in))},
                  {"page-outs", fmt::format("{}, {}", s.page_outs, bytes_text(s.bytes_out))},
                  {"evictions", fmt::format("{}", s.evictions)},
                  {"fills", fmt::format("{}", s.fills)},
                  {"aperture maps", fmt::format("{}", s.aperture_maps)}}};
  Section time{"Time", {}};
  for (size_t stage = 0; stage < kStages; ++stage) {
    time.rows.emplace_back(kStageNames[stage], time_text(summary.outcome.job.stage_ns[stage]));
  }
  time.rows.emplace_back("all", time_text(summary.outcome.job.total_ns));
  std::vector<Section> all{job, gpu, memory, time};
  if (summary.config.verifier.has_value()) {
    Section verifier{"Verifier", {}};
    for (const auto& named : dxgk::kVerifierSwitchNames) {
      if ((summary.config.verifier->on >> static_cast<uint32_t>(named.which) & 1U) == 0) continue;
      verifier.rows.emplace_back(
          named.name,
          fmt::format("struck {}",
                      counted(s.verifier_strikes[static_cast<size_t>(named.which)], "time")));
    }
    all.push_back(std::move(verifier));
  }
  for (const dxgk::TimeoutReport& report : summary.outcome.timeouts)
    all.push_back({fmt::format("Timeout, event 0x{:X}", report.code), hang_rows(report)});
  if (!summary.outcome.adapters.empty()) {
    Section adapters{"Adapters", {}};
    for (size_t i = 0; i < summary.outcome.adapters.size(); ++i) {
      const AdapterOutcome& one = summary.outcome.adapters[i];
      adapters.rows.emplace_back(
          fmt::format("{}: {}", i + 1, one.device),
          fmt::format("{}, {}, {}; {}",
                      counted(one.statistics.packets_submitted - one.statistics.packets_resubmitted,
                              "packet"),
                      counted(one.statistics.evictions, "eviction"), time_text(one.job.total_ns),
                      summary.results[i]));
    }
    all.push_back(std::move(adapters));
  }
  if (!summary.config.power.empty()) {
    Section power{"Power", {}};
    for (const PowerDone& done : summary.outcome.power) {
      const std::string name =
          fmt::format("{} at {}", power_step_name(done.planned.step), done.packets);
      const dxgk::PowerOutcome& o = done.outcome;
      if (done.planned.step == PowerStep::kRemove) {
        power.rows.emplace_back(name, "clients were told");
      } else if (is_success(done.status)) {
        power.rows.emplace_back(
            name,
            fmt::format("{} kept, {} written back ({}), {} dropped; {}", o.kept, o.written_back,
                        bytes_text(o.bytes_written_back), o.dropped, time_text(done.time_ns)));
      } else {
        power.rows.emplace_back(name, fmt::format("{}", status_name(done.status)));
      }
    }
    const size_t left = summary.config.power.size() - summary.outcome.power.size();
    if (left != 0) power.rows.emplace_back("not reached", fmt::format("{}", left));
    all.push_back(std::move(power));
  }
  return all;
}

}  // namespace

std::vector<std::string> compare_adapters(const Plan& plan, const SessionOutcome& outcome,
                                          const Picture& expected) {
  std::vector<std::string> results;
  for (const AdapterOutcome& one : outcome.adapters) {
    results.push_back(!one.error().empty() ? one.error()
                      : one.speaks         ? compare(plan, one.job, expected)
                                           : one.no_client.text);
  }
  return results;
}

std::string sum_up(const SessionOutcome& outcome, const std::vector<std::string>& results) {
  const auto same = [&](const std::string& result) { return result == results.front(); };
  if (std::ranges::all_of(results, same))
    return fmt::format("{} on all {}", results.front(), counted(results.size(), "adapter"));
  std::string text;
  for (size_t i = 0; i < results.size(); ++i)
    text += fmt::format("{}adapter {} ({}): {}", i == 0 ? "" : "; ", i + 1,
                        outcome.adapters[i].device, results[i]);
  return text;
}

bool none_got_work(const SessionOutcome& outcome) {
  if (outcome.adapters.empty())
    return outcome.kind == SessionOutcome::Kind::kNoClient && !outcome.no_client.compared;
  return std::ranges::none_of(outcome.adapters, [](const AdapterOutcome& one) {
    return one.speaks || one.no_client.compared;
  });
}

bool all_went_well(const SessionOutcome& outcome, const std::vector<std::string>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const AdapterOutcome& one = outcome.adapters[i];
    if (!one.error().empty()) return false;
    if (one.speaks && !results[i].starts_with("identical")) return false;
  }
  return true;
}

std::string compare(const Plan& plan, const JobResult& job, const Picture& expected) {
  if (job.picture.width != expected.width || job.picture.height != expected.height) {
    return fmt::format("DIFFERENT from CPU reference: {} x {} pixels instead of {} x {}",
                       job.picture.width, job.picture.height, expected.width, expected.height);
  }
  size_t wrong_sums = 0;
  uint64_t wrong_pixels = 0;
  std::string first;
  for (size_t i = 0; i < plan.tiles.size(); ++i) {
    const Rect& part = plan.tiles[i].result;
    if (job.checksums[i] != reference_checksum(expected, part)) ++wrong_sums;
    for (uint32_t y = part.y; y < part.y + part.height; ++y) {
      for (uint32_t x = part.x; x < part.x + part.width; ++x) {
        const size_t at = y * expected.pitch() + size_t{x} * kPixelBytes;
        if (std::equal(&expected.pixels[at], &expected.pixels[at] + kPixelBytes,
                       &job.picture.pixels[at]))
          continue;
        if (wrong_pixels++ == 0) first = fmt::format(", first at ({}, {}) in tile {}", x, y, i);
      }
    }
  }
  if (wrong_pixels == 0 && wrong_sums == 0) return "identical to CPU reference";
  return fmt::format("DIFFERENT from CPU reference: {} pixels{}; {} of {} tile checksums wrong",
                     wrong_pixels, first, wrong_sums, plan.tiles.size());
}

std::string to_text(const Summary& summary) {
  std::string text;
  for (const Section& section : sections(summary)) {
    text += section.title + "\n";
    for (const auto& [name, value] : section.rows)
      text += fmt::format("  {:<28} {}\n", name, value);
  }
  return text + fmt::format("result: {}\n", summary.result);
}

nlohmann::ordered_json to_json(const Summary& summary) {
  const dxgk::AdapterStatistics& s = summary.outcome.statistics;
  nlohmann::ordered_json json;
  json["result"] = summary.result;
  json["driver"] = summary.config.driver_name;
  json["interface_version"] = summary.outcome.interface_version;
  if (summary.config.model.has_value()) json["model"] = model_name(*summary.config.model);
  json["client_api"] = summary.config.client_api == ClientApi::kUmd ? "umd" : "d3dkmt";
  json["mode"] = summary.config.mode == Mode::kSim ? "sim" : "os";
  json["seed"] = summary.config.seed;
  json["width"] = summary.plan.width;
  json["height"] = summary.plan.height;
  json["tiles"] = summary.plan.tiles.size();
  json["tile_side"] = summary.plan.tile_side;
  json["working_set_bytes"] = summary.plan.working_set_bytes;
  json["vram_bytes"] = summary.config.vram_bytes;
  json["packets"] = s.packets_submitted - s.packets_resubmitted;
  json["packets_resubmitted"] = s.packets_resubmitted;
  json["paging_packets"] = s.paging_packets;
  json["packets_completed"] = s.packets_completed;
  json["packets_cancelled"] = s.packets_cancelled;
  json["packets_faulted"] = s.packets_faulted;
  json["patch_locations"] = s.patch_locations;
  json["interrupts"] = s.interrupts;
  json["fence_signals"] = s.sync_signals;
  json["page_ins"] = s.page_ins;
  json["page_in_bytes"] = s.bytes_in;
  json["page_outs"] = s.page_outs;
  json["page_out_bytes"] = s.bytes_out;
  json["evictions"] = s.evictions;
  json["fills"] = s.fills;
  json["aperture_maps"] = s.aperture_maps;
  json["splits"] = s.splits;
  json["multipass_renders"] = s.multipass_renders;
  json["multipass_paging"] = s.multipass_paging;
  if (summary.config.verifier.has_value()) {
    nlohmann::ordered_json strikes = nlohmann::ordered_json::object();
    for (const auto& named : dxgk::kVerifierSwitchNames) {
      if ((summary.config.verifier->on >> static_cast<uint32_t>(named.which) & 1U) != 0)
        strikes[std::string(named.name)] = s.verifier_strikes[static_cast<size_t>(named.which)];
    }
    json["verifier"] = strikes;
  }
  nlohmann::ordered_json stages;
  for (size_t stage = 0; stage < kStages; ++stage)
    stages[kStageNames[stage]] = summary.outcome.job.stage_ns[stage];
  json["stage_ns"] = stages;
  json["total_ns"] = summary.outcome.job.total_ns;
  if (!summary.config.power.empty()) {
    nlohmann::ordered_json power = nlohmann::ordered_json::array();
    for (const PowerDone& done : summary.outcome.power) {
      power.push_back({{"step", power_step_name(done.planned.step)},
                       {"planned_at", done.planned.packets},
                       {"packets", done.packets},
                       {"status", status_name(done.status)},
                       {"kept", done.outcome.kept},
                       {"written_back", done.outcome.written_back},
                       {"bytes_written_back", done.outcome.bytes_written_back},
                       {"dropped", done.outcome.dropped},
                       {"time_ns", done.time_ns}});
    }
    json["power"] = power;
  }
  if (!summary.outcome.timeouts.empty() || summary.config.hang.has_value())
    json["timeouts"] = hang_json(summary.outcome.timeouts);
  if (!summary.outcome.adapters.empty()) {
    nlohmann::ordered_json adapters = nlohmann::ordered_json::array();
    for (size_t i = 0; i < summary.outcome.adapters.size(); ++i) {
      const AdapterOutcome& one = summary.outcome.adapters[i];
      adapters.push_back(
          {{"device", one.device},
           {"result", summary.results[i]},
           {"packets", one.statistics.packets_submitted - one.statistics.packets_resubmitted},
           {"packets_completed", one.statistics.packets_completed},
           {"evictions", one.statistics.evictions},
           {"page_in_bytes", one.statistics.bytes_in},
           {"page_out_bytes", one.statistics.bytes_out},
           {"interrupts", one.statistics.interrupts},
           {"total_ns", one.job.total_ns}});
    }
    json["adapters"] = adapters;
  }
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const verifier::Finding& finding : summary.outcome.findings) {
    findings.push_back(nlohmann::ordered_json::parse(verifier::to_json(finding)));
  }
  json["findings"] = findings;
  if (!summary.outcome.before.empty()) json["before"] = summary.outcome.before;
  return json;
}

/// The last pictures of the screen, with at most kFrameSideMost pixels a side, as the page reads
/// them.
static nlohmann::ordered_json screen_frames(const SessionOutcome& outcome) {
  constexpr size_t kFramesMost = 24;
  constexpr uint32_t kFrameSideMost = 640;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const size_t count = std::min(outcome.frames.size(), outcome.frame_times.size());
  for (size_t i = count - std::min(count, kFramesMost); i < count; ++i) {
    const Picture& frame = outcome.frames[i];
    const auto png = encode_png(smaller(frame, kFrameSideMost));
    if (!png.has_value()) continue;
    list.push_back({{"program", "the screen"},
                    {"number", i + 1},
                    {"time_ns", outcome.frame_times[i]},
                    {"width", frame.width},
                    {"height", frame.height},
                    {"picture", data_url("image/png", *png)}});
  }
  return list;
}

nlohmann::ordered_json to_report_run(const Summary& summary) {
  nlohmann::ordered_json run;
  run["result"] = summary.result;
  run["driver"] = summary.config.driver_name;
  run["sections"] = nlohmann::ordered_json::array();
  for (const Section& section : sections(summary)) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const auto& [name, value] : section.rows) rows.push_back({name, value});
    run["sections"].push_back({{"title", section.title}, {"rows", rows}});
  }
  run["findings"] = findings_for_page(summary.outcome.findings);
  run["frames"] = screen_frames(summary.outcome);
  return run;
}

}  // namespace dxgkit::tool
