// DXGKIT_MUTANT=N runs mutant N, DXGKIT_PLANT=NAME the planted bug of that name.
// DXGKIT_REACHED=FOLDER leaves a file there with the mutants that this process reached.
#include "probe.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace dxgkit_mutation {

int chosen = -1;
const char* chosen_bug = nullptr;
unsigned char reached[1 << 16];

namespace {

__attribute__((constructor(101))) void choose() {
  if (const char* id = std::getenv("DXGKIT_MUTANT"); id != nullptr) chosen = std::atoi(id);
  chosen_bug = std::getenv("DXGKIT_PLANT");
}

__attribute__((destructor)) void tell() {
  const char* folder = std::getenv("DXGKIT_REACHED");
  if (folder == nullptr) return;
  const std::string path = std::string(folder) + "/" + std::to_string(getpid());
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return;
  for (int id = 0; id < 1 << 16; ++id)
    if (reached[id] != 0) std::fprintf(file, "%d\n", id);
  std::fclose(file);
}

}  // namespace
}  // namespace dxgkit_mutation
