// The file of a recording (.dxgk): a head, then chunks, each compressed and with a checksum.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "record/recording.h"
#include "wire/unique_fd.h"

namespace dxgkit::record {

/// The first bytes of every recording.
inline constexpr std::string_view kMagic = "DXGKREC\n";
inline constexpr uint32_t kVersion = 1;
/// The most bytes of a chunk, before and after compression.
inline constexpr size_t kMaxChunkBytes = size_t{64} << 20;
/// The most bytes of all chunks before compression that a reader takes.
inline constexpr uint64_t kMaxRecordingBytes = uint64_t{4} << 30;

/// The head of every file.
std::vector<std::byte> file_head();
/// A chunk with these entries. Empty: it cannot be compressed, and `error` says why.
std::vector<std::byte> chunk_of_calls(std::span<const std::byte> entries, std::string* error);

/// Entries of a recording that are compressed together. One thread at a time.
class Chunk {
 public:
  /// As many are about enough.
  static constexpr size_t kBytes = size_t{1} << 20;

  /// Makes room for all of it.
  void reserve();
  void put(const Process& process);
  /// Bytes of a call that will be put, here or into a later chunk; a page at most.
  void put(uint64_t begin, uint32_t allocation, bool seen, uint64_t offset,
           std::span<const std::byte> bytes);
  /// With its memory.
  void put(const Call& call);
  /// What another holds.
  void add(const Chunk& other);
  bool is_full() const;
  bool is_empty() const { return bytes_.empty(); }
  /// Keeps the room.
  void clear();
  std::span<const std::byte> bytes() const { return bytes_; }
  size_t calls() const { return calls_; }

 private:
  std::vector<std::byte> bytes_;
  size_t calls_ = 0;
};

/// Writes a recording. One thread at a time. What was written is safe in the file.
class FileWriter {
 public:
  /// A new file: one that exists is another recording's. The error is one sentence.
  static std::expected<std::unique_ptr<FileWriter>, std::string> create(const std::string& path);
  /// On a file that is open for writing, and empty.
  static std::unique_ptr<FileWriter> on(wire::UniqueFd file);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const Chunk& chunk);
  /// Says that nothing is missing.
  void finish();
  /// Why something could not be written; empty: everything was.
  const std::string& error() const { return error_; }

 private:
  struct Room;
  explicit FileWriter(wire::UniqueFd file);
  void write_bytes(std::span<const std::byte> bytes);

  const wire::UniqueFd file_;
  const std::unique_ptr<Room> room_;  // for compressing
  uint64_t calls_ = 0;
  std::string error_;
};

struct Recording {
  Process process;
  std::vector<Call> calls;
  /// Not empty: the file ends before its end mark, and where, in one sentence. All whole chunks
  /// have been read.
  std::string cut;
};

/// True if the file begins as a recording does.
bool is_recording(const std::string& path);
/// Reads a whole recording. The bytes may be anything. The error names the place in the file.
std::expected<Recording, std::string> read_recording(std::span<const std::byte> file);
/// The same, from a file.
std::expected<Recording, std::string> read_recording(const std::string& path);

}  // namespace dxgkit::record
