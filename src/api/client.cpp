#include "dxgkit/client.h"

#include <optional>

#include "api/stack_impl.h"
#include "base/check.h"
#include "dxgk/core/process.h"
#include "thunks/client.h"

namespace dxgkit {

struct ClientProcess::Attach::State {
  // A foreign thread belongs to the runtime first, then to the process.
  std::optional<runtime::AdoptThread> adopted;
  std::optional<thunks::ClientScope> scope;
};

struct ClientProcess::Thread::State {
  std::unique_ptr<runtime::Thread> thread;
};

std::unique_ptr<ClientProcess> Stack::make_client(std::string name) {
  DXGKIT_CHECK(impl_.system != nullptr);  // documented: after load()
  dxgk::Process& process = impl_.system->create_process(std::move(name));
  return std::unique_ptr<ClientProcess>(new ClientProcess(std::unique_ptr<ClientProcess::Impl>(
      new ClientProcess::Impl{impl_.runtime, *impl_.system, &process})));
}

ClientProcess::ClientProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ClientProcess::~ClientProcess() { end(); }

void ClientProcess::end() {
  if (impl_->process == nullptr) return;
  impl_->system.end_process(*std::exchange(impl_->process, nullptr));
}

void* ClientProcess::open_process(const ClientProcess& target, uint32_t access) {
  if (impl_->process == nullptr || target.impl_->process == nullptr) return nullptr;
  return reinterpret_cast<void*>(
      uintptr_t{thunks::open_process(*impl_->process, *target.impl_->process, access)});
}

bool ClientProcess::close_process(void* handle) {
  if (impl_->process == nullptr) return false;  // its handles have ended with it
  return thunks::close_process_handle(*impl_->process, reinterpret_cast<uintptr_t>(handle));
}

int ClientProcess::open_object_directory(std::u16string path, bool may_name) {
  if (impl_->process == nullptr) return -1;
  return thunks::open_object_directory(
      impl_->system, std::move(path),
      may_name ? thunks::ObjectDirectoryUse::kNameObjects : thunks::ObjectDirectoryUse::kLookUp);
}

ClientProcess::Attach::Attach(ClientProcess& process) : state_(std::make_unique<State>()) {
  const Impl& impl = *process.impl_;
  DXGKIT_CHECK(impl.process != nullptr);  // documented: not after end()
  if (runtime::Runtime::current_or_null() == nullptr) state_->adopted.emplace(impl.runtime, "host");
  state_->scope.emplace(impl.system, *impl.process);
}

ClientProcess::Attach::~Attach() {
  state_->scope.reset();
  state_->adopted.reset();
}

std::unique_ptr<ClientProcess::Thread> ClientProcess::start(std::string name,
                                                            std::function<void()> body) {
  DXGKIT_CHECK(impl_->process != nullptr);
  auto state = std::make_unique<Thread::State>();
  state->thread = impl_->runtime.spawn(
      std::move(name), [&system = impl_->system, process = impl_->process, body = std::move(body)] {
        const thunks::ClientScope scope(system, *process);
        body();
      });
  return std::unique_ptr<Thread>(new Thread(std::move(state)));
}

ClientProcess::Thread::Thread(std::unique_ptr<State> state) : state_(std::move(state)) {}

ClientProcess::Thread::~Thread() { join(); }

void ClientProcess::Thread::join() {
  if (!state_->thread) return;
  state_->thread->join();
  state_->thread.reset();
}

}  // namespace dxgkit
