// The DriverEntry of a driver with mutants. REG_DWORD values of the service key choose what it
// does: Mutant = N runs mutant N, AlsoMutant = N another one beside it, TellMutants = 1 prints
// which mutants the run reaches.
#undef DriverEntry
#include <ntddk.h>

int dxgkit_mutant_chosen, dxgkit_mutant_also;
int dxgkit_mutant_telling;
static UCHAR g_told[1 << 14];  // one a mutant; mutate_drivers gives no higher numbers

NTSTATUS NTAPI mutated_driver_entry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path);

void dxgkit_mutant_tell(int id) {
  if (g_told[id] != 0) return;
  g_told[id] = 1;
  DbgPrint("reached mutant %d", id);
}

static ULONG read_number(HANDLE key, const WCHAR* name) {
  UNICODE_STRING wanted;
  RtlInitUnicodeString(&wanted, name);
  struct {
    KEY_VALUE_PARTIAL_INFORMATION information;
    UCHAR rest[16];
  } value;
  ULONG bytes = 0;
  ULONG number = 0;
  if (NT_SUCCESS(ZwQueryValueKey(key, &wanted, KeyValuePartialInformation, &value, sizeof(value),
                                 &bytes)) &&
      value.information.Type == REG_DWORD && value.information.DataLength == sizeof(number)) {
    RtlCopyMemory(&number, value.information.Data, sizeof(number));
  }
  return number;
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path) {
  static const WCHAR kMutant[] = {'M', 'u', 't', 'a', 'n', 't', 0};
  static const WCHAR kAlso[] = {'A', 'l', 's', 'o', 'M', 'u', 't', 'a', 'n', 't', 0};
  static const WCHAR kTell[] = {'T', 'e', 'l', 'l', 'M', 'u', 't', 'a', 'n', 't', 's', 0};
  OBJECT_ATTRIBUTES attributes;
  HANDLE key = NULL;
  InitializeObjectAttributes(&attributes, registry_path, OBJ_CASE_INSENSITIVE, NULL, NULL);
  if (NT_SUCCESS(ZwOpenKey(&key, KEY_READ, &attributes))) {
    dxgkit_mutant_chosen = (int)read_number(key, kMutant);
    dxgkit_mutant_also = (int)read_number(key, kAlso);
    dxgkit_mutant_telling = (int)read_number(key, kTell);
    ZwClose(key);
  }
  return mutated_driver_entry(driver, registry_path);
}
