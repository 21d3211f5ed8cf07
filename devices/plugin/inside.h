// Inside of plugin: which thread is in code of a plug-in. Not for others: include plugin.h.
#pragma once

#include <cstdint>

namespace dxgkit::plugin {

/// While it lives, the calling thread is in `function` of the plug-in `path`, which both live as
/// long as the process. The other way round with nulls: it is out of it again, in a service of the
/// host. A thread of a simulation may switch only while it is out.
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
