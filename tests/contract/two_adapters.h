// A second adapter beside the stack's, of a driver of its own, and a client that has both.
#pragma once

#include <memory>
#include <string>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {

/// Runs as long as it lives. Its miniport completes what it is given at once.
class SecondAdapter {
 public:
  explicit SecondAdapter(Stack& stack, void (*prepare)(ScriptedMiniport&) = nullptr)
      : stack_(stack) {
    miniport.config.auto_complete = true;
    if (prepare != nullptr) prepare(miniport);
    EXPECT_EQ(stack.machine.add_function(miniport.function()), Status::kSuccess);
    std::string message;
    auto loaded = port::Driver::load(stack.kernel, stack.findings, miniport.source(), &message);
    EXPECT_TRUE(loaded.has_value()) << message;
    driver_ = std::move(*loaded);
    stack.blocking([&] {
      const Result<dxgk::Luid> started =
          stack.system->start_adapter(*driver_, miniport.function(), dxgk::AdapterOptions{});
      EXPECT_TRUE(started.has_value());
      if (started.has_value()) luid = *started;
    });
  }
  ~SecondAdapter() {
    stack_.blocking([&] { EXPECT_EQ(stack_.system->stop_adapter(luid), Status::kSuccess); });
    driver_.reset();
  }
  SecondAdapter(const SecondAdapter&) = delete;
  SecondAdapter& operator=(const SecondAdapter&) = delete;

  /// A device of `client` there.
  D3DKMT_HANDLE make_device(Client& client, D3DKMT_HANDLE* adapter = nullptr) const {
    D3DKMT_OPENADAPTERFROMLUID open{};
    open.AdapterLuid.LowPart = luid.low;
    open.AdapterLuid.HighPart = luid.high;
    EXPECT_EQ(client.call([&] { return D3DKMTOpenAdapterFromLuid(&open); }), 0);
    if (adapter != nullptr) *adapter = open.hAdapter;
    D3DKMT_CREATEDEVICE create{};
    create.hAdapter = open.hAdapter;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateDevice(&create); }), 0);
    return create.hDevice;
  }

  ScriptedMiniport miniport;
  dxgk::Luid luid;

 private:
  Stack& stack_;
  std::unique_ptr<port::Driver> driver_;
};

}  // namespace dxgkit::contract
