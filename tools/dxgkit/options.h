// The options of the command line, and the parsers of their values.
#pragma once

#include <cstdint>
#include <cstdio>
#include <expected>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bus/device.h"
#include "verifier/waivers.h"

namespace dxgkit::tool {

/// Exit codes of every command.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed =
    1;  // the work was done and something is wrong: a difference, a finding, a failed start
inline constexpr int kExitBadInput = 2;       // one line on stderr, nothing written
inline constexpr int kExitNotWritten = 5;     // an output cannot be written: one line on stderr
inline constexpr int kExitInterrupted = 130;  // Ctrl-C or SIGTERM; reports are complete and say so
/// Prints that line, and returns kExitBadInput.
int bad_input(const std::string& text);
/// Prints that line, and returns kExitNotWritten.
int not_written(const std::string& text);

/// The reports of a command: paths, or kToStdout. At most one goes to stdout.
struct Reports {
  std::optional<std::string> json, sarif, junit;

  /// The stream for people: stdout, or stderr if a report goes to stdout.
  std::FILE* text_stream() const;
  bool on_stdout() const { return text_stream() != stdout; }
  /// Before the work: 0, or the exit code, and a line on stderr, if they cannot all be written.
  int check() const;
};
/// The same for other outputs: nothing, or paths.
int check_outputs(std::initializer_list<const std::optional<std::string>*> paths);

/// Rules that the driver breaks on purpose.
struct WaiverChoice {
  verifier::Waivers list;
  std::string options;  // as given: " --waive 'PAGE-05=no fills'"
};

/// One word for a shell.
std::string shell_quoted(const std::string& text);

enum class Mode { kOs, kSim };

struct SeedRange {
  uint64_t first = 0, last = 0;  // both included
};

/// The devices that the driver finds on the bus.
using bus::DeviceChoice;
/// The default device, and the only one whose user mode the picture job knows.
inline constexpr std::string_view kDefaultDevice = "softgpu";

/// How GPU addresses get into commands: the value `MemoryModel` of a driver's service key
/// (miniports/softgpu/README.md).
enum class MemoryModel : uint32_t {
  kPatch = 0,
  kTwoLevels = 1,   // GPU virtual addresses, tables written by the CPU
  kFourLevels = 2,  // GPU virtual addresses, tables in video memory, written by the GPU
  kLargePages = 3,  // GPU virtual addresses, 64 KiB pages in video memory
};

/// How the picture job's clients reach the kernel.
enum class ClientApi {
  kD3dkmt,  // D3DKMT functions
  kUmd,     // the callbacks that a user-mode driver gets
};

/// Where the picture job's clients live.
enum class ClientPlace {
  kThreads,    // in this process, each as a client process of the kernel
  kProcesses,  // programs of their own, and the kernel in a process of `dxgkit serve`
};

/// "3d:40": the engine of softgpu that stops dead, and the packet of clients' work at which it
/// does, from 1.
struct HangChoice {
  uint32_t node = 0;
  uint32_t packet = 0;
  std::string text;  // as given
};

/// Switches of the kernel's own verifier (dxgk/core/verifier_switches.h), as numbers there.
struct SwitchChoice {
  uint32_t on = 0;   // bit n: number n
  std::string text;  // as given
};

/// The drivers behind the name "softgpu".
DeviceChoice default_device();

/// The machine around the devices.
struct MachineOptions {
  std::optional<uint64_t> memory_bytes;  // else as the command likes it
  uint32_t processors = 1;               // that the driver sees

  /// As options of the tool: " --memory 1073741824 --processors 4"; empty without them.
  std::string as_options() const;
};
inline constexpr uint64_t kMemoryBytesLeast = uint64_t{16} << 20;
/// All that lies between the first address of memory and the last that devices are told of.
inline constexpr uint64_t kMemoryBytesMost = uint64_t{60} << 30;
/// One group of them.
inline constexpr uint32_t kProcessorsMost = 64;
/// "512M": 16M to 60G.
std::expected<uint64_t, std::string> parse_memory(std::string_view text);
/// 1 to 64.
std::expected<uint32_t, std::string> parse_processors(std::string_view text);

/// For a command that runs `verify` and tells of it in its own way.
struct HandOver {
  std::FILE* text = nullptr;  // the stream for people
  int report_fd = -1;         // gets the report (check/hand_over.h) instead of all other outputs
};

struct VerifyOptions {
  std::string driver;
  DeviceChoice device = default_device();
  bool device_given = false;  // else the driver's hardware ids may choose another one
  std::optional<std::string> registry, client;
  MachineOptions machine;
  Mode mode = Mode::kOs;
  uint64_t seed = 1;
  Reports reports;
  std::optional<std::string> trace;
  std::vector<std::string> only;  // names of steps; empty: all
  /// 0: long enough for whatever the kernel itself waits for.
  uint32_t ddi_timeout_s = 0;
  bool special_pool = false, trace_imports = false;
  bool list_steps = false, in_process = false;
  bool until_finding = false;      // steps behind the first one with a finding are left out
  std::optional<SeedRange> seeds;  // a run for each, in simulation
  bool thorough = false;           // runs until every situation came up
  bool mutate = false;             // in each run one thing fails from the outside
  bool blind_spots = false;        // in each run the driver does nothing in one situation
  std::string situation;           // only of those whose names begin so
  uint32_t mutate_calls = 4;       // of each callback and routine, from the first on
  uint32_t jobs = 0;               // 0: as many as there are processors
  WaiverChoice waivers;
  std::optional<HandOver> hand_over;
};

struct EvictBenchOptions {
  std::string trace;              // a path
  std::string generate;           // a family; then nothing is replayed
  double oversubscription = 1.5;  // 1 to 1e6
  uint64_t seed = 1;
  Reports reports;
};

struct SupportOptions {
  std::string name;  // text in the name, in upper or lower case; empty: any
  bool refused = false, ddis = false;
  Reports reports;
};

struct VaOptions {
  std::string trace;                   // a path
  std::optional<std::string> process;  // a number, or a name
  std::optional<std::string> at;       // parse_time; else the end
  std::optional<std::string> address;  // parse_address; else the map
  Reports reports;
};

struct RunOptions {
  std::string driver = "softgpu";
  std::optional<MemoryModel> model;      // else the driver's own choice
  std::optional<std::string> input;      // else a drawn picture
  uint32_t width = 4096, height = 4096;  // of the drawn picture
  bool size_given = false;
  std::optional<uint64_t> vram_bytes;  // else a quarter of the working set
  Mode mode = Mode::kOs;
  uint64_t seed = 1;
  std::optional<SeedRange> seeds;
  std::optional<std::string> trace, report, output;
  std::vector<DeviceChoice> devices = {};  // empty: the default one; each is an adapter
  std::optional<std::string> registry;
  std::optional<std::string> power_plan;  // the plan, or the path of a file with it
  std::optional<HangChoice> hang;
  std::optional<SwitchChoice> verifier;
  // PNG of the picture on the screen; or a folder, for all pictures.
  std::optional<std::string> scanout;
  bool special_pool = false, trace_imports = false, in_process = false;
  ClientApi client_api = ClientApi::kD3dkmt;
  ClientPlace clients = ClientPlace::kThreads;
  MachineOptions machine = {};
  Reports reports;
  WaiverChoice waivers;
};

/// "64M", "1GiB", "4096": bytes with an optional binary suffix. The error is one sentence.
std::expected<uint64_t, std::string> parse_bytes(std::string_view text);
/// "os" or "sim".
std::expected<Mode, std::string> parse_mode(std::string_view text);
/// "patch", "gpuva" (four levels), "gpuva:1" to "gpuva:3".
std::expected<MemoryModel, std::string> parse_model(std::string_view text);
/// "d3dkmt" or "umd".
std::expected<ClientApi, std::string> parse_client_api(std::string_view text);
/// "threads" or "processes".
std::expected<ClientPlace, std::string> parse_client_place(std::string_view text);
/// "3d:N" or "copy:N", N from 1.
std::expected<HangChoice, std::string> parse_hang(std::string_view text);
/// Names of switches with commas between them, "all", or the value of
/// D3DKMT_ADAPTER_VERIFIER_VIDMM_FLAGS as a number (0x for hexadecimal). The error names switches
/// that are unknown, or known in Windows but not here.
std::expected<SwitchChoice, std::string> parse_switches(std::string_view text);
/// The text that parse_model reads.
std::string model_name(MemoryModel model);
/// "NAME[,OPTION=VALUE...]" or "FILE.so[,OPTION=VALUE...]", as `dxgkit devices` lists them. After
/// this call a crash of a plug-in ends the process with kExitBadInput and one line.
std::expected<DeviceChoice, std::string> parse_device(std::string_view text);
/// One line that says why devices cannot be used in a run of that mode.
std::expected<void, std::string> check_mode(const DeviceChoice& device, Mode mode);
/// A decimal number below 2^64.
std::expected<uint64_t, std::string> parse_seed(std::string_view text);
/// "4096x2160": both 1..kPictureSideMax.
std::expected<std::pair<uint32_t, uint32_t>, std::string> parse_size(std::string_view text);
/// "1..1000", first not above last, at most kSeedsMax seeds.
std::expected<SeedRange, std::string> parse_seeds(std::string_view text);
inline constexpr uint64_t kSeedsMax = 100'000'000;

}  // namespace dxgkit::tool
