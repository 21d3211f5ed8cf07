// The words of findings, apart from what changes from run to run.
#pragma once

#include <string>
#include <string_view>

namespace dxgkit::verifier {

/// A text without its numbers, which is the same each time one mistake happens.
std::string without_numbers(std::string_view text);

}  // namespace dxgkit::verifier
