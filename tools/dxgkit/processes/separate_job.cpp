#include "tools/dxgkit/processes/separate_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/sealed_memory.h"
#include "runtime/descriptors.h"
#include "runtime/interrupt.h"
#include "tools/dxgkit/processes/job_memory.h"
#include "tools/dxgkit/run_client.h"

extern char** environ;

namespace dxgkit::tool {
namespace {

using vfiouser::Descriptor;

/// A client's own words are a sentence.
constexpr size_t kClientErrorBytesMost = 4096;

/// A client program, and what it has told.
struct Client {
  pid_t process = -1;
  Descriptor notes;
  std::string error;
  bool is_done = false, tells_error = false;

  /// In one sentence, for what became of it; empty: it did its share.
  void bury() {
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    process = -1;
    if (tells_error || is_done) return;
    error = WIFSIGNALED(status) ? fmt::format("it ended by signal {}", WTERMSIG(status))
                                : fmt::format("it ended with exit code {}", WEXITSTATUS(status));
  }
};

/// errno's text, or nothing.
std::string start(Client& client, const std::string& socket, int memory, uint32_t number,
                  const Plan& plan, uint64_t page_bytes) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::strerror(errno);
  client.notes = Descriptor(ends[0]);
  const Descriptor theirs(ends[1]);
  const std::string program = library_folder() + "/picture_client";
  std::vector<std::string> words = {"picture_client", std::to_string(number),
                                    std::to_string(plan.width), std::to_string(plan.height),
                                    std::to_string(page_bytes)};
  std::vector<char*> arguments, variables;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string place = "DXGKIT_SOCKET=" + socket;
  for (char** one = environ; *one != nullptr; ++one) {
    if (!std::string_view(*one).starts_with("DXGKIT_SOCKET=")) variables.push_back(*one);
  }
  variables.push_back(place.data());
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Out of the way of the numbers that they get.
  const Descriptor memory_copy(fcntl(memory, F_DUPFD_CLOEXEC, kJobNotes + 1));
  const Descriptor notes_copy(fcntl(theirs.get(), F_DUPFD_CLOEXEC, kJobNotes + 1));
  posix_spawn_file_actions_adddup2(&actions, memory_copy.get(), kJobMemory);
  posix_spawn_file_actions_adddup2(&actions, notes_copy.get(), kJobNotes);
  posix_spawn_file_actions_addclosefrom_np(&actions, kJobNotes + 1);
  const int error = posix_spawn(&client.process, program.c_str(), &actions, nullptr,
                                arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? "" : fmt::format("{}: {}", program, std::strerror(error));
}

struct Clients {
  std::array<Client, kProcesses> all;
  std::array<std::array<runtime::TimeNs, kStages>, kProcesses> ends{};
  uint64_t steps = 0;
};

/// Reads what has come of one client. False: it says no more.
bool listen(runtime::Runtime& runtime, Clients& clients, uint32_t number) {
  Client& client = clients.all[number];
  char bytes[512];
  const ssize_t got = read(client.notes.get(), bytes, sizeof bytes);
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  for (const char note : std::string_view(bytes, static_cast<size_t>(got))) {
    if (client.tells_error) {
      if (client.error.size() < kClientErrorBytesMost) client.error += note;
    } else if (note == kNoteStep) {
      ++clients.steps;
    } else if (note == kNoteDone) {
      client.is_done = true;
    } else if (note == kNoteError) {
      client.tells_error = true;
    } else if (note >= '0' && note < '0' + static_cast<int>(kStages)) {
      clients.ends[number][static_cast<size_t>(note - '0')] = runtime.now();
    }
  }
  return true;
}

void work(runtime::Runtime& runtime, const SeparateConfig& config, const Plan& plan,
          const std::string& socket, int memory, const Progress& progress,
          SeparateOutcome& outcome) {
  Clients clients;
  const runtime::TimeNs began = runtime.now();
  for (uint32_t i = 0; i < kProcesses && outcome.job.error.empty(); ++i)
    outcome.job.error = start(clients.all[i], socket, memory, i, plan, config.page_bytes);
  const bool starts = outcome.job.error.empty();
  bool is_interrupted = false;
  const auto lives = [](const Client& client) { return client.process > 0; };
  while (std::ranges::any_of(clients.all, lives)) {
    if (!starts || is_interrupted) {
      for (const Client& client : clients.all) {
        if (lives(client)) kill(client.process, SIGKILL);
      }
    }
    std::array<runtime::DescriptorWait, kProcesses + 1> waits;
    for (uint32_t i = 0; i < kProcesses; ++i)
      waits[i] = {.fd = lives(clients.all[i]) ? clients.all[i].notes.get() : -1};
    waits.back().fd = is_interrupted ? -1 : runtime::interrupt_fd();
    runtime::wait_for_descriptors(runtime, waits);
    is_interrupted = is_interrupted || runtime::interrupted();
    for (uint32_t i = 0; i < kProcesses; ++i) {
      if (waits[i].ready && !listen(runtime, clients, i)) clients.all[i].bury();
    }
    if (progress) progress(clients.steps, plan.tiles.size() * kStepsOfTile);
  }
  outcome.job.total_ns = runtime.now() - began;
  for (uint32_t i = 0; i < kProcesses && outcome.job.error.empty(); ++i) {
    if (!clients.all[i].error.empty())
      outcome.job.error = fmt::format("client {}: {}", i + 1, clients.all[i].error);
  }
  runtime::TimeNs previous = began;
  for (size_t stage = 0; stage < kStages; ++stage) {
    runtime::TimeNs end = previous;
    for (const auto& one : clients.ends) end = std::max(end, one[stage]);
    outcome.job.stage_ns[stage] = end - previous;
    previous = end;
  }
}

void run_programs(runtime::Runtime& runtime, const SeparateConfig& config, const Plan& plan,
                  const Picture& source, const Progress& progress, SeparateOutcome& outcome) {
  auto kernel = KernelProcess::start(
      runtime, {.driver_path = config.driver_path,
                .device = fmt::format("{},vram={}", config.device.text, config.vram_bytes),
                .memory_bytes = config.memory_bytes,
                .registry = config.registry,
                .special_pool = config.special_pool,
                .reference_checks = true});
  if (!kernel.has_value()) {
    outcome.job.error = kernel.error();
    return;
  }
  const Descriptor object(create_sealed_memory("dxgkit-picture", JobMemory::bytes_of(plan)));
  const JobMemory memory(plan, object.get());
  if (!object || !memory.is_there()) {
    outcome.job.error = "there is no memory for the picture";
    return;
  }
  std::ranges::copy(source.pixels, memory.source());
  work(runtime, config, plan, (*kernel)->socket(), object.get(), progress, outcome);
  outcome.figures = (*kernel)->figures();
  KernelProcessEnd end = (*kernel)->end();
  outcome.findings = std::move(end.findings);
  outcome.server_end = std::move(end.how);
  std::copy_n(memory.result(), outcome.job.picture.pixels.size(),
              outcome.job.picture.pixels.begin());
  std::copy_n(memory.checksums(), plan.tiles.size(), outcome.job.checksums.begin());
}

}  // namespace

SeparateOutcome run_separate_job(const SeparateConfig& config, const Plan& plan,
                                 const Picture& source, const Progress& progress) {
  SeparateOutcome outcome;
  outcome.job = blank_result(plan);
  const auto runtime = runtime::make_os_runtime(1);
  runtime->run_main([&] { run_programs(*runtime, config, plan, source, progress, outcome); });
  return outcome;
}

}  // namespace dxgkit::tool
