// What a client and the broker say to each other before a connection belongs to an adapter.
//
// A stream socket. The client sends a Hello, and the broker answers with a Welcome and what it
// announces. After kOpen with success the same socket leads to the adapter's process: the next byte
// is the first of its protocol. Descriptors that come with a Hello are closed.
#pragma once

#include <cstdint>

namespace dxgkit::serve {

inline constexpr uint64_t kHelloMagic = 0x31'74'69'6B'67'78'64'00;  // "\0dxgkit1", little-endian
inline constexpr uint32_t kGreetingVersion = 1;

enum class Ask : uint32_t {
  kAdapters = 1,  // the answer: AdapterLine for each one that runs; another Hello may follow
  kOpen = 2,      // `luid` names the adapter
  kStatus = 3,    // the answer: JSON; then the connection ends
};

struct Hello {
  uint64_t magic = kHelloMagic;
  uint32_t version = kGreetingVersion;
  Ask ask = Ask::kAdapters;
  uint32_t luid_low = 0;
  int32_t luid_high = 0;
};
static_assert(sizeof(Hello) == 24);

struct Welcome {
  uint64_t magic = kHelloMagic;
  int32_t status = 0;  // an NTSTATUS; after a failure the connection ends
  uint32_t bytes = 0;  // that follow
};
static_assert(sizeof(Welcome) == 16);

struct AdapterLine {
  uint32_t luid_low = 0;
  int32_t luid_high = 0;
};

}  // namespace dxgkit::serve
