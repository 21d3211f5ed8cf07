// What a process that ran driver code tells the one that asked for it, as a whole report.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tools/dxgkit/verify/report.h"

namespace dxgkit::tool::check {

/// Memory for one text. Made before a process is forked, and shared with it.
class SharedText {
 public:
  SharedText();
  ~SharedText();
  SharedText(const SharedText&) = delete;
  SharedText& operator=(const SharedText&) = delete;
  int fd() const { return fd_; }
  /// Replaces the text. False: there is no room.
  static bool write(int fd, std::string_view text);
  /// The text; empty if none was written.
  std::string read() const;

 private:
  int fd_;
};

/// All of a report but its waivers, which processes share by themselves.
nlohmann::json to_message(const verify::VerifyReport& report);
/// Reads it back. Nothing if the text is none that to_message made.
std::optional<verify::VerifyReport> report_of(std::string_view text);

}  // namespace dxgkit::tool::check
