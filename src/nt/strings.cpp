// Run-time library: counted strings, bitmaps, memory and C strings, in the Win64 ABI.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "nt/format.h"
#include "nt/kernel_impl.h"
#include "nt/nt_status.h"

// faults.cpp
extern "C" DXGKIT_NT_ABI void* dxgkit_nt_memcpy(void* to, const void* from, size_t bytes);
extern "C" DXGKIT_NT_ABI void* dxgkit_nt_memset(void* to, int value, size_t bytes);
extern "C" DXGKIT_NT_ABI void* dxgkit_nt_memmove(void* to, const void* from, size_t bytes);
extern "C" DXGKIT_NT_ABI int dxgkit_nt_memcmp(const void* a, const void* b, size_t bytes);

namespace dxgkit::nt {
namespace {

uint16_t clamp_bytes(size_t bytes) {
  return static_cast<uint16_t>(std::min<size_t>(bytes, 0xFFFC));
}

size_t wide_length(const char16_t* text) {
  size_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}

DXGKIT_NT_ABI void rtl_init_ansi_string(AnsiString* string, const char* text) {
  const uint16_t length = text == nullptr ? uint16_t{0} : clamp_bytes(std::strlen(text));
  *string = {length, static_cast<uint16_t>(text == nullptr ? 0 : length + 1),
             const_cast<char*>(text)};
}
DXGKIT_NT_ABI void rtl_init_unicode_string(UnicodeString* string, const char16_t* text) {
  const uint16_t length =
      text == nullptr ? uint16_t{0} : clamp_bytes(wide_length(text) * sizeof(char16_t));
  *string = {length, static_cast<uint16_t>(text == nullptr ? 0 : length + 2),
             const_cast<char16_t*>(text)};
}

DXGKIT_NT_ABI void rtl_free_unicode_string(UnicodeString* string) {
  if (string->buffer == nullptr) return;
  const auto free = export_function<void DXGKIT_NT_ABI(void*)>("ExFreePool");
  free(string->buffer);
  *string = {};
}

DXGKIT_NT_ABI int32_t rtl_ansi_string_to_unicode_string(UnicodeString* out, const AnsiString* in,
                                                        uint8_t allocate) {
  const size_t bytes = (size_t{in->length} + 1) * sizeof(char16_t);
  if (bytes > UINT16_MAX) return ntstatus::kInvalidParameter;
  if (allocate != 0) {
    const auto pool = export_function<void * DXGKIT_NT_ABI(uint32_t, uint64_t, uint32_t)>(
        "ExAllocatePoolWithTag");
    out->buffer = static_cast<char16_t*>(pool(1, bytes, 0x74735452));  // "RTst"
    if (out->buffer == nullptr) return ntstatus::kNoMemory;
    out->maximum_length = static_cast<uint16_t>(bytes);
  } else if (out->maximum_length < bytes) {
    return ntstatus::kBufferOverflow;
  }
  out->length = static_cast<uint16_t>(bytes - sizeof(char16_t));
  for (size_t i = 0; i < in->length; ++i)
    out->buffer[i] = static_cast<unsigned char>(in->buffer[i]);
  out->buffer[in->length] = 0;
  return ntstatus::kSuccess;
}

DXGKIT_NT_ABI int32_t rtl_integer_to_unicode_string(uint32_t value, uint32_t base,
                                                    UnicodeString* out) {
  if (base == 0) base = 10;
  if (base != 2 && base != 8 && base != 10 && base != 16) return ntstatus::kInvalidParameter;
  char16_t digits[32];
  size_t count = 0;
  do {
    digits[count++] = u"0123456789ABCDEF"[value % base];
    value /= base;
  } while (value > 0);
  if (out->maximum_length < count * sizeof(char16_t)) return ntstatus::kBufferOverflow;
  std::reverse_copy(digits, digits + count, out->buffer);
  out->length = static_cast<uint16_t>(count * sizeof(char16_t));
  if (out->maximum_length >= out->length + sizeof(char16_t)) out->buffer[count] = 0;
  return ntstatus::kSuccess;
}

DXGKIT_NT_ABI void rtl_copy_unicode_string(UnicodeString* out, const UnicodeString* in) {
  if (in == nullptr) {
    out->length = 0;
    return;
  }
  out->length = std::min(in->length, out->maximum_length);
  std::memcpy(out->buffer, in->buffer, out->length);
}

DXGKIT_NT_ABI int32_t rtl_append_unicode_to_string(UnicodeString* out, const char16_t* text) {
  if (text == nullptr) return ntstatus::kSuccess;
  const size_t bytes = wide_length(text) * sizeof(char16_t);
  if (bytes > size_t{out->maximum_length} - std::min(out->length, out->maximum_length))
    return ntstatus::kBufferTooSmall;
  std::memcpy(reinterpret_cast<std::byte*>(out->buffer) + out->length, text, bytes);
  out->length = static_cast<uint16_t>(out->length + bytes);
  return ntstatus::kSuccess;
}

// --- bitmaps

struct Bitmap {  // RTL_BITMAP
  uint32_t size_bits;
  uint32_t* buffer;
};

bool bit(const Bitmap& map, uint32_t index) {
  return (map.buffer[index / 32] >> (index % 32) & 1U) != 0;
}
void set_bit(const Bitmap& map, uint32_t index, bool value) {
  const uint32_t mask = 1U << (index % 32);
  map.buffer[index / 32] = value ? map.buffer[index / 32] | mask : map.buffer[index / 32] & ~mask;
}
uint32_t find_run(const Bitmap& map, uint32_t count, uint32_t hint, bool value) {
  if (count == 0) return 0;
  if (count > map.size_bits) return UINT32_MAX;
  for (int pass = 0; pass < 2; ++pass) {
    uint32_t run = 0;
    for (uint32_t i = pass == 0 && hint < map.size_bits ? hint : 0; i < map.size_bits; ++i) {
      run = bit(map, i) == value ? run + 1 : 0;
      if (run == count) return i + 1 - count;
    }
  }
  return UINT32_MAX;
}

DXGKIT_NT_ABI void rtl_initialize_bitmap(Bitmap* map, uint32_t* buffer, uint32_t bits) {
  *map = {bits, buffer};
}
DXGKIT_NT_ABI void rtl_clear_all_bits(Bitmap* map) {
  std::memset(map->buffer, 0, (map->size_bits + 31U) / 32 * 4);
}
DXGKIT_NT_ABI void rtl_set_all_bits(Bitmap* map) {
  std::memset(map->buffer, 0xFF, (map->size_bits + 31U) / 32 * 4);
}
DXGKIT_NT_ABI void rtl_set_bits(Bitmap* map, uint32_t start, uint32_t count) {
  for (uint64_t i = start; i < uint64_t{start} + count && i < map->size_bits; ++i)
    set_bit(*map, static_cast<uint32_t>(i), true);
}
DXGKIT_NT_ABI void rtl_clear_bits(Bitmap* map, uint32_t start, uint32_t count) {
  for (uint64_t i = start; i < uint64_t{start} + count && i < map->size_bits; ++i)
    set_bit(*map, static_cast<uint32_t>(i), false);
}
DXGKIT_NT_ABI uint32_t rtl_find_clear_bits(Bitmap* map, uint32_t count, uint32_t hint) {
  return find_run(*map, count, hint, false);
}
DXGKIT_NT_ABI uint32_t rtl_find_set_bits(Bitmap* map, uint32_t count, uint32_t hint) {
  return find_run(*map, count, hint, true);
}
DXGKIT_NT_ABI uint32_t rtl_find_clear_bits_and_set(Bitmap* map, uint32_t count, uint32_t hint) {
  const uint32_t start = find_run(*map, count, hint, false);
  if (start != UINT32_MAX) rtl_set_bits(map, start, count);
  return start;
}
DXGKIT_NT_ABI uint8_t rtl_test_bit(Bitmap* map, uint32_t index) {
  return index < map->size_bits && bit(*map, index) ? 1 : 0;
}
DXGKIT_NT_ABI uint32_t rtl_number_of_set_bits(Bitmap* map) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < map->size_bits; ++i) count += bit(*map, i) ? 1 : 0;
  return count;
}

// --- C library in the driver's ABI: an image must never bind to the host's, whose ABI is another

DXGKIT_NT_ABI const void* c_memchr(const void* a, int value, size_t bytes) {
  return std::memchr(a, value, bytes);
}
DXGKIT_NT_ABI size_t rtl_compare_memory(const void* a, const void* b, size_t bytes) {
  const auto* x = static_cast<const std::byte*>(a);
  const auto* y = static_cast<const std::byte*>(b);
  size_t same = 0;
  while (same < bytes && x[same] == y[same]) ++same;
  return same;
}
DXGKIT_NT_ABI size_t c_strlen(const char* text) { return std::strlen(text); }
DXGKIT_NT_ABI int c_strcmp(const char* a, const char* b) { return std::strcmp(a, b); }
DXGKIT_NT_ABI int c_strncmp(const char* a, const char* b, size_t count) {
  return std::strncmp(a, b, count);
}
DXGKIT_NT_ABI char* c_strcpy(char* to, const char* from) { return std::strcpy(to, from); }
DXGKIT_NT_ABI char* c_strncpy(char* to, const char* from, size_t count) {
  size_t i = 0;
  for (; i < count && from[i] != 0; ++i) to[i] = from[i];
  for (; i < count; ++i) to[i] = 0;
  return to;
}
DXGKIT_NT_ABI const char* c_strstr(const char* a, const char* b) { return std::strstr(a, b); }
DXGKIT_NT_ABI const char* c_strchr(const char* a, int letter) { return std::strchr(a, letter); }
DXGKIT_NT_ABI size_t c_wcslen(const char16_t* text) { return wide_length(text); }
DXGKIT_NT_ABI int c_wcscmp(const char16_t* a, const char16_t* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a - *b;
}
DXGKIT_NT_ABI int c_wcsncmp(const char16_t* a, const char16_t* b, size_t count) {
  for (; count > 0; --count, ++a, ++b) {
    if (*a != *b || *a == 0) return *a - *b;
  }
  return 0;
}

// The Microsoft contract: -1 and no terminator when the text is longer than the buffer, no
// terminator when it just fits.
template <typename Char>
int put_text(Char* buffer, size_t count, const std::basic_string<Char>& text) {
  if (buffer == nullptr) return static_cast<int>(text.size());
  const size_t copied = std::min(count, text.size());
  std::memcpy(buffer, text.data(), copied * sizeof(Char));
  if (copied < count) buffer[copied] = Char(0);
  return text.size() > count ? -1 : static_cast<int>(text.size());
}

DXGKIT_NT_ABI int c_vsnprintf(char* buffer, size_t count, const char* format, char* arguments) {
  return put_text(buffer, count, format_narrow(format, arguments));
}
DXGKIT_NT_ABI int c_vsnwprintf(char16_t* buffer, size_t count, const char16_t* format,
                               char* arguments) {
  return put_text(buffer, count, format_wide(format, arguments));
}
DXGKIT_NT_ABI int c_snprintf(char* buffer, size_t count, const char* format, ...) {
  __builtin_ms_va_list arguments;
  __builtin_ms_va_start(arguments, format);
  const int result =
      put_text(buffer, count, format_narrow(format, reinterpret_cast<const char*>(arguments)));
  __builtin_ms_va_end(arguments);
  return result;
}
DXGKIT_NT_ABI int c_snwprintf(char16_t* buffer, size_t count, const char16_t* format, ...) {
  __builtin_ms_va_list arguments;
  __builtin_ms_va_start(arguments, format);
  const int result =
      put_text(buffer, count, format_wide(format, reinterpret_cast<const char*>(arguments)));
  __builtin_ms_va_end(arguments);
  return result;
}
DXGKIT_NT_ABI int c_sprintf(char* buffer, const char* format, ...) {
  __builtin_ms_va_list arguments;
  __builtin_ms_va_start(arguments, format);
  const int result =
      put_text(buffer, SIZE_MAX, format_narrow(format, reinterpret_cast<const char*>(arguments)));
  __builtin_ms_va_end(arguments);
  return result;
}

}  // namespace

std::span<const Export> string_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("RtlAnsiStringToUnicodeString", rtl_ansi_string_to_unicode_string, kPartial,
                    "the code page is Latin 1"),
      DXGKIT_EXPORT("RtlAppendUnicodeToString", rtl_append_unicode_to_string, kSupported, ""),
      DXGKIT_EXPORT("RtlClearAllBits", rtl_clear_all_bits, kSupported, ""),
      DXGKIT_EXPORT("RtlClearBits", rtl_clear_bits, kSupported, ""),
      DXGKIT_EXPORT("RtlCompareMemory", rtl_compare_memory, kSupported, ""),
      DXGKIT_EXPORT("RtlCopyUnicodeString", rtl_copy_unicode_string, kSupported, ""),
      DXGKIT_EXPORT("RtlFindClearBits", rtl_find_clear_bits, kSupported, ""),
      DXGKIT_EXPORT("RtlFindClearBitsAndSet", rtl_find_clear_bits_and_set, kSupported, ""),
      DXGKIT_EXPORT("RtlFindSetBits", rtl_find_set_bits, kSupported, ""),
      DXGKIT_EXPORT("RtlFreeUnicodeString", rtl_free_unicode_string, kSupported, ""),
      DXGKIT_EXPORT("RtlInitAnsiString", rtl_init_ansi_string, kSupported, ""),
      DXGKIT_EXPORT("RtlInitUnicodeString", rtl_init_unicode_string, kSupported, ""),
      DXGKIT_EXPORT("RtlInitializeBitMap", rtl_initialize_bitmap, kSupported, ""),
      DXGKIT_EXPORT("RtlIntegerToUnicodeString", rtl_integer_to_unicode_string, kSupported, ""),
      DXGKIT_EXPORT("RtlNumberOfSetBits", rtl_number_of_set_bits, kSupported, ""),
      DXGKIT_EXPORT("RtlSetAllBits", rtl_set_all_bits, kSupported, ""),
      DXGKIT_EXPORT("RtlSetBits", rtl_set_bits, kSupported, ""),
      DXGKIT_EXPORT("RtlTestBit", rtl_test_bit, kSupported, ""),
      DXGKIT_EXPORT("_snprintf", c_snprintf, kSupported, ""),
      DXGKIT_EXPORT("_snwprintf", c_snwprintf, kSupported, ""),
      DXGKIT_EXPORT("_vsnprintf", c_vsnprintf, kSupported, ""),
      DXGKIT_EXPORT("_vsnwprintf", c_vsnwprintf, kSupported, ""),
      DXGKIT_EXPORT("memchr", c_memchr, kSupported, ""),
      DXGKIT_EXPORT("memcmp", dxgkit_nt_memcmp, kSupported, ""),
      DXGKIT_EXPORT("memcpy", dxgkit_nt_memcpy, kSupported, ""),
      DXGKIT_EXPORT("memmove", dxgkit_nt_memmove, kSupported, ""),
      DXGKIT_EXPORT("memset", dxgkit_nt_memset, kSupported, ""),
      DXGKIT_EXPORT("sprintf", c_sprintf, kSupported, ""),
      DXGKIT_EXPORT("strchr", c_strchr, kSupported, ""),
      DXGKIT_EXPORT("strcmp", c_strcmp, kSupported, ""),
      DXGKIT_EXPORT("strcpy", c_strcpy, kSupported, ""),
      DXGKIT_EXPORT("strlen", c_strlen, kSupported, ""),
      DXGKIT_EXPORT("strncmp", c_strncmp, kSupported, ""),
      DXGKIT_EXPORT("strncpy", c_strncpy, kSupported, ""),
      DXGKIT_EXPORT("strstr", c_strstr, kSupported, ""),
      DXGKIT_EXPORT("wcscmp", c_wcscmp, kSupported, ""),
      DXGKIT_EXPORT("wcslen", c_wcslen, kSupported, ""),
      DXGKIT_EXPORT("wcsncmp", c_wcsncmp, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
