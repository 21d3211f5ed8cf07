#include "tests/sweep/known_lines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace dxgkit::sweep {
namespace {

constexpr const char* kFile = DXGKIT_SWEEP_FOLDER "/known_runs.txt";

/// "story kind DDI: text", by what is before the colon.
std::map<std::string, std::string> read() {
  std::map<std::string, std::string> lines;
  std::ifstream file(kFile);
  for (std::string line; std::getline(file, line);) {
    if (const size_t colon = line.find(": "); colon != std::string::npos)
      lines[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return lines;
}

}  // namespace

std::string KnownLine::text() const {
  return fmt::format("{}/{} {:016x}", running_, stopped_, trace::hash_of(facts_));
}

void compare_lines(const std::string& prefix, const KnownLines& lines) {
  std::map<std::string, std::string> known = read();
  if (std::getenv("DXGKIT_KEEP_RUNS") != nullptr) {
    std::erase_if(known, [&](const auto& line) { return line.first.starts_with(prefix); });
    for (const auto& [name, line] : lines) known[name] = line.text();
    std::ofstream file(kFile);
    for (const auto& [name, text] : known) file << name << ": " << text << "\n";
    EXPECT_TRUE(file.good());
    return;
  }
  std::erase_if(known, [&](const auto& line) { return !line.first.starts_with(prefix); });
  for (const auto& [name, line] : lines) {
    EXPECT_EQ(line.text(), known[name])
        << "\"" << name << "\" gives something else than " << kFile << " says. DXGKIT_SWEEP=\""
        << prefix << "K\" with DXGKIT_TEST_TRACES=FOLDER writes the "
        << "trace of point K, here and in the commit before; if the change is meant: run this "
        << "test with DXGKIT_KEEP_RUNS=1";
    known.erase(name);
  }
  for (const auto& [name, text] : known)
    ADD_FAILURE() << "\"" << name << "\" is in " << kFile << " and happens no more";
}

}  // namespace dxgkit::sweep
