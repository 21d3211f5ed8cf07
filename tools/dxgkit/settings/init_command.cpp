// dxgkit init: the file dxgkit.toml beside a driver, after a look at the driver.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "tools/dxgkit/check/driver_facts.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/hardware_ids.h"
#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/settings/settings_file.h"

namespace dxgkit::tool {
namespace {

/// A comment must end with its line, whatever a driver's file has in its texts.
std::string as_comment(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) c = '?';
  }
  return text;
}

std::string device_lines(const std::string& driver) {
  const std::vector<HardwareId> ids = hardware_ids(driver);
  if (const std::optional<DeviceChoice> only = only_fitting_device(ids))
    return fmt::format("device = \"{}\"\n", only->text);
  const std::string advice = device_advice(ids, default_device());
  return (advice.empty() ? "" : "# " + as_comment(advice) + "\n") + "# device = \"softgpu\"\n";
}

std::string text_for(const std::string& driver, const check::DriverFacts& facts) {
  const std::string name = as_comment(std::filesystem::path(driver).filename().string());
  std::string text = fmt::format(
      "# Options for {}. Every command of dxgkit that takes a driver of this folder reads them;\n"
      "# the command line stands above them. Paths are relative to this file. docs/settings.md\n"
      "#\n"
      "# {}\n",
      name, as_comment(subject_of(facts)));
  text += "\n# What the driver finds on the bus; `dxgkit devices` lists them.\n";
  text += device_lines(driver);
  if (facts.diagnosis.is_null() || facts.diagnosis.at("kind") != "display-only") {
    text +=
        "\n# A plug-in that knows the driver's private data and commands: without it no job runs.\n"
        "# `dxgkit new-client mine` writes its skeleton.\n"
        "# client = \"mine/mine.so\"\n";
  }
  return text +
         "\n# memory = \"1G\"\n"
         "# mode = \"sim\"\n"
         "\n# Values that the driver reads (docs/registry.md); or registry = \"FILE\".\n"
         "[registry.service]\n"
         "# EnablePreemption = 1\n"
         "\n# Rules that the driver breaks on purpose, each with its reason.\n"
         "[waive]\n"
         "# PAGE-05 = \"our hardware has no fills\"\n"
         "\n# Options of one command, without their dashes.\n"
         "[check]\n"
         "# baseline = \"known.json\"\n";
}

}  // namespace

int init_command(const std::string& driver) {
  if (is_named_driver(driver))
    return bad_input(
        fmt::format("init: {} comes with dxgkit; the file is for a driver of yours", driver));
  const std::expected<std::string, std::string> path = find_loadable_driver(driver);
  if (!path.has_value()) return bad_input(path.error());
  const std::string file = (std::filesystem::path(*path).parent_path() / kSettingsName).string();
  std::error_code error;
  // A link that leads nowhere exists, too.
  if (std::filesystem::exists(std::filesystem::symlink_status(file, error)))
    return bad_input(file + ": it exists already");
  if (const auto writable = check_writable(file); !writable) return not_written(writable.error());
  const std::expected<nt::KernelConfig, std::string> config =
      read_kernel_config(std::nullopt, /*special_pool=*/false, /*trace_imports=*/false);
  if (!config.has_value()) return bad_input(config.error());
  const check::DriverFacts facts = check::facts_of(*path, *config);
  if (const auto written = write_file(file, text_for(*path, facts)); !written)
    return not_written(written.error());
  say(stdout, "{}: {}\n{} is written\n", *path, subject_of(facts), file);
  return kExitDone;
}

}  // namespace dxgkit::tool
