// Internals of plugin: marks threads that run code of a plug-in. Other modules include plugin.h.
#pragma once

#include <cstdint>

namespace dxgkit::plugin {

/// While an Inside lives, the calling thread counts as inside `function` of the plug-in `path`;
/// both texts live as long as the process. With nulls it is the reverse: the thread is in a service
/// of the host and counts as outside. A thread of a simulation may switch only while it counts as
/// outside.
class Inside {
 public:
  Inside(const char* path, const char* function);
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const char* path_;
  const char* function_;
};

/// Addresses of code of a plug-in. Plug-ins are loaded one at a time.
void add_image(uint64_t begin, uint64_t end, const char* path);

}  // namespace dxgkit::plugin
