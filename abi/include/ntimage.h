/* ntimage.h: the start of a PE image: what a driver reads of its own. */
#ifndef DXGKIT_ABI_NTIMAGE_H_
#define DXGKIT_ABI_NTIMAGE_H_

#include <ntdef.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#define IMAGE_DOS_SIGNATURE 0x5A4D
#define IMAGE_NT_SIGNATURE 0x00004550
#define IMAGE_FILE_MACHINE_AMD64 0x8664
#define IMAGE_NUMBEROF_DIRECTORY_ENTRIES 16
#define IMAGE_SIZEOF_SHORT_NAME 8

DXGKIT_ABI_BEGIN
#pragma pack(push, 2)
typedef struct _IMAGE_DOS_HEADER {
  USHORT e_magic;
  USHORT e_words[29];
  LONG e_lfanew;
} IMAGE_DOS_HEADER, *PIMAGE_DOS_HEADER;
#pragma pack(pop)
typedef struct _IMAGE_FILE_HEADER {
  USHORT Machine;
  USHORT NumberOfSections;
  ULONG TimeDateStamp;
  ULONG PointerToSymbolTable;
  ULONG NumberOfSymbols;
  USHORT SizeOfOptionalHeader;
  USHORT Characteristics;
} IMAGE_FILE_HEADER, *PIMAGE_FILE_HEADER;
DXGKIT_ABI_END

#endif  /* DXGKIT_ABI_NTIMAGE_H_ */
