// Writes seeds for fuzz_pe: the hand-made image as it is and with parts left out.
#include <cstdio>
#include <string>

#include "loader/testdata/tiny_pe.h"

int main(int argc, char** argv) {
  namespace tiny = dxgkit::loader::tiny_pe;
  if (argc != 2) {
    std::fputs("usage: dxgkit_fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  const auto write = [&](const char* name, const std::vector<std::byte>& bytes) {
    std::FILE* file = std::fopen((std::string(argv[1]) + "/" + name).c_str(), "wb");
    if (file == nullptr) return false;
    const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    return std::fclose(file) == 0 && whole;
  };
  bool good = write("tiny", tiny::make());
  for (const unsigned directory : {0U, 1U, 3U, 5U, 6U, 10U}) {
    auto file = tiny::make();
    tiny::put<uint64_t>(file, tiny::directory(directory), 0);
    file.resize(tiny::kFileBytes);
    good = write(("without_directory_" + std::to_string(directory)).c_str(), file) && good;
  }
  return good ? 0 : 1;
}
