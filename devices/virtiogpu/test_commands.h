// A driver's side of the 3D commands, for tests: a machine with pages, and commands as one calls
// them.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "devices/virtio/model.h"
#include "devices/virtiogpu/gpu.h"

namespace dxgkit::virtiogpu {

/// Pages of a machine: the request, the answer, and what is behind them.
class TestPages final : public virtio::Memory {
 public:
  static constexpr uint64_t kPages = 512;
  static constexpr uint64_t kAnswerAt = 0x1'0000, kDataAt = 0x2'0000;

  explicit TestPages(bus::Machine& machine) : machine_(machine) {
    const auto first = machine.allocate_contiguous(kPages);
    EXPECT_TRUE(first.has_value());
    base_ = first.value_or(bus::PageFrame{}).value * kPageBytes;
  }
  bool read(uint64_t address, std::span<std::byte> to) override {
    return machine_.dma_read(bus::PhysicalAddress{address}, to);
  }
  bool write(uint64_t address, std::span<const std::byte> from) override {
    return machine_.dma_write(bus::PhysicalAddress{address}, from);
  }
  uint64_t request() const { return base_; }
  uint64_t answer() const { return base_ + kAnswerAt; }
  uint64_t data() const { return base_ + kDataAt; }
  /// What the renderer is told of a bus address.
  LocateMemory locate() const {
    return [&machine = machine_](uint64_t address, uint64_t bytes) -> std::optional<uint64_t> {
      const bus::MemoryWindow window = machine.window_of(bus::PhysicalAddress{address}, bytes);
      if (window.fd < 0) return std::nullopt;
      return window.offset;
    };
  }
  int descriptor() const { return machine_.window_of(bus::PhysicalAddress{base_}, kPageBytes).fd; }

 private:
  bus::Machine& machine_;
  uint64_t base_ = 0;
};

/// Words of a virgl command buffer.
class Words {
 public:
  Words& command(uint32_t number, uint32_t object, std::initializer_list<uint32_t> body) {
    words_.push_back(number | object << 8 | static_cast<uint32_t>(body.size()) << 16);
    words_.insert(words_.end(), body);
    return *this;
  }
  /// The resource becomes what is drawn to, under the handle of a surface.
  Words& draw_to(uint32_t resource, uint32_t format, uint32_t surface) {
    constexpr uint32_t kCreateObject = 1, kSetFramebuffer = 5, kSurface = 8;
    return command(kCreateObject, kSurface, {surface, resource, format, 0, 0})
        .command(kSetFramebuffer, 0, {1, 0, surface});
  }
  Words& clear(float red, float green, float blue, float alpha) {
    constexpr uint32_t kClear = 7, kColour0 = 4;
    const auto word = [](float value) { return std::bit_cast<uint32_t>(value); };
    return command(kClear, 0,
                   {kColour0, word(red), word(green), word(blue), word(alpha), 0, 0x3FF0'0000, 0});
  }
  /// Work for hours: two thousand million empty work groups, which is what 31 bits can count.
  Words& compute_for_ever() {
    constexpr uint32_t kCreateObject = 1, kBindShader = 31, kLaunchGrid = 37;
    constexpr uint32_t kShader = 4, kCompute = 5, kHandle = 20, kAcross = 65535, kDown = 32767;
    const std::string text =
        "COMP\nPROPERTY CS_FIXED_BLOCK_WIDTH 1024\nPROPERTY CS_FIXED_BLOCK_HEIGHT 1\n"
        "PROPERTY CS_FIXED_BLOCK_DEPTH 1\n  0: END\n";
    std::vector<uint32_t> letters(text.size() / sizeof(uint32_t) + 1);
    std::memcpy(letters.data(), text.data(), text.size());
    const auto bytes = static_cast<uint32_t>(letters.size() * sizeof(uint32_t));
    constexpr uint32_t kTokens = 300, kLocalBytes = 0, kFields = 5;
    words_.push_back(kCreateObject | kShader << 8 |
                     static_cast<uint32_t>(kFields + letters.size()) << 16);
    for (const uint32_t field : {kHandle, kCompute, bytes, kTokens, kLocalBytes})
      words_.push_back(field);
    words_.insert(words_.end(), letters.begin(), letters.end());
    return command(kBindShader, 0, {kHandle, kCompute})
        .command(kLaunchGrid, 0, {1024, 1, 1, kAcross, kDown, 1, 0, 0});
  }
  const std::vector<uint32_t>& words() const { return words_; }

 private:
  std::vector<uint32_t> words_;
};

/// Commands of a driver, which `send` delivers.
class TestCommands {
 public:
  static constexpr uint32_t kTexture2D = 2, kRenderTarget = 2;
  /// Delivers a command, with its answer at TestPages::answer. Returns the type of the answer; 0:
  /// there is none.
  using Send = std::function<uint32_t(std::span<const std::byte> bytes)>;

  TestCommands(Send send, TestPages& pages) : send_(std::move(send)), pages_(pages) {}
  /// To a Gpu without a transport.
  TestCommands(Gpu& gpu, TestPages& pages)
      : send_([this, &gpu](auto bytes) { return execute(gpu, bytes); }), pages_(pages) {}
  TestCommands(const TestCommands&) = delete;
  TestCommands& operator=(const TestCommands&) = delete;

  uint32_t send_bytes(std::span<const std::byte> bytes) { return send_(bytes); }
  template <typename Command>
  uint32_t send(uint32_t type, Command command, uint32_t context = 0, uint32_t flags = 0) {
    command.header.type = type;
    command.header.context_id = context;
    command.header.flags = flags;
    return send_bytes(std::as_bytes(std::span(&command, 1)));
  }
  template <typename Command, typename Item>
  uint32_t send_list(uint32_t type, Command command, const std::vector<Item>& items,
                     uint32_t context = 0, uint32_t flags = 0) {
    command.header.type = type;
    command.header.context_id = context;
    command.header.flags = flags;
    std::vector<std::byte> bytes(sizeof command + items.size() * sizeof(Item));
    std::memcpy(bytes.data(), &command, sizeof command);
    if (!items.empty())
      std::memcpy(bytes.data() + sizeof command, items.data(), items.size() * sizeof(Item));
    return send_bytes(bytes);
  }
  template <typename T>
  T answer() {
    T value{};
    pages_.load(pages_.answer(), &value);
    return value;
  }

  uint32_t create_context(uint32_t id, uint32_t init = 0) {
    VgpuCreateContext command = {};
    command.init = init;
    command.name_bytes = 4;
    std::memcpy(command.name, "test", 4);
    return send(VGPU_CTX_CREATE, command, id);
  }
  uint32_t destroy_context(uint32_t id) { return send(VGPU_CTX_DESTROY, VgpuContext{}, id); }
  uint32_t attach(uint32_t context, uint32_t resource) {
    return send(VGPU_CTX_ATTACH_RESOURCE, VgpuContextResource{{}, resource, 0}, context);
  }
  uint32_t detach(uint32_t context, uint32_t resource) {
    return send(VGPU_CTX_DETACH_RESOURCE, VgpuContextResource{{}, resource, 0}, context);
  }
  static VgpuCreate3D texture(uint32_t id, uint32_t width, uint32_t height,
                              uint32_t format = VGPU_B8G8R8X8) {
    VgpuCreate3D command = {};
    command.resource = id;
    command.target = kTexture2D;
    command.format = format;
    command.bind = kRenderTarget;
    command.width = width;
    command.height = height;
    command.depth = command.array_size = 1;
    return command;
  }
  uint32_t create(const VgpuCreate3D& command) { return send(VGPU_RESOURCE_CREATE_3D, command); }
  uint32_t unref(uint32_t id) { return send(VGPU_RESOURCE_UNREF, VgpuResource{{}, id, 0}); }
  uint32_t back(uint32_t id, const std::vector<VgpuEntry>& entries) {
    const auto count = static_cast<uint32_t>(entries.size());
    return send_list(VGPU_RESOURCE_ATTACH_BACKING, VgpuAttach{{}, id, count}, entries);
  }
  uint32_t unback(uint32_t id) {
    return send(VGPU_RESOURCE_DETACH_BACKING, VgpuResource{{}, id, 0});
  }
  uint32_t submit(uint32_t context, const std::vector<uint32_t>& words,
                  uint32_t flags = VGPU_FLAG_FENCE) {
    const auto bytes = static_cast<uint32_t>(words.size() * sizeof(uint32_t));
    return send_list(VGPU_SUBMIT_3D, VgpuSubmit{{}, bytes, 0}, words, context, flags);
  }
  uint32_t transfer(uint32_t type, uint32_t context, uint32_t resource, const VgpuBox& box,
                    uint64_t offset = 0) {
    VgpuTransfer3D command = {};
    command.box = box;
    command.offset = offset;
    command.resource = resource;
    return send(type, command, context);
  }
  uint32_t from_host(uint32_t context, uint32_t resource, const VgpuBox& box) {
    return transfer(VGPU_TRANSFER_FROM_HOST_3D, context, resource, box);
  }
  uint32_t to_host(uint32_t context, uint32_t resource, const VgpuBox& box) {
    return transfer(VGPU_TRANSFER_TO_HOST_3D, context, resource, box);
  }
  /// Word `at` of the data.
  uint32_t word(uint64_t at) {
    uint32_t value = 0;
    EXPECT_TRUE(pages_.load(pages_.data() + at * sizeof value, &value));
    return value;
  }

  // Of the last command that a Gpu has executed.
  std::string failure;
  uint32_t written = 0;

 private:
  uint32_t execute(Gpu& gpu, std::span<const std::byte> bytes) {
    constexpr uint32_t kRoom = 0x4000;
    pages_.write(pages_.request(), bytes);
    pages_.store(pages_.answer(), uint32_t{0});
    virtio::Chain chain;
    chain.readable = {{pages_.request(), static_cast<uint32_t>(bytes.size())}};
    chain.writable = {{pages_.answer(), kRoom}};
    chain.readable_bytes = bytes.size();
    chain.writable_bytes = kRoom;
    virtio::Request request(pages_, chain);
    gpu.execute(VGPU_QUEUE_CONTROL, request);
    failure = request.failure();
    written = request.written();
    uint32_t type = 0;
    pages_.load(pages_.answer(), &type);
    return type;
  }

  Send send_;
  TestPages& pages_;
};

}  // namespace dxgkit::virtiogpu
