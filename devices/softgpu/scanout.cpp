#include "devices/softgpu/scanout.h"

#include <cstring>
#include <utility>

#include "devices/softgpu/softgpu_hw.h"

namespace dxgkit::softgpu {
namespace {

constexpr uint32_t kPixelBytes = 4;
/// Of a period, in twentieths: how long lines are drawn; then comes the blank.
constexpr int64_t kActive = 19, kWhole = 20;

}  // namespace

Scanout::Scanout(runtime::Runtime& runtime, AddressSpace& memory, Interrupts& interrupts,
                 uint32_t refresh_hz)
    : runtime_(runtime),
      memory_(memory),
      interrupts_(interrupts),
      refresh_hz_(refresh_hz),
      period_(runtime::kSecond / refresh_hz),
      clock_(runtime.make_timer([this] { tick(); })) {}

Scanout::~Scanout() { clock_.reset(); }

bool Scanout::enabled() const { return (control_ & SGPU_SCANOUT_ENABLE) != 0; }

void Scanout::arm() {
  if (armed_ || !enabled()) return;
  if (!waiting_ && (interrupts_.enabled() & SGPU_INT_VSYNC) == 0) return;
  armed_ = true;
  clock_->arm((runtime_.now() / period_ + 1) * period_);
}

void Scanout::take() {
  waiting_ = false;
  shown_ = address_;
  if (flipped_) flipped_(read_picture());
}

void Scanout::tick() {
  {
    const runtime::MutexLock lock(mutex_);
    armed_ = false;
    if (!enabled()) return;
    if (waiting_) take();
    arm();
  }
  interrupts_.set(SGPU_INT_VSYNC);
}

void Scanout::interrupts_changed() {
  const runtime::MutexLock lock(mutex_);
  arm();
}

void Scanout::lose_power() {
  const runtime::MutexLock lock(mutex_);
  control_ = size_ = pitch_ = 0;
  address_ = shown_ = 0;
  waiting_ = false;
}

void Scanout::on_flip(std::function<void(const ScreenPicture&)> flipped) {
  const runtime::MutexLock lock(mutex_);
  flipped_ = std::move(flipped);
}

uint64_t Scanout::read(uint64_t offset) {
  const runtime::MutexLock lock(mutex_);
  switch (offset) {
    case SGPU_REG_SCANOUTS:
      return 1;
    case SGPU_REG_SCANOUT_CONTROL:
      return control_;
    case SGPU_REG_SCANOUT_ADDRESS:
      return address_;
    case SGPU_REG_SCANOUT_SIZE:
      return size_;
    case SGPU_REG_SCANOUT_PITCH:
      return pitch_;
    case SGPU_REG_SCANOUT_SHOWN:
      return shown_;
    case SGPU_REG_SCANOUT_REFRESH:
      return refresh_hz_;
    case SGPU_REG_SCANOUT_LINE: {
      if (!enabled()) return 0;
      const int64_t height = size_ >> 16;
      const int64_t line = (runtime_.now() % period_) * kWhole * height / (period_ * kActive);
      return line < height ? static_cast<uint64_t>(line) : SGPU_SCANOUT_IN_BLANK;
    }
    default:
      return 0;
  }
}

void Scanout::write(uint64_t offset, uint64_t value) {
  const runtime::MutexLock lock(mutex_);
  const auto word = static_cast<uint32_t>(value);
  switch (offset) {
    case SGPU_REG_SCANOUT_CONTROL:
      control_ = word & SGPU_SCANOUT_ENABLE;
      break;
    case SGPU_REG_SCANOUT_SIZE:
      size_ = word;
      break;
    case SGPU_REG_SCANOUT_PITCH:
      pitch_ = word;
      break;
    case SGPU_REG_SCANOUT_ADDRESS:
      address_ = value & ~uint64_t{SGPU_SCANOUT_NOW};
      waiting_ = true;
      if (enabled() && (value & SGPU_SCANOUT_NOW) != 0) take();
      break;
    default:
      return;
  }
  arm();
}

ScreenPicture Scanout::picture() {
  const runtime::MutexLock lock(mutex_);
  return read_picture();
}

ScreenPicture Scanout::read_picture() {
  ScreenPicture picture;
  const uint32_t width = size_ & 0xFFFF, height = size_ >> 16;
  if (!enabled() || shown_ == 0 || width == 0 || height == 0) return picture;
  const uint64_t row = uint64_t{width} * kPixelBytes;
  if (pitch_ < row) return picture;
  Range range;
  if (memory_.resolve(shown_, uint64_t{pitch_} * (height - 1) + row, Access::kRead, range))
    return picture;
  picture.width = width;
  picture.height = height;
  picture.address = shown_;
  picture.pixels.resize(row * height);
  std::vector<uint8_t> line(row);
  for (uint32_t y = 0; y < height; ++y) {
    range.read(uint64_t{pitch_} * y, reinterpret_cast<std::byte*>(line.data()), row);
    uint8_t* out = picture.pixels.data() + row * y;
    for (uint64_t x = 0; x < row; x += kPixelBytes) {
      out[x] = line[x + 2];
      out[x + 1] = line[x + 1];
      out[x + 2] = line[x];
      out[x + 3] = 0xFF;
    }
  }
  return picture;
}

}  // namespace dxgkit::softgpu
