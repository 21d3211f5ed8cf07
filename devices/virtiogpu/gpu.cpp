#include "devices/virtiogpu/gpu.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/arithmetic.h"
#include "base/check.h"

namespace dxgkit::virtiogpu {
namespace {

constexpr uint32_t kPixelBytes = 4;
constexpr uint32_t kSideMost = 16384;  // pixels of a resource
constexpr uint16_t kCursorEntries = 16;
constexpr size_t kMisusesMost = 8;

// Modelled time of hardware.
constexpr runtime::DurationNs kCommandTime = 2 * runtime::kMicrosecond;
constexpr runtime::DurationNs kDrawTime = 200 * runtime::kMicrosecond;  // any command buffer
constexpr uint64_t kBytesPerNs = 8;

/// Where red, green, blue and alpha are in a pixel; alpha 4: there is none.
struct Order {
  uint8_t red, green, blue, alpha;
};
std::optional<Order> order_of(uint32_t format) {
  switch (format) {
    case VGPU_B8G8R8A8:
      return Order{2, 1, 0, 3};
    case VGPU_B8G8R8X8:
      return Order{2, 1, 0, 4};
    case VGPU_A8R8G8B8:
      return Order{1, 2, 3, 0};
    case VGPU_X8R8G8B8:
      return Order{1, 2, 3, 4};
    case VGPU_R8G8B8A8:
      return Order{0, 1, 2, 3};
    case VGPU_R8G8B8X8:
      return Order{0, 1, 2, 4};
    case VGPU_A8B8G8R8:
      return Order{3, 2, 1, 0};
    case VGPU_X8B8G8R8:
      return Order{3, 2, 1, 4};
    default:
      return std::nullopt;
  }
}

uint64_t pixel_bytes(uint64_t width, uint64_t height) { return width * height * kPixelBytes; }

/// True if the rectangle has pixels and lies in `width` times `height`.
bool lies_in(const VgpuRect& rect, uint32_t width, uint32_t height) {
  return rect.width != 0 && rect.height != 0 && range_within(rect.x, rect.width, width) &&
         range_within(rect.y, rect.height, height);
}

/// Of a device with 3D: a client's language may be wrong, and a renderer that was lost has
/// forgotten things. Which commands there are, and which ids, is the driver's to know.
bool is_drivers_mistake(uint32_t command, uint32_t answer) {
  const bool is_2d = command >= VGPU_GET_DISPLAY_INFO && command <= VGPU_GET_EDID;
  const bool is_3d = command >= VGPU_CTX_CREATE && command <= VGPU_SUBMIT_3D;
  const bool is_cursor = command == VGPU_UPDATE_CURSOR || command == VGPU_MOVE_CURSOR;
  if (!is_2d && !is_3d && !is_cursor) return true;
  if (answer == VGPU_ERR_UNSPEC) return false;
  const bool is_id =
      answer == VGPU_ERR_INVALID_CONTEXT_ID || answer == VGPU_ERR_INVALID_RESOURCE_ID;
  // What another context's renderer has is not attached, and may be detached all the same.
  return is_3d ? is_id && command != VGPU_CTX_DETACH_RESOURCE : command != VGPU_GET_CAPSET;
}

template <typename T>
void put(const T& value, std::vector<std::byte>* answer) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  answer->assign(bytes.begin(), bytes.end());
}

}  // namespace

Gpu::Gpu(GpuConfig config, std::unique_ptr<Rendering> rendering)
    : config_(std::move(config)), rendering_(std::move(rendering)) {
  DXGKIT_CHECK(config_.scanouts >= 1);
  DXGKIT_CHECK(config_.scanouts <= VGPU_SCANOUTS_MOST);
}

uint64_t Gpu::features() const {
  uint64_t features = 0;
  if (config_.edid) features |= uint64_t{1} << VGPU_F_EDID;
  if (rendering_) features |= uint64_t{1} << VGPU_F_VIRGL | uint64_t{1} << VGPU_F_CONTEXT_INIT;
  return features;
}

std::vector<uint16_t> Gpu::queue_sizes() const { return {config_.control_entries, kCursorEntries}; }

void Gpu::config_read(uint64_t offset, std::span<std::byte> to) {
  // No events: what a screen can show does not change. Capability sets are for 3D.
  const uint32_t words[] = {0, 0, config_.scanouts, rendering_ ? rendering_->capset_count() : 0};
  const auto bytes = std::as_bytes(std::span(words));
  if (range_within(offset, to.size(), bytes.size()))
    std::ranges::copy(bytes.subspan(offset, to.size()), to.begin());
}

void Gpu::config_write(uint64_t, std::span<const std::byte>) {
}  // clears events, of which none come

runtime::DurationNs Gpu::time_of(uint16_t queue, virtio::Request& request) {
  VgpuHeader header = {};
  if (queue != VGPU_QUEUE_CONTROL || !request.read(0, &header)) return kCommandTime;
  uint64_t bytes = 0;
  const auto area = [](uint32_t width, uint32_t height) {
    return pixel_bytes(std::min(width, kSideMost), std::min(height, kSideMost));
  };
  switch (header.type) {
    case VGPU_TRANSFER_TO_HOST_2D: {
      VgpuTransfer command = {};
      if (request.read(0, &command)) bytes = area(command.rect.width, command.rect.height);
      break;
    }
    case VGPU_TRANSFER_TO_HOST_3D:
    case VGPU_TRANSFER_FROM_HOST_3D: {
      VgpuTransfer3D command = {};
      if (request.read(0, &command)) bytes = area(command.box.width, command.box.height);
      break;
    }
    case VGPU_SUBMIT_3D:
      if (rendering_) return kDrawTime;
      break;
    default:
      break;
  }
  return kCommandTime + static_cast<runtime::DurationNs>(bytes / kBytesPerNs);
}

void Gpu::execute(uint16_t queue, virtio::Request& request) {
  VgpuHeader header = {};
  if (!request.read(0, &header)) {  // nothing that could be answered
    // A device that was pulled out reads no memory either.
    const runtime::MutexLock lock(mutex_);
    if (request.readable_bytes() < sizeof header && misuses_.size() < kMisusesMost)
      misuses_.emplace_back("a request has no whole header");
    return;
  }
  std::vector<std::byte> answer;
  uint32_t type = VGPU_ERR_UNSPEC;
  if (queue == VGPU_QUEUE_CURSOR) {
    if (header.type == VGPU_UPDATE_CURSOR || header.type == VGPU_MOVE_CURSOR)
      type = cursor(request, header.type == VGPU_UPDATE_CURSOR);
  } else {
    type = carry_out(header, request, &answer);
  }
  note_misuse(header.type, type);
  // What a fence waits for is done: a 2D command ends before the next one begins.
  if (rendering_ && (header.flags & VGPU_FLAG_FENCE) != 0) rendering_->finish(header.context_id);
  if (rendering_ && rendering_->is_lost()) return request.fail(rendering_->why_lost());
  VgpuHeader result = {};
  result.type = type;
  if ((header.flags & VGPU_FLAG_FENCE) != 0) {
    result.flags = VGPU_FLAG_FENCE;
    result.fence_id = header.fence_id;
    result.context_id = header.context_id;
  }
  if (answer.size() < sizeof result) answer.resize(sizeof result);
  std::memcpy(answer.data(), &result, sizeof result);
  // An answer is whole or not there. A cursor command needs none.
  if (request.writable_bytes() >= answer.size()) request.answer(answer);
}

void Gpu::refuse(uint16_t, virtio::Request& request) {
  VgpuHeader header = {};
  if (!request.read(0, &header)) return;
  VgpuHeader result = {};
  result.type = VGPU_ERR_UNSPEC;
  if ((header.flags & VGPU_FLAG_FENCE) != 0) {
    result.flags = VGPU_FLAG_FENCE;
    result.fence_id = header.fence_id;
    result.context_id = header.context_id;
  }
  if (request.writable_bytes() >= sizeof result)
    request.answer(std::as_bytes(std::span(&result, 1)));
}

uint32_t Gpu::carry_out(const VgpuHeader& header, virtio::Request& request,
                        std::vector<std::byte>* answer) {
  switch (header.type) {
    case VGPU_GET_DISPLAY_INFO:
      return display_info(answer);
    case VGPU_GET_EDID:
      return edid(request, answer);
    case VGPU_RESOURCE_CREATE_2D:
      return create(request);
    case VGPU_RESOURCE_UNREF:
      return unref(request);
    case VGPU_RESOURCE_ATTACH_BACKING:
      return attach(request);
    case VGPU_RESOURCE_DETACH_BACKING:
      return detach(request);
    case VGPU_TRANSFER_TO_HOST_2D:
      return transfer(request);
    case VGPU_SET_SCANOUT:
      return set_scanout(request);
    case VGPU_RESOURCE_FLUSH:
      return flush(request);
    case VGPU_GET_CAPSET_INFO:
      // Without 3D there is no set with that index.
      return rendering_ ? rendering_->capset_info(request, answer) : VGPU_ERR_INVALID_PARAMETER;
    default:
      return rendering_ ? carry_out_3d(header, request, answer) : VGPU_ERR_UNSPEC;
  }
}

uint32_t Gpu::carry_out_3d(const VgpuHeader& header, virtio::Request& request,
                           std::vector<std::byte>* answer) {
  // A context of virgl has one timeline.
  if ((header.flags & VGPU_FLAG_RING) != 0 && header.ring != 0) return VGPU_ERR_INVALID_PARAMETER;
  switch (header.type) {
    case VGPU_GET_CAPSET:
      return rendering_->capset(request, answer);
    case VGPU_CTX_CREATE:
      return rendering_->create_context(header.context_id, request);
    case VGPU_CTX_DESTROY:
      return rendering_->destroy_context(header.context_id);
    case VGPU_CTX_ATTACH_RESOURCE:
    case VGPU_CTX_DETACH_RESOURCE: {
      VgpuContextResource command = {};
      if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
      const Resource* const resource = find(command.resource);
      if (resource == nullptr || !resource->shape.has_value()) return VGPU_ERR_INVALID_RESOURCE_ID;
      return header.type == VGPU_CTX_ATTACH_RESOURCE
                 ? rendering_->attach(header.context_id, command.resource)
                 : rendering_->detach(header.context_id, command.resource);
    }
    case VGPU_RESOURCE_CREATE_3D:
      return create_3d(request);
    case VGPU_TRANSFER_TO_HOST_3D:
    case VGPU_TRANSFER_FROM_HOST_3D:
      return transfer_3d(request);
    case VGPU_SUBMIT_3D:
      return rendering_->submit(header.context_id, request);
    default:
      return VGPU_ERR_UNSPEC;
  }
}

// --- resources

Gpu::Resource* Gpu::find(uint32_t id) {
  const auto found = resources_.find(id);
  return found == resources_.end() ? nullptr : &found->second;
}

bool Gpu::reserve(uint64_t bytes) {
  if (!range_within(used_bytes_, bytes, config_.memory_bytes)) return false;
  used_bytes_ += bytes;
  return true;
}

uint32_t Gpu::create(virtio::Request& request) {
  VgpuCreate2D command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  if (command.resource == 0 || find(command.resource) != nullptr)
    return VGPU_ERR_INVALID_RESOURCE_ID;
  if (!order_of(command.format).has_value()) return VGPU_ERR_INVALID_PARAMETER;
  if (command.width == 0 || command.width > kSideMost) return VGPU_ERR_INVALID_PARAMETER;
  if (command.height == 0 || command.height > kSideMost) return VGPU_ERR_INVALID_PARAMETER;
  const uint64_t bytes = pixel_bytes(command.width, command.height);
  if (resources_.size() >= config_.resources || !reserve(bytes)) return VGPU_ERR_OUT_OF_MEMORY;
  Resource& resource = resources_[command.resource];
  resource.format = command.format;
  resource.width = command.width;
  resource.height = command.height;
  resource.bytes = bytes;
  resource.pixels.resize(bytes);
  return VGPU_OK_NODATA;
}

uint32_t Gpu::create_3d(virtio::Request& request) {
  VgpuCreate3D command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  if (command.resource == 0 || find(command.resource) != nullptr)
    return VGPU_ERR_INVALID_RESOURCE_ID;
  const Shape shape{.target = command.target,
                    .format = command.format,
                    .bind = command.bind,
                    .width = command.width,
                    .height = command.height,
                    .depth = command.depth,
                    .array_size = command.array_size,
                    .last_level = command.last_level,
                    .samples = command.samples,
                    .flags = command.flags};
  const std::optional<uint64_t> bytes = Rendering::bytes_of(shape);
  if (!bytes.has_value()) return VGPU_ERR_INVALID_PARAMETER;
  if (resources_.size() >= config_.resources || !reserve(*bytes)) return VGPU_ERR_OUT_OF_MEMORY;
  const uint32_t type = rendering_->create(command.resource, shape);
  if (type != VGPU_OK_NODATA) {
    used_bytes_ -= *bytes;
    return type;
  }
  Resource& resource = resources_[command.resource];
  resource.format = shape.format;
  resource.width = shape.width;
  resource.height = shape.height;
  resource.shape = shape;
  resource.bytes = *bytes;
  return type;
}

void Gpu::drop_backing(Resource* resource) {
  used_bytes_ -= resource->backing.size() * sizeof(VgpuEntry);
  resource->backing = {};
  resource->starts = {};
}

uint32_t Gpu::unref(virtio::Request& request) {
  VgpuResource command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  Resource* const resource = find(command.resource);
  if (resource == nullptr) return VGPU_ERR_INVALID_RESOURCE_ID;
  {
    const runtime::MutexLock lock(mutex_);
    for (Scanout& scanout : scanouts_) {
      if (scanout.resource == command.resource) switch_off(&scanout);
    }
  }
  const bool is_3d = resource->shape.has_value();
  drop_backing(resource);
  used_bytes_ -= resource->bytes;
  resources_.erase(command.resource);
  return is_3d ? rendering_->unref(command.resource) : uint32_t{VGPU_OK_NODATA};
}

uint32_t Gpu::attach(virtio::Request& request) {
  VgpuAttach command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  Resource* const resource = find(command.resource);
  if (resource == nullptr) return VGPU_ERR_INVALID_RESOURCE_ID;
  if (resource->is_attached() || command.entries == 0) return VGPU_ERR_UNSPEC;
  const uint64_t bytes = uint64_t{command.entries} * sizeof(VgpuEntry);
  if (!range_within(sizeof command, bytes, request.readable_bytes()))
    return VGPU_ERR_INVALID_PARAMETER;
  if (!reserve(bytes)) return VGPU_ERR_OUT_OF_MEMORY;
  std::vector<VgpuEntry> entries(command.entries);
  std::vector<uint64_t> starts = {0};
  bool good = request.read(sizeof command, std::as_writable_bytes(std::span(entries)));
  for (const VgpuEntry& entry : entries) {
    good = good && entry.address <= UINT64_MAX - entry.bytes;
    starts.push_back(starts.back() + entry.bytes);
  }
  uint32_t type = good ? VGPU_OK_NODATA : VGPU_ERR_INVALID_PARAMETER;
  if (good && resource->shape.has_value())
    type = rendering_->attach_backing(command.resource, entries);
  if (type != VGPU_OK_NODATA) {
    used_bytes_ -= bytes;
    return type;
  }
  resource->backing = std::move(entries);
  resource->starts = std::move(starts);
  return VGPU_OK_NODATA;
}

uint32_t Gpu::detach(virtio::Request& request) {
  VgpuResource command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  Resource* const resource = find(command.resource);
  if (resource == nullptr) return VGPU_ERR_INVALID_RESOURCE_ID;
  if (!resource->is_attached()) return VGPU_ERR_UNSPEC;
  drop_backing(resource);
  return resource->shape.has_value() ? rendering_->detach_backing(command.resource)
                                     : uint32_t{VGPU_OK_NODATA};
}

bool Gpu::read_backing(virtio::Memory& memory, const Resource& resource, uint64_t offset,
                       std::span<std::byte> to) {
  if (!range_within(offset, to.size(), resource.starts.back())) return false;
  auto at = static_cast<size_t>(std::ranges::upper_bound(resource.starts, offset) -
                                resource.starts.begin()) -
            1;
  while (!to.empty()) {
    const VgpuEntry& entry = resource.backing[at];
    const uint64_t inside = offset - resource.starts[at];
    const uint64_t length = std::min<uint64_t>(to.size(), entry.bytes - inside);
    if (length != 0 && !memory.read(entry.address + inside, to.first(length))) return false;
    to = to.subspan(length);
    offset += length;
    ++at;
  }
  return true;
}

uint32_t Gpu::transfer(virtio::Request& request) {
  VgpuTransfer command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  Resource* const resource = find(command.resource);
  if (resource == nullptr || resource->shape.has_value()) return VGPU_ERR_INVALID_RESOURCE_ID;
  if (!resource->is_attached()) return VGPU_ERR_UNSPEC;
  if (!lies_in(command.rect, resource->width, resource->height)) return VGPU_ERR_INVALID_PARAMETER;
  const uint64_t row = uint64_t{resource->width} * kPixelBytes;
  const uint64_t length = uint64_t{command.rect.width} * kPixelBytes;
  const uint64_t all = row * (command.rect.height - 1) + length;
  if (!range_within(command.offset, all, resource->starts.back()))
    return VGPU_ERR_INVALID_PARAMETER;
  const auto pixels = std::as_writable_bytes(std::span(resource->pixels));
  for (uint32_t y = 0; y < command.rect.height; ++y) {
    const uint64_t to = (command.rect.y + y) * row + uint64_t{command.rect.x} * kPixelBytes;
    if (!read_backing(request.memory(), *resource, command.offset + y * row,
                      pixels.subspan(to, length)))
      return VGPU_ERR_INVALID_PARAMETER;  // pages that are no memory; rows before it are there
  }
  return VGPU_OK_NODATA;
}

uint32_t Gpu::transfer_3d(virtio::Request& request) {
  VgpuTransfer3D command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  const Resource* const resource = find(command.resource);
  if (resource == nullptr || !resource->shape.has_value()) return VGPU_ERR_INVALID_RESOURCE_ID;
  if (!resource->is_attached()) return VGPU_ERR_UNSPEC;
  return rendering_->transfer(command, *resource->shape, resource->starts.back());
}

// --- screens

void Gpu::switch_off(Scanout* scanout) {
  used_bytes_ -= scanout->shown.size();
  scanout->resource = 0;
  scanout->rect = {};
  scanout->shown = {};
  tell();
}

uint32_t Gpu::look_at(uint32_t id, const Resource& resource, const VgpuRect& rect,
                      std::vector<uint8_t>* room, Part* part) {
  if (!resource.shape.has_value()) {
    *part = {{0, 0, resource.width, resource.height}, resource.pixels};
    return VGPU_OK_NODATA;
  }
  if (!order_of(resource.format).has_value()) return VGPU_ERR_INVALID_PARAMETER;
  const uint32_t type = rendering_->read(id, rect, room);
  *part = {rect, *room};
  return type;
}

void Gpu::show(uint32_t format, const Part& from, const VgpuRect& rect, Scanout* scanout) {
  const std::optional<Order> order = order_of(format);
  const VgpuRect& of = scanout->rect;
  const uint32_t left = std::max(rect.x, of.x), top = std::max(rect.y, of.y);
  const uint32_t right = std::min(rect.x + rect.width, of.x + of.width);
  const uint32_t bottom = std::min(rect.y + rect.height, of.y + of.height);
  for (uint32_t y = top; y < bottom; ++y) {
    const uint8_t* const row = from.pixels.data() + pixel_bytes(from.rect.width, y - from.rect.y);
    uint8_t* to = scanout->shown.data() + pixel_bytes(of.width, y - of.y);
    for (uint32_t x = left; x < right; ++x) {
      const uint8_t* const in = row + uint64_t{x - from.rect.x} * kPixelBytes;
      uint8_t* const out = to + uint64_t{x - of.x} * kPixelBytes;
      out[0] = in[order->red];
      out[1] = in[order->green];
      out[2] = in[order->blue];
      out[3] = 0xFF;
    }
  }
}

uint32_t Gpu::set_scanout(virtio::Request& request) {
  VgpuSetScanout command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  if (command.scanout >= config_.scanouts) return VGPU_ERR_INVALID_SCANOUT_ID;
  const Resource* resource = nullptr;
  uint64_t bytes = 0;
  std::vector<uint8_t> room;
  Part part;
  if (command.resource != 0) {
    resource = find(command.resource);
    if (resource == nullptr) return VGPU_ERR_INVALID_RESOURCE_ID;
    if (!lies_in(command.rect, resource->width, resource->height))
      return VGPU_ERR_INVALID_PARAMETER;
    bytes = pixel_bytes(command.rect.width, command.rect.height);
    const uint32_t type = look_at(command.resource, *resource, command.rect, &room, &part);
    if (type != VGPU_OK_NODATA) return type;
  }
  const runtime::MutexLock lock(mutex_);
  Scanout& scanout = scanouts_[command.scanout];
  if (resource == nullptr) {
    switch_off(&scanout);
    return VGPU_OK_NODATA;
  }
  used_bytes_ -= scanout.shown.size();
  if (!reserve(bytes)) {
    used_bytes_ += scanout.shown.size();
    return VGPU_ERR_OUT_OF_MEMORY;
  }
  scanout.resource = command.resource;
  scanout.rect = command.rect;
  scanout.shown.resize(bytes);
  show(resource->format, part, command.rect, &scanout);
  tell();
  return VGPU_OK_NODATA;
}

uint32_t Gpu::flush(virtio::Request& request) {
  VgpuFlush command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  const Resource* const resource = find(command.resource);
  if (resource == nullptr) return VGPU_ERR_INVALID_RESOURCE_ID;
  if (!lies_in(command.rect, resource->width, resource->height)) return VGPU_ERR_INVALID_PARAMETER;
  const auto shows_it = [&](const Scanout& scanout) DXGKIT_REQUIRES(mutex_) {
    return scanout.resource == command.resource;
  };
  {
    const runtime::MutexLock lock(mutex_);
    if (std::ranges::none_of(scanouts_, shows_it)) return VGPU_OK_NODATA;
  }
  std::vector<uint8_t> room;
  Part part;
  const uint32_t type = look_at(command.resource, *resource, command.rect, &room, &part);
  if (type != VGPU_OK_NODATA) return type;
  const runtime::MutexLock lock(mutex_);
  for (Scanout& scanout : scanouts_) {
    if (shows_it(scanout)) show(resource->format, part, command.rect, &scanout);
  }
  tell();
  return VGPU_OK_NODATA;
}

uint32_t Gpu::display_info(std::vector<std::byte>* answer) const {
  VgpuDisplayInfo info = {};
  for (uint32_t i = 0; i < config_.scanouts; ++i) {
    info.modes[i].rect.width = config_.modes[0].width;
    info.modes[i].rect.height = config_.modes[0].height;
    info.modes[i].rect.x = i * config_.modes[0].width;
    info.modes[i].enabled = config_.connected ? 1 : 0;
  }
  put(info, answer);
  return VGPU_OK_DISPLAY_INFO;
}

uint32_t Gpu::edid(virtio::Request& request, std::vector<std::byte>* answer) const {
  VgpuGetEdid command = {};
  if (!config_.edid || !request.read(0, &command)) return VGPU_ERR_UNSPEC;
  if (command.scanout >= config_.scanouts) return VGPU_ERR_INVALID_PARAMETER;
  const std::vector<uint8_t> bytes = make_edid(config_.modes, command.scanout, config_.damage);
  VgpuEdid edid = {};
  edid.size = static_cast<uint32_t>(bytes.size());
  std::ranges::copy(bytes, edid.bytes);
  put(edid, answer);
  return VGPU_OK_EDID;
}

uint32_t Gpu::cursor(virtio::Request& request, bool is_update) {
  VgpuCursor command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  if (command.scanout >= config_.scanouts) return VGPU_ERR_INVALID_SCANOUT_ID;
  std::vector<uint8_t> pixels;
  if (is_update && command.resource != 0) {
    const Resource* const resource = find(command.resource);
    if (resource == nullptr) return VGPU_ERR_INVALID_RESOURCE_ID;
    if (resource->width != VGPU_CURSOR_SIZE || resource->height != VGPU_CURSOR_SIZE)
      return VGPU_ERR_INVALID_PARAMETER;
    std::vector<uint8_t> room;
    Part part;
    const uint32_t type = look_at(command.resource, *resource,
                                  {0, 0, VGPU_CURSOR_SIZE, VGPU_CURSOR_SIZE}, &room, &part);
    if (type != VGPU_OK_NODATA) return type;
    const std::optional<Order> order = order_of(resource->format);
    pixels.resize(part.pixels.size());
    for (size_t i = 0; i < pixels.size(); i += kPixelBytes) {
      const uint8_t* const in = part.pixels.data() + i;
      pixels[i] = in[order->red];
      pixels[i + 1] = in[order->green];
      pixels[i + 2] = in[order->blue];
      pixels[i + 3] = order->alpha < kPixelBytes ? in[order->alpha] : uint8_t{0xFF};
    }
  }
  const runtime::MutexLock lock(mutex_);
  Scanout& scanout = scanouts_[command.scanout];
  scanout.cursor.x = command.x;
  scanout.cursor.y = command.y;
  if (is_update) scanout.cursor.pixels = std::move(pixels);
  if (scanout.resource != 0) tell();
  return VGPU_OK_NODATA;
}

bus::ScreenImage Gpu::compose() const {
  bus::ScreenImage image;
  for (uint32_t i = 0; i < config_.scanouts; ++i) {
    if (scanouts_[i].resource == 0) continue;
    image.width += scanouts_[i].rect.width;
    image.height = std::max<uint32_t>(image.height, scanouts_[i].rect.height);
  }
  image.pixels.resize(pixel_bytes(image.width, image.height));
  for (size_t at = 3; at < image.pixels.size(); at += kPixelBytes) image.pixels[at] = 0xFF;
  uint32_t left = 0;
  for (uint32_t i = 0; i < config_.scanouts; ++i) {
    const Scanout& scanout = scanouts_[i];
    if (scanout.resource == 0) continue;
    const auto [width, height] = std::pair(scanout.rect.width, scanout.rect.height);
    const auto place = [&](uint64_t x, uint64_t y) {
      return image.pixels.data() + (y * image.width + left + x) * kPixelBytes;
    };
    for (uint32_t y = 0; y < height; ++y)
      std::memcpy(place(0, y), scanout.shown.data() + pixel_bytes(width, y), pixel_bytes(width, 1));
    // The cursor: its colours are multiplied by alpha already. Coordinates may be negative.
    for (uint32_t at = 0; at < scanout.cursor.pixels.size() / kPixelBytes; ++at) {
      const uint32_t x = scanout.cursor.x + at % VGPU_CURSOR_SIZE;
      const uint32_t y = scanout.cursor.y + at / VGPU_CURSOR_SIZE;
      if (x >= width || y >= height) continue;
      const uint8_t* const in = scanout.cursor.pixels.data() + uint64_t{at} * kPixelBytes;
      uint8_t* const out = place(x, y);
      for (size_t colour = 0; colour < 3; ++colour) {
        const uint32_t mixed = in[colour] + (out[colour] * (255U - in[3]) + 127) / 255;
        out[colour] = static_cast<uint8_t>(std::min(mixed, 255U));
      }
    }
    left += width;
  }
  return image;
}

void Gpu::tell() {
  if (flipped_) flipped_(compose());
}

bus::ScreenImage Gpu::image() {
  const runtime::MutexLock lock(mutex_);
  return compose();
}

void Gpu::on_flip(std::function<void(const bus::ScreenImage&)> flipped) {
  const runtime::MutexLock lock(mutex_);
  flipped_ = std::move(flipped);
}

void Gpu::note_misuse(uint32_t command, uint32_t answer) {
  if (rendering_ && !is_drivers_mistake(command, answer)) return;
  // UNSPEC: no such command, or one that is cut short.
  if (answer < VGPU_ERR_UNSPEC || answer > VGPU_ERR_INVALID_PARAMETER ||
      answer == VGPU_ERR_OUT_OF_MEMORY)
    return;
  static constexpr const char* kAnswers[] = {"UNSPEC",
                                             "OUT_OF_MEMORY",
                                             "INVALID_SCANOUT_ID",
                                             "INVALID_RESOURCE_ID",
                                             "INVALID_CONTEXT_ID",
                                             "INVALID_PARAMETER"};
  const runtime::MutexLock lock(mutex_);
  if (misuses_.size() >= kMisusesMost) return;
  std::array<char, 16> number{};
  const auto written = std::to_chars(number.begin(), number.end(), command, 16);
  misuses_.push_back("command 0x" + std::string(number.begin(), written.ptr) + " is refused with " +
                     kAnswers[answer - VGPU_ERR_UNSPEC]);
}

std::vector<std::string> Gpu::take_misuses() {
  const runtime::MutexLock lock(mutex_);
  return std::exchange(misuses_, {});
}

std::vector<bus::DeviceMonitor> Gpu::monitors() const {
  std::vector<bus::DeviceMonitor> monitors(config_.scanouts);
  for (uint32_t i = 0; i < config_.scanouts; ++i) {
    const auto add = [&](const Mode& mode) {
      monitors[i].sizes.push_back({mode.width, mode.height});
    };
    if (!config_.edid || config_.damage != EdidDamage::kNone) {
      if (config_.connected) add(config_.modes.front());
      continue;
    }
    std::ranges::for_each(config_.modes, add);
    const std::vector<uint8_t> edid = make_edid(config_.modes, i);
    const auto bytes = std::as_bytes(std::span(edid));
    monitors[i].descriptor.assign(bytes.begin(), bytes.end());
  }
  return monitors;
}

void Gpu::interrupt() {
  if (rendering_) rendering_->interrupt();
}

void Gpu::pull_out() {
  if (rendering_) rendering_->reset();
}

void Gpu::reset() {
  if (rendering_) rendering_->reset();
  resources_.clear();
  used_bytes_ = 0;
  const runtime::MutexLock lock(mutex_);
  for (Scanout& scanout : scanouts_) scanout = {};
}

}  // namespace dxgkit::virtiogpu
