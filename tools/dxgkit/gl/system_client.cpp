#include "tools/dxgkit/gl/system_client.h"

namespace dxgkit::gl {

SystemClient::SystemClient(dxgk::System& system, const std::string& name)
    : system_(system),
      process_(system.create_process(name)),
      scope_(std::in_place, system, process_) {}

SystemClient::~SystemClient() {
  scope_.reset();
  end();
}

void SystemClient::end() {
  const runtime::MutexLock lock(mutex_);
  if (!ended_) system_.end_process(process_);
  ended_ = true;
}

}  // namespace dxgkit::gl
