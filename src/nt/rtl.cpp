// Counted strings, GUIDs, bitmaps, times and numbers of the run-time library.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/crc32.h"
#include "nt/executive.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

constexpr uint32_t kStringTag = 0x74735452;  // "RTst"

void* pool_bytes(size_t bytes) {
  const auto pool =
      export_function<void * DXGKIT_NT_ABI(uint32_t, uint64_t, uint32_t)>("ExAllocatePoolWithTag");
  return pool(1, bytes, kStringTag);
}
void free_bytes(void* memory) {
  const auto pool = export_function<void DXGKIT_NT_ABI(void*)>("ExFreePool");
  pool(memory);
}

/// The ANSI code page here is Latin 1: each byte is the character of that number.
char to_ansi(char16_t unit) { return unit < 0x100 ? static_cast<char>(unit) : '?'; }
char16_t from_ansi(char letter) { return static_cast<unsigned char>(letter); }
char upper_ansi(char letter) { return to_ansi(upcase(from_ansi(letter))); }

size_t units_in(const UnicodeString& string) { return string.length / sizeof(char16_t); }

DXGKIT_NT_ABI int32_t init_unicode_ex(UnicodeString* string, const char16_t* text) {
  UnicodeString& out = required("RtlInitUnicodeStringEx", "DestinationString", string);
  out = {0, 0, nullptr};
  if (text == nullptr) return kSuccess;
  const size_t length = std::char_traits<char16_t>::length(text);
  if (length > 0x7FFE) return kNameTooLong;
  out = {static_cast<uint16_t>(length * 2), static_cast<uint16_t>(length * 2 + 2),
         const_cast<char16_t*>(text)};
  return kSuccess;
}

DXGKIT_NT_ABI int32_t unicode_to_ansi_string(AnsiString* out, const UnicodeString* in,
                                             uint8_t allocate) {
  AnsiString& target = required("RtlUnicodeStringToAnsiString", "DestinationString", out);
  const UnicodeString& source = required("RtlUnicodeStringToAnsiString", "SourceString", in);
  const size_t length = units_in(source);
  if (length + 1 > UINT16_MAX) return value(0xC00000F0);
  if (allocate != 0) {
    auto* memory = static_cast<char*>(pool_bytes(length + 1));
    if (memory == nullptr) return kNoMemory;
    target = {0, static_cast<uint16_t>(length + 1), memory};
  } else if (length + 1 > target.maximum_length) {
    // Copies as much as fits, with a terminator.
    if (target.maximum_length == 0) return kBufferOverflow;
    const auto fits = static_cast<uint16_t>(target.maximum_length - 1);
    for (size_t i = 0; i < fits; ++i) target.buffer[i] = to_ansi(source.buffer[i]);
    target.buffer[fits] = 0;
    target.length = fits;
    return kBufferOverflow;
  }
  for (size_t i = 0; i < length; ++i) target.buffer[i] = to_ansi(source.buffer[i]);
  target.buffer[length] = 0;
  target.length = static_cast<uint16_t>(length);
  return kSuccess;
}
DXGKIT_NT_ABI void free_ansi(AnsiString* string) {
  AnsiString& given = required("RtlFreeAnsiString", "AnsiString", string);
  if (given.buffer != nullptr) free_bytes(given.buffer);
  given = {0, 0, nullptr};
}
DXGKIT_NT_ABI uint32_t ansi_size(const UnicodeString* in) {
  return static_cast<uint32_t>(
      units_in(required("RtlxUnicodeStringToAnsiSize", "UnicodeString", in)) + 1);
}
DXGKIT_NT_ABI uint32_t unicode_size(const AnsiString* in) {
  return (uint32_t{required("RtlxAnsiStringToUnicodeSize", "AnsiString", in).length} + 1) * 2;
}

DXGKIT_NT_ABI int32_t append_unicode_string(UnicodeString* out, const UnicodeString* in) {
  UnicodeString& target = required("RtlAppendUnicodeStringToString", "Destination", out);
  const UnicodeString& source = required("RtlAppendUnicodeStringToString", "Source", in);
  if (source.length == 0) return kSuccess;
  if (size_t{target.length} + source.length > target.maximum_length) return kBufferTooSmall;
  std::memmove(reinterpret_cast<std::byte*>(target.buffer) + target.length, source.buffer,
               source.length);
  target.length = static_cast<uint16_t>(target.length + source.length);
  if (target.length + 2U <= target.maximum_length) target.buffer[target.length / 2] = 0;
  return kSuccess;
}
DXGKIT_NT_ABI int32_t append_string(AnsiString* out, const AnsiString* in) {
  AnsiString& target = required("RtlAppendStringToString", "Destination", out);
  const AnsiString& source = required("RtlAppendStringToString", "Source", in);
  if (size_t{target.length} + source.length > target.maximum_length) return kBufferTooSmall;
  if (source.length > 0) std::memmove(target.buffer + target.length, source.buffer, source.length);
  target.length = static_cast<uint16_t>(target.length + source.length);
  return kSuccess;
}
DXGKIT_NT_ABI void copy_string(AnsiString* out, const AnsiString* in) {
  AnsiString& target = required("RtlCopyString", "DestinationString", out);
  if (in == nullptr) {
    target.length = 0;
    return;
  }
  target.length = std::min(in->length, target.maximum_length);
  if (target.length > 0) std::memcpy(target.buffer, in->buffer, target.length);
}
DXGKIT_NT_ABI int32_t compare_string(const AnsiString* a, const AnsiString* b, uint8_t no_case) {
  const AnsiString& first = required("RtlCompareString", "String1", a);
  const AnsiString& second = required("RtlCompareString", "String2", b);
  for (size_t i = 0; i < std::min(first.length, second.length); ++i) {
    char x = first.buffer[i], y = second.buffer[i];
    if (no_case != 0) {
      x = upper_ansi(x);
      y = upper_ansi(y);
    }
    if (x != y) return static_cast<unsigned char>(x) - static_cast<unsigned char>(y);
  }
  return first.length - second.length;
}
DXGKIT_NT_ABI uint8_t equal_string(const AnsiString* a, const AnsiString* b, uint8_t no_case) {
  return compare_string(a, b, no_case) == 0 ? 1 : 0;
}
DXGKIT_NT_ABI int32_t compare_unicode(const UnicodeString* a, const UnicodeString* b,
                                      uint8_t no_case) {
  const UnicodeString& first = required("RtlCompareUnicodeString", "String1", a);
  const UnicodeString& second = required("RtlCompareUnicodeString", "String2", b);
  for (size_t i = 0; i < std::min(units_in(first), units_in(second)); ++i) {
    char16_t x = first.buffer[i], y = second.buffer[i];
    if (no_case != 0) {
      x = upcase(x);
      y = upcase(y);
    }
    if (x != y) return x - y;
  }
  return first.length - second.length;
}
DXGKIT_NT_ABI uint8_t equal_unicode(const UnicodeString* a, const UnicodeString* b,
                                    uint8_t no_case) {
  return compare_unicode(a, b, no_case) == 0 ? 1 : 0;
}
DXGKIT_NT_ABI uint8_t prefix_unicode(const UnicodeString* prefix, const UnicodeString* string,
                                     uint8_t no_case) {
  const UnicodeString& first = required("RtlPrefixUnicodeString", "String1", prefix);
  UnicodeString second = required("RtlPrefixUnicodeString", "String2", string);
  if (first.length > second.length) return 0;
  second.length = first.length;
  return equal_unicode(&first, &second, no_case);
}
DXGKIT_NT_ABI uint8_t prefix_string(const AnsiString* prefix, const AnsiString* string,
                                    uint8_t no_case) {
  const AnsiString& first = required("RtlPrefixString", "String1", prefix);
  AnsiString second = required("RtlPrefixString", "String2", string);
  if (first.length > second.length) return 0;
  second.length = first.length;
  return equal_string(&first, &second, no_case);
}
DXGKIT_NT_ABI char16_t upcase_char(char16_t unit) { return upcase(unit); }
DXGKIT_NT_ABI char16_t downcase_char(char16_t unit) { return downcase(unit); }
DXGKIT_NT_ABI char upper_char(char letter) { return upper_ansi(letter); }

int32_t change_case(const char* function, UnicodeString* out, const UnicodeString* in,
                    uint8_t allocate, char16_t (*change)(char16_t)) {
  UnicodeString& target = required(function, "DestinationString", out);
  const UnicodeString source = required(function, "SourceString", in);
  if (allocate != 0) {
    void* memory = pool_bytes(std::max<size_t>(source.length, 2));
    if (memory == nullptr) return kNoMemory;
    target = {0, source.length, static_cast<char16_t*>(memory)};
  } else if (target.maximum_length < source.length) {
    return kBufferOverflow;
  }
  for (size_t i = 0; i < units_in(source); ++i) target.buffer[i] = change(source.buffer[i]);
  target.length = source.length;
  return kSuccess;
}
DXGKIT_NT_ABI int32_t upcase_string(UnicodeString* out, const UnicodeString* in, uint8_t allocate) {
  return change_case("RtlUpcaseUnicodeString", out, in, allocate, &upcase);
}
DXGKIT_NT_ABI int32_t downcase_string(UnicodeString* out, const UnicodeString* in,
                                      uint8_t allocate) {
  return change_case("RtlDowncaseUnicodeString", out, in, allocate, &downcase);
}
DXGKIT_NT_ABI int32_t validate_unicode(uint32_t flags, const UnicodeString* string) {
  if (flags != 0) return kInvalidParameter;
  if (string == nullptr) return kSuccess;
  if (string->length % 2 != 0 || string->maximum_length % 2 != 0 ||
      string->length > string->maximum_length ||
      (string->buffer == nullptr && string->maximum_length != 0)) {
    return kInvalidParameter;
  }
  return kSuccess;
}
DXGKIT_NT_ABI uint8_t create_unicode(UnicodeString* out, const char16_t* text) {
  UnicodeString& target = required("RtlCreateUnicodeString", "DestinationString", out);
  required("RtlCreateUnicodeString", "SourceString", text);
  const size_t length = std::char_traits<char16_t>::length(text);
  if (length > 0x7FFE) return 0;
  auto* memory = static_cast<char16_t*>(pool_bytes(length * 2 + 2));
  if (memory == nullptr) return 0;
  std::memcpy(memory, text, length * 2 + 2);
  target = {static_cast<uint16_t>(length * 2), static_cast<uint16_t>(length * 2 + 2), memory};
  return 1;
}
/// The x65599 hash Windows documents as HASH_STRING_ALGORITHM_X65599.
DXGKIT_NT_ABI int32_t hash_unicode(const UnicodeString* string, uint8_t no_case, uint32_t algorithm,
                                   uint32_t* hash) {
  if (string == nullptr || hash == nullptr || algorithm > 1) return kInvalidParameter;
  uint32_t sum = 0;
  for (size_t i = 0; i < units_in(*string); ++i)
    sum = sum * 65599 + (no_case != 0 ? upcase(string->buffer[i]) : string->buffer[i]);
  *hash = sum;
  return kSuccess;
}

// --- numbers

bool parse_number(const char16_t* text, size_t length, uint32_t base, uint32_t* result) {
  size_t at = 0;
  while (at < length && text[at] <= u' ') ++at;
  bool negative = false;
  if (at < length && (text[at] == u'-' || text[at] == u'+')) negative = text[at++] == u'-';
  if (base == 0) {
    base = 10;
    if (at + 1 < length && text[at] == u'0') {
      const char16_t kind = text[at + 1];
      base = kind == u'x' ? 16 : kind == u'o' ? 8 : kind == u'b' ? 2 : 10;
      if (base != 10) at += 2;
    }
  } else if (base != 2 && base != 8 && base != 10 && base != 16) {
    return false;
  }
  uint32_t sum = 0;
  for (; at < length; ++at) {
    const char16_t unit = text[at];
    uint32_t digit = 99;
    if (unit >= u'0' && unit <= u'9') digit = unit - u'0';
    if (unit >= u'a' && unit <= u'f') digit = unit - u'a' + 10U;
    if (unit >= u'A' && unit <= u'F') digit = unit - u'A' + 10U;
    if (digit >= base) break;
    sum = sum * base + digit;
  }
  *result = negative ? 0 - sum : sum;
  return true;
}
DXGKIT_NT_ABI int32_t unicode_to_integer(const UnicodeString* string, uint32_t base,
                                         uint32_t* out) {
  const UnicodeString& text = required("RtlUnicodeStringToInteger", "String", string);
  required("RtlUnicodeStringToInteger", "Value", out);
  return parse_number(text.buffer, units_in(text), base, out) ? kSuccess : kInvalidParameter;
}
DXGKIT_NT_ABI int32_t char_to_integer(const char* text, uint32_t base, uint32_t* out) {
  required("RtlCharToInteger", "String", text);
  required("RtlCharToInteger", "Value", out);
  std::u16string wide;
  for (size_t i = 0; text[i] != 0 && i < 128; ++i) wide.push_back(from_ansi(text[i]));
  return parse_number(wide.data(), wide.size(), base, out) ? kSuccess : kInvalidParameter;
}
DXGKIT_NT_ABI int32_t int64_to_unicode(uint64_t number, uint32_t base, UnicodeString* out) {
  UnicodeString& target = required("RtlInt64ToUnicodeString", "String", out);
  if (base == 0) base = 10;
  if (base != 2 && base != 8 && base != 10 && base != 16) return kInvalidParameter;
  char16_t digits[64];
  size_t count = 0;
  do {
    digits[count++] = u"0123456789ABCDEF"[number % base];
    number /= base;
  } while (number > 0);
  if (target.maximum_length < count * 2) return kBufferOverflow;
  std::reverse_copy(digits, digits + count, target.buffer);
  target.length = static_cast<uint16_t>(count * 2);
  if (target.maximum_length >= target.length + 2U) target.buffer[count] = 0;
  return kSuccess;
}

struct Guid {
  uint32_t data1;
  uint16_t data2, data3;
  uint8_t data4[8];
};
DXGKIT_NT_ABI int32_t string_from_guid(const Guid* guid, UnicodeString* out) {
  const Guid& given = required("RtlStringFromGUID", "Guid", guid);
  UnicodeString& target = required("RtlStringFromGUID", "GuidString", out);
  const std::string text = fmt::format(
      "{{{:08X}-{:04X}-{:04X}-{:02X}{:02X}-{:02X}{:02X}{:02X}{:02X}{:02X}{:02X}}}", given.data1,
      given.data2, given.data3, given.data4[0], given.data4[1], given.data4[2], given.data4[3],
      given.data4[4], given.data4[5], given.data4[6], given.data4[7]);
  const std::u16string wide = widen(text);
  auto* memory = static_cast<char16_t*>(pool_bytes((wide.size() + 1) * 2));
  if (memory == nullptr) return kNoMemory;
  std::memcpy(memory, wide.c_str(), (wide.size() + 1) * 2);
  target = {static_cast<uint16_t>(wide.size() * 2), static_cast<uint16_t>(wide.size() * 2 + 2),
            memory};
  return kSuccess;
}
DXGKIT_NT_ABI int32_t guid_from_string(const UnicodeString* string, Guid* out) {
  std::u16string_view text;
  if (!text_of(string, &text)) return kInvalidParameter;
  Guid& target = required("RtlGUIDFromString", "Guid", out);
  constexpr std::u16string_view kShape = u"{xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}";
  if (text.size() != kShape.size()) return kInvalidParameter;
  uint8_t digits[32] = {};
  size_t count = 0;
  for (size_t i = 0; i < kShape.size(); ++i) {
    const char16_t unit = text[i];
    if (kShape[i] != u'x') {
      if (unit != kShape[i]) return kInvalidParameter;
      continue;
    }
    const bool decimal = unit >= u'0' && unit <= u'9';
    const char16_t letter = static_cast<char16_t>(unit | 0x20);
    if (!decimal && (letter < u'a' || letter > u'f')) return kInvalidParameter;
    digits[count++] = static_cast<uint8_t>(decimal ? unit - u'0' : letter - u'a' + 10);
  }
  const auto number = [&](size_t at, size_t length) {
    uint32_t sum = 0;
    for (size_t i = 0; i < length; ++i) sum = sum * 16 + digits[at + i];
    return sum;
  };
  target.data1 = number(0, 8);
  target.data2 = static_cast<uint16_t>(number(8, 4));
  target.data3 = static_cast<uint16_t>(number(12, 4));
  for (size_t i = 0; i < 8; ++i) target.data4[i] = static_cast<uint8_t>(number(16 + 2 * i, 2));
  return kSuccess;
}

// --- code pages

DXGKIT_NT_ABI int32_t unicode_to_multi_byte(char* out, uint32_t bytes, uint32_t* written,
                                            const char16_t* in, uint32_t in_bytes) {
  const uint32_t count = std::min(bytes, in_bytes / 2);
  for (uint32_t i = 0; i < count; ++i) out[i] = to_ansi(in[i]);
  if (written != nullptr) *written = count;
  return in_bytes / 2 > bytes ? kBufferOverflow : kSuccess;
}
DXGKIT_NT_ABI int32_t multi_byte_to_unicode(char16_t* out, uint32_t bytes, uint32_t* written,
                                            const char* in, uint32_t in_bytes) {
  const uint32_t count = std::min(bytes / 2, in_bytes);
  for (uint32_t i = 0; i < count; ++i) out[i] = from_ansi(in[i]);
  if (written != nullptr) *written = count * 2;
  return in_bytes > bytes / 2 ? kBufferOverflow : kSuccess;
}
DXGKIT_NT_ABI int32_t unicode_to_multi_byte_size(uint32_t* size, const char16_t*, uint32_t bytes) {
  required("RtlUnicodeToMultiByteSize", "BytesInMultiByteString", size) = bytes / 2;
  return kSuccess;
}
DXGKIT_NT_ABI int32_t multi_byte_to_unicode_size(uint32_t* size, const char*, uint32_t bytes) {
  required("RtlMultiByteToUnicodeSize", "BytesInUnicodeString", size) = bytes * 2;
  return kSuccess;
}
DXGKIT_NT_ABI int32_t unicode_to_utf8(char* out, uint32_t bytes, uint32_t* needed,
                                      const char16_t* in, uint32_t in_bytes) {
  if (in == nullptr || in_bytes % 2 != 0) return kInvalidParameter;
  const std::string text = narrow({in, in_bytes / 2});
  if (out != nullptr) std::memcpy(out, text.data(), std::min<size_t>(bytes, text.size()));
  const bool fits = out == nullptr || text.size() <= bytes;
  if (needed != nullptr) *needed = fits ? static_cast<uint32_t>(text.size()) : bytes;
  return fits ? kSuccess : kBufferTooSmall;
}
DXGKIT_NT_ABI int32_t utf8_to_unicode(char16_t* out, uint32_t bytes, uint32_t* needed,
                                      const char* in, uint32_t in_bytes) {
  if (in == nullptr) return kInvalidParameter;
  const std::u16string text = widen({in, in_bytes});
  const size_t size = text.size() * 2;
  const size_t copied = std::min<size_t>(bytes & ~1U, size);
  if (out != nullptr) std::memcpy(out, text.data(), copied);
  const bool fits = out == nullptr || size <= bytes;
  if (needed != nullptr) *needed = static_cast<uint32_t>(fits ? size : copied);
  return fits ? kSuccess : kBufferTooSmall;
}

// --- bitmaps

struct Bitmap {  // RTL_BITMAP
  uint32_t size_bits;
  uint32_t* buffer;
};
bool bit(const Bitmap& map, uint32_t index) {
  return (map.buffer[index / 32] >> (index % 32) & 1U) != 0;
}
void put_bit(Bitmap& map, uint32_t index, bool on) {
  const uint32_t mask = 1U << (index % 32);
  map.buffer[index / 32] = on ? map.buffer[index / 32] | mask : map.buffer[index / 32] & ~mask;
}
DXGKIT_NT_ABI void set_bit(Bitmap* map, uint32_t index) {
  if (index < required("RtlSetBit", "BitMapHeader", map).size_bits) put_bit(*map, index, true);
}
DXGKIT_NT_ABI void clear_bit(Bitmap* map, uint32_t index) {
  if (index < required("RtlClearBit", "BitMapHeader", map).size_bits) put_bit(*map, index, false);
}
uint8_t are_bits(const Bitmap& map, uint32_t start, uint32_t count, bool on) {
  if (count == 0 || start >= map.size_bits || count > map.size_bits - start) return 0;
  for (uint32_t i = start; i < start + count; ++i) {
    if (bit(map, i) != on) return 0;
  }
  return 1;
}
DXGKIT_NT_ABI uint8_t are_bits_set(Bitmap* map, uint32_t start, uint32_t count) {
  return are_bits(required("RtlAreBitsSet", "BitMapHeader", map), start, count, true);
}
DXGKIT_NT_ABI uint8_t are_bits_clear(Bitmap* map, uint32_t start, uint32_t count) {
  return are_bits(required("RtlAreBitsClear", "BitMapHeader", map), start, count, false);
}
DXGKIT_NT_ABI uint32_t number_of_clear_bits(Bitmap* map) {
  const Bitmap& given = required("RtlNumberOfClearBits", "BitMapHeader", map);
  uint32_t count = 0;
  for (uint32_t i = 0; i < given.size_bits; ++i) count += bit(given, i) ? 0 : 1;
  return count;
}
DXGKIT_NT_ABI uint32_t find_set_bits_and_clear(Bitmap* map, uint32_t count, uint32_t hint) {
  const auto find =
      export_function<uint32_t DXGKIT_NT_ABI(Bitmap*, uint32_t, uint32_t)>("RtlFindSetBits");
  const uint32_t start = find(map, count, hint);
  if (start != UINT32_MAX) {
    for (uint32_t i = 0; i < count; ++i) put_bit(*map, start + i, false);
  }
  return start;
}
/// The next run of clear bits at or after `from`: its length, and its start.
DXGKIT_NT_ABI uint32_t next_run_clear(Bitmap* map, uint32_t from, uint32_t* start) {
  const Bitmap& given = required("RtlFindNextForwardRunClear", "BitMapHeader", map);
  uint32_t at = from;
  while (at < given.size_bits && bit(given, at)) ++at;
  required("RtlFindNextForwardRunClear", "StartingRunIndex", start) = at;
  uint32_t length = 0;
  while (at + length < given.size_bits && !bit(given, at + length)) ++length;
  return length;
}
DXGKIT_NT_ABI uint32_t first_run_clear(Bitmap* map, uint32_t* start) {
  return next_run_clear(map, 0, start);
}
DXGKIT_NT_ABI uint32_t longest_run_clear(Bitmap* map, uint32_t* start) {
  uint32_t best = 0, at = 0;
  *start = 0;
  for (uint32_t from = 0; from < map->size_bits;) {
    const uint32_t length = next_run_clear(map, from, &at);
    if (length == 0) break;
    if (length > best) {
      best = length;
      *start = at;
    }
    from = at + length;
  }
  return best;
}
DXGKIT_NT_ABI int8_t most_significant(uint64_t set) {
  return static_cast<int8_t>(set == 0 ? -1 : 63 - std::countl_zero(set));
}
DXGKIT_NT_ABI int8_t least_significant(uint64_t set) {
  return static_cast<int8_t>(set == 0 ? -1 : std::countr_zero(set));
}

// --- time: 100 ns since 1601

struct TimeFields {  // TIME_FIELDS
  int16_t year, month, day, hour, minute, second, milliseconds, weekday;
};
constexpr int64_t kUnitsPerSecond = 10'000'000, kUnitsPerDay = 86'400 * kUnitsPerSecond;
constexpr int64_t kSeconds1601To1970 = 11'644'473'600, kSeconds1601To1980 = 11'960'006'400;

bool leap(int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }
int64_t days_in(int64_t year, int64_t month) {
  static constexpr int8_t kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDays[month - 1] + (month == 2 && leap(year) ? 1 : 0);
}
int64_t days_before(int64_t year) {
  const int64_t y = year - 1;
  constexpr int64_t kDaysBefore1601 = 584'388;  // since the year 1
  return y * 365 + y / 4 - y / 100 + y / 400 - kDaysBefore1601;
}
DXGKIT_NT_ABI void time_to_fields(const int64_t* time, TimeFields* out) {
  const int64_t units = required("RtlTimeToTimeFields", "Time", time);
  TimeFields& fields = required("RtlTimeToTimeFields", "TimeFields", out);
  int64_t days = units / kUnitsPerDay, rest = units % kUnitsPerDay;
  fields.weekday = static_cast<int16_t>((days + 1) % 7);
  int64_t year = 1601 + days / 366;
  while (days_before(year + 1) <= days) ++year;
  days -= days_before(year);
  int64_t month = 1;
  while (days >= days_in(year, month)) days -= days_in(year, month++);
  fields.year = static_cast<int16_t>(year);
  fields.month = static_cast<int16_t>(month);
  fields.day = static_cast<int16_t>(days + 1);
  rest /= 10'000;
  fields.milliseconds = static_cast<int16_t>(rest % 1000);
  rest /= 1000;
  fields.second = static_cast<int16_t>(rest % 60);
  fields.minute = static_cast<int16_t>(rest / 60 % 60);
  fields.hour = static_cast<int16_t>(rest / 3600);
}
DXGKIT_NT_ABI uint8_t fields_to_time(const TimeFields* in, int64_t* time) {
  const TimeFields& f = required("RtlTimeFieldsToTime", "TimeFields", in);
  if (f.year < 1601 || f.month < 1 || f.month > 12 || f.day < 1 ||
      f.day > days_in(f.year, f.month) || f.hour < 0 || f.hour > 23 || f.minute < 0 ||
      f.minute > 59 || f.second < 0 || f.second > 59 || f.milliseconds < 0 ||
      f.milliseconds > 999) {
    return 0;
  }
  int64_t days = days_before(f.year) + f.day - 1;
  for (int64_t month = 1; month < f.month; ++month) days += days_in(f.year, month);
  required("RtlTimeFieldsToTime", "Time", time) =
      days * kUnitsPerDay +
      (int64_t{f.hour} * 3600 + int64_t{f.minute} * 60 + f.second) * kUnitsPerSecond +
      int64_t{f.milliseconds} * 10'000;
  return 1;
}
uint8_t to_seconds(const int64_t* time, uint32_t* out, int64_t base) {
  const int64_t seconds = *time / kUnitsPerSecond - base;
  if (seconds < 0 || seconds > UINT32_MAX) return 0;
  *out = static_cast<uint32_t>(seconds);
  return 1;
}
DXGKIT_NT_ABI uint8_t to_seconds_1970(const int64_t* time, uint32_t* out) {
  return to_seconds(time, out, kSeconds1601To1970);
}
DXGKIT_NT_ABI uint8_t to_seconds_1980(const int64_t* time, uint32_t* out) {
  return to_seconds(time, out, kSeconds1601To1980);
}
DXGKIT_NT_ABI void from_seconds_1970(uint32_t seconds, int64_t* time) {
  *time = (seconds + kSeconds1601To1970) * kUnitsPerSecond;
}
DXGKIT_NT_ABI void from_seconds_1980(uint32_t seconds, int64_t* time) {
  *time = (seconds + kSeconds1601To1980) * kUnitsPerSecond;
}

// --- chance, sums, memory

DXGKIT_NT_ABI uint32_t random_number(uint32_t* seed) {
  const auto number =
      static_cast<uint32_t>(CallFrame::current().kernel().runtime().random() % 0x7FFFFFFF);
  required("RtlRandomEx", "Seed", seed) = number;
  return number;
}
DXGKIT_NT_ABI uint32_t crc32(const void* data, uint64_t bytes, uint32_t initial) {
  return dxgkit::crc32({static_cast<const std::byte*>(data), bytes}, initial);
}
DXGKIT_NT_ABI uint32_t compute_crc32(uint32_t initial, const void* data, uint32_t bytes) {
  return crc32(data, bytes, initial);
}
DXGKIT_NT_ABI uint64_t compare_ulong(const uint32_t* data, uint64_t bytes, uint32_t pattern) {
  uint64_t same = 0;
  while (same < bytes / 4 && data[same] == pattern) ++same;
  return same * 4;
}
DXGKIT_NT_ABI void zero_memory(void* to, uint64_t bytes) { std::memset(to, 0, bytes); }
DXGKIT_NT_ABI void fill_memory(void* to, uint64_t bytes, uint8_t value_byte) {
  std::memset(to, value_byte, bytes);
}
DXGKIT_NT_ABI void move_memory(void* to, const void* from, uint64_t bytes) {
  std::memmove(to, from, bytes);
}
DXGKIT_NT_ABI uint16_t swap_ushort(uint16_t v) { return __builtin_bswap16(v); }
DXGKIT_NT_ABI uint32_t swap_ulong(uint32_t v) { return __builtin_bswap32(v); }
DXGKIT_NT_ABI uint64_t swap_ulonglong(uint64_t v) { return __builtin_bswap64(v); }
DXGKIT_NT_ABI void copy_luid(uint64_t* to, const uint64_t* from) { *to = *from; }
DXGKIT_NT_ABI void prefetch(const void*, uint64_t) {}
DXGKIT_NT_ABI uint16_t no_backtrace(uint32_t, uint32_t, void**, uint32_t* hash) {
  if (hash != nullptr) *hash = 0;
  return 0;
}

}  // namespace

std::span<const Export> rtl_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("RtlAppendStringToString", append_string, kSupported, ""),
      DXGKIT_EXPORT("RtlAppendUnicodeStringToString", append_unicode_string, kSupported, ""),
      DXGKIT_EXPORT("RtlAreBitsClear", are_bits_clear, kSupported, ""),
      DXGKIT_EXPORT("RtlAreBitsSet", are_bits_set, kSupported, ""),
      DXGKIT_EXPORT("RtlCaptureStackBackTrace", no_backtrace, kPartial, "gives no frames"),
      DXGKIT_EXPORT("RtlCharToInteger", char_to_integer, kSupported, ""),
      DXGKIT_EXPORT("RtlClearBit", clear_bit, kSupported, ""),
      DXGKIT_EXPORT("RtlCompareMemoryUlong", compare_ulong, kSupported, ""),
      DXGKIT_EXPORT("RtlCompareString", compare_string, kPartial, "the code page is Latin 1"),
      DXGKIT_EXPORT("RtlCompareUnicodeString", compare_unicode, kSupported, ""),
      DXGKIT_EXPORT("RtlComputeCrc32", compute_crc32, kSupported, ""),
      DXGKIT_EXPORT("RtlCopyLuid", copy_luid, kSupported, ""),
      DXGKIT_EXPORT("RtlCopyMemory", move_memory, kSupported, ""),
      DXGKIT_EXPORT("RtlCopyMemoryNonTemporal", move_memory, kSupported, ""),
      DXGKIT_EXPORT("RtlCopyString", copy_string, kSupported, ""),
      DXGKIT_EXPORT("RtlCrc32", crc32, kSupported, ""),
      DXGKIT_EXPORT("RtlCreateUnicodeString", create_unicode, kSupported, ""),
      DXGKIT_EXPORT("RtlDowncaseUnicodeChar", downcase_char, kSupported, ""),
      DXGKIT_EXPORT("RtlDowncaseUnicodeString", downcase_string, kSupported, ""),
      DXGKIT_EXPORT("RtlEqualString", equal_string, kPartial, "the code page is Latin 1"),
      DXGKIT_EXPORT("RtlEqualUnicodeString", equal_unicode, kSupported, ""),
      DXGKIT_EXPORT("RtlFillMemory", fill_memory, kSupported, ""),
      DXGKIT_EXPORT("RtlFindFirstRunClear", first_run_clear, kSupported, ""),
      DXGKIT_EXPORT("RtlFindLeastSignificantBit", least_significant, kSupported, ""),
      DXGKIT_EXPORT("RtlFindLongestRunClear", longest_run_clear, kSupported, ""),
      DXGKIT_EXPORT("RtlFindMostSignificantBit", most_significant, kSupported, ""),
      DXGKIT_EXPORT("RtlFindNextForwardRunClear", next_run_clear, kSupported, ""),
      DXGKIT_EXPORT("RtlFindSetBitsAndClear", find_set_bits_and_clear, kSupported, ""),
      DXGKIT_EXPORT("RtlFreeAnsiString", free_ansi, kSupported, ""),
      DXGKIT_EXPORT("RtlGUIDFromString", guid_from_string, kSupported, ""),
      DXGKIT_EXPORT("RtlHashUnicodeString", hash_unicode, kSupported, ""),
      DXGKIT_EXPORT("RtlInitUnicodeStringEx", init_unicode_ex, kSupported, ""),
      DXGKIT_EXPORT("RtlInt64ToUnicodeString", int64_to_unicode, kSupported, ""),
      DXGKIT_EXPORT("RtlMoveMemory", move_memory, kSupported, ""),
      DXGKIT_EXPORT("RtlMultiByteToUnicodeN", multi_byte_to_unicode, kPartial,
                    "the code page is Latin 1"),
      DXGKIT_EXPORT("RtlMultiByteToUnicodeSize", multi_byte_to_unicode_size, kPartial,
                    "the code page is Latin 1"),
      DXGKIT_EXPORT("RtlNumberOfClearBits", number_of_clear_bits, kSupported, ""),
      DXGKIT_EXPORT("RtlPrefetchMemoryNonTemporal", prefetch, kSupported, ""),
      DXGKIT_EXPORT("RtlPrefixString", prefix_string, kPartial, "the code page is Latin 1"),
      DXGKIT_EXPORT("RtlPrefixUnicodeString", prefix_unicode, kSupported, ""),
      DXGKIT_EXPORT("RtlRandom", random_number, kPartial, "from the run's seed, not the caller's"),
      DXGKIT_EXPORT("RtlRandomEx", random_number, kPartial,
                    "from the run's seed, not the caller's"),
      DXGKIT_EXPORT("RtlSecondsSince1970ToTime", from_seconds_1970, kSupported, ""),
      DXGKIT_EXPORT("RtlSecondsSince1980ToTime", from_seconds_1980, kSupported, ""),
      DXGKIT_EXPORT("RtlSetBit", set_bit, kSupported, ""),
      DXGKIT_EXPORT("RtlStringFromGUID", string_from_guid, kSupported, ""),
      DXGKIT_EXPORT("RtlTimeFieldsToTime", fields_to_time, kSupported, ""),
      DXGKIT_EXPORT("RtlTimeToSecondsSince1970", to_seconds_1970, kSupported, ""),
      DXGKIT_EXPORT("RtlTimeToSecondsSince1980", to_seconds_1980, kSupported, ""),
      DXGKIT_EXPORT("RtlTimeToTimeFields", time_to_fields, kSupported, ""),
      DXGKIT_EXPORT("RtlUTF8ToUnicodeN", utf8_to_unicode, kSupported, ""),
      DXGKIT_EXPORT("RtlUlongByteSwap", swap_ulong, kSupported, ""),
      DXGKIT_EXPORT("RtlUlonglongByteSwap", swap_ulonglong, kSupported, ""),
      DXGKIT_EXPORT("RtlUnicodeStringToAnsiString", unicode_to_ansi_string, kPartial,
                    "the code page is Latin 1"),
      DXGKIT_EXPORT("RtlUnicodeStringToInteger", unicode_to_integer, kSupported, ""),
      DXGKIT_EXPORT("RtlUnicodeToMultiByteN", unicode_to_multi_byte, kPartial,
                    "the code page is Latin 1"),
      DXGKIT_EXPORT("RtlUnicodeToMultiByteSize", unicode_to_multi_byte_size, kPartial,
                    "the code page is Latin 1"),
      DXGKIT_EXPORT("RtlUnicodeToUTF8N", unicode_to_utf8, kSupported, ""),
      DXGKIT_EXPORT("RtlUpcaseUnicodeChar", upcase_char, kSupported, ""),
      DXGKIT_EXPORT("RtlUpcaseUnicodeString", upcase_string, kSupported, ""),
      DXGKIT_EXPORT("RtlUpperChar", upper_char, kPartial, "the code page is Latin 1"),
      DXGKIT_EXPORT("RtlUshortByteSwap", swap_ushort, kSupported, ""),
      DXGKIT_EXPORT("RtlValidateUnicodeString", validate_unicode, kSupported, ""),
      DXGKIT_EXPORT("RtlZeroMemory", zero_memory, kSupported, ""),
      DXGKIT_EXPORT("RtlxAnsiStringToUnicodeSize", unicode_size, kSupported, ""),
      DXGKIT_EXPORT("RtlxUnicodeStringToAnsiSize", ansi_size, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
