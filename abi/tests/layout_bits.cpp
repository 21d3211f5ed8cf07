// What only a run can check: where a bit-field's bits go, and the bytes of the GUIDs. Compiled once
// for the driver's target (an ELF object any Linux linker takes) and once natively.
#include "layout_asserts.h"
#include "layout_report.h"

namespace {

alignas(16) unsigned char storage[16384];

void clear(size_t size) {
  for (size_t i = 0; i < size; ++i) {
    *const_cast<volatile unsigned char*>(storage + i) = 0;
  }
}

void note(LayoutReport* report, bool good, const char* label) {
  ++report->checked;
  if (good) return;
  if (report->failed == 0) report->first_failure = label;
  ++report->failed;
}

// True if exactly bits [bit, bit + width) of the storage unit are set.
bool only_these_bits(size_t record_size, size_t offset, size_t size, unsigned bit, unsigned width) {
  for (size_t i = 0; i < record_size; ++i) {
    unsigned expected = 0;
    for (unsigned b = 0; b < 8; ++b) {
      if (i < offset || i >= offset + size) break;
      const size_t position = (i - offset) * 8 + b;
      if (position >= bit && position < bit + width) expected |= 1U << b;
    }
    if (storage[i] != expected) return false;
  }
  return true;
}

bool same_guid(const GUID& guid, unsigned a, unsigned b, unsigned c, const unsigned char* d) {
  bool same = guid.Data1 == a && guid.Data2 == b && guid.Data3 == c;
  for (int i = 0; i < 8; ++i) same = same && guid.Data4[i] == d[i];
  return same;
}

template <class T>
struct Unqualified {
  using type = T;
};
template <class T>
struct Unqualified<const T> {
  using type = T;
};

}  // namespace

#define BITS(record, member, offset, size, bit, width)                                            \
  {                                                                                               \
    static_assert(sizeof(record) <= sizeof(storage));                                             \
    clear(sizeof(record));                                                                        \
    record* object = reinterpret_cast<record*>(storage);                                          \
    object->member = static_cast<Unqualified<decltype(object->member)>::type>(-1);                \
    note(report, only_these_bits(sizeof(record), offset, size, bit, width), #record "." #member); \
  }
#define GUID_IS(name, a, b, c, ...)                      \
  {                                                      \
    static const unsigned char tail[8] = {__VA_ARGS__};  \
    note(report, same_guid(name, a, b, c, tail), #name); \
  }

extern "C" void NTAPI LAYOUT_RUN(LayoutReport* report) {
#include "bit_fields.inc"
#include "guids.inc"
}
