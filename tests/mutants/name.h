// Which mutant the registry names.
#pragma once

#include <ntddk.h>

/// The value "Mutant" of the driver's key as ASCII; empty if there is none.
extern "C" NTSTATUS NTAPI read_mutant_name(PUNICODE_STRING path, char* name, ULONG size);

namespace mutants {

inline bool same(const char* left, const char* right) {
  while (*left != 0 && *left == *right) ++left, ++right;
  return *left == *right;
}

/// Installs the mutant of `all` that the driver's key names; none if it names none.
/// STATUS_OBJECT_NAME_NOT_FOUND: the test misspelt it.
template <typename Mutant, SIZE_T count, typename Table>
NTSTATUS install_named(PUNICODE_STRING path, const Mutant (&all)[count], Table* table) {
  char name[64];
  (void)read_mutant_name(path, name, sizeof(name));
  if (name[0] == 0) return STATUS_SUCCESS;
  for (const Mutant& mutant : all) {
    if (!same(mutant.name, name)) continue;
    mutant.install(table);
    return STATUS_SUCCESS;
  }
  return STATUS_OBJECT_NAME_NOT_FOUND;
}

}  // namespace mutants
