#include "base/planted.h"

#include <cstdlib>
#include <string_view>

namespace dxgkit {

bool is_planted(const char* name) {
  const char* const chosen = std::getenv("DXGKIT_PLANT");
  return chosen != nullptr && std::string_view(chosen) == name;
}

}  // namespace dxgkit
