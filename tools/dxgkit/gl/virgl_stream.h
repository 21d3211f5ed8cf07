// Command streams of virgl: as much of them as is needed to know which resources they use.
//
// A stream is a sequence of commands. The first dword of a command has the command in bits 0 to 7,
// an object type in bits 8 to 15 and the number of dwords that follow in bits 16 to 31.
// Source: the facts of src/virgl_protocol.h in virglrenderer 0.10. Whether the commands make sense
// is for the renderer to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "tools/dxgkit/gl/vtest_protocol.h"

namespace dxgkit::gl {

/// A dword of a stream that names a resource.
struct ResourceUse {
  size_t position = 0;   // of the dword in the stream
  uint32_t handle = 0;   // what the dword holds; not 0
  bool written = false;  // the command may change the resource
};

/// Shared memory that a command reads or writes while it runs.
struct MemoryUse {
  uint32_t handle = 0;
  uint64_t offset = 0;
  uint64_t bytes_most = 0;     // UINT64_MAX: as far as the memory goes
  uint64_t buffer_bytes = 0;   // the same if the resource is a buffer
  bool device_writes = false;  // otherwise the device reads it
};

struct StreamCommand {
  size_t first = 0, dwords = 0;  // with its header
};

struct StreamFacts {
  std::vector<StreamCommand> commands;
  std::vector<ResourceUse> resources;  // in the order of the stream
  std::vector<MemoryUse> memory;
};

/// Reads the streams of one program, in their order. Not thread-safe.
class StreamReader {
 public:
  /// Query objects that a program may have at a time.
  static constexpr size_t kQueriesMost = 65'536;

  /// Refuses a command that does not end in the stream, is unknown, or is too short for the
  /// resources that it names. Then the stream is to be dropped as a whole.
  Decoded<StreamFacts> read(std::span<const uint32_t> stream);

 private:
  Decoded<void> read_command(std::span<const uint32_t> command, size_t first, StreamFacts& facts);
  Decoded<void> read_object(std::span<const uint32_t> command, size_t first, StreamFacts& facts);

  /// The renderer writes a query's result into this resource's memory. By sub-context and object.
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> queries_;
  uint32_t sub_context_ = 0;
};

}  // namespace dxgkit::gl
