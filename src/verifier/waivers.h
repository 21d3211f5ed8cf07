// Waivers: rules that the author of a driver breaks on purpose, each with a reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::verifier {

struct Waiver {
  std::string rule;    // of the catalogue
  std::string reason;  // one line, never empty
};

/// The waivers of a run. Copies count their uses together, and so do processes that are forked
/// after the first waiver was added.
class Waivers {
 public:
  static constexpr size_t kMost = 1024;
  static constexpr size_t kReasonBytesMost = 500;
  static constexpr size_t kFileBytesMost = 1 << 20;

  /// "PAGE-05=our hardware has no fills". Blanks around both parts do not count. The error is a
  /// sentence without a full stop; then nothing was added: no rule of that name, no reason, a
  /// reason that is too long or has control characters, or a rule that is waived already.
  std::expected<void, std::string> add(std::string_view text);
  /// The text of a file: such a line for each waiver. Empty lines and lines that begin with # do
  /// not count. Any bytes. The error names the line; the waivers before it were added.
  std::expected<void, std::string> add_file(std::string_view text);

  const std::vector<Waiver>& all() const { return all_; }
  bool empty() const { return all_.empty(); }
  /// The reason, or nothing if the rule is not waived. Counts a use. Any thread.
  std::string_view use(std::string_view rule) const;
  /// How often all()[index] was used.
  uint64_t uses(size_t index) const;

 private:
  struct Uses;
  std::vector<Waiver> all_;
  std::shared_ptr<Uses> uses_;
};

}  // namespace dxgkit::verifier
