// GPU virtual addresses: ranges, mappings, updates, page tables that leave, faults.
#include "tests/contract/power_fixture.h"
#include "tests/contract/va_fixture.h"
#include "tests/sweep/story.h"

namespace dxgkit::sweep {
namespace {

using namespace contract;

uint64_t map(VaClient& client, D3DKMT_HANDLE allocation, uint64_t pages, uint64_t base = 0) {
  D3DDDI_MAPGPUVIRTUALADDRESS args = client.map_args(allocation, pages, base);
  client.map(args);
  client.stack.drive();
  return args.VirtualAddress;
}
void reserve(VaClient& client, uint64_t bytes, uint64_t base) {
  D3DDDI_RESERVEGPUVIRTUALADDRESS args{};
  args.hPagingQueue = client.queue.handle;
  args.BaseAddress = base;
  args.Size = bytes;
  client.reserve(args);
  client.stack.drive();
}

void tell(Scene& scene, GpuVaConfig config) {
  GpuVaStack stack(std::move(config));
  scene.play(stack, [&] {
    VaClient other(stack, "other");
    const D3DKMT_HANDLE theirs = other.make_allocation(8 * kPage, kMemorySet);
    other.list({theirs});
    VaClient client(stack);
    const D3DKMT_HANDLE data = client.make_allocation(24 * kPage, kMemorySet);
    client.list({data});
    stack.drive();
    const uint64_t va = map(client, data, 24);
    const auto commands =
        dxgkit::testing::gpu_commands({GpuCommand::write(va + kPage, 7), GpuCommand::read(va)});
    static_cast<void>(stack.gpu.write(client.process_handle(), va, commands));
    const auto bytes = static_cast<uint32_t>(commands.size());

    const Scene::Mortal mortal(scene, client);
    client.submit(client.context, va, bytes);
    stack.drive();
    constexpr uint64_t kFar = 0x0A00'0000;
    reserve(client, 64 * kKibibyte, kFar);
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    client.update(client.context, fence, 1,
                  {map_op(data, kFar, 4 * kPage), copy_op(kFar, kFar + 8 * kPage, 2 * kPage),
                   unmap_op(kFar + 2 * kPage, kPage)});
    client.submit(client.context, va, bytes);
    client.evict({data});
    client.make_resident({data});
    stack.drive();
    D3DKMT_HANDLE second = 0;
    client.create_context_virtual(&second, 1);
    client.submit(second, va, bytes);
    client.signal_gpu({.handle = second}, fence, 5);
    client.wait_gpu({.handle = client.context}, fence, 5);
    client.submit(client.context, va, bytes);
    stack.drive();
    void* address = nullptr;
    client.lock(client.make_allocation({.size = kPage, .flags = 1}), &address);
    client.free_va(kFar, 64 * kKibibyte);
    client.free_va(va + 16 * kPage, 4 * kPage);
    // The other client reads what is not mapped, and loses its device.
    const uint64_t nowhere = map(other, theirs, 8) + 8 * kPage;
    other.submit(other.context, nowhere, 24);
    stack.drive();
    other.state();
    client.destroy_allocation(data);
    client.destroy_context(second);
  });
}

}  // namespace

void tell_addresses(Scene& scene) { tell(scene, GpuVaConfig::gpu_physical_four_level()); }

void tell_addresses_by_cpu(Scene& scene) { tell(scene, GpuVaConfig::cpu_virtual_two_level()); }

/// Page tables and content share a segment that is too small, and forget everything in between.
void tell_tables(Scene& scene) {
  GpuVaConfig config = GpuVaConfig::gpu_physical_four_level(1);
  config.update_mode = port::PageTableUpdateMode::kGpuVirtual;
  GpuVaStack stack(std::move(config));
  stack.miniport.config.segments[0].size = 48 * kPage;
  scene.play(stack, [&] {
    VaClient client(stack);
    constexpr uint64_t kLeaf = 2 * kMebibyte;
    const D3DKMT_HANDLE data = client.make_allocation(8 * kPage, kMemorySet);
    client.list({data});
    const Scene::Mortal mortal(scene, client);
    for (uint64_t i = 0; i < 3; ++i) map(client, data, 8, (16 + i) * kLeaf);
    client.submit(client.context, 16 * kLeaf, 0);
    stack.drive();
    // The other process needs the room of this one's tables.
    VaClient other(stack, "other");
    const D3DKMT_HANDLE large = other.make_allocation(24 * kPage, kMemorySet);
    other.make_resident({large}, cant_trim());
    stack.drive();
    map(other, large, 24);
    other.submit(other.context, 16 * kLeaf, 0);
    stack.drive();
    client.submit(client.context, 17 * kLeaf, 0);
    stack.drive();
    for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kD0}) {
      static_cast<void>(go(stack, target));
      if (target == dxgk::PowerTarget::kStandby && !scene.device_is_gone()) stack.gpu.lose_power();
    }
    client.submit(client.context, 18 * kLeaf, 0);
    stack.drive();
    other.evict({large});
    client.free_va(16 * kLeaf, 8 * kPage);
  });
}

}  // namespace dxgkit::sweep
