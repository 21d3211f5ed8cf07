// The session of one GL program as a process, a client of a kernel elsewhere by libdxcore.so. No
// kernel is in it. `dxgkit gl --clients processes` starts it (process_conversation.h).
#include <d3dkmthk.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>

#include "tools/dxgkit/gl/d3dkmt_backend.h"
#include "tools/dxgkit/gl/record_message.h"
#include "tools/dxgkit/gl/thread_conversation.h"

namespace dxgkit::gl {
namespace {

/// The library makes this process a client at its first call; the kernel ends it with the process.
class RemoteClient final : public KernelClient {
 public:
  void end() override {}
};

Answer<LUID> find_adapter() {
  D3DKMT_ADAPTERINFO adapters[1];
  D3DKMT_ENUMADAPTERS2 list{.NumAdapters = 1, .pAdapters = adapters};
  const tool::CallAnswer answer =
      tool::answer_of("D3DKMTEnumAdapters2", D3DKMTEnumAdapters2(&list));
  if (answer.refused()) return wrong(answer.error);
  if (list.NumAdapters == 0) return wrong("the kernel has no adapter");
  return adapters[0].AdapterLuid;
}

Answer<std::unique_ptr<Backend>> make_backend(const std::string& name) {
  const auto adapter = find_adapter();
  if (!adapter.has_value()) return std::unexpected(adapter.error());
  return D3dkmtBackend::create(std::make_unique<RemoteClient>(), *adapter, name);
}

ProgramRecord check() {
  ProgramRecord record;
  const auto adapter = find_adapter();
  if (const auto fits = adapter.has_value() ? check_driver(*adapter)
                                            : Answer<void>(std::unexpected(adapter.error()));
      !fits)
    record.wrong = fits.error();
  return record;
}

int run(bool checks_only) {
  ProgramRecord record;
  const auto runtime = runtime::make_os_runtime(1);
  runtime->run_main([&] {
    record = checks_only ? check()
                         : ThreadConversation(*runtime, vfiouser::Descriptor(kProgramSocket),
                                              make_backend, KeepFrames::kNo)
                               .run();
  });
  return send_record(kRecordSocket, record) ? 0 : 1;
}

}  // namespace
}  // namespace dxgkit::gl

int main(int count, char** words) {
  return dxgkit::gl::run(count == 2 && std::string_view(words[1]) == dxgkit::gl::kCheckOnly);
}
