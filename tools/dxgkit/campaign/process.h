// Other programs, and this one again, as processes of a campaign.
#pragma once

#include <sys/types.h>

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::tool::campaign {

/// As a log: this process's stdout.
inline constexpr std::string_view kOwnOutput = "-";

/// A process that ends with this one. One thread uses it.
class Process {
 public:
  /// Starts `words` in `folder` ("": here). Its stdout and stderr are appended to `log`; "":
  /// nowhere.
  /// @param signal_at_end  what the process gets when this one ends.
  static std::expected<Process, std::string> start(const std::vector<std::string>& words,
                                                   const std::string& folder,
                                                   const std::string& log, int signal_at_end);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // kills it and waits, if it has not ended

  pid_t number() const { return number_; }
  void signal(int signal) const;
  /// Its exit code, as a shell tells it; nothing while it runs.
  std::optional<int> end();

 private:
  explicit Process(pid_t number) : number_(number) {}
  pid_t number_ = 0;  // 0: it has ended
  int code_ = 0;
};

struct Output {
  int code = 0;
  std::string text;  // stdout; stderr behind it
};
/// Runs a program to its end. The error is one sentence: it cannot be started. An interrupt does
/// not end it.
std::expected<Output, std::string> run_program(const std::vector<std::string>& words,
                                               const std::string& folder = {});

/// Between two looks at processes.
inline constexpr int kLookMs = 50;

/// Waits `ms`, or until an interrupt comes. True after an interrupt.
bool wait_or_interrupt(int ms);

}  // namespace dxgkit::tool::campaign
