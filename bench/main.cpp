// dxgkit_bench [--out FILE] [Google Benchmark's options]: every line, ours beside its reference.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/harness.h"

namespace dxgkit::bench {
namespace {

constexpr int kRepetitions = 7;
constexpr double kSecondsPerRepetition = 0.15;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double in_unit(Unit unit, double nanoseconds, double operations) {
  switch (unit) {
    case Unit::kNanoseconds:
      return nanoseconds / operations;
    case Unit::kGigabytesPerSecond:
      return operations / nanoseconds;
    case Unit::kMillionsPerSecond:
      return operations / nanoseconds * 1e3;
    case Unit::kBytes:
    case Unit::kPercent:
      break;  // not from times
  }
  return 0;
}

const char* unit_name(Unit unit) {
  switch (unit) {
    case Unit::kNanoseconds:
      return "ns";
    case Unit::kGigabytesPerSecond:
      return "GB/s";
    case Unit::kMillionsPerSecond:
      return "M/s";
    case Unit::kBytes:
      return "B";
    case Unit::kPercent:
      return "%";
  }
  return "";
}

/// What is known of a line when it has run.
struct Measured {
  std::string name;
  Line line;  // sides and fixture dropped
  bool ran = false;
  std::vector<double> ours, reference;  // one per repetition
};

/// The repetition in the middle: by ratio, so that ours and reference are of the same moment.
struct Middle {
  double ours = 0, reference = 0, ratio = 0;
};
Middle middle_of(const Measured& measured) {
  if (measured.reference.empty()) return {.ours = median(measured.ours)};
  std::vector<Middle> all;
  all.reserve(measured.ours.size());
  for (size_t i = 0; i < measured.ours.size(); ++i) {
    all.push_back(
        {measured.ours[i], measured.reference[i], measured.ours[i] / measured.reference[i]});
  }
  std::ranges::sort(all, {}, &Middle::ratio);
  return all[all.size() / 2];
}

/// Alternates the two sides, batch by batch: what drifts hits both.
void run_line(runtime::Runtime& os, Line& line, benchmark::State& state) {
  std::vector<double> ours;
  std::vector<double> reference;
  const auto timed = [&](Side& side, std::vector<double>& samples) {
    side.warm();
    const runtime::TimeNs begin = os.now();
    double own = 0;
    if (side.own_time) {
      own = side.own_time();
    } else {
      side.batch();
    }
    const auto nanoseconds = static_cast<double>(std::max<runtime::TimeNs>(os.now() - begin, 1));
    samples.push_back(side.own_time ? own : nanoseconds);
    return nanoseconds;
  };
  bool ours_first = true;
  for (auto unused : state) {
    static_cast<void>(unused);
    double nanoseconds = 0;
    if (ours_first) nanoseconds += timed(line.ours, ours);
    if (line.reference) nanoseconds += timed(*line.reference, reference);
    if (!ours_first) nanoseconds += timed(line.ours, ours);
    ours_first = !ours_first;
    state.SetIterationTime(nanoseconds * 1e-9);
  }
  const auto figure = [&](const Side& side, std::vector<double> samples) {
    if (side.figure.has_value()) return *side.figure;
    return in_unit(line.unit, median(std::move(samples)), side.operations);
  };
  state.counters["ours"] = figure(line.ours, std::move(ours));
  if (line.reference) state.counters["reference"] = figure(*line.reference, std::move(reference));
}

/// Takes the repetitions out of Google Benchmark's hands; the table is ours.
class Collector : public benchmark::BenchmarkReporter {
 public:
  explicit Collector(Measured& measured) : measured_(measured) {}
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      const double ours = run.counters.at("ours").value;
      measured_.ours.push_back(ours);
      measured_.ran = true;
      if (const auto found = run.counters.find("reference"); found != run.counters.end()) {
        measured_.reference.push_back(found->second.value);
      }
    }
  }

 private:
  Measured& measured_;
};

std::optional<bool> met(const Measured& measured) {
  if (measured.line.goal == Goal::kNone || !measured.ran) return std::nullopt;
  if (measured.line.goal == Goal::kOursAtMost)
    return middle_of(measured).ours <= measured.line.target;
  if (measured.line.goal == Goal::kOursAtLeast)
    return middle_of(measured).ours >= measured.line.target;
  if (measured.reference.empty()) return std::nullopt;
  const double ratio = middle_of(measured).ratio;
  return measured.line.goal == Goal::kAtMost ? ratio <= measured.line.target
                                             : ratio >= measured.line.target;
}

std::string target_text(const Line& line) {
  switch (line.goal) {
    case Goal::kNone:
      return "";
    case Goal::kAtMost:
      return fmt::format("<= {:g}", line.target);
    case Goal::kAtLeast:
      return fmt::format(">= {:g}", line.target);
    case Goal::kOursAtMost:
      return fmt::format("<= {:g} {}", line.target, unit_name(line.unit));
    case Goal::kOursAtLeast:
      return fmt::format(">= {:g} {}", line.target, unit_name(line.unit));
  }
  return "";
}

void print(const Measured& measured) {
  const Line& line = measured.line;
  if (!measured.ran) {
    fmt::print("{:<32} {:>12} {:>12} {:>9} {:>8} {:>5}  {}\n", measured.name, "-", "-", "-",
               target_text(line), "-", line.unavailable);
    return;
  }
  const bool compared = !measured.reference.empty();
  const Middle middle = middle_of(measured);
  const std::optional<bool> answer = met(measured);
  const char* const unit = unit_name(line.unit);
  fmt::print("{:<32} {:>7.2f} {:<4} {:>12} {:>9} {:>8} {:>5}  {}\n", measured.name, middle.ours,
             unit, compared ? fmt::format("{:.2f} {:<4}", middle.reference, unit) : "-",
             compared ? fmt::format("{:.3f}", middle.ratio) : "-", target_text(line),
             answer.has_value() ? (*answer ? "yes" : "NO") : "-", line.what);
}

nlohmann::ordered_json to_json(const Measured& measured) {
  nlohmann::ordered_json entry;
  const bool compared = !measured.reference.empty();
  const Middle middle = measured.ran ? middle_of(measured) : Middle{};
  const auto number = [](bool known, double value) {
    return known ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  entry["name"] = measured.name;
  entry["ours"] = number(measured.ran, middle.ours);
  entry["reference"] = number(compared, middle.reference);
  entry["ratio"] = number(compared, middle.ratio);
  const std::string target = target_text(measured.line);
  entry["target"] =
      target.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(target);
  const std::optional<bool> answer = met(measured);
  entry["met"] =
      answer.has_value() ? nlohmann::ordered_json(*answer) : nlohmann::ordered_json(nullptr);
  entry["unit"] = unit_name(measured.line.unit);
  entry["what"] = measured.ran ? measured.line.what : measured.line.unavailable;
  return entry;
}

bool write_file(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written;
}

Measured measure(runtime::Runtime& os, const Maker& maker) {
  Measured measured;
  measured.name = maker.name;
  Line line = maker.make();
  if (line.unavailable.empty()) {
    benchmark::ClearRegisteredBenchmarks();
    benchmark::RegisterBenchmark(maker.name.c_str(),
                                 [&](benchmark::State& state) { run_line(os, line, state); })
        ->UseManualTime()
        ->MinTime(kSecondsPerRepetition)
        ->Repetitions(kRepetitions);
    Collector collector(measured);
    const OnFirstCore pinned;
    benchmark::RunSpecifiedBenchmarks(&collector);
    if (!measured.ran) line.unavailable = "not selected";
  }
  line.ours = {};
  line.reference.reset();
  line.fixture.reset();
  measured.line = std::move(line);
  return measured;
}

/// One entry per line, as the list of the file.
std::string json_text(const std::vector<Measured>& all) {
  std::string text = "[\n";
  for (size_t i = 0; i < all.size(); ++i) {
    text += to_json(all[i]).dump() + (i + 1 < all.size() ? ",\n" : "\n");
  }
  return text + "]\n";
}

/// In the order of the table.
std::vector<Maker> all_lines(runtime::Runtime& os) {
  std::vector<Maker> lines;
  add_submit_lines(os, lines);
  add_waiting_lines(os, lines);
  add_lavapipe_line(os, lines);
  add_patch_lines(lines);
  add_paging_lines(os, lines);
  add_loader_line(lines);
  add_va_lines(lines);
  add_map_line(os, lines);
  add_scale_lines(os, lines);
  add_vfio_user_line(os, lines);
  add_memory_lines(os, lines);
  add_evict_lines(os, lines);
  add_sched_lines(lines);
  add_core_lines(os, lines);
  add_sim_lines(lines);
  return lines;
}

}  // namespace
}  // namespace dxgkit::bench

int main(int argc, char** argv) {
  using namespace dxgkit::bench;
  std::string out;
  std::string only;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    if (std::strcmp(argv[i], "--out") == 0 && i + 1 < argc) {
      out = argv[++i];
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      only = argv[++i];  // lines whose name begins so
    } else {
      rest.push_back(argv[i]);
    }
  }
  int count = static_cast<int>(rest.size());
  rest.push_back(nullptr);
  benchmark::Initialize(&count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(count, rest.data())) return 2;

  std::vector<Measured> all;
  const auto os = dxgkit::runtime::make_os_runtime();
  os->run_main([&] {
    fmt::print("{:<32} {:>12} {:>12} {:>9} {:>8} {:>5}\n", "line", "ours", "reference", "ratio",
               "target", "met");
    for (const Maker& maker : all_lines(*os)) {
      if (!maker.name.starts_with(only)) continue;
      all.push_back(measure(*os, maker));
      print(all.back());
      std::fflush(stdout);
    }
  });
  if (out.empty()) return 0;
  if (!write_file(out, json_text(all))) {
    fmt::print(stderr, "dxgkit_bench: cannot write {}\n", out);
    return 1;
  }
  return 0;
}
