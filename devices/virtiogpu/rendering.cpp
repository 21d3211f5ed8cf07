#include "devices/virtiogpu/rendering.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/arithmetic.h"
#include "trace/trace.h"

namespace dxgkit::virtiogpu {
namespace {

// Limits of what a driver may make the renderer keep, beside the memory of resources.
constexpr size_t kContextsMost = 256, kAttachmentsMost = 1 << 16;
constexpr uint32_t kTextureSideMost = 16384, kLayersMost = 2048, kLevelMost = 14, kSamplesMost = 32,
                   kFormatsMost = 512;
constexpr uint32_t kTexelBytes = 4;  // as which a texel counts, whatever its format

// Targets of resources, as Gallium numbers them.
constexpr uint32_t kTargetBuffer = 0, kTarget1D = 1, kTarget3D = 3, kTarget1DArray = 6,
                   kTargetMost = 8;

uint32_t type_of(uint32_t error) {
  switch (error) {
    case ENOMEM:
      return VGPU_ERR_OUT_OF_MEMORY;
    case EINVAL:
      return VGPU_ERR_INVALID_PARAMETER;
    default:
      return VGPU_ERR_UNSPEC;
  }
}

uint32_t at_level(uint32_t size, uint32_t level) { return std::max(size >> level, 1U); }

bool is_in(uint32_t value, uint32_t least, uint32_t most) {
  return value >= least && value <= most;
}

/// A driver's name for something, up to the first 0, without what a terminal would take for more
/// than text.
std::string printable(std::string_view name) {
  std::string text(name.substr(0, name.find('\0')));
  std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
  return text;
}

bool box_lies_in(const VgpuBox& box, const Shape& shape, uint32_t level) {
  if (level > shape.last_level) return false;
  if (box.width == 0 || box.height == 0 || box.depth == 0) return false;
  const bool is_flat =
      shape.target == kTargetBuffer || shape.target == kTarget1D || shape.target == kTarget1DArray;
  const uint32_t height = is_flat ? 1 : at_level(shape.height, level);
  const uint32_t depth =
      shape.target == kTarget3D ? at_level(shape.depth, level) : shape.array_size;
  return range_within(box.x, box.width, at_level(shape.width, level)) &&
         range_within(box.y, box.height, height) && range_within(box.z, box.depth, depth);
}

/// One that is larger than any language needs, and one that is empty, before those of the renderer.
/// Behind them more than a driver may have room for.
std::vector<Capset> with_odd_sets(std::span<const Capset> sets) {
  std::vector<Capset> all = {{VGPU_CAPSET_LARGE, 1, VGPU_CAPSET_LARGE_BYTES},
                             {VGPU_CAPSET_EMPTY, 1, 0}};
  all.insert(all.end(), sets.begin(), sets.end());
  for (uint32_t id = VGPU_CAPSET_MORE; id < VGPU_CAPSET_MORE + VGPU_CAPSET_MORE_COUNT; ++id)
    all.push_back({id, 1, VGPU_CAPSET_MORE_BYTES});
  return all;
}

}  // namespace

Rendering::Rendering(std::unique_ptr<Renderer> renderer, LocateMemory locate, Renderers renderers,
                     bool odd_sets)
    : locate_(std::move(locate)),
      renderers_(renderers),
      capsets_(renderer->capsets().begin(), renderer->capsets().end()),
      listed_(odd_sets ? with_odd_sets(capsets_) : capsets_) {
  homes_[kCommonHome].renderer = std::move(renderer);
}

Rendering::Context* Rendering::find(uint32_t id) {
  const auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : &found->second;
}

// --- renderers

void Rendering::mark_loss(HomeId home, const std::string& why) const {
  trace::Recorder* const recorder = trace::current();
  if (recorder == nullptr) return;
  std::string text = "virtio-gpu";
  const char* before = ": context ";
  for (const auto& [id, context] : contexts_) {
    if (context.home != home) continue;
    text += before + std::to_string(id);
    if (!context.name.empty()) text += " (" + context.name + ")";
    before = ", ";
  }
  recorder->record(trace::EventKind::kMarker, recorder->name_id(text + ": " + why));
}

void Rendering::lose(HomeId home, const std::string& why) {
  Home& lost = homes_.at(home);
  lost.is_lost = true;
  mark_loss(home, why);
  if (home != kCommonHome) return lost.renderer->restart();  // which ends it; nobody asks again
  if (why_lost_.empty()) why_lost_ = why;
}

uint32_t Rendering::ask(HomeId home, const Question& question, Answer* answer, uint32_t done) {
  Answer own;
  if (answer == nullptr) answer = &own;
  Home& at = homes_.at(home);
  if (at.is_lost) return VGPU_ERR_UNSPEC;
  if (!at.renderer->ask(question, answer)) {
    lose(home, at.renderer->why_lost());
    return VGPU_ERR_UNSPEC;
  }
  return answer->error == 0 ? done : type_of(answer->error);
}

uint32_t Rendering::ask_to_end(HomeId home, const Question& question) {
  const uint32_t type = ask(home, question);
  return homes_.at(home).is_lost ? uint32_t{VGPU_OK_NODATA} : type;
}

std::optional<Rendering::HomeId> Rendering::move_in() {
  if (renderers_ == Renderers::kOne) return kCommonHome;
  auto renderer = homes_.at(kCommonHome).renderer->another();
  if (!renderer) return std::nullopt;
  const runtime::MutexLock lock(mutex_);
  if (is_interrupted_) renderer->interrupt();
  Home& home = homes_[next_home_];
  home.renderer = std::move(renderer);
  home.has_context = true;
  return next_home_++;
}

void Rendering::leave(HomeId home) {
  if (home == kCommonHome) return;
  const Home& left = homes_.at(home);
  if (left.has_context || left.resources != 0) return;
  const runtime::MutexLock lock(mutex_);
  homes_.erase(home);
}

void Rendering::interrupt() {
  const runtime::MutexLock lock(mutex_);
  is_interrupted_ = true;
  for (auto& [id, home] : homes_) home.renderer->interrupt();
}

void Rendering::reset() {
  contexts_.clear();
  items_.clear();
  attachments_ = 0;
  why_lost_.clear();
  const runtime::MutexLock lock(mutex_);
  is_interrupted_ = false;
  std::erase_if(homes_, [](const auto& home) { return home.first != kCommonHome; });
  Home& common = homes_.at(kCommonHome);
  common.renderer->restart();
  common.resources = 0;
  common.has_unfinished = common.is_lost = false;
}

void Rendering::finish(uint32_t context) {
  const Context* const of = find(context);
  for (auto& [id, home] : homes_) {
    if (of != nullptr && of->home != id) continue;
    if (!home.has_unfinished) continue;
    home.has_unfinished = false;
    Question question;
    question.ask = Ask::kFinish;
    // An error here is none of the command that waits: its own answer has said what became of it.
    ask(id, question);
  }
}

// --- capability sets

std::optional<std::vector<Capset>> read_capsets(const Answer& answer,
                                                std::span<const std::byte> mailbox) {
  if (answer.bytes == 0 || answer.bytes % sizeof(Capset) != 0) return std::nullopt;
  if (answer.bytes > kCapsetsMost * sizeof(Capset)) return std::nullopt;
  std::vector<Capset> capsets(answer.bytes / sizeof(Capset));
  std::memcpy(capsets.data(), mailbox.data(), answer.bytes);
  for (const Capset& capset : capsets) {
    if (capset.id == 0 || capset.id > kCapsetIdMost) return std::nullopt;
    if (capset.bytes_most == 0 || capset.bytes_most > kCapsetBytesMost) return std::nullopt;
  }
  return capsets;
}

uint32_t Rendering::capset_info(virtio::Request& request, std::vector<std::byte>* answer) {
  VgpuGetCapsetInfo command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  if (command.index >= capset_count()) return VGPU_ERR_INVALID_PARAMETER;
  const Capset& capset = listed_[command.index];
  VgpuCapsetInfo info = {};
  info.id = capset.id;
  info.version_most = capset.version_most;
  info.bytes_most = capset.bytes_most;
  const auto bytes = std::as_bytes(std::span(&info, 1));
  answer->assign(bytes.begin(), bytes.end());
  return VGPU_OK_CAPSET_INFO;
}

uint32_t Rendering::capset(virtio::Request& request, std::vector<std::byte>* answer) {
  VgpuGetCapset command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  const auto found = std::ranges::find(listed_, command.id, &Capset::id);
  if (found == listed_.end()) return VGPU_ERR_INVALID_PARAMETER;
  if (command.version > found->version_most) return VGPU_ERR_INVALID_PARAMETER;
  if (std::ranges::find(capsets_, command.id, &Capset::id) == capsets_.end()) {
    answer->resize(sizeof(VgpuHeader));
    for (uint32_t i = 0; i < found->bytes_most; ++i)
      answer->push_back(static_cast<std::byte>(VGPU_CAPSET_BYTE(command.id, i)));
    return VGPU_OK_CAPSET;
  }
  Question question;
  question.ask = Ask::kCapset;
  question.number = command.id;
  question.level = command.version;
  Answer got;
  const uint32_t type = ask(kCommonHome, question, &got, VGPU_OK_CAPSET);
  if (type != VGPU_OK_CAPSET) return type;
  if (got.bytes != found->bytes_most) {
    lose(kCommonHome, "the renderer is lost: a capability set of another size");
    return VGPU_ERR_UNSPEC;
  }
  const auto set = homes_.at(kCommonHome).renderer->mailbox().first(got.bytes);
  answer->resize(sizeof(VgpuHeader));
  answer->insert(answer->end(), set.begin(), set.end());
  return VGPU_OK_CAPSET;
}

// --- contexts

uint32_t Rendering::create_context(uint32_t id, virtio::Request& request) {
  VgpuCreateContext command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  if (id == 0 || find(id) != nullptr) return VGPU_ERR_INVALID_CONTEXT_ID;
  if (command.name_bytes > sizeof command.name) return VGPU_ERR_INVALID_PARAMETER;
  if ((command.init & ~VGPU_CONTEXT_CAPSET_MASK) != 0) return VGPU_ERR_INVALID_PARAMETER;
  if (command.init != 0 && std::ranges::find(capsets_, command.init, &Capset::id) == capsets_.end())
    return VGPU_ERR_INVALID_PARAMETER;
  if (contexts_.size() >= kContextsMost) return VGPU_ERR_OUT_OF_MEMORY;
  const std::optional<HomeId> home = move_in();
  if (!home.has_value()) return VGPU_ERR_OUT_OF_MEMORY;
  Question question;
  question.ask = Ask::kCreateContext;
  question.context = id;
  question.number = command.init;
  question.bytes = command.name_bytes;
  std::memcpy(homes_.at(*home).renderer->mailbox().data(), command.name, command.name_bytes);
  const uint32_t type = ask(*home, question);
  if (type == VGPU_OK_NODATA) {
    contexts_[id].home = *home;
    contexts_[id].name = printable({command.name, command.name_bytes});
  } else {
    homes_.at(*home).has_context = false;
    leave(*home);
  }
  return type;
}

uint32_t Rendering::destroy_context(uint32_t id) {
  const Context* const context = find(id);
  if (context == nullptr) return VGPU_ERR_INVALID_CONTEXT_ID;
  const HomeId home = context->home;
  attachments_ -= context->resources.size();
  contexts_.erase(id);
  Question question;
  question.ask = Ask::kDestroyContext;
  question.context = id;
  const uint32_t type = ask_to_end(home, question);
  // Resources outlive the context, and keep its renderer.
  homes_.at(home).has_context = false;
  leave(home);
  return type;
}

uint32_t Rendering::submit(uint32_t context, virtio::Request& request) {
  VgpuSubmit command = {};
  if (!request.read(0, &command)) return VGPU_ERR_UNSPEC;
  const Context* const of = find(context);
  if (of == nullptr) return VGPU_ERR_INVALID_CONTEXT_ID;
  if (command.bytes % sizeof(uint32_t) != 0) return VGPU_ERR_INVALID_PARAMETER;
  if (!range_within(sizeof command, command.bytes, request.readable_bytes()))
    return VGPU_ERR_INVALID_PARAMETER;
  if (command.bytes > kMailboxBytes) return VGPU_ERR_OUT_OF_MEMORY;
  // Read once: the renderer looks at a copy that no driver can change.
  Home& home = homes_.at(of->home);
  if (!request.read(sizeof command, home.renderer->mailbox().first(command.bytes)))
    return VGPU_ERR_UNSPEC;
  Question question;
  question.ask = Ask::kSubmit;
  question.context = context;
  question.bytes = command.bytes;
  home.has_unfinished = true;
  return ask(of->home, question);
}

uint32_t Rendering::attach(uint32_t context, uint32_t resource) {
  Context* const to = find(context);
  if (to == nullptr) return VGPU_ERR_INVALID_CONTEXT_ID;
  if (to->resources.contains(resource)) return VGPU_OK_NODATA;
  if (attachments_ >= kAttachmentsMost) return VGPU_ERR_OUT_OF_MEMORY;
  Item& item = items_.at(resource);
  if (!item.home.has_value()) {
    const uint32_t type = place(resource, &item, to->home);
    if (type != VGPU_OK_NODATA) return type;
  }
  // The content is in the renderer of another context, which cannot share it.
  if (*item.home != to->home) return VGPU_ERR_INVALID_PARAMETER;
  Question question;
  question.ask = Ask::kAttach;
  question.context = context;
  question.resource = resource;
  const uint32_t type = ask(to->home, question);
  if (type != VGPU_OK_NODATA) return type;
  to->resources.insert(resource);
  ++attachments_;
  return type;
}

uint32_t Rendering::detach(uint32_t context, uint32_t resource) {
  Context* const from = find(context);
  if (from == nullptr) return VGPU_ERR_INVALID_CONTEXT_ID;
  if (from->resources.erase(resource) == 0) return VGPU_ERR_INVALID_RESOURCE_ID;
  --attachments_;
  Question question;
  question.ask = Ask::kDetach;
  question.context = context;
  question.resource = resource;
  return ask_to_end(from->home, question);
}

// --- resources

std::optional<uint64_t> Rendering::bytes_of(const Shape& shape) {
  if (shape.target > kTargetMost || shape.format >= kFormatsMost) return std::nullopt;
  if (shape.width == 0 || shape.samples > kSamplesMost) return std::nullopt;
  if (shape.target == kTargetBuffer) {
    if (shape.height != 1 || shape.depth != 1 || shape.array_size != 1) return std::nullopt;
    if (shape.last_level != 0 || shape.samples > 1) return std::nullopt;
    return shape.width;
  }
  if (!is_in(shape.width, 1, kTextureSideMost) || !is_in(shape.height, 1, kTextureSideMost))
    return std::nullopt;
  if (!is_in(shape.depth, 1, kLayersMost) || !is_in(shape.array_size, 1, kLayersMost))
    return std::nullopt;
  if (shape.last_level > kLevelMost) return std::nullopt;
  const uint64_t texels = uint64_t{shape.width} * shape.height * shape.depth * shape.array_size *
                          std::max(shape.samples, 1U);
  // All smaller levels together have less than the first.
  return texels * kTexelBytes * (shape.last_level == 0 ? 1 : 2);
}

uint32_t Rendering::create(uint32_t id, const Shape& shape) {
  Item& item = items_[id];
  item.shape = shape;
  // With a renderer for each context the first context that it is attached to says where it is.
  if (renderers_ == Renderers::kEach) return VGPU_OK_NODATA;
  const uint32_t type = place(id, &item, kCommonHome);
  if (type != VGPU_OK_NODATA) items_.erase(id);
  return type;
}

uint32_t Rendering::place(uint32_t id, Item* item, HomeId home) {
  Question question;
  question.ask = Ask::kCreateResource;
  question.resource = id;
  question.shape = item->shape;
  const uint32_t type = ask(home, question);
  if (type != VGPU_OK_NODATA) return type;
  if (!item->backing.empty()) {
    const uint32_t attached = attach_ranges(id, home, item->backing);
    if (attached != VGPU_OK_NODATA) {
      question.ask = Ask::kUnref;
      ask(home, question);
      return attached;
    }
  }
  item->home = home;
  ++homes_.at(home).resources;
  return type;
}

uint32_t Rendering::home_of(uint32_t id, HomeId* home) {
  Item& item = items_.at(id);
  uint32_t type = VGPU_OK_NODATA;
  if (!item.home.has_value()) type = place(id, &item, kCommonHome);
  *home = item.home.value_or(kCommonHome);
  return type;
}

uint32_t Rendering::unref(uint32_t id) {
  for (auto& [number, context] : contexts_) attachments_ -= context.resources.erase(id);
  const std::optional<HomeId> home = items_.at(id).home;
  items_.erase(id);
  if (!home.has_value()) return VGPU_OK_NODATA;
  Question question;
  question.ask = Ask::kUnref;
  question.resource = id;
  const uint32_t type = ask_to_end(*home, question);
  --homes_.at(*home).resources;
  leave(*home);
  return type;
}

uint32_t Rendering::attach_backing(uint32_t id, std::span<const VgpuEntry> entries) {
  std::vector<MemoryRange> ranges;
  for (const VgpuEntry& entry : entries) {
    if (entry.bytes == 0) continue;
    const auto offset = locate_(entry.address, entry.bytes);
    if (!offset.has_value()) return VGPU_ERR_INVALID_PARAMETER;
    if (!ranges.empty() && ranges.back().offset + ranges.back().bytes == *offset) {
      ranges.back().bytes += entry.bytes;
    } else {
      ranges.push_back({*offset, entry.bytes});
    }
  }
  if (ranges.empty()) return VGPU_ERR_INVALID_PARAMETER;
  if (ranges.size() * sizeof(MemoryRange) > kMailboxBytes) return VGPU_ERR_OUT_OF_MEMORY;
  Item& item = items_.at(id);
  if (item.home.has_value()) {
    const uint32_t type = attach_ranges(id, *item.home, ranges);
    if (type != VGPU_OK_NODATA) return type;
  }
  item.backing = std::move(ranges);
  return VGPU_OK_NODATA;
}

uint32_t Rendering::attach_ranges(uint32_t id, HomeId home, std::span<const MemoryRange> ranges) {
  const auto bytes = std::as_bytes(ranges);
  std::ranges::copy(bytes, homes_.at(home).renderer->mailbox().begin());
  Question question;
  question.ask = Ask::kAttachBacking;
  question.resource = id;
  question.bytes = static_cast<uint32_t>(bytes.size());
  return ask(home, question);
}

uint32_t Rendering::detach_backing(uint32_t id) {
  Item& item = items_.at(id);
  item.backing = {};
  if (!item.home.has_value()) return VGPU_OK_NODATA;
  Question question;
  question.ask = Ask::kDetachBacking;
  question.resource = id;
  return ask_to_end(*item.home, question);
}

uint32_t Rendering::transfer(const VgpuTransfer3D& command, const Shape& shape,
                             uint64_t backing_bytes) {
  const uint32_t context = command.header.context_id;
  if (context != 0) {
    const Context* const of = find(context);
    if (of == nullptr) return VGPU_ERR_INVALID_CONTEXT_ID;
    if (!of->resources.contains(command.resource)) return VGPU_ERR_INVALID_RESOURCE_ID;
  }
  if (!box_lies_in(command.box, shape, command.level)) return VGPU_ERR_INVALID_PARAMETER;
  if (command.offset >= backing_bytes) return VGPU_ERR_INVALID_PARAMETER;
  HomeId home = kCommonHome;
  if (const uint32_t type = home_of(command.resource, &home); type != VGPU_OK_NODATA) return type;
  Question question;
  question.ask = command.header.type == VGPU_TRANSFER_TO_HOST_3D ? Ask::kToHost : Ask::kFromHost;
  question.context = context;
  question.resource = command.resource;
  const VgpuBox& box = command.box;
  question.box = {box.x, box.y, box.z, box.width, box.height, box.depth};
  question.level = command.level;
  question.stride = command.stride;
  question.layer_stride = command.layer_stride;
  question.offset = command.offset;
  return ask(home, question);
}

uint32_t Rendering::read(uint32_t id, const VgpuRect& rect, std::vector<uint8_t>* pixels) {
  const uint32_t row = rect.width * kTexelBytes;
  const uint32_t rows_most = kMailboxBytes / row;
  pixels->clear();
  HomeId home = kCommonHome;
  if (const uint32_t type = home_of(id, &home); type != VGPU_OK_NODATA) return type;
  for (uint32_t done = 0; done < rect.height;) {
    const uint32_t rows = std::min(rect.height - done, rows_most);
    Question question;
    question.ask = Ask::kRead;
    question.resource = id;
    question.box = {rect.x, rect.y + done, 0, rect.width, rows, 1};
    question.stride = row;
    Answer answer;
    const uint32_t type = ask(home, question, &answer);
    if (type != VGPU_OK_NODATA) return type;
    if (answer.bytes != row * rows) {
      lose(home, "the renderer is lost: a picture of another size");
      return VGPU_ERR_UNSPEC;
    }
    const auto part = homes_.at(home).renderer->mailbox().first(answer.bytes);
    const auto* const from = reinterpret_cast<const uint8_t*>(part.data());
    pixels->insert(pixels->end(), from, from + part.size());
    done += rows;
  }
  return VGPU_OK_NODATA;
}

}  // namespace dxgkit::virtiogpu
