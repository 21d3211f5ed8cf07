// DXGKIT_REACHED_BY_TEST=FILE gets a line a test: its name, its microseconds, the mutants that it
// reached.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "probe.h"

namespace {

long long microseconds() { return std::clock() * 1'000'000LL / CLOCKS_PER_SEC; }

class Listener final : public testing::EmptyTestEventListener {
 public:
  explicit Listener(std::FILE* file) : file_(file) {}

  void OnTestStart(const testing::TestInfo&) override {
    std::memset(dxgkit_mutation::reached, 0, kIds);
    begin_ = microseconds();
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    std::fprintf(file_, "%s.%s %lld", info.test_suite_name(), info.name(), microseconds() - begin_);
    for (int id = 0; id < kIds; ++id)
      if (dxgkit_mutation::reached[id] != 0) std::fprintf(file_, " %d", id);
    std::fputc('\n', file_);
    std::fflush(file_);
  }

 private:
  static constexpr int kIds = 1 << 16;
  std::FILE* file_;
  long long begin_ = 0;
};

const bool listening = [] {
  const char* path = std::getenv("DXGKIT_REACHED_BY_TEST");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file != nullptr) testing::UnitTest::GetInstance()->listeners().Append(new Listener(file));
  return file != nullptr;
}();

}  // namespace
