#include "devices/softgpu/scanout.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "devices/softgpu/softgpu_hw.h"

namespace dxgkit::softgpu {
namespace {

constexpr uint32_t kPixelBytes = 4;
/// Of planes. A size beyond it shows nothing: no memory stands behind the size.
constexpr uint64_t kPictureBytesMost = uint64_t{256} << 20;
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
  if (!waits() && (interrupts_.enabled() & SGPU_INT_VSYNC) == 0) return;
  armed_ = true;
  clock_->arm((runtime_.now() / period_ + 1) * period_);
}

void Scanout::take() {
  waiting_ = false;
  shown_ = address_;
  composed_ = false;
  planes_ = {};
  waiting_planes_ = 0;
  if (flipped_) flipped_(read_picture());
}

void Scanout::tick() {
  {
    const runtime::MutexLock lock(mutex_);
    armed_ = false;
    if (!enabled()) return;
    if (waiting_) take();
    if (waiting_planes_ != 0) take_planes(waiting_planes_);
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
  waiting_ = composed_ = false;
  written_ = planes_ = {};
  waiting_planes_ = 0;
}

void Scanout::on_flip(std::function<void(const ScreenPicture&)> flipped) {
  const runtime::MutexLock lock(mutex_);
  flipped_ = std::move(flipped);
}

uint64_t Scanout::read_plane(uint32_t index, uint64_t offset) {
  const Plane& plane = written_[index];
  switch (offset) {
    case SGPU_PLANE_ADDRESS:
      return plane.address;
    case SGPU_PLANE_SOURCE:
      return plane.source;
    case SGPU_PLANE_TARGET:
      return plane.target;
    case SGPU_PLANE_CLIP:
      return plane.clip;
    case SGPU_PLANE_PITCH:
      return plane.pitch;
    case SGPU_PLANE_CONTROL:
      return plane.control;
    case SGPU_PLANE_SHOWN:
      return planes_[index].enabled() ? planes_[index].address : 0;
    default:
      return 0;
  }
}

bool Scanout::write_plane(uint32_t index, uint64_t offset, uint64_t value) {
  Plane& plane = written_[index];
  const auto word = static_cast<uint32_t>(value);
  switch (offset) {
    case SGPU_PLANE_ADDRESS:
      plane.address = value;
      break;
    case SGPU_PLANE_SOURCE:
      plane.source = value;
      break;
    case SGPU_PLANE_TARGET:
      plane.target = value;
      break;
    case SGPU_PLANE_CLIP:
      plane.clip = value;
      break;
    case SGPU_PLANE_PITCH:
      plane.pitch = word;
      break;
    case SGPU_PLANE_CONTROL:
      plane.control = word & (SGPU_PLANE_ENABLE | SGPU_PLANE_BLEND);
      break;
    case SGPU_PLANE_COMMIT:
      waiting_planes_ |= 1U << index;
      return enabled() && (word & SGPU_PLANE_NOW) != 0;
    default:
      break;
  }
  return false;
}

void Scanout::take_planes(uint32_t mask) {
  waiting_planes_ &= ~mask;
  composed_ = true;
  for (uint32_t i = 0; i < SGPU_PLANE_COUNT; ++i) {
    if ((mask >> i & 1) != 0) planes_[i] = written_[i];
  }
  if (flipped_) flipped_(read_picture());
}

uint64_t Scanout::read(uint64_t offset) {
  const runtime::MutexLock lock(mutex_);
  if (offset >= SGPU_PLANE_REG(0, 0)) {
    const uint64_t at = offset - SGPU_PLANE_REG(0, 0);
    return read_plane(static_cast<uint32_t>(at / SGPU_PLANE_BLOCK), at % SGPU_PLANE_BLOCK);
  }
  switch (offset) {
    case SGPU_REG_PLANES:
      return SGPU_PLANE_COUNT;
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
  if (offset >= SGPU_PLANE_REG(0, 0)) {
    const uint64_t at = offset - SGPU_PLANE_REG(0, 0);
    const auto index = static_cast<uint32_t>(at / SGPU_PLANE_BLOCK);
    if (write_plane(index, at % SGPU_PLANE_BLOCK, value)) take_planes(1U << index);
    arm();
    return;
  }
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

/// `plane` over what the picture has already. Points are taken from the nearest source pixel.
void Scanout::draw(const Plane& plane, ScreenPicture* picture) {
  struct Area {
    explicit Area(uint64_t rect)
        : x(rect & 0xFFFF),
          y(rect >> 16 & 0xFFFF),
          width(rect >> 32 & 0xFFFF),
          height(rect >> 48) {}
    uint64_t x, y, width, height;
  };
  const Area source(plane.source), target(plane.target), clip(plane.clip);
  if (source.width == 0 || source.height == 0 || target.width == 0 || target.height == 0) return;
  const uint64_t row = (source.x + source.width) * kPixelBytes;
  if (plane.pitch < row) return;
  Range range;
  if (memory_.resolve(plane.address, plane.pitch * (source.y + source.height - 1) + row,
                      Access::kRead, range))
    return;
  const uint64_t left = std::max(target.x, clip.x), top = std::max(target.y, clip.y);
  const uint64_t right =
      std::min({target.x + target.width, clip.x + clip.width, uint64_t{picture->width}});
  const uint64_t bottom =
      std::min({target.y + target.height, clip.y + clip.height, uint64_t{picture->height}});
  std::vector<uint8_t> line(source.width * kPixelBytes);
  for (uint64_t y = top; y < bottom; ++y) {
    const uint64_t from = source.y + (y - target.y) * source.height / target.height;
    range.read(plane.pitch * from + source.x * kPixelBytes,
               reinterpret_cast<std::byte*>(line.data()), line.size());
    for (uint64_t x = left; x < right; ++x) {
      const uint8_t* in = line.data() + (x - target.x) * source.width / target.width * kPixelBytes;
      uint8_t* out = picture->pixels.data() + (y * picture->width + x) * kPixelBytes;
      const uint32_t under = (plane.control & SGPU_PLANE_BLEND) != 0 ? 255U - in[3] : 0U;
      for (size_t colour = 0; colour < 3; ++colour) {  // blue comes first in memory
        const uint32_t mixed = in[2 - colour] + (out[colour] * under + 127) / 255;
        out[colour] = static_cast<uint8_t>(std::min(mixed, 255U));
      }
    }
  }
}

ScreenPicture Scanout::compose() {
  ScreenPicture picture;
  const uint64_t bytes = uint64_t{size_ & 0xFFFF} * (size_ >> 16) * kPixelBytes;
  if (bytes > kPictureBytesMost) return picture;
  picture.width = size_ & 0xFFFF;
  picture.height = size_ >> 16;
  picture.pixels.resize(uint64_t{picture.width} * picture.height * kPixelBytes);
  for (size_t at = 3; at < picture.pixels.size(); at += kPixelBytes) picture.pixels[at] = 0xFF;
  for (size_t i = planes_.size(); i-- != 0;) {
    if (planes_[i].enabled()) draw(planes_[i], &picture);
    if (planes_[i].enabled()) picture.address = planes_[i].address;
  }
  return picture;
}

ScreenPicture Scanout::read_picture() {
  if (enabled() && composed_) return compose();
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
