// printf for drivers: Win64 argument lists and the Microsoft conversions (%wZ, %ws, %I64x, %ls).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dxgkit::nt {

/// Formats into UTF-16 units or bytes. `arguments` is a Win64 va_list: 8-byte slots. An unknown
/// conversion is copied as it is. Narrow text in wide output, and the reverse, is converted unit by
/// unit.
std::string format_narrow(const char* format, const char* arguments);
std::u16string format_wide(const char16_t* format, const char* arguments);

}  // namespace dxgkit::nt
