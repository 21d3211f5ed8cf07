#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace dxgkit {

/// The file of the program that runs, symbolic links resolved. Empty if the system does not tell.
std::string own_program();

/// Where a file lies that comes with a program.
struct CompanionFile {
  std::string_view name;
  /// The folder in which an installed program keeps it, seen from the program's own folder.
  std::string_view from_program;
  /// Whole paths: where the build left it, or where packages put it. Empty ones are skipped;
  /// packages have none of the build.
  std::initializer_list<std::string_view> elsewhere = {};
};

/// The first that exists: beside the program, in the folder of an installed one, elsewhere. If none
/// does, where an installed one would have it, so that a message can say what is missing.
std::string find_companion(const CompanionFile& file, std::string_view program = own_program());

}  // namespace dxgkit
