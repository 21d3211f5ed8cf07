// A client plug-in (client_plugin.h) in this process. Its answers are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/dxgkit/client_plugin.h"

namespace dxgkit::tool::verify {

/// The error is one sentence.
template <typename T>
using Answer = std::expected<T, std::string>;

/// A loaded plug-in. It stays loaded until the process ends, because its code may be on stacks.
class Plugin {
 public:
  /// The error is one sentence that begins with the path: not a shared object, no dxgkit_client,
  /// another version, a missing function.
  static std::expected<std::unique_ptr<Plugin>, std::string> load(const std::string& path);

  const DxgkitClient& functions() const { return *functions_; }
  const std::string& name() const { return name_; }
  bool matches(uint16_t vendor_id, uint16_t device_id) const;
  /// True if it has a record_virtual.
  bool knows_addresses() const;
  /// True if it has a record_overreach.
  bool knows_overreach() const;
  /// True if it has a record_show.
  bool knows_shows() const;
  /// True if it has a judge.
  bool judges() const;
  /// What the driver documents of its settings; empty without.
  std::vector<DxgkitClientSetting> settings() const;

  /// An open instance; closed by the destructor.
  class Instance {
   public:
    Instance(const Plugin& plugin, void* client) : plugin_(plugin), client_(client) {}
    ~Instance() { plugin_.functions().close(client_); }
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    Answer<std::vector<std::byte>> pack_context(uint32_t node) const;
    Answer<std::vector<std::byte>> pack_allocation(const DxgkitClientAllocation& wanted) const;
    Answer<std::vector<DxgkitClientAllocation>> plan(uint64_t seed, uint32_t node) const;
    /// Private data of a kind (DXGKIT_CLIENT_DATA_*) beside that of plans; empty: no more.
    Answer<std::vector<std::byte>> example(uint32_t kind, uint32_t index) const;
    /// What is wrong with the driver's answer, as a sentence without a full stop; empty: nothing.
    std::string judge(const DxgkitClientAnswer& answer) const;
    /// What a sleep takes from the device may end the D3DKMT devices that need it.
    bool sleep_costs_devices() const;
    Answer<void> fill(const DxgkitClientJob& job, uint32_t index, std::span<std::byte> view) const;
    /// Checks the counts in `job` against its limits. With `addresses` set it calls record_virtual:
    /// see knows_addresses().
    Answer<void> record(DxgkitClientJob& job) const;
    /// As record, with the mistake of that number. nullopt: there is none. See knows_overreach().
    Answer<std::optional<DxgkitClientOverreach>> record_overreach(DxgkitClientJob& job,
                                                                  uint32_t variant) const;
    /// As record, for what changes the screen. False: there is no such variant. See knows_shows().
    Answer<bool> record_show(DxgkitClientJob& job, uint32_t variant, DxgkitClientShow& show) const;
    Answer<void> check(const DxgkitClientJob& job, uint32_t index,
                       std::span<const std::byte> view) const;

   private:
    /// The error of a recording that did not fail: it wrote more than there is room for.
    Answer<void> check_recorded(const char* function, const DxgkitClientJob& job) const;
    const Plugin& plugin_;
    void* client_;
  };
  Answer<std::unique_ptr<Instance>> open(const DxgkitClientAdapter& adapter) const;

 private:
  Plugin() = default;
  const DxgkitClient* functions_ = nullptr;
  std::string name_;
};

}  // namespace dxgkit::tool::verify
