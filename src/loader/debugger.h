// Tells a debugger of code that no file on its list holds: gdb's interface for compilers that
// generate code while the program runs.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace dxgkit::loader {

/// True if a debugger waits for announcements: it has set its breakpoint. The environment variable
/// DXGKIT_ANNOUNCE_IMAGES says so for one that comes later. Any thread; costs nothing.
bool debugger_listens();

/// While it lives, the debugger knows a symbol file. Any thread.
class Announcement {
 public:
  explicit Announcement(std::vector<std::byte> symbol_file);
  ~Announcement();
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;

 private:
  struct Entry;
  std::vector<std::byte> symbol_file_;
  std::unique_ptr<Entry> entry_;
};

}  // namespace dxgkit::loader
