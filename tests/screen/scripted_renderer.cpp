#include "tests/screen/scripted_renderer.h"

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"

namespace dxgkit {
namespace {

constexpr uint32_t kTarget2D = 2;  // of virgl: PIPE_TEXTURE_2D
constexpr uint64_t kPixelBytes = 4;
constexpr uint32_t kEntriesMost = 1 << 16;

bool is_3d(uint32_t type) {
  return type == VGPU_GET_CAPSET_INFO || type == VGPU_GET_CAPSET ||
         (type >= VGPU_CTX_CREATE && type <= VGPU_SUBMIT_3D);
}

/// Copies between a row of pixels and the pages of a backing. False: not all is there.
bool copy_row(virtio::Memory& memory, const std::vector<VgpuEntry>& backing, uint64_t offset,
              std::span<std::byte> row, bool to_host) {
  uint64_t start = 0;
  size_t done = 0;
  for (const VgpuEntry& entry : backing) {
    const uint64_t at = offset + done;
    if (done < row.size() && at >= start && at < start + entry.bytes) {
      const size_t bytes = std::min<uint64_t>(row.size() - done, start + entry.bytes - at);
      const uint64_t address = entry.address + (at - start);
      const std::span<std::byte> part = row.subspan(done, bytes);
      if (to_host ? !memory.read(address, part) : !memory.write(address, part)) return false;
      done += bytes;
    }
    start += entry.bytes;
  }
  return done == row.size();
}

template <typename T>
void append(const T& value, std::vector<std::byte>* to) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to->insert(to->end(), bytes.begin(), bytes.end());
}

}  // namespace

ScriptedRenderer::Counts ScriptedRenderer::counts() {
  const runtime::MutexLock lock(mutex_);
  Counts result = counts_;
  result.resources = static_cast<uint32_t>(resources_.size());
  result.contexts = static_cast<uint32_t>(contexts_.size());
  for (const auto& [id, context] : contexts_)
    result.attached += static_cast<uint32_t>(context.resources.size());
  for (const auto& [id, resource] : resources_) result.backed += !resource.backing.empty();
  return result;
}

ScriptedRenderer::Counts ScriptedRenderer::await(const std::function<bool(const Counts&)>& wanted) {
  runtime::Runtime& runtime = runtime::Runtime::current();
  const runtime::TimeNs deadline = runtime.now() + 10 * runtime::kSecond;
  while (true) {
    worked_.reset();
    Counts now = counts();
    if (wanted(now) || worked_.wait(deadline) != runtime::WaitResult::kWoken) return now;
  }
}

uint64_t ScriptedRenderer::features() const {
  return gpu_.features() | uint64_t{1} << VGPU_F_VIRGL | uint64_t{1} << VGPU_F_CONTEXT_INIT;
}

void ScriptedRenderer::config_read(uint64_t offset, std::span<std::byte> to) {
  gpu_.config_read(offset, to);
  // One capability set.
  if (offset <= VGPU_CONFIG_CAPSETS && range_within(VGPU_CONFIG_CAPSETS - offset, 1, to.size()))
    to[VGPU_CONFIG_CAPSETS - offset] = std::byte{1};
}

void ScriptedRenderer::reset() {
  {
    const runtime::MutexLock lock(mutex_);
    resources_.clear();
    contexts_.clear();
  }
  gpu_.reset();
}

void ScriptedRenderer::execute(uint16_t queue, virtio::Request& request) {
  VgpuHeader header = {};
  VgpuResource named = {};
  if (!request.read(0, &header)) return;
  const bool is_control = queue == VGPU_QUEUE_CONTROL;
  bool is_ours = is_control && is_3d(header.type);
  if (is_control &&
      (header.type == VGPU_RESOURCE_UNREF || header.type == VGPU_RESOURCE_ATTACH_BACKING ||
       header.type == VGPU_RESOURCE_DETACH_BACKING)) {
    const runtime::MutexLock lock(mutex_);
    is_ours = request.read(0, &named) && resources_.contains(named.resource);
  }
  if (!is_ours) {
    gpu_.execute(queue, request);
    return;
  }
  VgpuHeader result = {};
  result.type = VGPU_OK_NODATA;
  std::vector<std::byte> answer;
  {
    const runtime::MutexLock lock(mutex_);
    uint32_t wrong = VGPU_ERR_INVALID_PARAMETER;
    const char* const why = carry_out(header, request, &wrong, &answer);
    if (why != nullptr) {
      if (counts_.refused++ == 0) counts_.first = why;
      result.type = wrong;
      answer.clear();
    }
  }
  worked_.set();
  if (answer.empty()) {
    result.flags = header.flags & VGPU_FLAG_FENCE;
    result.fence_id = header.fence_id;
    result.context_id = header.context_id;
    append(result, &answer);
  }
  if (request.writable_bytes() >= answer.size()) request.answer(answer);
}

const char* ScriptedRenderer::carry_out(const VgpuHeader& header, virtio::Request& request,
                                        uint32_t* type, std::vector<std::byte>* answer) {
  VgpuResource named = {};
  switch (header.type) {
    case VGPU_GET_CAPSET_INFO: {
      VgpuGetCapsetInfo command = {};
      if (!request.read(0, &command) || command.index != 0) return "no such capability set";
      VgpuCapsetInfo info = {};
      info.header.type = VGPU_OK_CAPSET_INFO;
      info.id = kScriptedCapset;
      info.version_most = kScriptedVersion;
      info.bytes_most = kCapsetBytes;
      append(info, answer);
      return nullptr;
    }
    case VGPU_GET_CAPSET: {
      VgpuGetCapset command = {};
      if (!request.read(0, &command) || command.id != kScriptedCapset ||
          command.version != kScriptedVersion)
        return "no such capability set or version";
      VgpuHeader head = {};
      head.type = VGPU_OK_CAPSET;
      append(head, answer);
      for (uint32_t at = 0; at < kCapsetBytes; ++at) append(capset_byte(at), answer);
      return nullptr;
    }
    case VGPU_CTX_CREATE:
      return create_context(header, request);
    case VGPU_CTX_DESTROY:
      return contexts_.erase(header.context_id) == 1 ? nullptr : "no such context ends";
    case VGPU_CTX_ATTACH_RESOURCE:
    case VGPU_CTX_DETACH_RESOURCE:
      return pair(header, request);
    case VGPU_RESOURCE_CREATE_3D:
      return create_resource(request, type);
    case VGPU_RESOURCE_UNREF:
      if (!request.read(0, &named)) return "a short command";
      for (auto& [id, context] : contexts_) context.resources.erase(named.resource);
      resources_.erase(named.resource);
      return nullptr;
    case VGPU_RESOURCE_ATTACH_BACKING:
      return attach(request);
    case VGPU_RESOURCE_DETACH_BACKING: {
      if (!request.read(0, &named)) return "a short command";
      Resource& resource = resources_.at(named.resource);
      if (resource.backing.empty()) return "memory is detached that is not attached";
      resource.backing.clear();
      return nullptr;
    }
    case VGPU_SUBMIT_3D:
      return submit(header, request);
    default:
      return transfer(header, request);
  }
}

const char* ScriptedRenderer::create_context(const VgpuHeader& header, virtio::Request& request) {
  VgpuCreateContext command = {};
  if (!request.read(0, &command)) return "a short command";
  if (command.name_bytes > sizeof command.name) return "a context's name is too long";
  if (command.init != 0 && command.init != kScriptedCapset) return "no such capability set";
  if (header.context_id == 0) return "context 0";
  return contexts_.try_emplace(header.context_id).second ? nullptr : "a context is there already";
}

const char* ScriptedRenderer::create_resource(virtio::Request& request, uint32_t* type) {
  VgpuCreate3D command = {};
  if (!request.read(0, &command)) return "a short command";
  if (command.target != kTarget2D || command.depth != 1 || command.array_size != 1 ||
      command.last_level != 0)
    return "no picture";
  const uint64_t pixels = uint64_t{command.width} * command.height;
  if (pixels > kPixelsMost) {
    *type = VGPU_ERR_OUT_OF_MEMORY;
    return "a picture is too large";
  }
  if (command.resource == 0) return "resource 0";
  const auto [at, is_new] = resources_.try_emplace(command.resource);
  if (!is_new) return "a resource is there already";
  at->second.width = command.width;
  at->second.height = command.height;
  at->second.pixels.resize(pixels);
  return nullptr;
}

const char* ScriptedRenderer::pair(const VgpuHeader& header, virtio::Request& request) {
  VgpuContextResource command = {};
  if (!request.read(0, &command)) return "a short command";
  const auto context = contexts_.find(header.context_id);
  if (context == contexts_.end()) return "no such context is attached or detached";
  if (!resources_.contains(command.resource)) return "no such resource is attached or detached";
  if (header.type == VGPU_CTX_ATTACH_RESOURCE) {
    if (context->second.resources.insert(command.resource).second) return nullptr;
    return "a resource is attached to a context already";
  }
  if (context->second.resources.erase(command.resource) == 1) return nullptr;
  return "a resource is not attached to a context";
}

const char* ScriptedRenderer::attach(virtio::Request& request) {
  VgpuAttach command = {};
  if (!request.read(0, &command) || command.entries == 0 || command.entries > kEntriesMost)
    return "a list of pages with a wrong length";
  Resource& resource = resources_.at(command.resource);
  if (!resource.backing.empty()) return "memory is attached already";
  std::vector<VgpuEntry> entries(command.entries);
  if (!request.read(sizeof command, std::as_writable_bytes(std::span(entries))))
    return "a list of pages that is too short";
  resource.backing = std::move(entries);
  ++counts_.backings;
  return nullptr;
}

ScriptedRenderer::Resource* ScriptedRenderer::reach(const Context& context, uint32_t id) {
  const auto at = resources_.find(id);
  return at == resources_.end() || !context.resources.contains(id) ? nullptr : &at->second;
}

const char* ScriptedRenderer::transfer(const VgpuHeader& header, virtio::Request& request) {
  VgpuTransfer3D command = {};
  if (!request.read(0, &command)) return "a short command";
  const auto context = contexts_.find(header.context_id);
  if (context == contexts_.end()) return "a transfer in no context";
  Resource* const resource = reach(context->second, command.resource);
  if (resource == nullptr) return "a transfer of a resource that the context does not have";
  if (resource->backing.empty()) return "a transfer without memory";
  const VgpuBox& box = command.box;
  if (command.level != 0 || box.z != 0 || box.depth != 1 || box.width == 0 || box.height == 0 ||
      !range_within(box.x, box.width, resource->width) ||
      !range_within(box.y, box.height, resource->height))
    return "a box that is not in the picture";
  const uint64_t row_bytes = box.width * kPixelBytes;
  const uint64_t stride = command.stride == 0 ? row_bytes : command.stride;
  for (uint32_t y = 0; y < box.height; ++y) {
    uint32_t* const row = resource->pixels.data() + uint64_t{box.y + y} * resource->width + box.x;
    if (!copy_row(request.memory(), resource->backing, command.offset + y * stride,
                  std::as_writable_bytes(std::span(row, box.width)),
                  header.type == VGPU_TRANSFER_TO_HOST_3D))
      return "a transfer behind the memory";
  }
  return nullptr;
}

const char* ScriptedRenderer::submit(const VgpuHeader& header, virtio::Request& request) {
  VgpuSubmit command = {};
  if (!request.read(0, &command) || command.bytes % 4 != 0 ||
      request.readable_bytes() < sizeof command + uint64_t{command.bytes})
    return "a submission that is too short";
  const auto at = contexts_.find(header.context_id);
  if (at == contexts_.end()) return "a submission to no context";
  Context& context = at->second;
  std::vector<uint32_t> words(command.bytes / 4);
  if (!request.read(sizeof command, std::as_writable_bytes(std::span(words))))
    return "a submission in no memory";
  ++counts_.submissions;
  if (context.is_broken) return "a context that is broken";
  context.is_broken = true;  // unless everything is right
  for (size_t i = 0; i < words.size(); i += 3) {
    if (words.size() - i < 3) return "a command of the renderer that is too short";
    Resource* const to = reach(context, words[i + 1]);
    if (to == nullptr) return "a command names a resource that the context does not have";
    if (words[i] == kFill) {
      std::ranges::fill(to->pixels, words[i + 2]);
    } else if (words[i] == kAdd) {
      for (uint32_t& pixel : to->pixels) pixel += words[i + 2];
    } else if (words[i] == kCopy) {
      const Resource* const from = reach(context, words[i + 2]);
      if (from == nullptr || from->pixels.size() != to->pixels.size()) return "a wrong source";
      to->pixels = from->pixels;
    } else {
      return "no such command of the renderer";
    }
  }
  context.is_broken = false;
  return nullptr;
}

}  // namespace dxgkit
