// A folder of one run, which goes with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace dxgkit::tool {

class RunFolder {
 public:
  RunFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "dxgkit-client-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~RunFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Empty: it could not be made.
  const std::string& path() const { return path_; }
  /// The path of a new file with this text. Empty: it cannot be written.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream file(path_ + "/" + name);
    return !path_.empty() && file << text << std::flush ? path_ + "/" + name : "";
  }
  /// The path of a new folder in it.
  std::string make_folder(const std::string& name) const {
    std::error_code error;
    std::filesystem::create_directory(path_ + "/" + name, error);
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

}  // namespace dxgkit::tool
