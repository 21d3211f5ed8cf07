#include "sim/content.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "base/pattern.h"

namespace dxgkit::sim {

void Content::fill(uint64_t offset, uint64_t size, uint32_t pattern) {
  fill_pattern(bytes_.data() + offset, size, pattern);
  close(offset, size);
}

void Content::write(uint64_t offset, std::span<const std::byte> data) {
  std::memcpy(bytes_.data() + offset, data.data(), data.size());
  close(offset, data.size());
}

void Content::copy(const Content& from, uint64_t source, uint64_t offset, uint64_t size) {
  std::vector<Range> open;  // before `close` changes the list we may be reading
  for (const Range& range : from.open_) {
    const uint64_t begin = std::max(range.begin, source);
    const uint64_t end = std::min(range.end, source + size);
    if (begin < end) open.push_back({begin - source + offset, end - source + offset});
  }
  std::memmove(bytes_.data() + offset, from.bytes_.data() + source, size);
  close(offset, size);
  for (const Range& range : open) this->open(range.begin, range.end - range.begin);
}

void Content::open(uint64_t offset, uint64_t size) {
  close(offset, size);
  open_.push_back({offset, offset + size});
  std::ranges::sort(open_, {}, &Range::begin);
}

void Content::close(uint64_t offset, uint64_t size) {
  if (open_.empty()) return;
  std::vector<Range> left;
  for (const Range& range : open_) {
    if (range.begin < offset) left.push_back({range.begin, std::min(range.end, offset)});
    if (range.end > offset + size)
      left.push_back({std::max(range.begin, offset + size), range.end});
  }
  open_ = std::move(left);
}

std::optional<std::string> Content::compare(uint64_t offset, std::span<const std::byte> actual) {
  for (const Range& range : open_) {
    const uint64_t begin = std::max(range.begin, offset);
    const uint64_t end = std::min(range.end, offset + actual.size());
    if (begin < end)
      std::memcpy(bytes_.data() + begin, actual.data() + (begin - offset), end - begin);
  }
  close(offset, actual.size());
  return difference(offset, actual);
}

std::optional<std::string> Content::compare_in_passing(uint64_t offset,
                                                       std::span<const std::byte> actual) const {
  if (open_.empty()) return difference(offset, actual);
  return Content(*this).compare(offset, actual);
}

std::optional<std::string> Content::difference(uint64_t offset,
                                               std::span<const std::byte> actual) const {
  if (std::memcmp(bytes_.data() + offset, actual.data(), actual.size()) == 0) return std::nullopt;
  uint64_t first = 0, wrong = 0;
  for (uint64_t i = actual.size(); i-- > 0;) {
    if (bytes_[offset + i] == actual[i]) continue;
    first = i;
    ++wrong;
  }
  const uint64_t at = offset + first;
  return fmt::format(
      "{} of {} bytes from offset {:#x} are wrong, the first at {:#x} (page {}): {:#04x} instead "
      "of {:#04x}",
      wrong, actual.size(), offset, at, at / kPageBytes, static_cast<unsigned>(actual[first]),
      static_cast<unsigned>(bytes_[at]));
}

}  // namespace dxgkit::sim
