// A kernel with a driver image in it, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bus/machine.h"
#include "loader/image.h"
#include "nt/kernel.h"
#include "nt/test_world.h"
#include "runtime/runtime.h"

namespace dxgkit::nt {

/// A function of the test that the driver imports.
struct TestExport {
  const void* function = nullptr;
  uint32_t stack_arguments = 0;
};

using Routine = uint64_t(DXGKIT_NT_ABI*)(uint64_t);

/// Calls the driver back at device level from one of its calls, as DxgkCbSynchronizeExecution does.
inline DXGKIT_NT_ABI uint64_t call_back(Routine routine, uint64_t argument) {
  CallFrame& caller = CallFrame::current();
  uint64_t result = 0;
  bool completed = false;
  {
    CallFrame frame(caller.kernel(), "nested", kDeviceLevel);
    completed = frame.call(routine, &result, argument);
  }
  if (!completed) caller.abandon();
  return result;
}

/// Loads the ELF twin at `path`; functions of it are called by name through a CallFrame.
struct ImageWorld {
  ImageWorld(const char* path, std::vector<std::pair<std::string, TestExport>> more,
             KernelConfig config)
      : own_exports(std::move(more)),
        kernel(runtime::Runtime::current(), machine, findings, std::move(config)) {
    std::string message;
    const auto file = loader::read_image_file(path, &message);
    EXPECT_TRUE(file.has_value()) << message;
    if (!file.has_value()) return;
    auto loaded = loader::load_image(
        *file, [&](const loader::ImportRequest& request) { return answer(request); }, &message);
    EXPECT_TRUE(loaded.has_value()) << message;
    if (!loaded.has_value()) return;
    image = std::move(*loaded);
    kernel.add_image({.name = "driver.sys",
                      .base = image->base(),
                      .size = image->size(),
                      .functions = std::as_bytes(image->functions()),
                      .symbol = [this](uint64_t rva) { return image->symbol(rva); }});
  }
  ~ImageWorld() {
    kernel.quiesce();
    if (image != nullptr) kernel.remove_image(image->base());
  }
  ImageWorld(const ImageWorld&) = delete;
  ImageWorld& operator=(const ImageWorld&) = delete;

  template <typename F>
  F find(const char* name) const {
    void* const address = image->find(name);
    EXPECT_NE(address, nullptr) << name;
    return reinterpret_cast<F>(address);
  }
  std::string findings_text() const {
    std::string text;
    for (const verifier::Finding& finding : findings.all()) text += verifier::to_text(finding);
    return text;
  }

  std::vector<std::pair<std::string, TestExport>> own_exports;
  bus::Machine machine{32 << 20};
  verifier::Findings findings;
  Kernel kernel;
  std::unique_ptr<loader::Image> image;

 private:
  loader::ImportAnswer answer(const loader::ImportRequest& request) {
    for (const auto& [name, own] : own_exports) {
      if (name == request.name)
        return {kernel.door(name.c_str(), own.function, own.stack_arguments), 0};
    }
    if (const Export* found = find_export(request.name))
      return {kernel.door(*found), found->data_bytes};
    return {kernel.unresolved_import(request.name, "ntoskrnl.exe"), 0};
  }
};

}  // namespace dxgkit::nt
