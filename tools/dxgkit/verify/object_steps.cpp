// Processes, devices and contexts: made and destroyed in every order, and side by side.
#include <fmt/format.h>

#include "base/spelling.h"
#include "tools/dxgkit/verify/balance.h"
#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {
namespace {

constexpr size_t kDevices = 5;
constexpr size_t kContextsPerNode = 3;
constexpr size_t kThreads = 4;
constexpr size_t kRounds = 6;

Outcome outcome(const Answer<void>& answer, std::string done) {
  return answer ? Outcome::ok(std::move(done)) : Outcome::failed(answer.error());
}

Outcome processes(Bench& bench) {
  size_t count = 0;
  Balance balance(bench);
  const auto run = [&]() -> Answer<void> {
    for (const std::vector<size_t>& order : bench.orders(3)) {
      std::vector<std::unique_ptr<Client>> clients;
      for (size_t i = 0; i < order.size(); ++i) {
        clients.push_back(std::make_unique<Client>(bench, fmt::format("process {}", i)));
        DXGKIT_VERIFY_TRY(clients.back()->open_adapter());
        const Answer<D3DKMT_HANDLE> device = clients.back()->create_device();
        if (!device) return std::unexpected(device.error());
        ++count;
        // Every second one tidies up; the others just exit.
        if (i % 2 == 0) {
          DXGKIT_VERIFY_TRY(clients.back()->destroy_device(*device));
          DXGKIT_VERIFY_TRY(clients.back()->close_adapter());
        }
      }
      for (const size_t i : order) clients[i].reset();
      balance.end_round();
    }
    return {};
  };
  const Answer<void> done = run();
  balance.report("processes");
  return outcome(done,
                 fmt::format("{}, exits in 3 orders", counted(count, "process", "processes")));
}

Outcome devices(Bench& bench) {
  const auto run = [&]() -> Answer<void> {
    Client client(bench, "devices");
    DXGKIT_VERIFY_TRY(client.open_adapter());
    Balance balance(bench);
    for (const std::vector<size_t>& order : bench.orders(kDevices)) {
      std::vector<D3DKMT_HANDLE> handles;
      for (size_t i = 0; i < kDevices; ++i) {
        const Answer<D3DKMT_HANDLE> device = client.create_device();
        if (!device) return std::unexpected(device.error());
        handles.push_back(*device);
      }
      for (const size_t i : order) DXGKIT_VERIFY_TRY(client.destroy_device(handles[i]));
      balance.end_round();
    }
    balance.report("devices");
    return client.close_adapter();
  };
  return outcome(run(), fmt::format("{}, destroyed in 3 orders", counted(kDevices * 3, "device")));
}

Outcome contexts(Bench& bench) {
  size_t count = 0;
  const auto run = [&]() -> Answer<void> {
    for (uint32_t node = 0; node < bench.node_count(); ++node) {
      const Answer<std::vector<std::byte>> data = bench.context_data(node);
      if (!data) return std::unexpected(data.error());
      Client client(bench, "contexts");
      DXGKIT_VERIFY_TRY(client.open_adapter());
      Balance balance(bench);
      for (const std::vector<size_t>& order : bench.orders(kContextsPerNode)) {
        const Answer<D3DKMT_HANDLE> device = client.create_device();
        if (!device) return std::unexpected(device.error());
        std::vector<D3DKMT_HANDLE> handles;
        for (size_t i = 0; i < kContextsPerNode; ++i) {
          const Answer<ClientContext> context = client.create_context(*device, node, *data);
          if (!context) return std::unexpected(context.error());
          handles.push_back(context->handle);
          ++count;
        }
        for (const size_t i : order) DXGKIT_VERIFY_TRY(client.destroy_context(handles[i]));
        // One is destroyed with its device.
        const Answer<ClientContext> left = client.create_context(*device, node, *data);
        if (!left) return std::unexpected(left.error());
        ++count;
        DXGKIT_VERIFY_TRY(client.destroy_device(*device));
        balance.end_round();
      }
      balance.report("devices with contexts");
      // And one with its process.
      const Answer<D3DKMT_HANDLE> device = client.create_device();
      if (!device) return std::unexpected(device.error());
      const Answer<ClientContext> left = client.create_context(*device, node, *data);
      if (!left) return std::unexpected(left.error());
      ++count;
    }
    return {};
  };
  const Answer<void> done = run();
  return outcome(done, fmt::format("{} on {}", counted(count, "context"),
                                   counted(bench.node_count(), "node")));
}

Outcome side_by_side(Bench& bench) {
  const uint32_t nodes = bench.node_count();
  std::vector<std::vector<std::byte>> data(nodes);
  for (uint32_t node = 0; node < nodes; ++node) {
    Answer<std::vector<std::byte>> packed = bench.context_data(node);
    if (!packed) return Outcome::failed(packed.error());
    data[node] = std::move(*packed);
  }
  const Answer<void> done = bench.in_parallel(kThreads, [&](size_t thread) -> Answer<void> {
    Client client(bench, fmt::format("parallel {}", thread));
    DXGKIT_VERIFY_TRY(client.open_adapter());
    for (size_t round = 0; round < kRounds; ++round) {
      const Answer<D3DKMT_HANDLE> device = client.create_device();
      if (!device) return std::unexpected(device.error());
      std::vector<D3DKMT_HANDLE> handles;
      for (uint32_t node = 0; node < nodes; ++node) {
        const Answer<ClientContext> context = client.create_context(*device, node, data[node]);
        if (!context) return std::unexpected(context.error());
        handles.push_back(context->handle);
      }
      if ((thread + round) % 2 == 0) {
        for (const D3DKMT_HANDLE handle : handles)
          DXGKIT_VERIFY_TRY(client.destroy_context(handle));
      }
      DXGKIT_VERIFY_TRY(client.destroy_device(*device));
    }
    return {};
  });
  return outcome(
      done, fmt::format("{}, {} each", counted(kThreads, "thread"), counted(kRounds, "device")));
}

constexpr Step kSteps[] = {
    {"processes", "processes come and go", Step::Needs::kRender, processes},
    {"devices", "devices are destroyed in every order", Step::Needs::kRender, devices},
    {"contexts", "contexts end before, with and after their device", Step::Needs::kRender,
     contexts},
    {"side-by-side", "devices and contexts by several processes at once", Step::Needs::kRender,
     side_by_side},
};

}  // namespace

std::span<const Step> object_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
