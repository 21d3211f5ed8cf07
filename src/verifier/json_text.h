// JSON strings, for the writers of this folder.
#pragma once

#include <string>
#include <string_view>

namespace dxgkit::verifier {

/// `text` between quotation marks. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace dxgkit::verifier
