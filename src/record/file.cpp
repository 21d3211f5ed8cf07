#include "record/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "base/arithmetic.h"
#include "base/crc32.h"
#include "record/message.h"

namespace dxgkit::record {
namespace {

using Error = std::unexpected<std::string>;

struct Head {
  std::array<char, 8> magic{};
  uint32_t version = 0;
  uint32_t reserved = 0;
  uint64_t table = 0;  // arguments::table_version()
};

constexpr uint32_t kCalls = 0x4C435844, kEnd = 0x4E455844;  // "DXCL", "DXEN"
struct ChunkHead {
  uint32_t kind = 0;
  uint32_t bytes = 0;   // of its content
  uint32_t stored = 0;  // of the compressed content, which follows
  uint32_t checksum = 0;
};

enum class Entry : uint32_t { kProcess = 1, kBytes = 2, kCall = 3 };
constexpr size_t kChunkCalls = 256;
constexpr uint32_t kMaxList = 4096;  // descriptors and fences of a call
constexpr size_t kMaxText = 4096;
/// Levels of zstd: as usual, and behind a chunk that did not become half as long.
constexpr int kCompression = 1, kHastyCompression = -20;

uint32_t checksum_of(ChunkHead head, std::span<const std::byte> stored) {
  head.checksum = 0;
  return crc32(stored, crc32(std::as_bytes(std::span(&head, 1))));
}

/// What compressing needs beside its input, kept from one chunk to the next.
struct CompressionRoom {
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context{ZSTD_createCCtx(), ZSTD_freeCCtx};
  std::vector<std::byte> whole;
  int level = kCompression;
};

/// A chunk in the room's memory. Empty: it cannot be compressed, and `error` says why.
std::span<const std::byte> chunk_in(CompressionRoom& room, uint32_t kind,
                                    std::span<const std::byte> content, std::string* error) {
  const size_t most = sizeof(ChunkHead) + ZSTD_compressBound(content.size());
  if (room.whole.size() < most) room.whole.resize(most);
  std::byte* const stored = room.whole.data() + sizeof(ChunkHead);
  const size_t size = ZSTD_compressCCtx(room.context.get(), stored, most - sizeof(ChunkHead),
                                        content.data(), content.size(), room.level);
  if (ZSTD_isError(size) != 0) {
    if (error->empty()) *error = fmt::format("compression: {}", ZSTD_getErrorName(size));
    return {};
  }
  room.level = size > content.size() / 2 ? kHastyCompression : kCompression;
  ChunkHead head{.kind = kind,
                 .bytes = static_cast<uint32_t>(content.size()),
                 .stored = static_cast<uint32_t>(size)};
  head.checksum = checksum_of(head, {stored, size});
  std::memcpy(room.whole.data(), &head, sizeof head);
  return std::span(room.whole).first(sizeof head + size);
}

std::vector<std::byte> chunk(uint32_t kind, std::span<const std::byte> content,
                             std::string* error) {
  CompressionRoom room;
  const std::span<const std::byte> whole = chunk_in(room, kind, content, error);
  return {whole.begin(), whole.end()};
}

/// Entries of a chunk: a kind, a length, and fields one after the other.
class EntryWriter {
 public:
  EntryWriter(Entry kind, std::vector<std::byte>* out) : out_(*out), writer_(out) {
    writer_.put(static_cast<uint32_t>(kind));
    length_at_ = out_.size();
    writer_.put(uint32_t{0});
  }
  ~EntryWriter() {
    const auto length = static_cast<uint32_t>(out_.size() - length_at_ - sizeof(uint32_t));
    std::memcpy(out_.data() + length_at_, &length, sizeof length);
  }
  EntryWriter(const EntryWriter&) = delete;
  EntryWriter& operator=(const EntryWriter&) = delete;

  template <typename T>
  void number(T value) {
    writer_.put(value);
  }
  template <typename T>
  void list(std::span<const T> values) {
    writer_.put(static_cast<uint32_t>(values.size()));
    if (!values.empty()) writer_.bytes(values.data(), values.size_bytes());
  }
  template <typename T>
  void list(const std::vector<T>& values) {
    list(std::span(values));
  }
  void text(const std::string& value) {
    const size_t length = std::min(value.size(), kMaxText);
    writer_.put(static_cast<uint32_t>(length));
    writer_.bytes(value.data(), length);
  }

 private:
  std::vector<std::byte>& out_;
  wire::Writer<std::vector<std::byte>> writer_;
  size_t length_at_ = 0;
};

template <typename T>
bool read_list(wire::Reader& reader, size_t most, std::vector<T>* values) {
  uint32_t count = 0;
  if (!reader.get(&count) || count > most) return false;
  const std::byte* const from = reader.take(count * sizeof(T));
  if (from == nullptr) return false;
  values->resize(count);
  if (count != 0) std::memcpy(values->data(), from, count * sizeof(T));
  return true;
}

bool read_text(wire::Reader& reader, std::string* text) {
  std::vector<char> letters;
  if (!read_list(reader, kMaxText, &letters)) return false;
  text->clear();
  // Printed later: nothing of it may speak to a terminal.
  for (const char letter : letters) *text += letter >= ' ' && letter <= '~' ? letter : '?';
  return true;
}

bool read_call(wire::Reader& reader, Call* call) {
  return reader.get(&call->function) && reader.get(&call->thread) && reader.get(&call->begin) &&
         reader.get(&call->end) && reader.get(&call->time_ns) && reader.get(&call->duration_ns) &&
         reader.get(&call->result) && read_list(reader, kMaxChunkBytes, &call->request) &&
         read_list(reader, kMaxChunkBytes, &call->reply) &&
         read_list(reader, kMaxList, &call->given) && read_list(reader, kMaxList, &call->made) &&
         read_list(reader, kMaxList, &call->fences) && read_text(reader, &call->unrecorded) &&
         reader.at_end();
}

/// What is wrong with a call whose fields could be read; empty: nothing.
std::string check_call(const Call& call, const std::vector<Call>& before) {
  if (call.function >= arguments::functions().size())
    return fmt::format("there is no function {}", call.function);
  if (call.begin >= call.end || (!before.empty() && before.back().end >= call.end))
    return "it returned before an earlier one";
  if (!call.unrecorded.empty())
    return call.request.empty() && call.reply.empty() && call.given.empty() && call.made.empty()
               ? ""
               : "it is unrecorded and has messages";
  const auto request = read_request(call.request);
  if (!request.has_value()) return request.error();
  if (request->function != call.function) return "its request is of another function";
  if (request->descriptors != call.given.size()) return "its descriptors are others than it says";
  const auto reply = read_reply(*request, call.request, call.reply);
  if (!reply.has_value()) return reply.error();
  if (reply->result != call.result) return "its reply has another status";
  return {};
}

class ChunkReader {
 public:
  explicit ChunkReader(Recording& recording) : recording_(recording) {}

  /// The entries of one chunk. What is wrong; empty: nothing.
  std::string read(std::span<const std::byte> bytes) {
    wire::Reader reader(bytes);
    while (!reader.at_end()) {
      uint32_t kind = 0, length = 0;
      const size_t at = reader.position();
      if (!reader.get(&kind) || !reader.get(&length))
        return fmt::format("an entry is cut off at byte {} of the chunk's content", at);
      const std::byte* const from = reader.take(length);
      if (from == nullptr)
        return fmt::format("an entry is cut off at byte {} of the chunk's content", at);
      if (std::string error = entry(kind, {from, length}); !error.empty())
        return fmt::format("{} (byte {} of the chunk's content)", error, at);
    }
    return {};
  }

 private:
  std::string entry(uint32_t kind, std::span<const std::byte> bytes) {
    wire::Reader reader(bytes);
    switch (static_cast<Entry>(kind)) {
      case Entry::kProcess:
        return reader.get(&recording_.process.id) && read_text(reader, &recording_.process.name) &&
                       reader.at_end()
                   ? ""
                   : "the process has other fields";
      case Entry::kBytes:
        return memory(reader);
      case Entry::kCall: {
        Call call;
        const size_t number = recording_.calls.size() + 1;
        if (!read_call(reader, &call)) return fmt::format("call {} has other fields", number);
        if (std::string error = check_call(call, recording_.calls); !error.empty())
          return fmt::format("call {}: {}", number, error);
        if (const auto found = memory_.find(call.begin); found != memory_.end()) {
          call.memory = std::move(found->second);
          memory_.erase(found);
        }
        recording_.calls.push_back(std::move(call));
        return {};
      }
    }
    return fmt::format("there is no kind {} of entries", kind);
  }

  std::string memory(wire::Reader& reader) {
    uint64_t begin = 0;
    Bytes bytes;
    if (!reader.get(&begin) || !reader.get(&bytes.allocation) || !reader.get(&bytes.seen) ||
        !reader.get(&bytes.offset) || !read_list(reader, kPageBytes, &bytes.bytes) ||
        !reader.at_end() || bytes.seen > 1)
      return "memory has other fields";
    memory_[begin].push_back(std::move(bytes));
    return {};
  }

  Recording& recording_;
  std::map<uint64_t, std::vector<Bytes>> memory_;  // of calls to come, by their begin
};

}  // namespace

// --- a chunk

void Chunk::reserve() { bytes_.reserve(kBytes + 2 * kPageBytes); }

void Chunk::put(const Process& process) {
  EntryWriter entry(Entry::kProcess, &bytes_);
  entry.number(process.id);
  entry.text(process.name);
}

void Chunk::put(uint64_t begin, uint32_t allocation, bool seen, uint64_t offset,
                std::span<const std::byte> bytes) {
  EntryWriter entry(Entry::kBytes, &bytes_);
  entry.number(begin);
  entry.number(allocation);
  entry.number(seen ? uint32_t{1} : uint32_t{0});
  entry.number(offset);
  entry.list(bytes);
}

void Chunk::put(const Call& call) {
  for (const Bytes& one : call.memory)
    put(call.begin, one.allocation, one.seen != 0, one.offset, one.bytes);
  EntryWriter entry(Entry::kCall, &bytes_);
  entry.number(call.function);
  entry.number(call.thread);
  entry.number(call.begin);
  entry.number(call.end);
  entry.number(call.time_ns);
  entry.number(call.duration_ns);
  entry.number(call.result);
  entry.list(call.request);
  entry.list(call.reply);
  entry.list(call.given);
  entry.list(call.made);
  entry.list(call.fences);
  entry.text(call.unrecorded);
  ++calls_;
}

void Chunk::add(const Chunk& other) {
  bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
  calls_ += other.calls_;
}

bool Chunk::is_full() const { return bytes_.size() >= kBytes || calls_ >= kChunkCalls; }

void Chunk::clear() {
  bytes_.clear();
  calls_ = 0;
}

// --- the file

struct FileWriter::Room : CompressionRoom {};

FileWriter::FileWriter(wire::UniqueFd file)
    : file_(std::move(file)), room_(std::make_unique<Room>()) {}

FileWriter::~FileWriter() = default;

std::vector<std::byte> file_head() {
  Head head{.version = kVersion, .table = arguments::table_version()};
  std::memcpy(head.magic.data(), kMagic.data(), kMagic.size());
  const auto bytes = std::as_bytes(std::span(&head, 1));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> chunk_of_calls(std::span<const std::byte> entries, std::string* error) {
  return chunk(kCalls, entries, error);
}

std::expected<std::unique_ptr<FileWriter>, std::string> FileWriter::create(
    const std::string& path) {
  wire::UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return Error(fmt::format("{}: {}", path, std::strerror(errno)));
  std::unique_ptr<FileWriter> writer = on(std::move(file));
  if (!writer->error_.empty()) return Error(writer->error_);
  return writer;
}

std::unique_ptr<FileWriter> FileWriter::on(wire::UniqueFd file) {
  std::unique_ptr<FileWriter> writer(new FileWriter(std::move(file)));
  writer->write_bytes(file_head());
  return writer;
}

void FileWriter::write(const Chunk& chunk) {
  if (!chunk.is_empty()) write_bytes(chunk_in(*room_, kCalls, chunk.bytes(), &error_));
  calls_ += chunk.calls();
}

void FileWriter::finish() {
  write_bytes(chunk(kEnd, std::as_bytes(std::span(&calls_, 1)), &error_));
}

void FileWriter::write_bytes(std::span<const std::byte> bytes) {
  while (error_.empty() && !bytes.empty()) {
    const ssize_t some = ::write(file_.get(), bytes.data(), bytes.size());
    if (some < 0 && errno == EINTR) continue;
    if (some < 0)
      error_ = std::strerror(errno);
    else
      bytes = bytes.subspan(static_cast<size_t>(some));
  }
}

bool is_recording(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string first(kMagic.size(), '\0');
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  return file && first == kMagic;
}

std::expected<Recording, std::string> read_recording(std::span<const std::byte> file) {
  Recording recording;
  wire::Reader reader(file);
  Head head;
  if (!reader.get(&head) || std::memcmp(head.magic.data(), kMagic.data(), kMagic.size()) != 0)
    return Error("byte 0: it is no recording");
  if (head.version != kVersion)
    return Error(
        fmt::format("byte 8: version {}; this is a reader of version {}", head.version, kVersion));
  if (head.reserved != 0) return Error("byte 12: a reserved field is not 0");
  if (head.table != arguments::table_version())
    return Error("byte 16: it was recorded by another version of dxgkit");
  ChunkReader chunks(recording);
  uint64_t total = 0;
  while (true) {
    const size_t at = reader.position();
    ChunkHead chunk_head;
    const std::byte* stored = nullptr;
    if (reader.get(&chunk_head)) {
      if (chunk_head.kind != kCalls && chunk_head.kind != kEnd)
        return Error(fmt::format("byte {}: no chunk begins here", at));
      if (chunk_head.bytes > kMaxChunkBytes || chunk_head.stored > kMaxChunkBytes)
        return Error(fmt::format("byte {}: the chunk is larger than chunks may be", at));
      stored = reader.take(chunk_head.stored);
    }
    if (stored == nullptr) {
      recording.cut = fmt::format(
          "the file ends at byte {}, in the chunk of byte {}, without the mark of its end",
          file.size(), at);
      return recording;
    }
    if (checksum_of(chunk_head, {stored, chunk_head.stored}) != chunk_head.checksum)
      return Error(fmt::format("byte {}: the checksum of the chunk is wrong", at));
    total += chunk_head.bytes;
    if (total > kMaxRecordingBytes)
      return Error(fmt::format("byte {}: there is more than a reader takes", at));
    std::vector<std::byte> content(chunk_head.bytes);
    if (ZSTD_decompress(content.data(), content.size(), stored, chunk_head.stored) !=
        content.size())
      return Error(fmt::format("byte {}: the chunk cannot be decompressed", at));
    if (chunk_head.kind == kEnd) {
      uint64_t calls = 0;
      if (content.size() != sizeof calls)
        return Error(fmt::format("byte {}: the end has another size", at));
      std::memcpy(&calls, content.data(), sizeof calls);
      if (calls != recording.calls.size())
        return Error(fmt::format("byte {}: the end mark counts {}, not {}", at, calls,
                                 recording.calls.size()));
      if (!reader.at_end())
        return Error(fmt::format("byte {}: there are bytes behind the end", reader.position()));
      return recording;
    }
    if (std::string error = chunks.read(content); !error.empty())
      return Error(fmt::format("byte {}: {}", at, error));
  }
}

std::expected<Recording, std::string> read_recording(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) return Error(fmt::format("{} cannot be read", path));
  auto recording = read_recording(std::as_bytes(std::span(bytes)));
  if (!recording.has_value()) return Error(fmt::format("{}: {}", path, recording.error()));
  return recording;
}

}  // namespace dxgkit::record
