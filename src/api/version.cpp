#include "dxgkit/version.h"

#include <iterator>

#include "api/commit.h"
#include "dxgkit/abi_versions.h"

#define DXGKIT_TEXT_INNER(x) #x
#define DXGKIT_TEXT(x) DXGKIT_TEXT_INNER(x)

namespace dxgkit {

Version version() {
  return {.major = DXGKIT_VERSION_MAJOR,
          .minor = DXGKIT_VERSION_MINOR,
          .patch = DXGKIT_VERSION_PATCH,
          .text = DXGKIT_TEXT(DXGKIT_VERSION_MAJOR) "." DXGKIT_TEXT(
              DXGKIT_VERSION_MINOR) "." DXGKIT_TEXT(DXGKIT_VERSION_PATCH),
          .commit = kCommit,
          .oldest_interface = std::begin(abi::kVersions)->value,
          .newest_interface = std::rbegin(abi::kVersions)->value};
}

}  // namespace dxgkit
