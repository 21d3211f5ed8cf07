// A Linux with one device bound to vfio-pci, for tests that have no hardware.
#pragma once

#include <linux/vfio.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "devices/vfio/kernel.h"
#include "runtime/sync.h"

namespace dxgkit::vfio {

/// Answers as Linux does for a healthy device at 0000:00:05.0 in IOMMU group 7. A test changes what
/// it is about before the device is opened. The device's memory is a file, so that it can be
/// mapped.
class FakeLinux final : public Kernel {
 public:
  FakeLinux();
  ~FakeLinux() override;

  Answer<int> open(const std::string& path, int flags) override;
  void close(int descriptor) override;
  Answer<int> control(int descriptor, unsigned long request, uintptr_t argument) override;
  Answer<size_t> read_at(int descriptor, std::span<std::byte> out, uint64_t offset) override;
  Answer<size_t> write_at(int descriptor, std::span<const std::byte> in, uint64_t offset) override;
  Answer<size_t> read_next(int descriptor, std::span<std::byte> out) override;
  Answer<void> skip_to_end(int descriptor) override;
  Answer<std::string> link_target(const std::string& path) override;
  Answer<std::vector<std::string>> list(const std::string& path) override;
  uint64_t lock_limit_bytes() override { return lock_limit; }

  // --- what a test may change
  std::map<std::string, std::string> links;                 // path -> last part of its target
  std::map<std::string, std::vector<std::string>> folders;  // path -> names
  std::map<std::string, int> open_errors;                   // path -> errno
  std::map<unsigned long, int> control_errors;              // request -> errno
  int extension = 1, api_version = VFIO_API_VERSION;
  uint32_t group_flags = VFIO_GROUP_FLAGS_VIABLE;
  uint64_t lock_limit = UINT64_MAX;
  vfio_device_info device{};
  std::array<vfio_region_info, 9> regions{};
  std::map<uint32_t, std::vector<std::byte>> region_capabilities;  // behind the answer
  std::array<vfio_irq_info, 5> interrupts{};
  std::vector<vfio_iova_range> usable;  // bus addresses; empty: not told
  bool answers_accesses = true;

  /// Writes into the device: at an offset of a region.
  void put(uint32_t region, uint64_t offset, std::span<const std::byte> bytes);
  template <typename T>
  void put(uint32_t region, uint64_t offset, T value) {
    put(region, offset, std::as_bytes(std::span(&value, 1)));
  }
  uint32_t get(uint32_t region, uint64_t offset);
  /// The device interrupts, or Linux speaks: by VFIO's index.
  void signal(uint32_t index);
  /// A line appears in the log.
  void log(std::string_view line);
  /// Steps of the way that a test judges, in order: "map 40000000 1000000", "reset", "command 7",
  /// "trigger 1 on", "unmask 0", "close device".
  std::vector<std::string> steps();
  /// Descriptors that were opened and not closed.
  size_t open_descriptors();

 private:
  Answer<int> answer_region(uintptr_t argument);
  Answer<int> answer_memory(uintptr_t argument);
  Answer<int> set_interrupts(uintptr_t argument);
  void step(std::string text);

  int device_file_, log_read_, log_write_;
  runtime::Mutex mutex_;
  std::vector<std::string> steps_ DXGKIT_GUARDED_BY(mutex_);
  std::multiset<int> opened_ DXGKIT_GUARDED_BY(mutex_);
  std::map<uint32_t, int> triggers_ DXGKIT_GUARDED_BY(mutex_);
};

}  // namespace dxgkit::vfio
