/* ntstrsafe.h: string functions that never write past the size they are given. Code inside the driver. */
#ifndef DXGKIT_ABI_NTSTRSAFE_H_
#define DXGKIT_ABI_NTSTRSAFE_H_

#include <wdm.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#if defined(_WIN32)

#define NTSTRSAFE_MAX_CCH 2147483647
#define NTSTRSAFE_UNICODE_STRING_MAX_CCH 32767
#define STRSAFE_MAX_CCH 2147483647
#define STRSAFE_IGNORE_NULLS 0x00000100
#define STRSAFE_FILL_BEHIND_NULL 0x00000200
#define STRSAFE_NO_TRUNCATION 0x00001000
typedef CHAR* NTSTRSAFE_PSTR;
typedef const CHAR* NTSTRSAFE_PCSTR;
typedef WCHAR* NTSTRSAFE_PWSTR;
typedef const WCHAR* NTSTRSAFE_PCWSTR;

FORCEINLINE NTSTATUS RtlStringCchLengthA(PCSTR Text, SIZE_T Max, SIZE_T* Length) {
  SIZE_T n = 0;
  while (Text && n < Max && Text[n]) ++n;
  if (!Text || n >= Max) {
    if (Length) *Length = 0;
    return STATUS_INVALID_PARAMETER;
  }
  if (Length) *Length = n;
  return STATUS_SUCCESS;
}
FORCEINLINE NTSTATUS RtlStringCbLengthA(PCSTR Text, SIZE_T Max, SIZE_T* Length) {
  NTSTATUS status = RtlStringCchLengthA(Text, Max / sizeof(CHAR), Length);
  if (Length) *Length *= sizeof(CHAR);
  return status;
}
FORCEINLINE NTSTATUS RtlStringCchCopyNA(CHAR* To, SIZE_T Size, PCSTR From, SIZE_T Count) {
  SIZE_T n = 0;
  if (Size == 0) return STATUS_INVALID_PARAMETER;
  while (n < Count && From[n]) {
    if (n + 1 == Size) {
      To[n] = 0;
      return STATUS_BUFFER_OVERFLOW;
    }
    To[n] = From[n];
    ++n;
  }
  To[n] = 0;
  return STATUS_SUCCESS;
}
FORCEINLINE NTSTATUS RtlStringCchCopyA(CHAR* To, SIZE_T Size, PCSTR From) {
  return RtlStringCchCopyNA(To, Size, From, NTSTRSAFE_MAX_CCH);
}
FORCEINLINE NTSTATUS RtlStringCbCopyA(CHAR* To, SIZE_T Size, PCSTR From) {
  return RtlStringCchCopyA(To, Size / sizeof(CHAR), From);
}
FORCEINLINE NTSTATUS RtlStringCbCopyNA(CHAR* To, SIZE_T Size, PCSTR From, SIZE_T Bytes) {
  return RtlStringCchCopyNA(To, Size / sizeof(CHAR), From, Bytes / sizeof(CHAR));
}
FORCEINLINE NTSTATUS RtlStringCchCatNA(CHAR* To, SIZE_T Size, PCSTR From, SIZE_T Count) {
  SIZE_T length = 0;
  NTSTATUS status = RtlStringCchLengthA(To, Size, &length);
  if (!NT_SUCCESS(status)) return status;
  return RtlStringCchCopyNA(To + length, Size - length, From, Count);
}
FORCEINLINE NTSTATUS RtlStringCchCatA(CHAR* To, SIZE_T Size, PCSTR From) {
  return RtlStringCchCatNA(To, Size, From, NTSTRSAFE_MAX_CCH);
}
FORCEINLINE NTSTATUS RtlStringCbCatA(CHAR* To, SIZE_T Size, PCSTR From) {
  return RtlStringCchCatA(To, Size / sizeof(CHAR), From);
}
FORCEINLINE NTSTATUS RtlStringCbCatNA(CHAR* To, SIZE_T Size, PCSTR From, SIZE_T Bytes) {
  return RtlStringCchCatNA(To, Size / sizeof(CHAR), From, Bytes / sizeof(CHAR));
}
FORCEINLINE NTSTATUS RtlStringCchVPrintfA(CHAR* To, SIZE_T Size, PCSTR Format,
                                          va_list Arguments) {
  int written;
  if (Size == 0 || Size > NTSTRSAFE_MAX_CCH) return STATUS_INVALID_PARAMETER;
  written = _vsnprintf(To, Size - 1, Format, Arguments);
  if (written < 0 || (SIZE_T)written >= Size - 1) {
    To[Size - 1] = 0;
    return written < 0 || (SIZE_T)written > Size - 1 ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
  }
  To[written] = 0;
  return STATUS_SUCCESS;
}
FORCEINLINE NTSTATUS RtlStringCbVPrintfA(CHAR* To, SIZE_T Size, PCSTR Format,
                                         va_list Arguments) {
  return RtlStringCchVPrintfA(To, Size / sizeof(CHAR), Format, Arguments);
}
static inline NTSTATUS CDECL RtlStringCchPrintfA(CHAR* To, SIZE_T Size, PCSTR Format, ...) {
  NTSTATUS status;
  va_list arguments;
  va_start(arguments, Format);
  status = RtlStringCchVPrintfA(To, Size, Format, arguments);
  va_end(arguments);
  return status;
}
static inline NTSTATUS CDECL RtlStringCbPrintfA(CHAR* To, SIZE_T Size, PCSTR Format, ...) {
  NTSTATUS status;
  va_list arguments;
  va_start(arguments, Format);
  status = RtlStringCbVPrintfA(To, Size, Format, arguments);
  va_end(arguments);
  return status;
}
static inline NTSTATUS CDECL RtlStringCbPrintfExA(CHAR* To, SIZE_T Size, CHAR** End,
                                                  SIZE_T* Remaining, ULONG Flags, PCSTR Format,
                                                  ...) {
  NTSTATUS status;
  SIZE_T length = 0;
  va_list arguments;
  (void)Flags;
  va_start(arguments, Format);
  status = RtlStringCbVPrintfA(To, Size, Format, arguments);
  va_end(arguments);
  (void)RtlStringCchLengthA(To, Size / sizeof(CHAR), &length);
  if (End) *End = To + length;
  if (Remaining) *Remaining = Size - length * sizeof(CHAR);
  return status;
}

FORCEINLINE NTSTATUS RtlStringCchLengthW(PCWSTR Text, SIZE_T Max, SIZE_T* Length) {
  SIZE_T n = 0;
  while (Text && n < Max && Text[n]) ++n;
  if (!Text || n >= Max) {
    if (Length) *Length = 0;
    return STATUS_INVALID_PARAMETER;
  }
  if (Length) *Length = n;
  return STATUS_SUCCESS;
}
FORCEINLINE NTSTATUS RtlStringCbLengthW(PCWSTR Text, SIZE_T Max, SIZE_T* Length) {
  NTSTATUS status = RtlStringCchLengthW(Text, Max / sizeof(WCHAR), Length);
  if (Length) *Length *= sizeof(WCHAR);
  return status;
}
FORCEINLINE NTSTATUS RtlStringCchCopyNW(WCHAR* To, SIZE_T Size, PCWSTR From, SIZE_T Count) {
  SIZE_T n = 0;
  if (Size == 0) return STATUS_INVALID_PARAMETER;
  while (n < Count && From[n]) {
    if (n + 1 == Size) {
      To[n] = 0;
      return STATUS_BUFFER_OVERFLOW;
    }
    To[n] = From[n];
    ++n;
  }
  To[n] = 0;
  return STATUS_SUCCESS;
}
FORCEINLINE NTSTATUS RtlStringCchCopyW(WCHAR* To, SIZE_T Size, PCWSTR From) {
  return RtlStringCchCopyNW(To, Size, From, NTSTRSAFE_MAX_CCH);
}
FORCEINLINE NTSTATUS RtlStringCbCopyW(WCHAR* To, SIZE_T Size, PCWSTR From) {
  return RtlStringCchCopyW(To, Size / sizeof(WCHAR), From);
}
FORCEINLINE NTSTATUS RtlStringCbCopyNW(WCHAR* To, SIZE_T Size, PCWSTR From, SIZE_T Bytes) {
  return RtlStringCchCopyNW(To, Size / sizeof(WCHAR), From, Bytes / sizeof(WCHAR));
}
FORCEINLINE NTSTATUS RtlStringCchCatNW(WCHAR* To, SIZE_T Size, PCWSTR From, SIZE_T Count) {
  SIZE_T length = 0;
  NTSTATUS status = RtlStringCchLengthW(To, Size, &length);
  if (!NT_SUCCESS(status)) return status;
  return RtlStringCchCopyNW(To + length, Size - length, From, Count);
}
FORCEINLINE NTSTATUS RtlStringCchCatW(WCHAR* To, SIZE_T Size, PCWSTR From) {
  return RtlStringCchCatNW(To, Size, From, NTSTRSAFE_MAX_CCH);
}
FORCEINLINE NTSTATUS RtlStringCbCatW(WCHAR* To, SIZE_T Size, PCWSTR From) {
  return RtlStringCchCatW(To, Size / sizeof(WCHAR), From);
}
FORCEINLINE NTSTATUS RtlStringCbCatNW(WCHAR* To, SIZE_T Size, PCWSTR From, SIZE_T Bytes) {
  return RtlStringCchCatNW(To, Size / sizeof(WCHAR), From, Bytes / sizeof(WCHAR));
}
FORCEINLINE NTSTATUS RtlStringCchVPrintfW(WCHAR* To, SIZE_T Size, PCWSTR Format,
                                          va_list Arguments) {
  int written;
  if (Size == 0 || Size > NTSTRSAFE_MAX_CCH) return STATUS_INVALID_PARAMETER;
  written = _vsnwprintf(To, Size - 1, Format, Arguments);
  if (written < 0 || (SIZE_T)written >= Size - 1) {
    To[Size - 1] = 0;
    return written < 0 || (SIZE_T)written > Size - 1 ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
  }
  To[written] = 0;
  return STATUS_SUCCESS;
}
FORCEINLINE NTSTATUS RtlStringCbVPrintfW(WCHAR* To, SIZE_T Size, PCWSTR Format,
                                         va_list Arguments) {
  return RtlStringCchVPrintfW(To, Size / sizeof(WCHAR), Format, Arguments);
}
static inline NTSTATUS CDECL RtlStringCchPrintfW(WCHAR* To, SIZE_T Size, PCWSTR Format, ...) {
  NTSTATUS status;
  va_list arguments;
  va_start(arguments, Format);
  status = RtlStringCchVPrintfW(To, Size, Format, arguments);
  va_end(arguments);
  return status;
}
static inline NTSTATUS CDECL RtlStringCbPrintfW(WCHAR* To, SIZE_T Size, PCWSTR Format, ...) {
  NTSTATUS status;
  va_list arguments;
  va_start(arguments, Format);
  status = RtlStringCbVPrintfW(To, Size, Format, arguments);
  va_end(arguments);
  return status;
}
static inline NTSTATUS CDECL RtlStringCbPrintfExW(WCHAR* To, SIZE_T Size, WCHAR** End,
                                                  SIZE_T* Remaining, ULONG Flags, PCWSTR Format,
                                                  ...) {
  NTSTATUS status;
  SIZE_T length = 0;
  va_list arguments;
  (void)Flags;
  va_start(arguments, Format);
  status = RtlStringCbVPrintfW(To, Size, Format, arguments);
  va_end(arguments);
  (void)RtlStringCchLengthW(To, Size / sizeof(WCHAR), &length);
  if (End) *End = To + length;
  if (Remaining) *Remaining = Size - length * sizeof(WCHAR);
  return status;
}

FORCEINLINE NTSTATUS RtlUnicodeStringInit(PUNICODE_STRING String, PCWSTR Source) {
  SIZE_T length = 0;
  NTSTATUS status = STATUS_SUCCESS;
  String->Length = 0;
  String->MaximumLength = 0;
  String->Buffer = 0;
  if (!Source) return status;
  status = RtlStringCchLengthW(Source, NTSTRSAFE_UNICODE_STRING_MAX_CCH, &length);
  if (!NT_SUCCESS(status)) return status;
  String->Length = (USHORT)(length * sizeof(WCHAR));
  String->MaximumLength = (USHORT)((length + 1) * sizeof(WCHAR));
  String->Buffer = (PWCHAR)Source;
  return status;
}
FORCEINLINE NTSTATUS RtlUnicodeStringCopyString(PUNICODE_STRING String, PCWSTR Source) {
  SIZE_T n = 0;
  SIZE_T room = String->MaximumLength / sizeof(WCHAR);
  while (Source[n] && n < room) {
    String->Buffer[n] = Source[n];
    ++n;
  }
  String->Length = (USHORT)(n * sizeof(WCHAR));
  return Source[n] ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
}
FORCEINLINE NTSTATUS RtlUnicodeStringCatString(PUNICODE_STRING String, PCWSTR Source) {
  SIZE_T n = String->Length / sizeof(WCHAR);
  SIZE_T room = String->MaximumLength / sizeof(WCHAR);
  while (*Source && n < room) String->Buffer[n++] = *Source++;
  String->Length = (USHORT)(n * sizeof(WCHAR));
  return *Source ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
}
FORCEINLINE NTSTATUS RtlUnicodeStringVPrintf(PUNICODE_STRING String, PCWSTR Format,
                                             va_list Arguments) {
  SIZE_T room = String->MaximumLength / sizeof(WCHAR);
  int written = _vsnwprintf(String->Buffer, room, Format, Arguments);
  if (written < 0 || (SIZE_T)written > room) {
    String->Length = (USHORT)(room * sizeof(WCHAR));
    return STATUS_BUFFER_OVERFLOW;
  }
  String->Length = (USHORT)((SIZE_T)written * sizeof(WCHAR));
  return STATUS_SUCCESS;
}
static inline NTSTATUS CDECL RtlUnicodeStringPrintf(PUNICODE_STRING String, PCWSTR Format, ...) {
  NTSTATUS status;
  va_list arguments;
  va_start(arguments, Format);
  status = RtlUnicodeStringVPrintf(String, Format, arguments);
  va_end(arguments);
  return status;
}

#endif  /* _WIN32 */

#endif  /* DXGKIT_ABI_NTSTRSAFE_H_ */
