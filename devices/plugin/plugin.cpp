#include "devices/plugin/plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <deque>
#include <map>

#include "base/arithmetic.h"
#include "bus/machine.h"
#include "devices/plugin/device_plugin.h"
#include "devices/plugin/inside.h"
#include "runtime/sync.h"

namespace dxgkit::plugin {
namespace {

constexpr uint32_t kFunctionsMost = 8;
constexpr uint32_t kOptionsMost = 256;
constexpr uint32_t kCapabilitiesMost = 48;
constexpr uint32_t kCapabilityBytesMost = 192;
constexpr uint32_t kBarSlots = 6;
constexpr uint64_t kRegisterBytesMost = uint64_t{512} << 20;
constexpr uint64_t kMemoryBytesMost = uint64_t{64} << 30;

std::unexpected<std::string> wrong(std::string text) { return std::unexpected(std::move(text)); }

/// A checked plug-in. It lives as long as the process, and so does everything that it points to.
struct Code {
  std::string path;
  const DxgkitDevice* functions = nullptr;
};

/// Settings as a plug-in gets them; lives as long as `options`.
std::vector<DxgkitDeviceSetting> settings_of(const bus::DeviceOptions& options) {
  std::vector<DxgkitDeviceSetting> settings;
  for (const auto& [name, value] : options.all())
    settings.push_back({.name = name.c_str(), .value = value.c_str()});
  return settings;
}

/// Makes the requested calls when their time has come. Its thread sleeps meanwhile.
class Alarm final : public bus::DeviceClock {
 public:
  /// What is due: a step of the device's, with its value, or a late interrupt of a function.
  struct Call {
    bool interrupts = false;
    uint64_t value = 0;
  };
  Alarm(runtime::Runtime& runtime, std::function<void(const Call&)> ring)
      : runtime_(runtime), ring_(std::move(ring)) {
    thread_ = runtime_.spawn("device plug-in", [this] { run(); });
  }
  ~Alarm() override {
    stop_.store(true, std::memory_order_release);
    look();
    thread_->join();
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  void set(uint64_t delay_ns, const Call& call) {
    constexpr auto kLongest = static_cast<uint64_t>(runtime::kForever / 2);
    const auto delay = static_cast<runtime::DurationNs>(std::min(delay_ns, kLongest));
    {
      const runtime::MutexLock lock(mutex_);
      due_.emplace(runtime_.now() + delay, call);
    }
    look();
  }
  /// How late the next interrupt comes; 0: at once.
  uint64_t draw_interrupt_delay() {
    const uint64_t most = interrupt_delay_ns_.load(std::memory_order_relaxed);
    return most == 0 ? 0 : runtime_.random() % (most + 1);
  }

  void stop_after(uint32_t steps) override {
    const runtime::MutexLock lock(mutex_);
    steps_left_ = steps;
  }
  void go_on() override {
    {
      const runtime::MutexLock lock(mutex_);
      if (!steps_left_.has_value()) return;
      steps_left_.reset();
    }
    look();
  }
  void delay_interrupts(uint64_t most_ns) override {
    interrupt_delay_ns_.store(most_ns, std::memory_order_relaxed);
  }

 private:
  void look() {
    bell_.fetch_add(1, std::memory_order_acq_rel);
    runtime_.wake_all(bell_);
  }
  /// Takes the call that is due first. False: none is due, and *next is the time of the next one.
  bool take(Call* call, runtime::TimeNs* next) {
    const runtime::MutexLock lock(mutex_);
    const bool stands_still = steps_left_ == 0U;
    const auto first = std::ranges::find_if(
        due_, [&](const auto& one) { return one.second.interrupts || !stands_still; });
    *next = first == due_.end() ? runtime::kForever : first->first;
    if (*next > runtime_.now()) return false;
    *call = first->second;
    if (steps_left_.has_value() && !call->interrupts) --*steps_left_;
    due_.erase(first);
    return true;
  }
  void run() {
    while (true) {
      const uint32_t seen = bell_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_acquire)) return;
      Call call;
      runtime::TimeNs next = runtime::kForever;
      if (take(&call, &next)) {
        ring_(call);
      } else {
        runtime_.wait(bell_, seen, next);
      }
    }
  }

  runtime::Runtime& runtime_;
  const std::function<void(const Call&)> ring_;
  std::atomic<uint64_t> interrupt_delay_ns_{0};
  std::atomic<uint32_t> bell_{0};  // counts reasons to look
  std::atomic<bool> stop_{false};
  runtime::Mutex mutex_;
  std::multimap<runtime::TimeNs, Call> due_ DXGKIT_GUARDED_BY(mutex_);
  std::optional<uint32_t> steps_left_ DXGKIT_GUARDED_BY(mutex_);  // none: any number
  std::unique_ptr<runtime::Thread> thread_;
};

class PluginDevice final : public bus::Device {
 public:
  PluginDevice(const Code& code, const bus::DeviceHost& host)
      : code_(code), runtime_(host.runtime), machine_(host.machine) {
    services_ = {.version = DXGKIT_DEVICE_VERSION,
                 .size_bytes = sizeof(DxgkitDeviceHost),
                 .host = this,
                 .dma_read = dma_read,
                 .dma_write = dma_write,
                 .raise = raise,
                 .now_ns = now_ns,
                 .wake_after = wake_after};
  }
  ~PluginDevice() override {
    alarm_.reset();
    functions_.clear();  // out of the machine before the device is closed
    for (Part& part : parts_) part.function.reset();
    if (!opened_) return;
    const Inside inside = in("close");  // it may read the memory of its BARs
    code_.functions->close(device_);
  }

  std::expected<void, std::string> open(const bus::DeviceOptions& options) {
    if (code_.functions->wake != nullptr) {
      alarm_ = std::make_unique<Alarm>(runtime_, [this](const Alarm::Call& call) {
        if (call.interrupts) {
          if (!is_gone()) static_cast<void>(functions_[call.value]->interrupt_line().raise());
          return;
        }
        const Inside inside = in("wake");
        code_.functions->wake(device_, call.value);
      });
    }
    const std::vector<DxgkitDeviceSetting> settings = settings_of(options);
    const char* error = nullptr;
    {
      const Inside inside = in("open");
      error = code_.functions->open(&services_, settings.data(),
                                    static_cast<uint32_t>(settings.size()), &device_);
    }
    if (error != nullptr) return wrong(std::string("open: ") + error);
    opened_ = true;
    for (uint32_t i = 0; i < code_.functions->function_count; ++i) {
      if (auto made = add_function(i); !made.has_value())
        return wrong("function " + std::to_string(i) + ": " + made.error());
    }
    for (Part& part : parts_) functions_.push_back(&*part.function);
    return {};
  }

  std::span<bus::PciFunction* const> functions() override { return functions_; }
  bus::DeviceClock* clock() override { return alarm_.get(); }
  void set_power(size_t index, bus::FunctionPower power) override {
    if (code_.functions->power == nullptr) return;
    const uint32_t state = power == bus::FunctionPower::kOn        ? DXGKIT_DEVICE_POWER_ON
                           : power == bus::FunctionPower::kStandby ? DXGKIT_DEVICE_POWER_STANDBY
                                                                   : DXGKIT_DEVICE_POWER_HIBERNATE;
    const Inside inside = in("power");
    code_.functions->power(device_, static_cast<uint32_t>(index), state);
  }
  void reset(size_t index) override {
    if (code_.functions->reset == nullptr) return;
    const Inside inside = in("reset");
    code_.functions->reset(device_, static_cast<uint32_t>(index));
  }
  void pulled_out() override {
    gone_.store(true, std::memory_order_release);
    if (code_.functions->removed == nullptr) return;
    const Inside inside = in("removed");
    code_.functions->removed(device_);
  }

 private:
  /// Registers or ports of one BAR.
  struct Registers final : bus::MmioHandler {
    Registers(PluginDevice& owner_in, uint32_t function_in, uint32_t bar_in)
        : owner(owner_in), function(function_in), bar(bar_in) {}
    uint64_t mmio_read(uint64_t offset, uint32_t size_bytes) override {
      const Inside inside = owner.in("read");
      return owner.code_.functions->read(owner.device_, function, bar, offset, size_bytes);
    }
    void mmio_write(uint64_t offset, uint32_t size_bytes, uint64_t value) override {
      const Inside inside = owner.in("write");
      owner.code_.functions->write(owner.device_, function, bar, offset, size_bytes, value);
    }
    PluginDevice& owner;
    const uint32_t function, bar;
  };
  struct Part {
    std::deque<Registers> registers;  // they stay where they are
    std::vector<std::unique_ptr<bus::DeviceMemory>> memory;
    std::optional<bus::PciFunction> function;  // destroyed before the targets of its BARs
  };

  Inside in(const char* function) const { return Inside(code_.path.c_str(), function); }

  std::expected<void, std::string> add_function(uint32_t index) {
    DxgkitDeviceFunction described{};
    const char* error = nullptr;
    {
      const Inside inside = in("describe");
      error = code_.functions->describe(device_, index, &described);
    }
    if (error != nullptr) return wrong(std::string("describe: ") + error);
    const bus::PciIdentity identity{.vendor_id = described.vendor_id,
                                    .device_id = described.device_id,
                                    .subsystem_vendor_id = described.subsystem_vendor_id,
                                    .subsystem_id = described.subsystem_id,
                                    .revision = described.revision,
                                    .base_class = described.base_class,
                                    .sub_class = described.sub_class,
                                    .programming_interface = described.programming_interface};
    auto capabilities = read_capabilities(described);
    if (!capabilities.has_value()) return wrong(capabilities.error());
    Part& part = parts_.emplace_back();
    std::vector<bus::Bar> bars(kBarSlots);
    for (uint32_t slot = 0; slot < kBarSlots; ++slot) {
      if (auto made = add_bar(described.bars[slot], index, slot, part, bars); !made.has_value())
        return wrong("BAR " + std::to_string(slot) + ": " + made.error());
    }
    const DxgkitDevicePostDisplay& post = described.post_display;
    if (post.width != 0 && !fits(post, bars))
      return wrong("its post display does not lie in a memory BAR");
    part.function.emplace(identity, std::move(bars), std::move(*capabilities));
    if (post.width == 0) return {};
    part.function->set_post_display(bus::PostDisplay{.bar = post.bar,
                                                     .offset_bytes = post.offset_bytes,
                                                     .width = post.width,
                                                     .height = post.height,
                                                     .pitch_bytes = post.pitch_bytes});
    return {};
  }

  std::expected<void, std::string> add_bar(const DxgkitDeviceBar& wanted, uint32_t function,
                                           uint32_t slot, Part& part, std::vector<bus::Bar>& bars) {
    if (wanted.kind == DXGKIT_DEVICE_BAR_NONE) return {};
    if (wanted.kind > DXGKIT_DEVICE_BAR_PORTS)
      return wrong("there is no kind " + std::to_string(wanted.kind));
    const bool is_memory = wanted.kind == DXGKIT_DEVICE_BAR_MEMORY;
    const bool is_ports = wanted.kind == DXGKIT_DEVICE_BAR_PORTS;
    const bool is_wide = is_memory || wanted.kind == DXGKIT_DEVICE_BAR_REGISTERS_64;
    const uint64_t least = is_ports ? 4 : kPageBytes;
    const uint64_t most = is_ports ? 256 : is_memory ? kMemoryBytesMost : kRegisterBytesMost;
    if (!std::has_single_bit(wanted.size_bytes) || wanted.size_bytes < least ||
        wanted.size_bytes > most)
      return wrong("its size of " + std::to_string(wanted.size_bytes) +
                   " bytes is no power of two from " + std::to_string(least) + " to " +
                   std::to_string(most));
    if (is_wide && slot + 1 == kBarSlots) return wrong("it is 64 bits wide, and the last");
    if (slot > 0 && is_wide_at(bars, slot - 1))
      return wrong("it is the upper half of the BAR before it");
    bus::Bar& bar = bars[slot];
    bar.size = wanted.size_bytes;
    if (!is_memory) {
      if (code_.functions->read == nullptr || code_.functions->write == nullptr)
        return wrong("it has registers, and the plug-in no read or no write");
      bar.kind = is_ports ? bus::BarKind::kPorts : bus::BarKind::kRegisters;
      bar.wide = is_wide;
      bar.registers = &part.registers.emplace_back(*this, function, slot);
      return {};
    }
    if (wanted.content_bytes > wanted.size_bytes)
      return wrong("its content of " + std::to_string(wanted.content_bytes) +
                   " bytes is larger than the BAR");
    auto memory = bus::DeviceMemory::create(wanted.size_bytes);
    if (!memory.has_value()) return wrong("there is no memory for it");
    const std::span<std::byte> bytes = (*memory)->bytes();
    if (wanted.content != nullptr) {
      const Inside inside = in("describe");  // it is the plug-in's pointer
      std::memcpy(bytes.data(), wanted.content, wanted.content_bytes);
    }
    bar.kind = bus::BarKind::kMemory;
    bar.memory = (*memory)->window();
    part.memory.push_back(std::move(*memory));
    if (code_.functions->memory != nullptr) {
      const Inside inside = in("memory");
      code_.functions->memory(device_, function, slot, bytes.data(), bytes.size());
    }
    return {};
  }

  static bool fits(const DxgkitDevicePostDisplay& post, const std::vector<bus::Bar>& bars) {
    if (post.bar >= bars.size() || bars[post.bar].kind != bus::BarKind::kMemory) return false;
    if (post.height == 0 || post.pitch_bytes / 4 < post.width) return false;
    return range_within(post.offset_bytes, uint64_t{post.pitch_bytes} * post.height,
                        bars[post.bar].size);
  }

  static bool is_wide_at(const std::vector<bus::Bar>& bars, uint32_t slot) {
    return bars[slot].kind == bus::BarKind::kMemory || bars[slot].wide;
  }

  std::expected<std::vector<bus::PciCapability>, std::string> read_capabilities(
      const DxgkitDeviceFunction& described) const {
    std::vector<bus::PciCapability> capabilities;
    if (described.capability_count > kCapabilitiesMost)
      return wrong("it has more than " + std::to_string(kCapabilitiesMost) + " capabilities");
    uint64_t bytes = 0;
    const Inside inside = in("describe");  // these are the plug-in's pointers
    for (uint32_t i = 0; i < described.capability_count; ++i) {
      const DxgkitDeviceCapability& one = described.capabilities[i];
      bytes += align_up(2 + uint64_t{one.body_bytes}, 4);
      bus::PciCapability& capability = capabilities.emplace_back();
      capability.id = one.id;
      const auto* const body = reinterpret_cast<const std::byte*>(one.body);
      const auto* const writable = reinterpret_cast<const std::byte*>(one.writable);
      capability.body.assign(body, body + one.body_bytes);
      if (writable != nullptr) capability.writable.assign(writable, writable + one.body_bytes);
    }
    if (bytes > kCapabilityBytesMost)
      return wrong("its capabilities take " + std::to_string(bytes) + " bytes; there is room for " +
                   std::to_string(kCapabilityBytesMost));
    return capabilities;
  }

  // --- services, called by the plug-in
  static PluginDevice& of(void* host) { return *static_cast<PluginDevice*>(host); }
  bool is_gone() const { return gone_.load(std::memory_order_acquire); }
  /// A thread of the plug-in's own joins the runtime for a call; null: the thread is in a runtime
  /// already.
  std::unique_ptr<runtime::AdoptThread> adopt() const {
    if (runtime::Runtime::current_or_null() != nullptr) return nullptr;
    return std::make_unique<runtime::AdoptThread>(runtime_, "device plug-in's own");
  }

  // Copies happen inside: a bad pointer is the plug-in's.
  static int dma_read(void* host, uint64_t address, void* to, uint64_t bytes) {
    if (of(host).is_gone()) return 0;
    return of(host).machine_.dma_read(bus::PhysicalAddress{address},
                                      {static_cast<std::byte*>(to), bytes});
  }
  static int dma_write(void* host, uint64_t address, const void* from, uint64_t bytes) {
    if (of(host).is_gone()) return 0;
    return of(host).machine_.dma_write(bus::PhysicalAddress{address},
                                       {static_cast<const std::byte*>(from), bytes});
  }
  static int raise(void* host, uint32_t function) {
    PluginDevice& device = of(host);
    const Inside outside(nullptr, nullptr);
    if (device.is_gone() || function >= device.functions_.size()) return 0;
    const auto adopted = device.adopt();
    if (device.alarm_ != nullptr) {
      if (const uint64_t delay_ns = device.alarm_->draw_interrupt_delay(); delay_ns != 0) {
        device.alarm_->set(delay_ns, {.interrupts = true, .value = function});
        return 1;
      }
    }
    return device.functions_[function]->interrupt_line().raise() ? 1 : 0;
  }
  static uint64_t now_ns(void* host) {
    const Inside outside(nullptr, nullptr);
    return static_cast<uint64_t>(of(host).runtime_.now());
  }
  static void wake_after(void* host, uint64_t delay_ns, uint64_t value) {
    PluginDevice& device = of(host);
    const Inside outside(nullptr, nullptr);
    if (device.alarm_ == nullptr) return;
    const auto adopted = device.adopt();
    device.alarm_->set(delay_ns, {.interrupts = false, .value = value});
  }

  const Code& code_;
  runtime::Runtime& runtime_;
  bus::Machine& machine_;
  DxgkitDeviceHost services_{};
  void* device_ = nullptr;
  bool opened_ = false;
  std::atomic<bool> gone_{false};
  std::deque<Part> parts_;
  std::vector<bus::PciFunction*> functions_;
  std::unique_ptr<Alarm> alarm_;
};

std::expected<bus::DeviceMaker, std::string> configure(const Code& code,
                                                       const bus::DeviceOptions& options) {
  if (code.functions->check != nullptr) {
    const std::vector<DxgkitDeviceSetting> settings = settings_of(options);
    const Inside inside(code.path.c_str(), "check");
    const char* const error =
        code.functions->check(settings.data(), static_cast<uint32_t>(settings.size()));
    if (error != nullptr) return wrong(error);
  }
  return
      [&code, options](
          const bus::DeviceHost& host) -> std::expected<std::unique_ptr<bus::Device>, std::string> {
        auto device = std::make_unique<PluginDevice>(code, host);
        if (auto opened = device->open(options); !opened.has_value()) return wrong(opened.error());
        return device;
      };
}

/// Says where the code of a shared object is.
void note_image(void* library, const char* path) {
  const link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return;
  struct Search {
    uint64_t base;
    uint64_t end;
  } search{map->l_addr, 0};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* const wanted = static_cast<Search*>(data);
        if (info->dlpi_addr != wanted->base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type == PT_LOAD)
            wanted->end = std::max(wanted->end, wanted->base + header.p_vaddr + header.p_memsz);
        }
        return 1;
      },
      &search);
  add_image(search.base, search.end, path);
}

/// The missing function of a plug-in; nullopt: none.
std::optional<std::string> missing(const DxgkitDevice& f) {
  const struct {
    const char* name;
    bool there;
  } needed[] = {{"summary", f.summary != nullptr},
                {"open", f.open != nullptr},
                {"close", f.close != nullptr},
                {"describe", f.describe != nullptr},
                {"options", f.option_count == 0 || f.options != nullptr}};
  for (const auto& member : needed) {
    if (!member.there) return std::string("its ") + member.name + " is NULL";
  }
  if (f.function_count == 0 || f.function_count > kFunctionsMost)
    return "it has " + std::to_string(f.function_count) + " functions; 1 to " +
           std::to_string(kFunctionsMost) + " may be";
  if (f.option_count > kOptionsMost)
    return "it has " + std::to_string(f.option_count) + " options; at most " +
           std::to_string(kOptionsMost) + " may be";
  for (uint32_t i = 0; i < f.option_count; ++i) {
    const DxgkitDeviceOption& option = f.options[i];
    if (option.name == nullptr || option.value == nullptr || option.help == nullptr)
      return "its option " + std::to_string(i) + " has a NULL";
  }
  return std::nullopt;
}

}  // namespace

namespace {

/// Checks the table that is the plug-in's, and says what it is as a type of device. `code` lives as
/// long as the process.
std::expected<bus::DeviceType, std::string> type_behind(const Code& code) {
  const DxgkitDevice* const f = code.functions;
  if (f->version != DXGKIT_DEVICE_VERSION)
    return wrong("it speaks version " + std::to_string(f->version) +
                 " of the interface, this tool version " + std::to_string(DXGKIT_DEVICE_VERSION));
  if (f->size_bytes < sizeof(DxgkitDevice))
    return wrong("size_bytes is " + std::to_string(f->size_bytes) + ", DxgkitDevice has " +
                 std::to_string(sizeof(DxgkitDevice)));
  if (auto why = missing(*f); why.has_value()) return wrong(std::move(*why));
  bus::DeviceType type;
  type.name = code.path;
  type.summary = f->summary;
  type.is_plugin = true;
  type.simulated = (f->flags & DXGKIT_DEVICE_REAL_TIME_ONLY) == 0;
  for (uint32_t i = 0; i < f->option_count; ++i)
    type.options.push_back({f->options[i].name, f->options[i].value, f->options[i].help});
  type.configure = [&code](const bus::DeviceOptions& options) { return configure(code, options); };
  return type;
}

}  // namespace

std::expected<bus::DeviceType, std::string> type_of(const std::string& name,
                                                    const DxgkitDevice* functions) {
  if (functions == nullptr) return wrong(name + ": not a device model: its functions are NULL");
  // Kept for the process's life, as types and devices point to it.
  static std::deque<Code> all;
  const auto known = std::ranges::find_if(
      all, [&](const Code& one) { return one.path == name && one.functions == functions; });
  const Code& code = known != all.end() ? *known : all.emplace_back(Code{name, functions});
  auto type = type_behind(code);
  if (!type.has_value()) return wrong(name + ": not a device model: " + type.error());
  return type;
}

std::expected<bus::DeviceType, std::string> load(const std::string& path) {
  const auto refused = [&](const std::string& why) {
    return wrong(path + ": not a device plug-in: " + why);
  };
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return wrong(path + ": there is no such device plug-in");
  if (!S_ISREG(status.st_mode)) return refused("it is not a file");
  // Loaded for the process's life, and so is the record of it.
  static std::deque<Code> all;
  const auto known = std::ranges::find(all, path, &Code::path);
  Code& code =
      known == all.end() ? all.emplace_back(Code{.path = path, .functions = nullptr}) : *known;
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* library = nullptr;
  {
    const Inside inside(code.path.c_str(), "a constructor");
    // dlopen looks a name without a slash up in the system's folders.
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    std::string why = dlerror();
    if (const size_t line = why.find('\n'); line != std::string::npos) why.resize(line);
    return refused(why);
  }
  using Entry = const DxgkitDevice* (*)(uint32_t);
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "dxgkit_device"));
  if (entry == nullptr) return refused("it exports no dxgkit_device");
  if (known == all.end()) note_image(library, code.path.c_str());
  {
    const Inside inside(code.path.c_str(), "dxgkit_device");
    code.functions = entry(DXGKIT_DEVICE_VERSION);
  }
  if (code.functions == nullptr) return refused("dxgkit_device returned NULL");
  auto type = type_behind(code);
  if (!type.has_value()) return refused(type.error());
  return type;
}

}  // namespace dxgkit::plugin
