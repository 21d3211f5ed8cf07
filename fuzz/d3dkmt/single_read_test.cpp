// A client may change its memory while the kernel looks at it. So the kernel reads each byte of a
// call once. Here a client changes every byte at the worst moment, which is right after it was
// read: the kernel must answer as if nobody had. This goes over all functions of the table, with
// the calls of hostile processes.
#include <d3dkmthk.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/guarded_copy.h"
#include "fuzz/d3dkmt/world.h"
#include "runtime/runtime.h"
#include "sim/hostile/caller.h"
#include "tests/support/covers.h"
#include "tests/support/known_run.h"
#include "wire/client_call.h"
#include "wire/kernel_memory.h"

// The linker (--wrap) sends the calls of everybody else to the second one.
extern "C" bool real_guarded_copy(void* to, const void* from,
                                  size_t bytes) asm("__real__ZN6dxgkit12guarded_copyEPvPKvm");
extern "C" bool watched_guarded_copy(void* to, const void* from,
                                     size_t bytes) asm("__wrap__ZN6dxgkit12guarded_copyEPvPKvm");

namespace dxgkit::fuzz {
namespace {

/// Counts the reads of each byte of a call, and may change what has been read.
class Reads : public hostile::MemoryWatch {
 public:
  explicit Reads(bool changing) : changing_(changing) { the_one = this; }
  ~Reads() override { the_one = nullptr; }
  Reads(const Reads&) = delete;
  Reads& operator=(const Reads&) = delete;

  void begins(std::span<std::byte> memory) override {
    calls_[runtime::Runtime::current().thread_number()].memory = memory;
  }
  void ends() override {
    const auto found = calls_.find(runtime::Runtime::current().thread_number());
    for (const auto& [at, value] : found->second.changed) *at = value;
    most_bytes_ = std::max(most_bytes_, found->second.read.size());
    calls_.erase(found);
  }

  bool copy(void* to, const void* from, size_t bytes) {
    if (calls_.empty()) return real_guarded_copy(to, from, bytes);
    const auto found = calls_.find(runtime::Runtime::current().thread_number());
    const bool done = real_guarded_copy(to, from, bytes);
    if (found == calls_.end() || !done) return done;
    OneCall& call = found->second;
    for_each_byte(call, from, bytes, [&](std::byte* at) {
      if (!call.read.insert(at).second) twice_.insert(at);
      if (!changing_) return;
      call.changed.try_emplace(at, *at);
      *at ^= std::byte{0x5A};
    });
    // What the kernel writes is the last word.
    for_each_byte(call, to, bytes, [&](std::byte* at) { call.changed.erase(at); });
    return done;
  }

  size_t twice() const { return twice_.size(); }
  /// Of one call.
  size_t most_bytes() const { return most_bytes_; }

  static inline Reads* the_one = nullptr;

 private:
  struct OneCall {
    std::span<std::byte> memory;
    std::set<const std::byte*> read;
    std::map<std::byte*, std::byte> changed;  // what stood there
  };

  template <typename Visit>
  static void for_each_byte(const OneCall& call, const void* from, size_t bytes, Visit&& visit) {
    const auto* const first = static_cast<const std::byte*>(from);
    std::byte* const begin =
        call.memory.data() + std::max<ptrdiff_t>(first - call.memory.data(), 0);
    const std::byte* const end =
        std::min<const std::byte*>(first + bytes, call.memory.data() + call.memory.size());
    for (std::byte* at = begin; at < end; ++at) visit(at);
  }

  const bool changing_;
  std::map<uint32_t, OneCall> calls_;  // by thread
  std::set<const std::byte*> twice_;
  size_t most_bytes_ = 0;
};

struct Answers {
  std::vector<std::pair<std::string, NTSTATUS>> all;
  size_t twice = 0, most_bytes = 0;
};

Answers answers_of(uint64_t seed, bool changing) {
  Answers answers;
  Reads reads(changing);
  WorldOptions options;
  options.watch = &reads;
  options.answered = [&](std::string_view call, NTSTATUS status) {
    answers.all.emplace_back(call, status);
  };
  static_cast<void>(run_world(testing::Choices(seed), options));
  answers.twice = reads.twice();
  answers.most_bytes = reads.most_bytes();
  return answers;
}

TEST(SingleRead, AClientThatChangesWhatWasReadChangesNothing) {
  DXGKIT_COVERS("THUNK-02");
  testing::hold_no_runs();  // two of each seed
  constexpr uint64_t kSeeds = 60;
  std::set<std::string> called;
  size_t most_bytes = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Answers quiet = answers_of(seed, false);
    const Answers racing = answers_of(seed, true);
    EXPECT_EQ(quiet.twice, 0U);
    EXPECT_EQ(racing.twice, 0U);
    ASSERT_EQ(quiet.all.size(), racing.all.size());
    for (size_t i = 0; i < quiet.all.size(); ++i)
      ASSERT_EQ(quiet.all[i], racing.all[i]) << "answer " << i;
    for (const auto& [call, status] : quiet.all) called.insert(call);
    most_bytes = std::max(most_bytes, quiet.most_bytes);
  }
  EXPECT_EQ(called.size(), hostile::calls().size()) << "some function was never called";
  EXPECT_GT(most_bytes, 1000U);
}

/// What the watch says of one call, made by itself.
size_t twice_in(bool changing, const std::function<void(std::byte* memory)>& call) {
  size_t twice = 0;
  runtime::make_sim_runtime({.seed = 1})->run_main([&] {
    std::array<std::byte, 256> memory{};
    Reads reads(changing);
    reads.begins(memory);
    call(memory.data());
    reads.ends();
    twice = reads.twice();
    EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte one) { return one == std::byte{}; }));
  });
  return twice;
}

/// The classic mistake: the count is read, then the structure with the count.
TEST(SingleRead, ACaptureThatReadsTwiceIsSeen) {
  EXPECT_EQ(twice_in(false,
                     [](std::byte* memory) {
                       std::array<std::byte, 64> captured{};
                       ASSERT_TRUE(guarded_copy(captured.data(), memory, captured.size()));
                     }),
            0U);
  EXPECT_EQ(twice_in(false,
                     [](std::byte* memory) {
                       uint32_t count = 0;
                       std::array<std::byte, 64> captured{};
                       ASSERT_TRUE(guarded_copy(&count, memory + 8, sizeof count));
                       ASSERT_TRUE(guarded_copy(captured.data(), memory, captured.size()));
                     }),
            sizeof(uint32_t));
  // It sees another count, whether it reads with guarded_copy or without.
  twice_in(true, [](std::byte* memory) {
    uint32_t count = 0;
    ASSERT_TRUE(guarded_copy(&count, memory + 8, sizeof count));
    uint32_t again = 0;
    std::memcpy(&again, memory + 8, sizeof again);
    EXPECT_NE(count, again);
  });
}

/// The client's half of src/wire: the message is the same, whatever happens to what was read.
TEST(SingleRead, AMessageIsMadeOfOneReading) {
  std::map<std::string_view, uint32_t> numbers;
  for (const arguments::Function& one : arguments::functions())
    numbers.emplace(one.name, static_cast<uint32_t>(numbers.size()));
  constexpr int kCalls = 20'000;
  size_t most_bytes = 0;
  std::set<std::string_view> made;
  runtime::make_sim_runtime({.seed = 1})->run_main([&] {
    wire::KernelMemory memory;
    hostile::Market market;
    Reads quiet(false), racing(true);
    hostile::CallerOptions options;
    options.allocation_data.resize(64);
    options.watch = &quiet;
    hostile::Caller caller(market, options);
    testing::Choices choices(7);
    for (int i = 0; i < kCalls; ++i) {
      hostile::Planned planned = caller.plan([&choices] { return choices(); });
      const auto number = numbers.find(planned.call->name);
      if (number == numbers.end()) continue;
      std::ranges::copy(planned.arguments, planned.place);
      std::vector<std::byte> messages[2];
      for (Reads* const reads : {&quiet, &racing}) {
        Reads::the_one = reads;
        reads->begins(planned.memory);
        const wire::ClientCall call(number->second, planned.place, memory);
        reads->ends();
        ASSERT_EQ(reads->twice(), 0U) << planned.text();
        const auto message = call.message();
        messages[reads == &racing ? 1 : 0].assign(message.begin(), message.end());
      }
      ASSERT_EQ(messages[0], messages[1]) << planned.text();
      if (!messages[0].empty()) made.insert(number->first);
    }
    most_bytes = racing.most_bytes();
  });
  EXPECT_GT(made.size(), 80U);
  EXPECT_GT(most_bytes, 1000U);
}

}  // namespace

}  // namespace dxgkit::fuzz

bool watched_guarded_copy(void* to, const void* from, size_t bytes) {
  using dxgkit::fuzz::Reads;
  return Reads::the_one == nullptr ? real_guarded_copy(to, from, bytes)
                                   : Reads::the_one->copy(to, from, bytes);
}
