// The C library the kernel exports, in the driver's ABI: the checked forms, searches, conversions.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "nt/executive.h"
#include "nt/format.h"

namespace dxgkit::nt {
namespace {

// errno_t values of the Microsoft library.
constexpr int kInvalid = 22, kRange = 34, kTruncated = 80;
constexpr size_t kTruncate = SIZE_MAX;  // _TRUNCATE

template <typename Char>
size_t length_of(const Char* text, size_t limit = SIZE_MAX) {
  size_t length = 0;
  while (length < limit && text[length] != Char(0)) ++length;
  return length;
}

// --- checked copies: a text that does not fit becomes empty

template <typename Char>
int copy_checked(Char* to, size_t size, const Char* from, size_t at) {
  if (to == nullptr || size == 0) return kInvalid;
  if (from == nullptr) {
    to[0] = Char(0);
    return kInvalid;
  }
  const size_t length = length_of(from);
  if (at >= size || length >= size - at) {
    to[0] = Char(0);
    return kRange;
  }
  std::memmove(to + at, from, (length + 1) * sizeof(Char));
  return 0;
}
template <typename Char>
int append_checked(Char* to, size_t size, const Char* from) {
  if (to == nullptr || size == 0) return kInvalid;
  const size_t at = length_of(to, size);
  if (at == size) {
    to[0] = Char(0);
    return kInvalid;
  }
  return copy_checked(to, size, from, at);
}
template <typename Char>
int copy_counted(Char* to, size_t size, const Char* from, size_t count, size_t at) {
  if (to == nullptr || size == 0) return count == 0 && to == nullptr && size == 0 ? 0 : kInvalid;
  if (from == nullptr) {
    to[0] = Char(0);
    return count == 0 ? 0 : kInvalid;
  }
  const size_t length = length_of(from, count == kTruncate ? size : count);
  if (at >= size || length >= size - at) {
    if (count != kTruncate) {
      to[0] = Char(0);
      return kRange;
    }
    std::memmove(to + at, from, (size - at - 1) * sizeof(Char));
    to[size - 1] = Char(0);
    return kTruncated;
  }
  std::memmove(to + at, from, length * sizeof(Char));
  to[at + length] = Char(0);
  return 0;
}

DXGKIT_NT_ABI int c_strcpy_s(char* to, size_t size, const char* from) {
  return copy_checked(to, size, from, 0);
}
DXGKIT_NT_ABI int c_wcscpy_s(char16_t* to, size_t size, const char16_t* from) {
  return copy_checked(to, size, from, 0);
}
DXGKIT_NT_ABI int c_strcat_s(char* to, size_t size, const char* from) {
  return append_checked(to, size, from);
}
DXGKIT_NT_ABI int c_wcscat_s(char16_t* to, size_t size, const char16_t* from) {
  return append_checked(to, size, from);
}
DXGKIT_NT_ABI int c_strncpy_s(char* to, size_t size, const char* from, size_t count) {
  return copy_counted(to, size, from, count, 0);
}
DXGKIT_NT_ABI int c_wcsncpy_s(char16_t* to, size_t size, const char16_t* from, size_t count) {
  return copy_counted(to, size, from, count, 0);
}
DXGKIT_NT_ABI int c_strncat_s(char* to, size_t size, const char* from, size_t count) {
  return copy_counted(to, size, from, count, to == nullptr ? 0 : length_of(to, size));
}
DXGKIT_NT_ABI int c_wcsncat_s(char16_t* to, size_t size, const char16_t* from, size_t count) {
  return copy_counted(to, size, from, count, to == nullptr ? 0 : length_of(to, size));
}
DXGKIT_NT_ABI int c_memcpy_s(void* to, size_t size, const void* from, size_t bytes) {
  if (bytes == 0) return 0;
  if (to == nullptr) return kInvalid;
  if (from == nullptr || size < bytes) {
    std::memset(to, 0, size);
    return from == nullptr ? kInvalid : kRange;
  }
  std::memmove(to, from, bytes);
  return 0;
}
DXGKIT_NT_ABI int c_memmove_s(void* to, size_t size, const void* from, size_t bytes) {
  if (bytes == 0) return 0;
  if (to == nullptr || from == nullptr) return kInvalid;
  if (size < bytes) return kRange;
  std::memmove(to, from, bytes);
  return 0;
}

// --- formatting

template <typename Char>
int put_checked(Char* to, size_t size, size_t count, const std::basic_string<Char>& text) {
  if (to == nullptr || size == 0) return -1;
  if (text.size() < size && (count == kTruncate || text.size() <= count)) {
    std::memcpy(to, text.c_str(), (text.size() + 1) * sizeof(Char));
    return static_cast<int>(text.size());
  }
  const size_t kept = count == kTruncate ? size - 1 : count;
  if (kept >= size) {
    to[0] = Char(0);
    return -1;
  }
  std::memcpy(to, text.data(), kept * sizeof(Char));
  to[kept] = Char(0);
  return -1;
}

DXGKIT_NT_ABI int c_vsprintf_s(char* to, size_t size, const char* format, char* arguments) {
  return put_checked(to, size, size, format_narrow(format, arguments));
}
DXGKIT_NT_ABI int c_vswprintf_s(char16_t* to, size_t size, const char16_t* format,
                                char* arguments) {
  return put_checked(to, size, size, format_wide(format, arguments));
}
DXGKIT_NT_ABI int c_vsnprintf_s(char* to, size_t size, size_t count, const char* format,
                                char* arguments) {
  return put_checked(to, size, count, format_narrow(format, arguments));
}
DXGKIT_NT_ABI int c_vsnwprintf_s(char16_t* to, size_t size, size_t count, const char16_t* format,
                                 char* arguments) {
  return put_checked(to, size, count, format_wide(format, arguments));
}
DXGKIT_NT_ABI int c_vsprintf(char* to, const char* format, char* arguments) {
  const std::string text = format_narrow(format, arguments);
  std::memcpy(to, text.c_str(), text.size() + 1);
  return static_cast<int>(text.size());
}
DXGKIT_NT_ABI int c_sprintf_s(char* to, size_t size, const char* format, ...) {
  __builtin_ms_va_list list;
  __builtin_ms_va_start(list, format);
  const int result =
      put_checked(to, size, size, format_narrow(format, reinterpret_cast<const char*>(list)));
  __builtin_ms_va_end(list);
  return result;
}
DXGKIT_NT_ABI int c_swprintf_s(char16_t* to, size_t size, const char16_t* format, ...) {
  __builtin_ms_va_list list;
  __builtin_ms_va_start(list, format);
  const int result =
      put_checked(to, size, size, format_wide(format, reinterpret_cast<const char*>(list)));
  __builtin_ms_va_end(list);
  return result;
}
DXGKIT_NT_ABI int c_snprintf_s(char* to, size_t size, size_t count, const char* format, ...) {
  __builtin_ms_va_list list;
  __builtin_ms_va_start(list, format);
  const int result =
      put_checked(to, size, count, format_narrow(format, reinterpret_cast<const char*>(list)));
  __builtin_ms_va_end(list);
  return result;
}
DXGKIT_NT_ABI int c_snwprintf_s(char16_t* to, size_t size, size_t count, const char16_t* format,
                                ...) {
  __builtin_ms_va_list list;
  __builtin_ms_va_start(list, format);
  const int result =
      put_checked(to, size, count, format_wide(format, reinterpret_cast<const char*>(list)));
  __builtin_ms_va_end(list);
  return result;
}
DXGKIT_NT_ABI int c_swprintf(char16_t* to, const char16_t* format, ...) {
  __builtin_ms_va_list list;
  __builtin_ms_va_start(list, format);
  const std::u16string text = format_wide(format, reinterpret_cast<const char*>(list));
  __builtin_ms_va_end(list);
  std::memcpy(to, text.c_str(), (text.size() + 1) * sizeof(char16_t));
  return static_cast<int>(text.size());
}

// --- plain strings

DXGKIT_NT_ABI char* c_strcat(char* to, const char* from) { return std::strcat(to, from); }
DXGKIT_NT_ABI char* c_strncat(char* to, const char* from, size_t count) {
  return std::strncat(to, from, count);
}
DXGKIT_NT_ABI const char* c_strrchr(const char* text, int letter) {
  return std::strrchr(text, letter);
}
DXGKIT_NT_ABI size_t c_strspn(const char* text, const char* set) { return std::strspn(text, set); }
DXGKIT_NT_ABI size_t c_strcspn(const char* text, const char* set) {
  return std::strcspn(text, set);
}
DXGKIT_NT_ABI const char* c_strpbrk(const char* text, const char* set) {
  return std::strpbrk(text, set);
}
DXGKIT_NT_ABI size_t c_strnlen(const char* text, size_t limit) { return length_of(text, limit); }
DXGKIT_NT_ABI size_t c_wcsnlen(const char16_t* text, size_t limit) {
  return length_of(text, limit);
}
DXGKIT_NT_ABI char16_t* c_wcscpy(char16_t* to, const char16_t* from) {
  std::memmove(to, from, (length_of(from) + 1) * sizeof(char16_t));
  return to;
}
DXGKIT_NT_ABI char16_t* c_wcsncpy(char16_t* to, const char16_t* from, size_t count) {
  const size_t length = length_of(from, count);
  std::memmove(to, from, length * sizeof(char16_t));
  std::fill(to + length, to + count, u'\0');
  return to;
}
DXGKIT_NT_ABI char16_t* c_wcscat(char16_t* to, const char16_t* from) {
  c_wcscpy(to + length_of(to), from);
  return to;
}
DXGKIT_NT_ABI char16_t* c_wcsncat(char16_t* to, const char16_t* from, size_t count) {
  char16_t* const at = to + length_of(to);
  const size_t length = length_of(from, count);
  std::memmove(at, from, length * sizeof(char16_t));
  at[length] = 0;
  return to;
}
DXGKIT_NT_ABI const char16_t* c_wcschr(const char16_t* text, char16_t unit) {
  for (;; ++text) {
    if (*text == unit) return text;
    if (*text == 0) return nullptr;
  }
}
DXGKIT_NT_ABI const char16_t* c_wcsrchr(const char16_t* text, char16_t unit) {
  for (size_t i = length_of(text) + 1; i > 0; --i) {
    if (text[i - 1] == unit) return text + i - 1;
  }
  return nullptr;
}
DXGKIT_NT_ABI const char16_t* c_wcsstr(const char16_t* text, const char16_t* part) {
  const std::u16string_view view(text);
  const size_t at = view.find(std::u16string_view(part));
  return at == std::u16string_view::npos ? nullptr : text + at;
}
DXGKIT_NT_ABI size_t c_wcsspn(const char16_t* text, const char16_t* set) {
  const size_t at = std::u16string_view(text).find_first_not_of(set);
  return at == std::u16string_view::npos ? length_of(text) : at;
}

DXGKIT_NT_ABI int c_tolower(int letter) {
  return letter >= 'A' && letter <= 'Z' ? letter + 32 : letter;
}
DXGKIT_NT_ABI int c_toupper(int letter) {
  return letter >= 'a' && letter <= 'z' ? letter - 32 : letter;
}
DXGKIT_NT_ABI char16_t c_towlower(char16_t unit) { return downcase(unit); }
DXGKIT_NT_ABI char16_t c_towupper(char16_t unit) { return upcase(unit); }
DXGKIT_NT_ABI int c_isdigit(int c) { return c >= '0' && c <= '9' ? 1 : 0; }
DXGKIT_NT_ABI int c_isxdigit(int c) {
  return c_isdigit(c) != 0 || (c_tolower(c) >= 'a' && c_tolower(c) <= 'f') ? 1 : 0;
}
DXGKIT_NT_ABI int c_islower(int c) { return c >= 'a' && c <= 'z' ? 1 : 0; }
DXGKIT_NT_ABI int c_isupper(int c) { return c >= 'A' && c <= 'Z' ? 1 : 0; }
DXGKIT_NT_ABI int c_isalpha(int c) { return c_islower(c_tolower(c)); }
DXGKIT_NT_ABI int c_isalnum(int c) { return c_isalpha(c) != 0 || c_isdigit(c) != 0 ? 1 : 0; }
DXGKIT_NT_ABI int c_isspace(int c) { return c == ' ' || (c >= 9 && c <= 13) ? 1 : 0; }
DXGKIT_NT_ABI int c_isprint(int c) { return c >= 32 && c < 127 ? 1 : 0; }

template <typename Char>
int compare_no_case(const Char* a, const Char* b, size_t count) {
  for (; count > 0; --count, ++a, ++b) {
    const int x = c_tolower(static_cast<int>(static_cast<std::make_unsigned_t<Char>>(*a)));
    const int y = c_tolower(static_cast<int>(static_cast<std::make_unsigned_t<Char>>(*b)));
    if (x != y || x == 0) return x - y;
  }
  return 0;
}
DXGKIT_NT_ABI int c_stricmp(const char* a, const char* b) {
  return compare_no_case(a, b, SIZE_MAX);
}
DXGKIT_NT_ABI int c_strnicmp(const char* a, const char* b, size_t count) {
  return compare_no_case(a, b, count);
}
DXGKIT_NT_ABI int c_wcsicmp(const char16_t* a, const char16_t* b) {
  return compare_no_case(a, b, SIZE_MAX);
}
DXGKIT_NT_ABI int c_wcsnicmp(const char16_t* a, const char16_t* b, size_t count) {
  return compare_no_case(a, b, count);
}
template <typename Char>
Char* change_case(Char* text, bool upper) {
  for (Char* at = text; *at != Char(0); ++at) {
    const int letter = static_cast<int>(static_cast<std::make_unsigned_t<Char>>(*at));
    *at = static_cast<Char>(upper ? c_toupper(letter) : c_tolower(letter));
  }
  return text;
}
DXGKIT_NT_ABI char* c_strupr(char* text) { return change_case(text, true); }
DXGKIT_NT_ABI char* c_strlwr(char* text) { return change_case(text, false); }
DXGKIT_NT_ABI char16_t* c_wcsupr(char16_t* text) { return change_case(text, true); }
DXGKIT_NT_ABI char16_t* c_wcslwr(char16_t* text) { return change_case(text, false); }

// --- numbers: long is 32 bits

template <typename Char>
uint64_t parse(const Char* text, const Char** end, int base, uint64_t limit,
               uint64_t negative_limit, bool is_signed) {
  const Char* at = text;
  while (c_isspace(static_cast<int>(static_cast<std::make_unsigned_t<Char>>(*at))) != 0) ++at;
  bool negative = false;
  if (*at == Char('-') || *at == Char('+')) negative = *at++ == Char('-');
  if ((base == 0 || base == 16) && at[0] == Char('0') &&
      (at[1] == Char('x') || at[1] == Char('X'))) {
    at += 2;
    base = 16;
  } else if (base == 0) {
    base = at[0] == Char('0') ? 8 : 10;
  }
  const uint64_t most = negative ? negative_limit : limit;
  uint64_t sum = 0;
  bool any = false, over = false;
  for (;; ++at) {
    const int letter = c_tolower(static_cast<int>(static_cast<std::make_unsigned_t<Char>>(*at)));
    int digit = 99;
    if (letter >= '0' && letter <= '9') digit = letter - '0';
    if (letter >= 'a' && letter <= 'z') digit = letter - 'a' + 10;
    if (digit >= base) break;
    any = true;
    const auto step = static_cast<uint64_t>(digit);
    if (sum > (most - std::min(step, most)) / static_cast<uint64_t>(base)) over = true;
    sum = sum * static_cast<uint64_t>(base) + step;
  }
  if (end != nullptr) *end = any ? at : text;
  if (base < 2 || base > 36) return 0;
  if (over) return is_signed && negative ? 0 - negative_limit : limit;
  return negative ? 0 - sum : sum;
}
constexpr uint64_t kLongMax = INT32_MAX, kLongMin = uint64_t{1} << 31;
DXGKIT_NT_ABI int32_t c_strtol(const char* text, const char** end, int base) {
  return static_cast<int32_t>(parse(text, end, base, kLongMax, kLongMin, true));
}
DXGKIT_NT_ABI uint32_t c_strtoul(const char* text, const char** end, int base) {
  return static_cast<uint32_t>(parse(text, end, base, UINT32_MAX, UINT32_MAX, false));
}
DXGKIT_NT_ABI int32_t c_wcstol(const char16_t* text, const char16_t** end, int base) {
  return static_cast<int32_t>(parse(text, end, base, kLongMax, kLongMin, true));
}
DXGKIT_NT_ABI uint32_t c_wcstoul(const char16_t* text, const char16_t** end, int base) {
  return static_cast<uint32_t>(parse(text, end, base, UINT32_MAX, UINT32_MAX, false));
}
DXGKIT_NT_ABI int32_t c_atoi(const char* text) { return c_strtol(text, nullptr, 10); }
DXGKIT_NT_ABI int32_t c_wtoi(const char16_t* text) { return c_wcstol(text, nullptr, 10); }
DXGKIT_NT_ABI int64_t c_atoi64(const char* text) {
  return static_cast<int64_t>(parse<char>(text, nullptr, 10, INT64_MAX, uint64_t{1} << 63, true));
}

template <typename Char>
int write_number(uint64_t number, bool negative, Char* to, size_t size, int base) {
  if (to == nullptr || size == 0) return kInvalid;
  to[0] = Char(0);
  if (base < 2 || base > 36) return kInvalid;
  Char digits[66];
  size_t count = 0;
  do {
    const auto digit = static_cast<int>(number % static_cast<uint64_t>(base));
    digits[count++] = static_cast<Char>(digit < 10 ? '0' + digit : 'a' + digit - 10);
    number /= static_cast<uint64_t>(base);
  } while (number > 0);
  if (negative) digits[count++] = Char('-');
  if (count >= size) return kRange;
  std::reverse_copy(digits, digits + count, to);
  to[count] = Char(0);
  return 0;
}
template <typename Char>
int write_int(int32_t number, Char* to, size_t size, int base) {
  const bool negative = base == 10 && number < 0;
  const auto magnitude = static_cast<uint32_t>(number);
  return write_number(negative ? 0U - magnitude : magnitude, negative, to, size, base);
}
DXGKIT_NT_ABI int c_itoa_s(int32_t number, char* to, size_t size, int base) {
  return write_int(number, to, size, base);
}
DXGKIT_NT_ABI int c_itow_s(int32_t number, char16_t* to, size_t size, int base) {
  return write_int(number, to, size, base);
}
DXGKIT_NT_ABI char* c_itoa(int32_t number, char* to, int base) {
  write_int(number, to, SIZE_MAX, base);
  return to;
}
DXGKIT_NT_ABI char16_t* c_itow(int32_t number, char16_t* to, int base) {
  write_int(number, to, SIZE_MAX, base);
  return to;
}
DXGKIT_NT_ABI int c_ultow_s(uint32_t number, char16_t* to, size_t size, int base) {
  return write_number(number, false, to, size, base);
}
DXGKIT_NT_ABI int32_t c_abs(int32_t number) {
  return number < 0 ? static_cast<int32_t>(0U - static_cast<uint32_t>(number)) : number;
}
DXGKIT_NT_ABI int c_rand() {
  return static_cast<int>(CallFrame::current().kernel().runtime().random() & 0x7FFF);
}
DXGKIT_NT_ABI void c_srand(uint32_t) {}

// --- searching and sorting

using Compare = int(DXGKIT_NT_ABI*)(const void*, const void*);

DXGKIT_NT_ABI const void* c_bsearch(const void* key, const void* base, size_t count, size_t width,
                                    Compare compare) {
  const auto* first = static_cast<const std::byte*>(base);
  while (count > 0) {
    const size_t middle = count / 2;
    const std::byte* const at = first + middle * width;
    const int order = call_driver("bsearch comparison", compare, key, static_cast<const void*>(at));
    if (order == 0) return at;
    if (order > 0) {
      first = at + width;
      count -= middle + 1;
    } else {
      count = middle;
    }
  }
  return nullptr;
}

/// A heap sort: in place, no worst case, no memory of ours while the driver compares.
DXGKIT_NT_ABI void c_qsort(void* base, size_t count, size_t width, Compare compare) {
  auto* const bytes = static_cast<std::byte*>(base);
  const auto at = [&](size_t i) { return bytes + i * width; };
  const auto less = [&](size_t a, size_t b) {
    return call_driver("qsort comparison", compare, static_cast<const void*>(at(a)),
                       static_cast<const void*>(at(b))) < 0;
  };
  const auto sift = [&](size_t root, size_t end) {
    for (;;) {
      size_t child = 2 * root + 1;
      if (child >= end) return;
      if (child + 1 < end && less(child, child + 1)) ++child;
      if (!less(root, child)) return;
      std::swap_ranges(at(root), at(root) + width, at(child));
      root = child;
    }
  };
  if (width == 0) return;
  for (size_t i = count / 2; i > 0; --i) sift(i - 1, count);
  for (size_t end = count; end > 1; --end) {
    std::swap_ranges(at(0), at(0) + width, at(end - 1));
    sift(0, end - 1);
  }
}

DXGKIT_NT_ABI int refuse_scan() { return -1; }
DXGKIT_NT_ABI uint16_t c_swap16(uint16_t v) { return __builtin_bswap16(v); }
DXGKIT_NT_ABI uint32_t c_swap32(uint32_t v) { return __builtin_bswap32(v); }
DXGKIT_NT_ABI uint64_t c_swap64(uint64_t v) { return __builtin_bswap64(v); }

}  // namespace

std::span<const Export> crt_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("_atoi64", c_atoi64, kSupported, ""),
      DXGKIT_EXPORT("_byteswap_uint64", c_swap64, kSupported, ""),
      DXGKIT_EXPORT("_byteswap_ulong", c_swap32, kSupported, ""),
      DXGKIT_EXPORT("_byteswap_ushort", c_swap16, kSupported, ""),
      DXGKIT_EXPORT("_itoa", c_itoa, kSupported, ""),
      DXGKIT_EXPORT("_itoa_s", c_itoa_s, kSupported, ""),
      DXGKIT_EXPORT("_itow", c_itow, kSupported, ""),
      DXGKIT_EXPORT("_itow_s", c_itow_s, kSupported, ""),
      DXGKIT_EXPORT("_snprintf_s", c_snprintf_s, kSupported, ""),
      DXGKIT_EXPORT("_snwprintf_s", c_snwprintf_s, kSupported, ""),
      DXGKIT_EXPORT("_stricmp", c_stricmp, kSupported, ""),
      DXGKIT_EXPORT("_strlwr", c_strlwr, kSupported, ""),
      DXGKIT_EXPORT("_strnicmp", c_strnicmp, kSupported, ""),
      DXGKIT_EXPORT("_strupr", c_strupr, kSupported, ""),
      DXGKIT_EXPORT("_ultow_s", c_ultow_s, kSupported, ""),
      DXGKIT_EXPORT("_vsnprintf_s", c_vsnprintf_s, kSupported, ""),
      DXGKIT_EXPORT("_vsnwprintf_s", c_vsnwprintf_s, kSupported, ""),
      DXGKIT_EXPORT("_wcsicmp", c_wcsicmp, kSupported, ""),
      DXGKIT_EXPORT("_wcslwr", c_wcslwr, kSupported, ""),
      DXGKIT_EXPORT("_wcsnicmp", c_wcsnicmp, kSupported, ""),
      DXGKIT_EXPORT("_wcsupr", c_wcsupr, kSupported, ""),
      DXGKIT_EXPORT("_wtoi", c_wtoi, kSupported, ""),
      DXGKIT_EXPORT("_wtol", c_wtoi, kSupported, ""),
      DXGKIT_EXPORT("abs", c_abs, kSupported, ""),
      DXGKIT_EXPORT("atoi", c_atoi, kSupported, ""),
      DXGKIT_EXPORT("atol", c_atoi, kSupported, ""),
      DXGKIT_EXPORT("bsearch", c_bsearch, kSupported, ""),
      DXGKIT_EXPORT("isalnum", c_isalnum, kSupported, ""),
      DXGKIT_EXPORT("isalpha", c_isalpha, kSupported, ""),
      DXGKIT_EXPORT("isdigit", c_isdigit, kSupported, ""),
      DXGKIT_EXPORT("islower", c_islower, kSupported, ""),
      DXGKIT_EXPORT("isprint", c_isprint, kSupported, ""),
      DXGKIT_EXPORT("isspace", c_isspace, kSupported, ""),
      DXGKIT_EXPORT("isupper", c_isupper, kSupported, ""),
      DXGKIT_EXPORT("iswalpha", c_isalpha, kPartial, "ASCII letters"),
      DXGKIT_EXPORT("iswdigit", c_isdigit, kPartial, "ASCII digits"),
      DXGKIT_EXPORT("iswspace", c_isspace, kPartial, "ASCII spaces"),
      DXGKIT_EXPORT("isxdigit", c_isxdigit, kSupported, ""),
      DXGKIT_EXPORT("labs", c_abs, kSupported, ""),
      DXGKIT_EXPORT("memcpy_s", c_memcpy_s, kSupported, ""),
      DXGKIT_EXPORT("memmove_s", c_memmove_s, kSupported, ""),
      DXGKIT_EXPORT("qsort", c_qsort, kSupported, ""),
      DXGKIT_EXPORT("rand", c_rand, kPartial, "from the run's seed"),
      DXGKIT_EXPORT("sprintf_s", c_sprintf_s, kSupported, ""),
      DXGKIT_EXPORT("srand", c_srand, kPartial, "the run's seed decides"),
      DXGKIT_EXPORT("sscanf_s", refuse_scan, kRefused, "no scanning: converts nothing"),
      DXGKIT_EXPORT("strcat", c_strcat, kSupported, ""),
      DXGKIT_EXPORT("strcat_s", c_strcat_s, kSupported, ""),
      DXGKIT_EXPORT("strcpy_s", c_strcpy_s, kSupported, ""),
      DXGKIT_EXPORT("strcspn", c_strcspn, kSupported, ""),
      DXGKIT_EXPORT("strncat", c_strncat, kSupported, ""),
      DXGKIT_EXPORT("strncat_s", c_strncat_s, kSupported, ""),
      DXGKIT_EXPORT("strncpy_s", c_strncpy_s, kSupported, ""),
      DXGKIT_EXPORT("strnlen", c_strnlen, kSupported, ""),
      DXGKIT_EXPORT("strpbrk", c_strpbrk, kSupported, ""),
      DXGKIT_EXPORT("strrchr", c_strrchr, kSupported, ""),
      DXGKIT_EXPORT("strspn", c_strspn, kSupported, ""),
      DXGKIT_EXPORT("strtol", c_strtol, kSupported, ""),
      DXGKIT_EXPORT("strtoul", c_strtoul, kSupported, ""),
      DXGKIT_EXPORT("swprintf", c_swprintf, kSupported, ""),
      DXGKIT_EXPORT("swprintf_s", c_swprintf_s, kSupported, ""),
      DXGKIT_EXPORT("swscanf_s", refuse_scan, kRefused, "no scanning: converts nothing"),
      DXGKIT_EXPORT("tolower", c_tolower, kSupported, ""),
      DXGKIT_EXPORT("toupper", c_toupper, kSupported, ""),
      DXGKIT_EXPORT("towlower", c_towlower, kSupported, ""),
      DXGKIT_EXPORT("towupper", c_towupper, kSupported, ""),
      DXGKIT_EXPORT("vsprintf", c_vsprintf, kSupported, ""),
      DXGKIT_EXPORT("vsprintf_s", c_vsprintf_s, kSupported, ""),
      DXGKIT_EXPORT("vswprintf_s", c_vswprintf_s, kSupported, ""),
      DXGKIT_EXPORT("wcscat", c_wcscat, kSupported, ""),
      DXGKIT_EXPORT("wcscat_s", c_wcscat_s, kSupported, ""),
      DXGKIT_EXPORT("wcschr", c_wcschr, kSupported, ""),
      DXGKIT_EXPORT("wcscpy", c_wcscpy, kSupported, ""),
      DXGKIT_EXPORT("wcscpy_s", c_wcscpy_s, kSupported, ""),
      DXGKIT_EXPORT("wcsncat", c_wcsncat, kSupported, ""),
      DXGKIT_EXPORT("wcsncat_s", c_wcsncat_s, kSupported, ""),
      DXGKIT_EXPORT("wcsncpy", c_wcsncpy, kSupported, ""),
      DXGKIT_EXPORT("wcsncpy_s", c_wcsncpy_s, kSupported, ""),
      DXGKIT_EXPORT("wcsnlen", c_wcsnlen, kSupported, ""),
      DXGKIT_EXPORT("wcsrchr", c_wcsrchr, kSupported, ""),
      DXGKIT_EXPORT("wcsspn", c_wcsspn, kSupported, ""),
      DXGKIT_EXPORT("wcsstr", c_wcsstr, kSupported, ""),
      DXGKIT_EXPORT("wcstol", c_wcstol, kSupported, ""),
      DXGKIT_EXPORT("wcstoul", c_wcstoul, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
