// submit.roundtrip_vs_lavapipe: the same wait through a Vulkan driver that also has no GPU.
#include "bench/harness.h"

#if DXGKIT_BENCH_VULKAN
#include <glob.h>
#include <stdlib.h>
#include <vulkan/vulkan.h>

#include <cstring>
#endif

namespace dxgkit::bench {

Side null_round_trips(runtime::Runtime& os, std::string* unavailable);

namespace {

#if DXGKIT_BENCH_VULKAN

/// A device of lavapipe with a queue and a timeline semaphore.
class Lavapipe {
 public:
  Lavapipe() { error_ = open(); }
  ~Lavapipe() {
    if (device_ != VK_NULL_HANDLE) {
      vkDeviceWaitIdle(device_);
      vkDestroySemaphore(device_, semaphore_, nullptr);
      vkDestroyDevice(device_, nullptr);
    }
    if (instance_ != VK_NULL_HANDLE) vkDestroyInstance(instance_, nullptr);
  }
  Lavapipe(const Lavapipe&) = delete;
  Lavapipe& operator=(const Lavapipe&) = delete;
  const std::string& error() const { return error_; }

  void round_trip() {
    const uint64_t value = ++value_;
    VkTimelineSemaphoreSubmitInfo timeline = {};
    timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    timeline.signalSemaphoreValueCount = 1;
    timeline.pSignalSemaphoreValues = &value;
    VkSubmitInfo submit = {};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.pNext = &timeline;
    submit.signalSemaphoreCount = 1;
    submit.pSignalSemaphores = &semaphore_;
    vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE);
    VkSemaphoreWaitInfo wait = {};
    wait.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    wait.semaphoreCount = 1;
    wait.pSemaphores = &semaphore_;
    wait.pValues = &value;
    vkWaitSemaphores(device_, &wait, UINT64_MAX);
  }

 private:
  std::string open() {
    glob_t found = {};
    const bool any = glob("/usr/share/vulkan/icd.d/lvp_icd*.json", 0, nullptr, &found) == 0;
    const std::string icd = any ? found.gl_pathv[0] : "";
    globfree(&found);
    if (icd.empty()) return "lavapipe is not installed (mesa-vulkan-drivers)";
    // Both names: the loader of Debian 12 and newer ones.
    setenv("VK_ICD_FILENAMES", icd.c_str(), 1);
    setenv("VK_DRIVER_FILES", icd.c_str(), 1);
    VkApplicationInfo application = {};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.apiVersion = VK_API_VERSION_1_2;
    VkInstanceCreateInfo create = {};
    create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    create.pApplicationInfo = &application;
    if (vkCreateInstance(&create, nullptr, &instance_) != VK_SUCCESS) return "no Vulkan instance";
    uint32_t count = 1;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    vkEnumeratePhysicalDevices(instance_, &count, &physical);
    if (count == 0) return "no Vulkan device";
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(physical, &properties);
    if (std::strstr(properties.deviceName, "llvmpipe") == nullptr) {
      return std::string("the Vulkan device is not lavapipe but ") + properties.deviceName;
    }
    const float priority = 1;
    VkDeviceQueueCreateInfo queue = {};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkPhysicalDeviceTimelineSemaphoreFeatures features = {};
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
    features.timelineSemaphore = VK_TRUE;
    VkDeviceCreateInfo device = {};
    device.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    device.pNext = &features;
    device.queueCreateInfoCount = 1;
    device.pQueueCreateInfos = &queue;
    if (vkCreateDevice(physical, &device, nullptr, &device_) != VK_SUCCESS) {
      return "no Vulkan device with timeline semaphores";
    }
    vkGetDeviceQueue(device_, 0, 0, &queue_);
    VkSemaphoreTypeCreateInfo type = {};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo semaphore = {};
    semaphore.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    semaphore.pNext = &type;
    if (vkCreateSemaphore(device_, &semaphore, nullptr, &semaphore_) != VK_SUCCESS) {
      return "no timeline semaphore";
    }
    return "";
  }

  VkInstance instance_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  uint64_t value_ = 0;
  std::string error_;
};

Line lavapipe_line(runtime::Runtime& os, const char* name) {
  Line line;
  line.name = name;
  line.what = "Render + signal + CPU wait on a null engine / empty vkQueueSubmit + timeline wait";
  line.goal = Goal::kAtMost;
  line.target = 1;
  const auto peer = std::make_shared<Lavapipe>();
  if (!peer->error().empty()) {
    line.unavailable = peer->error();
    return line;
  }
  line.ours = null_round_trips(os, &line.unavailable);
  constexpr uint32_t kTrips = 16;
  line.reference = Side{.warm = [peer] { peer->round_trip(); },
                        .batch =
                            [peer] {
                              for (uint32_t i = 0; i < kTrips; ++i) peer->round_trip();
                            },
                        .operations = kTrips};
  line.fixture = peer;
  return line;
}

#else

Line lavapipe_line(runtime::Runtime&, const char* name) {
  Line line;
  line.name = name;
  line.goal = Goal::kAtMost;
  line.target = 1;
  line.unavailable = "built without Vulkan (libvulkan-dev)";
  return line;
}

#endif

}  // namespace

void add_lavapipe_line(runtime::Runtime& os, std::vector<Maker>& lines) {
  constexpr const char* kName = "submit.roundtrip_vs_lavapipe";
  lines.push_back({kName, [&os] { return lavapipe_line(os, kName); }});
}

}  // namespace dxgkit::bench
