// What the device and its renderer process say to each other. Both are of one build: no version.
//
// The device asks, and the renderer answers each question in order, over a socket of whole messages
// of a fixed size. What has no fixed size lies in the mailbox: memory that both have mapped, and
// that a driver cannot reach. Backing pages are ranges of the machine's system memory, which the
// renderer has mapped, too.
#pragma once

#include <cstdint>

namespace dxgkit::virtiogpu {

// Descriptors of the renderer when it starts.
inline constexpr int kRendererSocket = 3, kRendererMailbox = 4, kRendererMemory = 5,
                     kRendererLife = 6;  // a pipe that ends with the device
inline constexpr int kRendererDescriptorsEnd = 7;

/// Bounds a command buffer, a list of backing pages and the rows that are read at once.
inline constexpr uint32_t kMailboxBytes = 4U << 20;

enum class Ask : uint32_t {
  kStart = 1,      // number: limit of its own memory, in MiB; mailbox out: Capset
  kCapset,         // number: id, level: version; mailbox out: the set
  kCreateContext,  // context, number: flags; mailbox in: name
  kDestroyContext,
  kAttach,  // context, resource
  kDetach,
  kCreateResource,  // resource, shape
  kUnref,
  kAttachBacking,  // resource; mailbox in: MemoryRange
  kDetachBacking,
  kToHost,  // context (or 0), resource, box, level, stride, layer_stride, offset in the backing
  kFromHost,
  kSubmit,  // context; mailbox in: commands
  kFinish,  // waits for the work of all commands
  kRead,    // resource, box of level 0; mailbox out: rows of `stride` bytes
};

struct Capset {
  uint32_t id = 0, version_most = 0, bytes_most = 0;
  bool operator==(const Capset&) const = default;
};
inline constexpr uint32_t kCapsetsMost = 4, kCapsetIdMost = 63, kCapsetBytesMost = 1 << 14;

struct Shape {
  uint32_t target = 0, format = 0, bind = 0, width = 0, height = 0, depth = 0, array_size = 0,
           last_level = 0, samples = 0, flags = 0;
};

struct Box {
  uint32_t x = 0, y = 0, z = 0, width = 0, height = 0, depth = 0;
};

/// Of the descriptor kRendererMemory.
struct MemoryRange {
  uint64_t offset = 0, bytes = 0;
};

struct Question {
  Ask ask = Ask::kStart;
  uint32_t sequence = 0;  // the answer has the same
  uint32_t context = 0, resource = 0;
  uint32_t bytes = 0;  // in the mailbox
  uint32_t number = 0;
  Shape shape;
  Box box;
  uint32_t level = 0, stride = 0, layer_stride = 0, padding = 0;
  uint64_t offset = 0;
};

struct Answer {
  uint32_t sequence = 0;
  uint32_t error = 0;  // errno of the question; 0: done
  uint32_t bytes = 0;  // in the mailbox
  uint32_t padding = 0;
};

}  // namespace dxgkit::virtiogpu
