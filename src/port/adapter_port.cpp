#include "port/adapter_port.h"

#include "port/callbacks/features.h"
#include "port/core/port_core.h"
#include "port/driver_impl.h"

namespace dxgkit::port {

AdapterPort::AdapterPort(Driver& driver, nt::Kernel& kernel, bus::Machine& machine,
                         bus::PciFunction& function, AdapterHost& host,
                         verifier::Findings& findings)
    : core_(std::make_unique<PortCore>(driver.impl(), kernel, machine, function, host, findings)) {}
AdapterPort::~AdapterPort() = default;

SyncLevels& AdapterPort::levels() { return core_->levels; }
bool AdapterPort::has_entry(std::string_view name) const { return core_->has_entry(name); }
uint16_t AdapterPort::enabled_feature(uint32_t feature) const {
  return port::enabled_feature(*core_, static_cast<DXGK_FEATURE_ID>(feature));
}
const void* AdapterPort::device_handle() const { return core_->handle(); }
void AdapterPort::interrupt_of_another_device() { core_->interrupts.raised_by_another(); }
void AdapterPort::set_output_fill(std::byte fill) { core_->output_fill = fill; }
std::byte AdapterPort::output_fill() const { return core_->output_fill; }
void AdapterPort::set_reference_checks(bool on) { core_->reference_checks = on; }
void AdapterPort::set_fault_injector(FaultInjector* faults) { core_->faults = faults; }
void AdapterPort::set_situation_log(verifier::SituationLog* log) {
  core_->situations = log == nullptr ? nullptr : std::make_unique<Situations>(*log);
}

}  // namespace dxgkit::port
