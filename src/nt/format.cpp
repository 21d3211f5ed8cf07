#include "nt/format.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "nt/layout.h"

namespace dxgkit::nt {
namespace {

constexpr size_t kTextMax =
    64 * 1024;  // more than any deliberate output; bounds a missing terminator
constexpr int kWidthMax = 4096;

template <typename Out, typename In>
void append_text(std::basic_string<Out>& out, const In* text, size_t length, int width, bool left) {
  const size_t padding =
      width > 0 && static_cast<size_t>(width) > length ? static_cast<size_t>(width) - length : 0;
  if (!left) out.append(padding, Out(' '));
  for (size_t i = 0; i < length; ++i)
    out.push_back(static_cast<Out>(static_cast<std::make_unsigned_t<In>>(text[i])));
  if (left) out.append(padding, Out(' '));
}

template <>
void append_text<char, char16_t>(std::string& out, const char16_t* text, size_t length, int width,
                                 bool left) {
  const size_t padding =
      width > 0 && static_cast<size_t>(width) > length ? static_cast<size_t>(width) - length : 0;
  if (!left) out.append(padding, ' ');
  for (size_t i = 0; i < length; ++i)
    out.push_back(text[i] < 0x80 ? static_cast<char>(text[i]) : '?');
  if (left) out.append(padding, ' ');
}

template <>
void append_text<char16_t, char16_t>(std::u16string& out, const char16_t* text, size_t length,
                                     int width, bool left) {
  const size_t padding =
      width > 0 && static_cast<size_t>(width) > length ? static_cast<size_t>(width) - length : 0;
  if (!left) out.append(padding, u' ');
  out.append(text, length);
  if (left) out.append(padding, u' ');
}

template <typename Char>
size_t length_of(const Char* text, int precision) {
  const size_t limit =
      precision >= 0 ? std::min(static_cast<size_t>(precision), kTextMax) : kTextMax;
  size_t length = 0;
  while (length < limit && text[length] != Char(0)) ++length;
  return length;
}

template <typename Char>
class Formatter {
 public:
  Formatter(const Char* format, const char* arguments) : at_(format), arguments_(arguments) {}

  std::basic_string<Char> run() {
    while (*at_ != Char(0) && out_.size() < kTextMax) {
      if (*at_ != Char('%')) {
        out_.push_back(*at_++);
        continue;
      }
      ++at_;
      if (*at_ == Char('%')) {
        out_.push_back(*at_++);
        continue;
      }
      conversion();
    }
    return std::move(out_);
  }

 private:
  uint64_t next() {
    uint64_t value = 0;
    std::memcpy(&value, arguments_, sizeof(value));
    arguments_ += sizeof(value);
    return value;
  }
  int number() {
    if (*at_ == Char('*')) {
      ++at_;
      return std::clamp(static_cast<int>(next()), -kWidthMax, kWidthMax);
    }
    int value = 0;
    while (*at_ >= Char('0') && *at_ <= Char('9'))
      value = std::min(value * 10 + static_cast<int>(*at_++ - Char('0')), kWidthMax);
    return value;
  }

  void conversion() {
    const Char* const start = at_;
    std::string flags;
    while (*at_ == Char('-') || *at_ == Char('+') || *at_ == Char(' ') || *at_ == Char('#') ||
           *at_ == Char('0')) {
      flags.push_back(static_cast<char>(*at_++));
    }
    int width = number();
    bool left = flags.find('-') != std::string::npos;
    if (width < 0) {
      left = true;
      width = -width;
    }
    int precision = -1;
    if (*at_ == Char('.')) {
      ++at_;
      precision = number();
    }
    // Size: int is 4 bytes and long too; I64, ll, I, z, t, j are 8.
    int bytes = 4;
    int wide_text = 0;  // 1: wide, -1: narrow, 0: as the function
    bool counted = false;
    for (bool more = true; more;) {
      switch (static_cast<uint32_t>(*at_)) {
        case 'l':
          if (at_[1] == Char('l')) {
            bytes = 8;
            ++at_;
          }
          wide_text = 1;
          ++at_;
          break;
        case 'h':
          bytes = at_[1] == Char('h') ? 1 : 2;
          if (bytes == 1) ++at_;
          wide_text = -1;
          ++at_;
          break;
        case 'w':
          wide_text = 1;
          counted = true;
          ++at_;
          break;
        case 'z':
        case 't':
        case 'j':
          bytes = 8;
          ++at_;
          break;
        case 'I':
          ++at_;
          bytes = 8;
          if (at_[0] == Char('6') && at_[1] == Char('4')) {
            at_ += 2;
          } else if (at_[0] == Char('3') && at_[1] == Char('2')) {
            bytes = 4;
            at_ += 2;
          }
          break;
        default:
          more = false;
      }
    }
    const auto letter = static_cast<uint32_t>(*at_);
    if (letter != 0) ++at_;
    switch (letter) {
      case 'd':
      case 'i':
        integer('d', bytes, flags, left, width, precision);
        return;
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        integer(static_cast<char>(letter), bytes, flags, left, width, precision);
        return;
      case 'p': {
        char text[20];
        const int length =
            std::snprintf(text, sizeof(text), "%016llX", static_cast<unsigned long long>(next()));
        append_text<Char, char>(out_, text, static_cast<size_t>(length), width, left);
        return;
      }
      case 'c':
      case 'C': {
        const bool wide = letter == 'c' ? (wide_text > 0 || (wide_text == 0 && sizeof(Char) == 2))
                                        : sizeof(Char) == 1;
        const uint64_t value = next();
        const auto unit = static_cast<char16_t>(wide ? value : value & 0xFF);
        append_text<Char, char16_t>(out_, &unit, 1, width, left);
        return;
      }
      case 's':
      case 'S': {
        const bool wide = letter == 's' ? (wide_text > 0 || (wide_text == 0 && sizeof(Char) == 2))
                                        : sizeof(Char) == 1;
        text(reinterpret_cast<const void*>(next()), wide, width, precision, left);
        return;
      }
      case 'Z':
        if (counted) {
          const auto* value = reinterpret_cast<const UnicodeString*>(next());
          if (value == nullptr || value->buffer == nullptr) {
            append_text<Char, char>(out_, "(null)", 6, width, left);
          } else {
            append_text<Char, char16_t>(out_, value->buffer, value->length / sizeof(char16_t),
                                        width, left);
          }
        } else {
          const auto* value = reinterpret_cast<const AnsiString*>(next());
          if (value == nullptr || value->buffer == nullptr) {
            append_text<Char, char>(out_, "(null)", 6, width, left);
          } else {
            append_text<Char, char>(out_, value->buffer, value->length, width, left);
          }
        }
        return;
      case 'e':
      case 'f':
      case 'g':
      case 'E':
      case 'G': {
        const uint64_t bits = next();
        double value = 0;
        std::memcpy(&value, &bits, sizeof(value));
        char specification[32], number_text[400];
        std::snprintf(specification, sizeof(specification), "%%%s*.*%c", flags.c_str(),
                      static_cast<char>(letter));
        const int length = std::snprintf(number_text, sizeof(number_text), specification,
                                         width > 300 ? 300 : width,
                                         precision < 0 ? 6 : std::min(precision, 40), value);
        append_text<Char, char>(out_, number_text, static_cast<size_t>(std::clamp(length, 0, 399)),
                                0, left);
        return;
      }
      default:
        out_.push_back(Char('%'));
        out_.append(start, at_);
        return;
    }
  }

  void integer(char letter, int bytes, const std::string& flags, bool left, int width,
               int precision) {
    uint64_t value = next();
    if (bytes == 4)
      value = letter == 'd' ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(value)})
                            : value & 0xFFFFFFFF;
    if (bytes == 2)
      value = letter == 'd' ? static_cast<uint64_t>(int64_t{static_cast<int16_t>(value)})
                            : value & 0xFFFF;
    if (bytes == 1)
      value =
          letter == 'd' ? static_cast<uint64_t>(int64_t{static_cast<int8_t>(value)}) : value & 0xFF;
    std::string specification = "%" + flags;
    if (left && flags.find('-') == std::string::npos) specification += '-';
    specification += std::to_string(width);
    if (precision >= 0) specification += "." + std::to_string(precision);
    specification += std::string("ll") + letter;
    std::string text(static_cast<size_t>(std::max(width, precision)) + 32, '\0');
    const int length = std::snprintf(text.data(), text.size(), specification.c_str(),
                                     static_cast<unsigned long long>(value));
    append_text<Char, char>(out_, text.data(), static_cast<size_t>(std::max(length, 0)), 0, left);
  }

  void text(const void* pointer, bool wide, int width, int precision, bool left) {
    if (pointer == nullptr) {
      append_text<Char, char>(out_, "(null)", 6, width, left);
    } else if (wide) {
      const auto* string = static_cast<const char16_t*>(pointer);
      append_text<Char, char16_t>(out_, string, length_of(string, precision), width, left);
    } else {
      const auto* string = static_cast<const char*>(pointer);
      append_text<Char, char>(out_, string, length_of(string, precision), width, left);
    }
  }

  const Char* at_;
  const char* arguments_;
  std::basic_string<Char> out_;
};

}  // namespace

std::string format_narrow(const char* format, const char* arguments) {
  return Formatter<char>(format, arguments).run();
}
std::u16string format_wide(const char16_t* format, const char* arguments) {
  return Formatter<char16_t>(format, arguments).run();
}

}  // namespace dxgkit::nt
