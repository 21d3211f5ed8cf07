#include "tools/dxgkit/manual/examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace dxgkit::tool {

const std::vector<Example>& examples() {
  static const std::vector<Example> all = {
      {"", "dxgkit verify driver.sys", "exercise a driver and print its mistakes"},
      {"", "dxgkit check wrong",
       "the same on one page, of a driver that comes along with mistakes"},
      {"", "dxgkit help verify", "how a command is used"},
      {"run", "dxgkit run --driver driver.sys --vram 16M --report report.html",
       "the picture job with little memory, and a page that shows it"},
      {"run", "dxgkit run --mode sim --seed 7 --trace run.pftrace",
       "one seed, the same run every time"},
      {"verify", "dxgkit verify driver.sys --client mine.so --sarif=findings.sarif",
       "with your command streams; findings for a code host"},
      {"verify", "dxgkit verify driver.sys --device virtio-gpu,modes=1280x800 --seeds 1..20",
       "a driver of the virtio GPU, in twenty interleavings"},
      {"check", "dxgkit check driver.sys --html report.html",
       "one page of what is right and wrong"},
      {"check", "dxgkit check driver.sys --baseline known.json --sarif=findings.sarif",
       "fails on new findings only"},
      {"fuzz", "dxgkit fuzz driver.sys --seeds 1..200 --out problems",
       "a reproducer for each problem goes to the folder problems"},
      {"fuzz", "dxgkit fuzz driver.sys --replay problems/hang.fuzz", "run a reproducer"},
      {"gl", "dxgkit gl --report gears.html -- glxgears",
       "an OpenGL program, and a page of its run"},
      {"doctor", "dxgkit doctor driver.sys",
       "entries and imports, and what keeps it from starting"},
      {"init", "dxgkit init driver.sys", "writes dxgkit.toml, which the other commands read"},
      {"evict-bench", "dxgkit evict-bench --generate frame --seed 3", "print a trace"},
      {"evict-bench", "dxgkit evict-bench --trace frame.txt --oversubscription 1.5",
       "how much each policy pages in on it"},
      {"view", "dxgkit view run.txt",
       "writes run.html, a page of the run, with why everything was"},
      {"view", "dxgkit view run.txt --compare other.txt --output both.html",
       "two runs beside each other, and where they part"},
      {"view", "dxgkit view run.txt --serve",
       "prints an address for a browser, also behind `ssh -L`"},
      {"va", "dxgkit va run.txt", "the processes of a trace"},
      {"va", "dxgkit va run.txt --process 2 --address 0x10000", "the story of one address"},
      {"sim", "dxgkit sim --seeds 1..1000 --db results.sqlite",
       "a thousand worlds, with a row kept for each"},
      {"sim", "dxgkit sim driver.sys --faults all --shard 1/4", "a quarter of the seeds"},
      {"replay", "dxgkit replay 7 --trace world.txt", "seed 7 once more, and what happened in it"},
      {"replay", "dxgkit replay app.dxgk --driver new.sys", "a recording on another driver"},
      {"attach", "dxgkit attach report.json --rule PATCH-08",
       "the line for gdb; `eval $(dxgkit attach report.json)` runs it"},
      {"shrink", "dxgkit shrink 7 driver.sys", "what is left of seed 7 that still fails"},
      {"diff", "dxgkit diff before.txt after.txt", "the first event that differs"},
      {"campaign",
       "dxgkit campaign run nightly --driver driver.sys --seeds 1..1000000 --engine slurm",
       "a million seeds on a cluster"},
      {"campaign",
       "dxgkit campaign run mine --work verify --driver driver.sys --seeds 1..2000 -- "
       "--client mine.so",
       "the steps of verify, 2000 times on this machine"},
      {"campaign", "dxgkit campaign status nightly", "how far it is"},
      {"merge", "dxgkit merge all.sqlite one.sqlite two.sqlite", "put two shards together"},
      {"situations", "dxgkit situations --json=situations.json", "the catalogue for a program"},
      {"support", "dxgkit support D3DKMTRender", "whether a call is supported"},
      {"support", "dxgkit support --refused --ddi", "driver entries that are never called"},
      {"devices", "dxgkit devices", "what --device takes"},
      {"serve-device", "dxgkit serve-device softgpu --socket /tmp/softgpu.sock",
       "the device of `dxgkit run --device vfio-user:/tmp/softgpu.sock`"},
      {"run-client", "dxgkit run-client --driver driver.sys -- ./program --fast",
       "a program with its option --fast"},
      {"record", "dxgkit record -o app.dxgk -- ./program", "keep the calls of a program"},
      {"calls", "dxgkit calls app.dxgk", "print them"},
      {"serve", "dxgkit serve --stack stack.toml --allow-group render",
       "for the members of a group"},
      {"status", "dxgkit status --socket /run/dxgkit.sock --json", "for a program that watches"},
      {"new", "dxgkit new mygpu", "writes the folder mygpu"},
      {"new-client", "dxgkit new-client mine", "writes the folder mine"},
      {"rules", "dxgkit rules PATCH", "the rules of an area"},
      {"explain", "dxgkit explain PATCH-08", "a rule, and how to keep it"},
      {"explain", "dxgkit explain 0x119 0x1", "a bug check with its first parameter"},
      {"help", "dxgkit help verify", "the same as `dxgkit verify --help`"},
  };
  return all;
}

std::vector<Example> examples_of(std::string_view command) {
  std::vector<Example> found;
  std::ranges::copy_if(examples(), std::back_inserter(found),
                       [&](const Example& one) { return one.command == command; });
  return found;
}

std::vector<std::string> words_of(const Example& example) {
  std::istringstream line{std::string(example.line)};
  std::vector<std::string> words;
  for (std::string word; line >> word;) words.push_back(word);
  words.erase(words.begin());
  return words;
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  std::string text = CLI::Formatter::make_footer(app);
  const bool whole_tool = app->get_parent() == nullptr;
  const std::vector<Example> found = examples_of(whole_tool ? "" : app->get_name());
  if (found.empty()) return text;
  text += "\nExamples:\n";
  for (const Example& one : found) text += fmt::format("  {}\n      {}\n", one.line, one.purpose);
  return text;
}

}  // namespace dxgkit::tool
