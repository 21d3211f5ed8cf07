// The law "time, threads, waiting and chance belong to src/runtime", enforced: reads the source
// tree and reports each line elsewhere that names a thread, lock, clock, sleep or source of
// randomness of the system.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#ifndef DXGKIT_SOURCE_DIR
#error "the build must say where the sources are"
#endif

namespace {

namespace fs = std::filesystem;

struct Ban {
  std::vector<const char*> hints;  // a line without any of them cannot match: std::regex is slow
  const char* pattern;             // matched against a line without comments and strings
  const char* instead;
};

const std::vector<Ban>& bans() {
  static const std::vector<Ban> all = {
      {{"include"},
       R"(#\s*include\s*<(thread|mutex|shared_mutex|condition_variable|semaphore|latch|barrier|future|chrono|stop_token|ctime|pthread\.h|semaphore\.h|threads\.h|time\.h|sys/time\.h)>)",
       "runtime/runtime.h, runtime/sync.h"},
      {{"thread", "async", "promise", "future", "packaged_task"},
       R"(\bstd\s*::\s*(j?thread|this_thread|async|promise|(shared_)?future|packaged_task)\b)",
       "Runtime::spawn"},
      {{"mutex", "condition_variable", "semaphore", "latch", "barrier", "once"},
       R"(\bstd\s*::\s*((recursive_|timed_|shared_|recursive_timed_|shared_timed_)?mutex|condition_variable(_any)?|counting_semaphore|binary_semaphore|latch|barrier|once_flag|call_once)\b)",
       "runtime::Mutex, runtime::Event"},
      {{"chrono", "_clock"},
       R"(\bstd\s*::\s*chrono\b|\b(steady|system|high_resolution)_clock\b)",
       "Runtime::now"},
      {{"clock", "time", "rdtsc"},
       R"(\b(clock_gettime|clock_nanosleep|gettimeofday|timespec_get|__?rdtscp?|__builtin_ia32_rdtscp?)\b|::\s*clock\s*\(|(^|[^\w.>])time\s*\(\s*(NULL|nullptr)\s*\))",
       "Runtime::now"},
      {{"sleep"}, R"(\b(usleep|nanosleep)\b|(^|[^\w.>])sleep\s*\()", "Runtime::sleep_until"},
      {{"rand", "getentropy"},
       R"(\brandom_device\b|\bdefault_random_engine\b|(^|[^\w.>])s?rand\s*\(|\bsrandom\s*\(|(^|[^\w\s])\s*::\s*random\s*\(|\b[dlm]rand48\b|\bgetrandom\b|\bgetentropy\b|\barc4random\w*)",
       "Runtime::random, or a generator with a written seed"},
      {{"pthread_", "thrd_", "mtx_", "sem_"},
       R"(\bpthread_\w+|\bthrd_\w+|\bmtx_\w+|\bsem_(init|wait|post|timedwait)\s*\(\s*&)",
       "runtime::Mutex, Runtime::spawn"},
      {{"futex", "FUTEX"}, R"(\b(SYS_|__NR_)?futex\b|\bFUTEX_\w+)", "Runtime::wait"},
      {{"notify_", "atomic_wait"},
       R"(\bnotify_(one|all)\s*\(|\batomic_(wait|notify)\w*)",
       "Runtime::wait, Runtime::wake_one"},
  };
  return all;
}

struct Exception {
  const char* path;  // a file or, with a slash at the end, a folder
  const char* reason;
};

const Exception kExceptions[] = {
    {"src/runtime/", "the owner"},
    {"src/base/spin_lock.h", "below the runtime, and never contended in a simulation"},
    {"abi/include/dxgkit/nt_crt.h", "declares the C library that drivers are served"},
    {"bench/process_client.c", "stands for a foreign program: nothing of dxgkit is in it"},
    {"tools/dxgkit/serve/jail.cpp", "names system calls in a table, and makes none of these"},
};

/// Blanks comments, strings and character literals; line breaks stay where they are.
std::string strip(const std::string& text) {
  enum class State { kCode, kLine, kBlock, kString, kChar, kRaw } state = State::kCode;
  std::string out;
  std::string raw_end;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\n') {
      if (state == State::kLine) state = State::kCode;
      out += c;
      continue;
    }
    switch (state) {
      case State::kCode:
        if (c == '/' && next == '/') {
          state = State::kLine;
        } else if (c == '/' && next == '*') {
          state = State::kBlock;
          ++i;
        } else if (c == '"' && !out.empty() && out.back() == 'R') {
          const size_t open = text.find('(', i);
          if (open == std::string::npos) break;
          raw_end = ")" + text.substr(i + 1, open - i - 1) + "\"";
          state = State::kRaw;
          i = open;
        } else if (c == '"') {
          state = State::kString;
        } else if (c == '\'' &&
                   (out.empty() || !std::isalnum(static_cast<unsigned char>(out.back())))) {
          state = State::kChar;  // else a digit separator
        } else {
          out += c;
        }
        break;
      case State::kLine:
        break;
      case State::kBlock:
        if (c == '*' && next == '/') {
          state = State::kCode;
          ++i;
        }
        break;
      case State::kString:
      case State::kChar:
        if (c == '\\') {
          ++i;
        } else if (c == (state == State::kString ? '"' : '\'')) {
          state = State::kCode;
        }
        break;
      case State::kRaw:
        if (text.compare(i, raw_end.size(), raw_end) == 0) {
          i += raw_end.size() - 1;
          state = State::kCode;
        }
        break;
    }
  }
  return out;
}

/// One message per offending line of `text`.
std::vector<std::string> offences(const std::string& path, const std::string& text) {
  static const std::vector<std::regex> patterns = [] {
    std::vector<std::regex> compiled;
    for (const Ban& ban : bans()) compiled.emplace_back(ban.pattern, std::regex::optimize);
    return compiled;
  }();
  std::vector<std::string> found;
  std::istringstream lines(strip(text));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    for (size_t i = 0; i < patterns.size(); ++i) {
      const Ban& ban = bans()[i];
      if (std::none_of(ban.hints.begin(), ban.hints.end(),
                       [&](const char* hint) { return line.find(hint) != std::string::npos; })) {
        continue;
      }
      std::smatch match;
      if (!std::regex_search(line, match, patterns[i])) continue;
      found.push_back(path + ":" + std::to_string(number) + ": \"" + match.str() + "\"; use " +
                      ban.instead);
      break;
    }
  }
  return found;
}

bool is_source(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".cpp" || extension == ".h" || extension == ".c" || extension == ".cc" ||
         extension == ".hpp" || extension == ".inc";
}

TEST(BannedCalls, OnlyTheRuntimeOwnsTimeThreadsWaitingAndChance) {
  const fs::path root = DXGKIT_SOURCE_DIR;
  std::vector<fs::path> files;
  for (const char* folder :
       {"abi", "src", "devices", "miniports", "tools", "sim", "bench", "tests", "fuzz"}) {
    if (!fs::exists(root / folder)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file() && is_source(entry.path())) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  EXPECT_GT(files.size(), 20u) << "the source tree is not where the build says: " << root;
  for (const fs::path& file : files) {
    const std::string path = fs::relative(file, root).generic_string();
    const bool excepted =
        std::any_of(std::begin(kExceptions), std::end(kExceptions), [&](const Exception& each) {
          const std::string prefix = each.path;
          return path == prefix || (prefix.back() == '/' && path.starts_with(prefix));
        });
    if (excepted) continue;
    std::ifstream in(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    for (const std::string& offence : offences(path, text)) ADD_FAILURE() << offence;
  }
}

// The check itself: it sees each kind of offence, and is not misled by comments, strings and our
// own names.
TEST(BannedCalls, SeesEachKindOfOffence) {
  for (const char* line : {"std::thread t([]{});",
                           "std :: mutex m;",
                           "std::shared_mutex m;",
                           "std::condition_variable cv;",
                           "auto t = std::chrono::seconds(1);",
                           "#include <chrono>",
                           "# include <thread>",
                           "x = steady_clock::now();",
                           "std::this_thread::yield();",
                           "usleep(3);",
                           "sleep(1);",
                           "::sleep (1);",
                           "nanosleep(&a, nullptr);",
                           "int x = rand();",
                           "std::rand() % 3",
                           "srand(1);",
                           "std::random_device d;",
                           "std::default_random_engine g;",
                           "pthread_create(a, b, c, d);",
                           "syscall(SYS_futex, 1);",
                           "syscall(__NR_futex, 1);",
                           "flag.notify_one();",
                           "std::atomic_wait(&x, 1);",
                           "clock_gettime(CLOCK_MONOTONIC, &t);",
                           "seed = time(nullptr);",
                           "auto f = std::async(g);",
                           "std::binary_semaphore s{0};",
                           "__rdtsc()",
                           "sem_wait(&s);",
                           "/* comment */ std::latch l(1);",
                           "const char* s = \"quote\"; std::barrier b(1);",
                           "int n = 1'000'000; std::mutex m;"}) {
    EXPECT_EQ(offences("x.cpp", line).size(), 1u) << line;
  }
}

TEST(BannedCalls, IsNotMisled) {
  for (const char* line : {"// std::thread is not for us",
                           "/* std::mutex\n std::thread */",
                           "puts(\"std::mutex\");",
                           "R\"(std::mutex)\"",
                           "runtime.sleep_for(3);",
                           "runtime->sleep_until(due);",
                           "runtime.random();",
                           "event.wait();",
                           "operand(1);",
                           "std::atomic<int> x;",
                           "KeDelayExecutionThread(a);",
                           "int64_t time = 0;",
                           "time(event.start);",
                           "uint64_t random() override;",
                           "thread->join();",
                           "Mutex mutex;",
                           "json.time(value);",
                           "strand(2);",
                           "std::mt19937_64 random(7);",
                           "x = random() % 3;",
                           "hand.clock()",
                           "rig.sem_wait(3);"}) {
    EXPECT_TRUE(offences("x.cpp", line).empty()) << line;
  }
}

}  // namespace
