// dxgkit.toml as any bytes: which options it gives, and the line of each mistake.
#include "tools/dxgkit/settings/settings_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dxgkit::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two commands with an option of each kind.
class FewOptions : public OptionTable {
 public:
  std::vector<std::string> commands() const override { return {"verify", "check"}; }
  std::vector<std::string> options(std::string_view command) const override {
    if (command != "verify" && command != "check") return {};
    return {"--device", "--step", "--seed", "--until-finding", "--baseline", "--json"};
  }
  Entry entry(std::string_view, std::string_view option) const override {
    return {.kind = option == "--until-finding" ? Kind::kFlag
                    : option == "--baseline"    ? Kind::kPath
                                                : Kind::kValue,
            .repeats = option == "--step"};
  }
};

std::expected<SettingsFile, std::string> parse(std::string_view text) {
  return parse_settings(text, "folder", FewOptions());
}

std::vector<std::string> lines(const SettingsFile& file) {
  std::vector<std::string> texts;
  for (const Setting& one : file.settings)
    texts.push_back(fmt::format("{}: {}{}{}", one.line,
                                one.command.empty() ? "" : one.command + " ", one.option,
                                one.value.has_value() ? "=" + *one.value : ""));
  return texts;
}

std::string error(std::string_view text) {
  const auto file = parse(text);
  return file.has_value() ? "none" : file.error();
}

constexpr std::string_view kWhole = R"(# comment
device = ["model.so,vram=1M", "softgpu"]
client = "client.so"
memory = "512M"
processors = 4
mode = "sim"
seed = 7
special_pool = true
trace_imports = false
waivers = "/abs/driver.waivers"
ddi_timeout = 30
[waive]
PAGE-05 = "no fills"
[registry.service]
Mutant = "patch_fails"
[verify]
until_finding = true
step = ["start", "render"]
[check]
baseline = "known.json"
seed = 3
until-finding = false
)";

TEST(SettingsFile, GivesOptionsInItsOrder) {
  const auto file = parse(kWhole);
  ASSERT_TRUE(file.has_value()) << file.error();
  EXPECT_THAT(lines(*file),
              ElementsAre("2: --device=folder/model.so,vram=1M", "2: --device=softgpu",
                          "3: --client=folder/client.so", "4: --memory=512M", "5: --processors=4",
                          "6: --mode=sim", "7: --seed=7", "8: --special-pool",
                          "10: --waivers=/abs/driver.waivers", "11: --ddi-timeout=30",
                          "13: --waive=PAGE-05=no fills", "17: verify --until-finding",
                          "18: verify --step=start", "18: verify --step=render",
                          "20: check --baseline=folder/known.json", "21: check --seed=3"));
  EXPECT_THAT(file->registry, HasSubstr("\"Mutant\" = \"patch_fails\""));
  const auto by_path = parse("registry = \"values.toml\"");
  ASSERT_TRUE(by_path.has_value());
  EXPECT_THAT(lines(*by_path), ElementsAre("1: --registry=folder/values.toml"));
  EXPECT_EQ(by_path->registry, "");
  EXPECT_TRUE(parse("")->settings.empty());
}

TEST(SettingsFile, NamesTheLineOfEachMistake) {
  EXPECT_EQ(error("\nclinet = \"a\""), "line 2: there is no key 'clinet'; did you mean client?");
  EXPECT_THAT(error("nothing_like_it = 1"), HasSubstr("line 1: there is no key"));
  EXPECT_EQ(error("\n\ndevice = 7"),
            "line 3: device: a text such as \"softgpu,vram=64M\", or a list of them");
  EXPECT_EQ(error("device = [\n\"a\",\n7]"), "line 3: device: a list of texts");
  EXPECT_THAT(error("device = []"), HasSubstr("line 1: device"));
  EXPECT_EQ(error("client = true"), "line 1: client: the path of a file");
  EXPECT_EQ(error("client = \"\""), "line 1: client: the path of a file");
  EXPECT_EQ(error("memory = 5"), "line 1: memory: a text");
  EXPECT_EQ(error("seed = -1"), "line 1: seed: a number");
  EXPECT_EQ(error("seed = \"1\""), "line 1: seed: a number");
  EXPECT_EQ(error("special_pool = \"yes\""), "line 1: special_pool: true or false");
  EXPECT_EQ(error("waive = 1"), "line 1: waive: a table with a line RULE = \"REASON\" each");
  EXPECT_EQ(error("[waive]\nPAGE-05 = 1"), "line 2: PAGE-05: a waiver takes a reason, a text");
  EXPECT_EQ(error("registry = 3"), "line 1: registry: the path of a file, or a table");
  EXPECT_EQ(error("[registry.service]\nA = 1.5").substr(0, 7), "line 2,");
  EXPECT_EQ(error("[registry]\nunknown = 1").substr(0, 7), "line 2,");
  EXPECT_EQ(error("verify = 1"), "line 1: verify: a table with the command's options");
  EXPECT_EQ(error("[verify]\nsteps = \"a\""),
            "line 2: verify has no option --steps; did you mean --step?");
  EXPECT_EQ(error("[verify]\nuntil_finding = 1"), "line 2: verify.until_finding: true or false");
  EXPECT_EQ(error("[verify]\nseed = [1, 2]"), "line 2: verify.seed: one value only");
  EXPECT_EQ(error("[verify]\nseed = 1.5"), "line 2: verify.seed: a text or a number");
  EXPECT_EQ(error("[verify]\nstep = [\"a\", true]"), "line 2: verify.step: a text or a number");
  EXPECT_EQ(error("[verify]\njson = \"/etc/passwd\""),
            "line 2: verify.json: only the command line says that");
  EXPECT_EQ(error("seed = 1\nseed = 2").substr(0, 7), "line 2:");
  EXPECT_EQ(error("seed = ").substr(0, 7), "line 1:");
}

TEST(SettingsFile, AnyBytesAreSafe) {
  EXPECT_THAT(error(std::string(1000, '[')), HasSubstr("brackets nest deeper"));
  EXPECT_THAT(error("a" + std::string(1000, '.')), HasSubstr("dots"));
  EXPECT_THAT(error(std::string_view("seed\0 = 1", 9)), HasSubstr("a control character"));
  EXPECT_THAT(error(std::string(kSettingsBytesMost + 1, '\n')), HasSubstr("more than"));
  EXPECT_EQ(error("[{"), "a bracket or a dot is followed by something that begins no key");
  // Every beginning of a file, and every byte of it as another one: an answer, or options that are
  // on its lines.
  const std::string whole(kWhole);
  size_t good = 0, bad = 0;
  const auto try_text = [&](const std::string& text) {
    const auto file = parse(text);
    (file.has_value() ? good : bad)++;
    if (!file.has_value()) {
      EXPECT_FALSE(file.error().empty());
      return;
    }
    const auto last = static_cast<uint32_t>(1 + std::ranges::count(text, '\n'));
    for (const Setting& one : file->settings) EXPECT_TRUE(one.line >= 1 && one.line <= last);
  };
  for (size_t end = 0; end < whole.size(); ++end) try_text(whole.substr(0, end));
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char c : {'\0', '"', '[', ']', '=', '.', '\n', '{', '\xff', '9'}) {
      std::string text = whole;
      text[at] = c;
      try_text(text);
    }
  }
  EXPECT_GT(good, 100U);
  EXPECT_GT(bad, 100U);
}

}  // namespace
}  // namespace dxgkit::tool
