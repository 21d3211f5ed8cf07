#include "tests/mutants/name.h"

extern "C" NTSTATUS NTAPI read_mutant_name(PUNICODE_STRING path, char* name, ULONG size) {
  RtlZeroMemory(name, size);
  OBJECT_ATTRIBUTES attributes;
  InitializeObjectAttributes(&attributes, path, OBJ_CASE_INSENSITIVE, nullptr, nullptr);
  HANDLE key = nullptr;
  NTSTATUS status = ZwOpenKey(&key, KEY_READ, &attributes);
  if (!NT_SUCCESS(status)) return status;
  static const WCHAR kName[] = {'M', 'u', 't', 'a', 'n', 't', 0};
  UNICODE_STRING value;
  RtlInitUnicodeString(&value, kName);
  alignas(KEY_VALUE_PARTIAL_INFORMATION) UCHAR buffer[256];
  ULONG bytes = 0;
  status = ZwQueryValueKey(key, &value, KeyValuePartialInformation, buffer, sizeof(buffer), &bytes);
  if (NT_SUCCESS(status)) {
    const auto* information = reinterpret_cast<const KEY_VALUE_PARTIAL_INFORMATION*>(buffer);
    const ULONG characters = information->DataLength / sizeof(WCHAR);
    for (ULONG i = 0; i < characters && i + 1 < size; ++i) {
      WCHAR character = 0;
      RtlCopyMemory(&character, &information->Data[i * sizeof(WCHAR)], sizeof(character));
      name[i] = static_cast<char>(character);
    }
  }
  ZwClose(key);
  return status;
}
