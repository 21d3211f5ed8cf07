#include "tools/dxgkit/verify/step_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/dxgkit/finding_json.h"

namespace dxgkit::tool::verify {
namespace {

/// A driver may have written over the file, so a line may hold anything: then this throws.
void take_line(const nlohmann::json& line, StepLog::Content* content) {
  if (line.contains("begin")) {
    content->running = line.at("begin");
  } else if (line.contains("finding")) {
    content->of_running.push_back(finding_of(line.at("finding")));
  } else if (line.contains("deadlock")) {
    content->deadlocked = true;
  } else {
    StepResult step{.name = line.at("step"),
                    .title = line.at("title"),
                    .outcome = {.kind = static_cast<Outcome::Kind>(line.at("outcome").get<int>()),
                                .text = line.at("text"),
                                .before = line.at("before")},
                    .calls = line.at("calls"),
                    .findings = {},
                    .situations = line.at("situations")};
    for (const auto& finding : line.at("findings")) step.findings.push_back(finding_of(finding));
    content->steps.push_back(std::move(step));
    content->of_running.clear();
    content->running.clear();
  }
}

}  // namespace

StepLog::StepLog() : file_(memfd_create("steps", MFD_CLOEXEC)) {
  // Processes write at once. Without this two of them may take the same place in such a file.
  if (file_ >= 0) static_cast<void>(fcntl(file_, F_SETFL, O_APPEND));
}

StepLog::~StepLog() {
  if (file_ >= 0) close(file_);
}

void StepLog::write_line(nlohmann::json line) {
  line["seed"] = seed_;
  // One call for each line, which goes behind all others.
  const std::string text = line_of(line) + '\n';
  if (file_ >= 0) static_cast<void>(!write(file_, text.data(), text.size()));
}

void StepLog::begin(const char* step) { write_line({{"begin", step}}); }

void StepLog::add_deadlock() { write_line({{"deadlock", true}}); }

void StepLog::add(const verifier::Finding& finding) {
  write_line({{"finding", to_message(finding)}});
}

void StepLog::add(const StepResult& step) {
  nlohmann::json findings = nlohmann::json::array();
  for (const verifier::Finding& finding : step.findings) findings.push_back(to_message(finding));
  write_line({{"step", step.name},
              {"title", step.title},
              {"outcome", static_cast<int>(step.outcome.kind)},
              {"text", step.outcome.text},
              {"before", step.outcome.before},
              {"calls", step.calls},
              {"findings", findings},
              {"situations", step.situations}});
}

void StepLog::clear() {
  if (file_ < 0) return;
  static_cast<void>(!ftruncate(file_, 0));
}

std::map<uint64_t, StepLog::Content> StepLog::read() const {
  std::string text;
  char bytes[4096];
  for (off_t at = 0;;) {
    const ssize_t got = file_ < 0 ? 0 : pread(file_, bytes, sizeof bytes, at);
    if (got <= 0) break;
    text.append(bytes, static_cast<size_t>(got));
    at += got;
  }
  std::map<uint64_t, Content> by_seed;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const auto line = nlohmann::json::parse(text.begin() + static_cast<ptrdiff_t>(at),
                                            text.begin() + static_cast<ptrdiff_t>(end), nullptr,
                                            /*allow_exceptions=*/false);
    try {
      take_line(line, &by_seed[line.at("seed").get<uint64_t>()]);
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
  return by_seed;
}

}  // namespace dxgkit::tool::verify
