#include "tools/dxgkit/verify/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>

#include "record/file.h"
#include "record/jobs.h"
#include "tools/dxgkit/verify/recorded_client.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint32_t kPackedBytesMax = 64 * 1024;
constexpr size_t kSettingsMax = 16;

/// The plug-in's sentence as an error; it names the function.
std::unexpected<std::string> refused(const Plugin& plugin, const char* function, const char* text) {
  return std::unexpected(fmt::format("client {}: {}: {}", plugin.name(), function, text));
}

Answer<std::vector<std::byte>> packed(const Plugin& plugin, const char* function, const char* error,
                                      std::vector<std::byte> data, uint32_t bytes) {
  if (error != nullptr) return refused(plugin, function, error);
  if (bytes > data.size()) {
    return refused(plugin, function,
                   fmt::format("it says it wrote {} bytes of {}", bytes, data.size()).c_str());
  }
  data.resize(bytes);
  return data;
}

}  // namespace

std::expected<std::unique_ptr<Plugin>, std::string> Plugin::load(const std::string& path) {
  const auto wrong = [&](std::string_view why) {
    return std::unexpected(fmt::format("{}: not a client plug-in: {}", path, why));
  };
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return std::unexpected(fmt::format("{}: there is no such client plug-in", path));
  if (record::is_recording(path)) {
    auto recording = record::read_recording(path);
    if (!recording.has_value()) return std::unexpected(std::move(recording.error()));
    std::unique_ptr<Plugin> plugin(new Plugin());
    plugin->functions_ = make_recorded_client(record::work_of(*recording), recording->process.name);
    plugin->name_ = plugin->functions_->name;
    return plugin;
  }
  // dlopen looks a name without a slash up in the system's folders.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::string why = dlerror();
    if (const size_t line = why.find('\n'); line != std::string::npos) why.resize(line);
    return wrong(why);
  }
  using Entry = const DxgkitClient* (*)(uint32_t);
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "dxgkit_client"));
  if (entry == nullptr) return wrong("it exports no dxgkit_client");
  std::unique_ptr<Plugin> plugin(new Plugin());
  plugin->functions_ = entry(DXGKIT_CLIENT_VERSION);
  const DxgkitClient* const f = plugin->functions_;
  if (f == nullptr) return wrong("dxgkit_client returned NULL");
  if (f->version == 0 || f->version > DXGKIT_CLIENT_VERSION) {
    return wrong(fmt::format("it speaks version {} of the interface, this tool versions 1 to {}",
                             f->version, DXGKIT_CLIENT_VERSION));
  }
  // Optional members at the end may be absent from an older header.
  constexpr size_t kLeastBytes = offsetof(DxgkitClient, record_virtual);
  if (f->size_bytes < kLeastBytes) {
    return wrong(
        fmt::format("size_bytes is {}, DxgkitClient has {}", f->size_bytes, sizeof(DxgkitClient)));
  }
  const struct {
    const char* name;
    bool there;
  } needed[] = {
      {"name", f->name != nullptr},     {"open", f->open != nullptr},
      {"close", f->close != nullptr},   {"pack_allocation", f->pack_allocation != nullptr},
      {"plan", f->plan != nullptr},     {"fill", f->fill != nullptr},
      {"record", f->record != nullptr}, {"check", f->check != nullptr}};
  for (const auto& member : needed) {
    if (!member.there) return wrong(fmt::format("its {} is NULL", member.name));
  }
  if (f->umd_private_bytes > kPackedBytesMax) {
    return wrong(
        fmt::format("umd_private_bytes is {}, at most {}", f->umd_private_bytes, kPackedBytesMax));
  }
  plugin->name_ = f->name;
  return plugin;
}

bool Plugin::knows_addresses() const {
  return functions_->size_bytes >= offsetof(DxgkitClient, record_overreach) &&
         functions_->record_virtual != nullptr;
}

bool Plugin::knows_overreach() const {
  return functions_->version >= 2 && functions_->size_bytes >= offsetof(DxgkitClient, example) &&
         functions_->record_overreach != nullptr;
}

bool Plugin::knows_shows() const {
  return functions_->version >= 2 && functions_->size_bytes >= sizeof(DxgkitClient) &&
         functions_->record_show != nullptr;
}

bool Plugin::judges() const {
  return functions_->version >= 2 && functions_->size_bytes >= offsetof(DxgkitClient, setting) &&
         functions_->judge != nullptr;
}

std::vector<DxgkitClientSetting> Plugin::settings() const {
  std::vector<DxgkitClientSetting> all;
  if (functions_->version < 2 ||
      functions_->size_bytes < offsetof(DxgkitClient, sleep_costs_devices) ||
      functions_->setting == nullptr)
    return all;
  DxgkitClientSetting one{};
  while (all.size() < kSettingsMax &&
         functions_->setting(static_cast<uint32_t>(all.size()), &one) != 0)
    all.push_back(one);
  return all;
}

bool Plugin::matches(uint16_t vendor_id, uint16_t device_id) const {
  return functions_->matches == nullptr || functions_->matches(vendor_id, device_id) != 0;
}

Answer<std::unique_ptr<Plugin::Instance>> Plugin::open(const DxgkitClientAdapter& adapter) const {
  void* client = nullptr;
  if (const char* error = functions_->open(&adapter, &client); error != nullptr)
    return refused(*this, "open", error);
  return std::make_unique<Instance>(*this, client);
}

Answer<std::vector<std::byte>> Plugin::Instance::pack_context(uint32_t node) const {
  if (plugin_.functions().pack_context == nullptr) return std::vector<std::byte>();
  std::vector<std::byte> data(kPackedBytesMax);
  uint32_t bytes = 0;
  const char* error =
      plugin_.functions().pack_context(client_, node, data.data(), kPackedBytesMax, &bytes);
  return packed(plugin_, "pack_context", error, std::move(data), bytes);
}

Answer<std::vector<std::byte>> Plugin::Instance::pack_allocation(
    const DxgkitClientAllocation& wanted) const {
  std::vector<std::byte> data(kPackedBytesMax);
  uint32_t bytes = 0;
  const char* error =
      plugin_.functions().pack_allocation(client_, &wanted, data.data(), kPackedBytesMax, &bytes);
  return packed(plugin_, "pack_allocation", error, std::move(data), bytes);
}

Answer<std::vector<std::byte>> Plugin::Instance::example(uint32_t kind, uint32_t index) const {
  const DxgkitClient& functions = plugin_.functions();
  if (functions.size_bytes < offsetof(DxgkitClient, judge) || functions.example == nullptr)
    return std::vector<std::byte>();
  std::vector<std::byte> data(kPackedBytesMax);
  uint32_t bytes = 0;
  const char* error = functions.example(client_, kind, index, data.data(), kPackedBytesMax, &bytes);
  return packed(plugin_, "example", error, std::move(data), bytes);
}

bool Plugin::Instance::sleep_costs_devices() const {
  const DxgkitClient& functions = plugin_.functions();
  return functions.version >= 2 && functions.size_bytes >= offsetof(DxgkitClient, record_show) &&
         functions.sleep_costs_devices != nullptr && functions.sleep_costs_devices(client_) != 0;
}

std::string Plugin::Instance::judge(const DxgkitClientAnswer& answer) const {
  if (!plugin_.judges()) return {};
  const char* const wrong = plugin_.functions().judge(client_, &answer);
  return wrong == nullptr ? std::string() : std::string(wrong);
}

Answer<std::vector<DxgkitClientAllocation>> Plugin::Instance::plan(uint64_t seed,
                                                                   uint32_t node) const {
  std::vector<DxgkitClientAllocation> wanted(kJobAllocationsMax);
  uint32_t count = 0;
  const char* error =
      plugin_.functions().plan(client_, seed, node, wanted.data(), kJobAllocationsMax, &count);
  if (error != nullptr) return refused(plugin_, "plan", error);
  if (count == 0 || count > kJobAllocationsMax) {
    return refused(
        plugin_, "plan",
        fmt::format("it wants {} allocations; 1 to {} may be wanted", count, kJobAllocationsMax)
            .c_str());
  }
  wanted.resize(count);
  for (const DxgkitClientAllocation& one : wanted) {
    if (one.size_bytes != 0 && one.size_bytes <= kJobAllocationBytesMax) continue;
    return refused(plugin_, "plan",
                   fmt::format("it wants an allocation of {} bytes; 1 to {} may be wanted",
                               one.size_bytes, kJobAllocationBytesMax)
                       .c_str());
  }
  return wanted;
}

Answer<void> Plugin::Instance::fill(const DxgkitClientJob& job, uint32_t index,
                                    std::span<std::byte> view) const {
  const char* error =
      plugin_.functions().fill(client_, &job, index, view.data(), view.size_bytes());
  if (error != nullptr) return refused(plugin_, "fill", error);
  return {};
}

Answer<void> Plugin::Instance::record(DxgkitClientJob& job) const {
  job.command_bytes = job.use_count = job.patch_count = job.private_bytes = 0;
  const bool addresses = job.addresses != nullptr;
  const char* const name = addresses ? "record_virtual" : "record";
  const char* error = addresses ? plugin_.functions().record_virtual(client_, &job)
                                : plugin_.functions().record(client_, &job);
  if (error != nullptr) return refused(plugin_, name, error);
  return check_recorded(name, job);
}

Answer<std::optional<DxgkitClientOverreach>> Plugin::Instance::record_overreach(
    DxgkitClientJob& job, uint32_t variant) const {
  job.command_bytes = job.use_count = job.patch_count = job.private_bytes = 0;
  constexpr const char* kName = "record_overreach";
  DxgkitClientOverreach made{};
  const char* error = plugin_.functions().record_overreach(client_, &job, variant, &made);
  if (error != nullptr) return refused(plugin_, kName, error);
  if (made.what == nullptr) return std::nullopt;
  if (made.expected > DXGKIT_CLIENT_RIGHT)
    return refused(plugin_, kName, fmt::format("it expects {}", made.expected).c_str());
  if (const Answer<void> fits = check_recorded(kName, job); !fits)
    return std::unexpected(fits.error());
  return made;
}

Answer<bool> Plugin::Instance::record_show(DxgkitClientJob& job, uint32_t variant,
                                           DxgkitClientShow& show) const {
  job.command_bytes = job.use_count = job.patch_count = job.private_bytes = 0;
  constexpr const char* kName = "record_show";
  const char* error = plugin_.functions().record_show(client_, &job, variant, &show);
  if (error != nullptr) return refused(plugin_, kName, error);
  if (show.what == nullptr) return false;
  if (show.expected > DXGKIT_CLIENT_SHOW_EARLIER)
    return refused(plugin_, kName, fmt::format("it expects {}", show.expected).c_str());
  if (const Answer<void> fits = check_recorded(kName, job); !fits)
    return std::unexpected(fits.error());
  return true;
}

Answer<void> Plugin::Instance::check_recorded(const char* function,
                                              const DxgkitClientJob& job) const {
  if (job.command_bytes > job.command_bytes_max || job.use_count > job.use_count_max ||
      job.patch_count > job.patch_count_max || job.private_bytes > job.private_bytes_max) {
    return refused(plugin_, function, "it says it wrote more than the buffers hold");
  }
  for (uint32_t i = 0; i < job.use_count; ++i) {
    const uint32_t allocation = job.uses[i].allocation;
    if (allocation >= job.allocation_count && allocation != DXGKIT_CLIENT_NO_ALLOCATION)
      return refused(plugin_, function, "a use names an allocation the job does not have");
  }
  return {};
}

Answer<void> Plugin::Instance::check(const DxgkitClientJob& job, uint32_t index,
                                     std::span<const std::byte> view) const {
  const char* error =
      plugin_.functions().check(client_, &job, index, view.data(), view.size_bytes());
  if (error != nullptr) return std::unexpected(std::string(error));
  return {};
}

}  // namespace dxgkit::tool::verify
