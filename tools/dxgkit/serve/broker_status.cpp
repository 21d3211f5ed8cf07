// The status of a broker as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/dxgkit/serve/broker.h"

namespace dxgkit::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* name_of(Broker::State state) {
  switch (state) {
    case Broker::State::kStarting:
      return "starting";
    case Broker::State::kRunning:
      return "running";
    case Broker::State::kKilled:
      return "ending";
    case Broker::State::kDown:
      break;
  }
  return "down";
}

Json json_of(const Figures& figures) {
  return {{"requests", figures.requests},   {"bytes_in", figures.bytes_in},
          {"bytes_out", figures.bytes_out}, {"packets", figures.packets},
          {"processes", figures.processes}, {"handles", figures.handles}};
}

Json json_of(const AdapterReport& report) {
  return {{"luid", report.luid},
          {"process", report.process},
          {"lived_ms", report.lived_ns / runtime::kMillisecond},
          {"end", report.how},
          {"findings", report.findings},
          {"findings_lost", report.findings_lost},
          {"errors", report.errors}};
}

}  // namespace

/// Reports and the clients of others are for the broker's own user and for root.
std::string Broker::status_text(const Peer& peer) const {
  const bool sees_all = peer.user == 0 || peer.user == options_.users.front();
  Json all;
  all["time_ms"] = runtime_.now() / runtime::kMillisecond;
  all["adapters"] = Json::array();
  for (const Adapter& adapter : adapters_) {
    Json one{{"name", adapter.name},
             {"state", name_of(adapter.state)},
             {"luid", adapter.luid},
             {"restarts", adapter.restarts}};
    size_t connections = 0;
    for (const auto& [id, connection] : connections_)
      connections += connection.adapter == index_of(adapter) ? 1 : 0;
    one["connections"] = connections;
    if (adapter.state == State::kRunning) {
      one["answers"] = adapter.asked == adapter.answered;
      one["figures"] = json_of(adapter.figures);
      one["memory_bytes"] = world_.memory_of(adapter.process);
    }
    if (sees_all) {
      one["process"] = adapter.process;
      one["findings"] = adapter.report.findings;
      one["reports"] = Json::array();
      for (const AdapterReport& report : adapter.reports) one["reports"].push_back(json_of(report));
    }
    all["adapters"].push_back(std::move(one));
  }
  all["users"] = Json::array();
  for (const auto& [number, user] : users_) {
    if (!sees_all && number != peer.user) continue;
    // Of each adapter by itself: its quotas are of one adapter.
    UserFigures most{};
    for (const Adapter& adapter : adapters_) {
      if (adapter.state != State::kRunning) continue;
      for (const UserFigures& one : adapter.users) {
        if (one.user != number) continue;
        most.handles = std::max(most.handles, one.handles);
        most.memory_bytes = std::max(most.memory_bytes, one.memory_bytes);
        most.submissions = std::max(most.submissions, one.submissions);
        most.refusals += one.refusals;
      }
    }
    all["users"].push_back({{"user", number},
                            {"connections", user.connections},
                            {"processes", user.processes.size()},
                            {"refused", user.refused},
                            {"handles", most.handles},
                            {"memory_bytes", most.memory_bytes},
                            {"submissions", most.submissions},
                            {"refused_calls", most.refusals}});
  }
  all["limits"] = {{"connections", options_.connections_most},
                   {"processes", options_.processes_most},
                   {"handles", options_.limits.handles},
                   {"memory_bytes", options_.limits.memory_bytes},
                   {"submissions", options_.limits.submissions}};
  all["refused"] = refused_;
  // Texts of a driver may be no UTF-8.
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dxgkit::serve
