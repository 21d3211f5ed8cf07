// What a client and the broker of `dxgkit serve` say before a connection belongs to an adapter.
// After kOpen with success, the next bytes on the socket are the frame of hello.h. Descriptors that
// come with a greeting are closed.
#pragma once

#include <cstdint>

namespace dxgkit::wire {

inline constexpr uint64_t kGreetingMagic = 0x31'74'69'6B'67'78'64'00;  // "\0dxgkit1"
inline constexpr uint32_t kGreetingVersion = 1;

enum class Ask : uint32_t {
  kAdapters = 1,  // the answer: an AdapterLine for each adapter; another greeting may follow
  kOpen = 2,      // the LUID names the adapter
  kStatus = 3,    // the answer: JSON for people; then the connection ends
};

struct Greeting {
  uint64_t magic = kGreetingMagic;
  uint32_t version = kGreetingVersion;
  Ask ask = Ask::kAdapters;
  uint32_t luid_low = 0;
  int32_t luid_high = 0;
};
static_assert(sizeof(Greeting) == 24);

struct Greeted {
  uint64_t magic = kGreetingMagic;
  int32_t status = 0;  // an NTSTATUS
  uint32_t bytes = 0;  // that follow
};
static_assert(sizeof(Greeted) == 16);

struct AdapterLine {
  uint32_t luid_low = 0;
  int32_t luid_high = 0;
};
static_assert(sizeof(AdapterLine) == 8);

}  // namespace dxgkit::wire
