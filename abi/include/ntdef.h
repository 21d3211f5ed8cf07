/* ntdef.h: base types of the NT kernel interface, for two compilers' worlds.
 *
 * Drivers: clang for an x86_64 Windows target (COFF or ELF), C11 or C++17. There long is 32 bits,
 * wchar_t is 16 bits, and every function already has the Win64 calling convention.
 * Native: gcc or clang for x86-64 Linux. There the same names keep their Windows sizes, and
 * NTAPI marks every function a driver calls or implements as Win64. C works natively too.
 */
#ifndef DXGKIT_ABI_NTDEF_H_
#define DXGKIT_ABI_NTDEF_H_

#include <sal.h>
#include <stddef.h>
/* Not for drivers: some define these names themselves. */
#if defined(_WIN32)
#include <limits.h>
#else
#include <stdint.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#if defined(_WIN32)
#define DXGKIT_ABI_DRIVER 1
#else
#define DXGKIT_ABI_NATIVE 1
#if !defined(__x86_64__)
#error "the NT and WDDM layouts here are those of x86-64"
#endif
#endif

#ifdef __cplusplus
#define EXTERN_C extern "C"
#define DXGKIT_ABI_BEGIN extern "C" {
#define DXGKIT_ABI_END }
#define DXGKIT_ENUM_INT : int
#else
#define EXTERN_C extern
#define DXGKIT_ABI_BEGIN
#define DXGKIT_ABI_END
#define DXGKIT_ENUM_INT
#endif
/* Enums that are not int: C compilers without sized enums get an integer type and the values. */
#if defined(__cplusplus) || defined(DXGKIT_ABI_DRIVER)
#define DXGKIT_ENUM_AS(type) : type
#define DXGKIT_ENUM_NAME(name, type) name
#else
#define DXGKIT_ENUM_AS(type)
#define DXGKIT_ENUM_NAME(name, type) \
  name##_VALUES;                     \
  typedef type name
#endif

/* Calling conventions. NTAPI and its relatives: across the driver door, always Win64.
 * APIENTRY: what clients of the D3DKMT thunks use, the platform's own. */
#if defined(DXGKIT_ABI_NATIVE)
#define NTAPI __attribute__((ms_abi))
#define APIENTRY
#define WINAPI
#define CALLBACK
#define CDECL __attribute__((ms_abi))
#else
#define NTAPI __stdcall
#define APIENTRY __stdcall
#define WINAPI __stdcall
#define CALLBACK __stdcall
#define CDECL __cdecl
#endif
#define FASTCALL NTAPI

/* Imported variables. The Windows target takes every variable for local to the image, so an ELF
 * driver has to carry a definition; weak, because every file that includes wdm.h has one. */
#if defined(__ELF__)
#define DECLSPEC_IMPORT
#define DXGKIT_NT_VARIABLE(type, name) type name __attribute__((weak))
#else
#define DECLSPEC_IMPORT __declspec(dllimport)
#define DXGKIT_NT_VARIABLE(type, name) extern DECLSPEC_IMPORT type name
#endif
#if defined(DXGKIT_ABI_DRIVER)
#define DECLSPEC_NORETURN __declspec(noreturn)
#define DECLSPEC_SELECTANY __declspec(selectany)
#define DECLSPEC_ALIGN(bytes) __declspec(align(bytes))
#define FORCEINLINE static __inline __attribute__((always_inline, unused))
#else
#define DECLSPEC_NORETURN __attribute__((noreturn))
#define DECLSPEC_SELECTANY __attribute__((weak))
#define DECLSPEC_ALIGN(bytes) __attribute__((aligned(bytes)))
#define FORCEINLINE static inline __attribute__((always_inline, unused))
#endif
#define NTKERNELAPI
#define NTSYSAPI
#define NTHALAPI

#ifndef VOID
#define VOID void
#endif
#ifndef CONST
#define CONST const
#endif
#ifndef FALSE
#define FALSE 0
#endif
#ifndef TRUE
#define TRUE 1
#endif
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef OPTIONAL
#define OPTIONAL
#endif
#if defined(DXGKIT_ABI_DRIVER)
#define FAR
#define NEAR
#define far
#define near
#define PASCAL APIENTRY
#ifndef NULL
#define NULL 0
#endif
#ifndef ANYSIZE_ARRAY
#define ANYSIZE_ARRAY 1
#endif
#define DUMMYUNIONNAME
#define DUMMYUNIONNAME2
#define DUMMYUNIONNAME3
#define DUMMYUNIONNAME4
#define DUMMYSTRUCTNAME
#define DUMMYSTRUCTNAME2
#define DUMMYSTRUCTNAME3
#define TYPE_ALIGNMENT(type) ((ULONG)_Alignof(type))
#define MEMORY_ALLOCATION_ALIGNMENT 16
#define SYSTEM_CACHE_ALIGNMENT_SIZE 64
#define DECLSPEC_CACHEALIGN DECLSPEC_ALIGN(SYSTEM_CACHE_ALIGNMENT_SIZE)
#define DECLSPEC_NOINLINE __declspec(noinline)
#define DECLSPEC_NOTHROW
#define DECLSPEC_NOVTABLE
#define DECLSPEC_DEPRECATED
#define DECLSPEC_DEPRECATED_DDK
#define DECLSPEC_ALLOCATOR
#define DECLSPEC_ADDRSAFE
#define DECLSPEC_GUARD_SUPPRESS
#define DECLSPEC_SAFEBUFFERS
#define NOP_FUNCTION ((void)0)
#define UNALIGNED
#define UNALIGNED64
#define POINTER_32
#define POINTER_64 __ptr64
#define RESTRICTED_POINTER
#define STDAPICALLTYPE __stdcall
#define STDMETHODCALLTYPE __stdcall
#define CFORCEINLINE FORCEINLINE
#define STKALIGN
#define MAXIMUM_PROCESSORS 64
#define NOTHING
#define CRITICAL
#define POINTER_ALIGNMENT DECLSPEC_ALIGN(8)
#define ALIGN_DOWN_POINTER_BY(address, alignment) \
  ((PVOID)((ULONG_PTR)(address) & ~((ULONG_PTR)(alignment) - 1)))
#define ALIGN_UP_POINTER_BY(address, alignment) \
  (ALIGN_DOWN_POINTER_BY(((ULONG_PTR)(address) + (alignment) - 1), alignment))
#define ALIGN_DOWN(length, type) ALIGN_DOWN_BY(length, sizeof(type))
#define ALIGN_UP(length, type) ALIGN_UP_BY(length, sizeof(type))
#define ALIGN_DOWN_POINTER(address, type) ALIGN_DOWN_POINTER_BY(address, sizeof(type))
#define ALIGN_UP_POINTER(address, type) ALIGN_UP_POINTER_BY(address, sizeof(type))
#endif

#define UNREFERENCED_PARAMETER(name) ((void)(name))
#define DBG_UNREFERENCED_PARAMETER(name) ((void)(name))
#define DBG_UNREFERENCED_LOCAL_VARIABLE(name) ((void)(name))
#define DEFAULT_UNREACHABLE \
  default:                  \
    __builtin_unreachable()
#define ARGUMENT_PRESENT(argument) ((CHAR*)((ULONG_PTR)(argument)) != (CHAR*)0)
#define RTL_CONTAINS_FIELD(record, size, field) \
  ((((PCHAR)(&(record)->field)) + sizeof((record)->field)) <= (((PCHAR)(record)) + (size)))
#define RTL_NUMBER_OF_V1(array) (sizeof(array) / sizeof((array)[0]))
#define RTL_NUMBER_OF_V2(array) (sizeof(array) / sizeof((array)[0]))
#define RTL_NUMBER_OF_FIELD(type, field) (sizeof(((type*)0)->field) / sizeof(((type*)0)->field[0]))
#define _ARRAYSIZE(array) (sizeof(array) / sizeof((array)[0]))
#define RTL_PADDING_BETWEEN_FIELDS(type, first, second)                              \
  ((FIELD_OFFSET(type, second) > FIELD_OFFSET(type, first))                          \
       ? (FIELD_OFFSET(type, second) - FIELD_OFFSET(type, first) -                   \
          (LONG)sizeof(((type*)0)->first))                                           \
       : (FIELD_OFFSET(type, first) - FIELD_OFFSET(type, second) -                   \
          (LONG)sizeof(((type*)0)->second)))
#define PtrToUlong(p) ((ULONG)(ULONG_PTR)(p))
#define PtrToLong(p) ((LONG)(LONG_PTR)(p))
#define PtrToUint(p) ((UINT)(UINT_PTR)(p))
#define PtrToInt(p) ((INT)(INT_PTR)(p))
#define UlongToPtr(v) ((PVOID)(ULONG_PTR)(ULONG)(v))
#define ULongToPtr(v) UlongToPtr(v)
#define UintToPtr(v) ((PVOID)(UINT_PTR)(UINT)(v))
#define LongToPtr(v) ((PVOID)(LONG_PTR)(LONG)(v))
#define IntToPtr(v) ((PVOID)(INT_PTR)(INT)(v))
#define HandleToULong(h) ((ULONG)(ULONG_PTR)(h))
#define HandleToUlong(h) HandleToULong(h)
#define HandleToLong(h) ((LONG)(LONG_PTR)(h))
#define ULongToHandle(v) ((HANDLE)(ULONG_PTR)(v))
#define UlongToHandle(v) ULongToHandle(v)
#define LongToHandle(v) ((HANDLE)(LONG_PTR)(v))
#define Int32x32To64(a, b) ((LONGLONG)(LONG)(a) * (LONGLONG)(LONG)(b))
#define UInt32x32To64(a, b) ((ULONGLONG)(ULONG)(a) * (ULONGLONG)(ULONG)(b))
#define ARRAYSIZE(array) (sizeof(array) / sizeof((array)[0]))
#define RTL_NUMBER_OF(array) (sizeof(array) / sizeof((array)[0]))
#define FIELD_OFFSET(type, field) ((LONG)offsetof(type, field))
#define RTL_FIELD_SIZE(type, field) (sizeof(((type*)0)->field))
#define RTL_SIZEOF_THROUGH_FIELD(type, field) (offsetof(type, field) + RTL_FIELD_SIZE(type, field))
#define CONTAINING_RECORD(address, type, field) \
  ((type*)((char*)(address) - offsetof(type, field)))
#define ALIGN_DOWN_BY(length, alignment) ((ULONG_PTR)(length) & ~((ULONG_PTR)(alignment) - 1))
#define ALIGN_UP_BY(length, alignment) \
  (ALIGN_DOWN_BY((ULONG_PTR)(length) + (alignment) - 1, alignment))
#ifdef __cplusplus
#define C_ASSERT(e) static_assert(e, #e)
#else
#define C_ASSERT(e) _Static_assert(e, #e)
#endif

DXGKIT_ABI_BEGIN

typedef void* PVOID;
typedef void* LPVOID;
typedef const void* PCVOID;
typedef void* HANDLE;
typedef char CHAR;
typedef signed char SCHAR;
typedef signed char INT8;
typedef unsigned char UCHAR;
typedef unsigned char BYTE;
typedef unsigned char UINT8;
typedef unsigned char BOOLEAN;
typedef short SHORT;
typedef short INT16;
typedef short CSHORT;
typedef unsigned short USHORT;
typedef unsigned short WORD;
typedef unsigned short UINT16;
typedef int INT;
typedef int INT32;
typedef int BOOL;
typedef unsigned int UINT;
typedef unsigned int UINT32;
typedef unsigned int ULONG32;
typedef unsigned int DWORD32;
typedef float FLOAT;
typedef double DOUBLE;

#if defined(DXGKIT_ABI_DRIVER)
typedef long LONG;
typedef unsigned long ULONG;
typedef unsigned long DWORD;
typedef long long LONGLONG;
typedef unsigned long long ULONGLONG;
typedef wchar_t WCHAR;
#define DXGKIT_WIDE(text) L##text
#else
typedef int32_t LONG;
typedef uint32_t ULONG;
typedef uint32_t DWORD;
typedef int64_t LONGLONG;
typedef uint64_t ULONGLONG;
#ifdef __cplusplus
typedef char16_t WCHAR;
#else
typedef uint16_t WCHAR;
#endif
#define DXGKIT_WIDE(text) u##text
#endif

typedef LONG LONG32;
typedef LONGLONG LONG64;
typedef LONGLONG INT64;
typedef ULONGLONG ULONG64;
typedef ULONGLONG UINT64;
typedef ULONGLONG DWORD64;
typedef ULONGLONG DWORDLONG;
typedef LONGLONG LONG_PTR;
typedef LONGLONG INT_PTR;
typedef LONGLONG SSIZE_T;
typedef ULONGLONG ULONG_PTR;
typedef ULONGLONG UINT_PTR;
typedef ULONGLONG DWORD_PTR;
typedef ULONGLONG SIZE_T;
typedef LONG NTSTATUS;
typedef LONG HRESULT;
typedef ULONG ACCESS_MASK;
typedef ULONG LCID;
typedef UCHAR KIRQL;
typedef ULONG_PTR KAFFINITY;
typedef CHAR KPROCESSOR_MODE;
typedef LONG KPRIORITY;
typedef LONGLONG USN;
typedef ULONG CLONG;
typedef char CCHAR;
typedef BYTE FCHAR;
typedef WORD FSHORT;
typedef DWORD FLONG;
typedef USHORT LANGID;
typedef WORD ATOM;
typedef DWORD COLORREF;
typedef ULONG LOGICAL;
typedef ULONG EXECUTION_STATE, *PEXECUTION_STATE;

typedef CHAR* PCHAR;
typedef CHAR* PSTR;
typedef CHAR* LPSTR;
typedef CHAR* PSZ;
typedef const CHAR* PCSTR;
typedef const CHAR* LPCSTR;
typedef const CHAR* PCSZ;
typedef UCHAR* PUCHAR;
typedef BYTE* PBYTE;
typedef BOOLEAN* PBOOLEAN;
typedef SHORT* PSHORT;
typedef USHORT* PUSHORT;
typedef WORD* PWORD;
typedef INT* PINT;
typedef UINT* PUINT;
typedef LONG* PLONG;
typedef ULONG* PULONG;
typedef DWORD* PDWORD;
typedef UINT32* PUINT32;
typedef UINT64* PUINT64;
typedef ULONG64* PULONG64;
typedef LONGLONG* PLONGLONG;
typedef ULONGLONG* PULONGLONG;
typedef SIZE_T* PSIZE_T;
typedef ULONG_PTR* PULONG_PTR;
typedef HANDLE* PHANDLE;
typedef NTSTATUS* PNTSTATUS;
typedef KIRQL* PKIRQL;
typedef ACCESS_MASK* PACCESS_MASK;
typedef WCHAR* PWCHAR;
typedef WCHAR* PWSTR;
typedef WCHAR* LPWSTR;
typedef const WCHAR* PCWSTR;
typedef const WCHAR* LPCWSTR;
typedef const WCHAR* PCWCH;
typedef WCHAR* PWCH;
typedef const CHAR* PCCH;
typedef const CHAR* LPCCH;
typedef CHAR* PCH;
typedef CHAR* LPCH;
typedef PSTR* PZPSTR;
typedef PWSTR* PZPWSTR;
typedef const WCHAR* PCWCHAR;
typedef const WCHAR* LPCWCHAR;
typedef const WCHAR* PCUWSTR;
typedef WCHAR* NWPSTR;
typedef LONG_PTR* PLONG_PTR;
typedef INT_PTR* PINT_PTR;
typedef UINT_PTR* PUINT_PTR;
typedef DWORD_PTR* PDWORD_PTR;
typedef SSIZE_T* PSSIZE_T;
typedef LONG64* PLONG64;
typedef INT64* PINT64;
typedef INT32* PINT32;
typedef INT16* PINT16;
typedef INT8* PINT8;
typedef UINT16* PUINT16;
typedef UINT8* PUINT8;
typedef ULONG32* PULONG32;
typedef DWORD64* PDWORD64;
typedef DWORDLONG* PDWORDLONG;
typedef BOOL* PBOOL;
typedef BOOL* LPBOOL;
typedef BYTE* LPBYTE;
typedef WORD* LPWORD;
typedef DWORD* LPDWORD;
typedef LONG* LPLONG;
typedef INT* LPINT;
typedef FLOAT* PFLOAT;
typedef CSHORT* PCSHORT;
typedef KAFFINITY* PKAFFINITY;
typedef KPRIORITY* PKPRIORITY;
typedef LCID* PLCID;
typedef LOGICAL* PLOGICAL;
typedef const VOID* LPCVOID;
#if defined(UNICODE) && defined(DXGKIT_ABI_DRIVER)
typedef WCHAR TCHAR, *PTCHAR, *PTSTR, *LPTSTR;
typedef const WCHAR *PCTSTR, *LPCTSTR;
#define TEXT(text) DXGKIT_WIDE(text)
#else
typedef CHAR TCHAR, *PTCHAR, *PTSTR, *LPTSTR;
typedef const CHAR *PCTSTR, *LPCTSTR;
#define TEXT(text) text
#endif

typedef union _LARGE_INTEGER {
  struct {
    ULONG LowPart;
    LONG HighPart;
  };
  struct {
    ULONG LowPart;
    LONG HighPart;
  } u;
  LONGLONG QuadPart;
} LARGE_INTEGER, *PLARGE_INTEGER;

typedef union _ULARGE_INTEGER {
  struct {
    ULONG LowPart;
    ULONG HighPart;
  };
  struct {
    ULONG LowPart;
    ULONG HighPart;
  } u;
  ULONGLONG QuadPart;
} ULARGE_INTEGER, *PULARGE_INTEGER;

/* A bus or system address. */
typedef LARGE_INTEGER PHYSICAL_ADDRESS, *PPHYSICAL_ADDRESS;

typedef struct _LUID {
  DWORD LowPart;
  LONG HighPart;
} LUID, *PLUID;

typedef struct _GUID {
  ULONG Data1;
  USHORT Data2;
  USHORT Data3;
  UCHAR Data4[8];
} GUID;
typedef GUID CLSID;
typedef GUID IID;
typedef GUID* LPGUID;
typedef const GUID* LPCGUID;
#ifdef __cplusplus
typedef const GUID& REFGUID;
typedef const GUID& REFCLSID;
typedef const GUID& REFIID;
#else
typedef const GUID* REFGUID;
typedef const GUID* REFCLSID;
typedef const GUID* REFIID;
#endif

typedef struct _LIST_ENTRY {
  struct _LIST_ENTRY* Flink;
  struct _LIST_ENTRY* Blink;
} LIST_ENTRY, *PLIST_ENTRY;

typedef struct _SINGLE_LIST_ENTRY {
  struct _SINGLE_LIST_ENTRY* Next;
} SINGLE_LIST_ENTRY, *PSINGLE_LIST_ENTRY;

/* Length and MaximumLength are bytes; Buffer need not end in a zero. */
typedef struct _STRING {
  USHORT Length;
  USHORT MaximumLength;
  PCHAR Buffer;
} STRING, *PSTRING;
typedef STRING ANSI_STRING, *PANSI_STRING;
typedef STRING OEM_STRING, *POEM_STRING;
typedef STRING UTF8_STRING, *PUTF8_STRING;
typedef const STRING* PCSTRING;
typedef const STRING* PCOEM_STRING;
typedef const STRING* PCANSI_STRING;

typedef struct _UNICODE_STRING {
  USHORT Length;
  USHORT MaximumLength;
  PWCHAR Buffer;
} UNICODE_STRING, *PUNICODE_STRING;
typedef const UNICODE_STRING* PCUNICODE_STRING;

typedef struct _OBJECT_ATTRIBUTES {
  ULONG Length;
  HANDLE RootDirectory;
  PUNICODE_STRING ObjectName;
  ULONG Attributes;
  PVOID SecurityDescriptor;
  PVOID SecurityQualityOfService;
} OBJECT_ATTRIBUTES, *POBJECT_ATTRIBUTES;

typedef struct _IO_STATUS_BLOCK {
  union {
    NTSTATUS Status;
    PVOID Pointer;
  };
  ULONG_PTR Information;
} IO_STATUS_BLOCK, *PIO_STATUS_BLOCK;

typedef enum _DEVICE_POWER_STATE DXGKIT_ENUM_INT {
  PowerDeviceUnspecified = 0,
  PowerDeviceD0 = 1,
  PowerDeviceD1 = 2,
  PowerDeviceD2 = 3,
  PowerDeviceD3 = 4,
  PowerDeviceMaximum = 5,
} DEVICE_POWER_STATE, *PDEVICE_POWER_STATE;

typedef enum _SYSTEM_POWER_STATE DXGKIT_ENUM_INT {
  PowerSystemUnspecified = 0,
  PowerSystemWorking = 1,
  PowerSystemSleeping1 = 2,
  PowerSystemSleeping2 = 3,
  PowerSystemSleeping3 = 4,
  PowerSystemHibernate = 5,
  PowerSystemShutdown = 6,
  PowerSystemMaximum = 7,
} SYSTEM_POWER_STATE, *PSYSTEM_POWER_STATE;

typedef union _POWER_STATE {
  SYSTEM_POWER_STATE SystemState;
  DEVICE_POWER_STATE DeviceState;
} POWER_STATE, *PPOWER_STATE;

typedef enum _POWER_STATE_TYPE DXGKIT_ENUM_INT {
  SystemPowerState = 0,
  DevicePowerState = 1,
} POWER_STATE_TYPE, *PPOWER_STATE_TYPE;

typedef enum _POWER_ACTION DXGKIT_ENUM_INT {
  PowerActionNone = 0,
  PowerActionReserved = 1,
  PowerActionSleep = 2,
  PowerActionHibernate = 3,
  PowerActionShutdown = 4,
  PowerActionShutdownReset = 5,
  PowerActionShutdownOff = 6,
  PowerActionWarmEject = 7,
  PowerActionDisplayOff = 8,
} POWER_ACTION, *PPOWER_ACTION;

typedef enum _EVENT_TYPE DXGKIT_ENUM_INT {
  NotificationEvent = 0,
  SynchronizationEvent = 1,
} EVENT_TYPE;

typedef enum _TIMER_TYPE DXGKIT_ENUM_INT {
  NotificationTimer = 0,
  SynchronizationTimer = 1,
} TIMER_TYPE;

typedef enum _WAIT_TYPE DXGKIT_ENUM_INT {
  WaitAll = 0,
  WaitAny = 1,
} WAIT_TYPE;

typedef VOID(NTAPI* PINTERFACE_REFERENCE)(PVOID Context);
typedef VOID(NTAPI* PINTERFACE_DEREFERENCE)(PVOID Context);

/* A memory descriptor list (wdm.h): a 48-byte header, then one PFN per page. */
typedef struct _MDL MDL, *PMDL;

DXGKIT_ABI_END

#include <dxgkit/guid.h>

#if defined(__cplusplus)
/* Sources include this inside extern "C" as well. */
extern "C++" {
constexpr PCHAR dxgkit_unconst(const CHAR* text) { return const_cast<PCHAR>(text); }
constexpr PWCHAR dxgkit_unconst(const WCHAR* text) { return const_cast<PWCHAR>(text); }
}
#else
#define dxgkit_unconst(text) text
#endif
#define RTL_CONSTANT_STRING(text) \
  { sizeof(text) - sizeof((text)[0]), sizeof(text), dxgkit_unconst(text) }
#define DECLARE_UNICODE_STRING_SIZE(variable, characters) \
  WCHAR variable##_buffer[characters];                    \
  UNICODE_STRING variable = {0, (characters) * sizeof(WCHAR), variable##_buffer}
#define DECLARE_GLOBAL_CONST_UNICODE_STRING(variable, text)                                   \
  EXTERN_C const DECLSPEC_SELECTANY UNICODE_STRING variable = RTL_CONSTANT_STRING(text)
#define DECLARE_CONST_UNICODE_STRING(variable, text)                                       \
  static const WCHAR variable##_buffer[] = text;                                           \
  static const UNICODE_STRING variable = {sizeof(text) - sizeof(WCHAR), sizeof(text),      \
                                          (PWCH)variable##_buffer}

#define OBJ_INHERIT 0x00000002
#define OBJ_PERMANENT 0x00000010
#define OBJ_EXCLUSIVE 0x00000020
#define OBJ_CASE_INSENSITIVE 0x00000040
#define OBJ_OPENIF 0x00000080
#define OBJ_OPENLINK 0x00000100
#define OBJ_KERNEL_HANDLE 0x00000200
#define OBJ_FORCE_ACCESS_CHECK 0x00000400
#define OBJ_IGNORE_IMPERSONATED_DEVICEMAP 0x00000800
#define OBJ_DONT_REPARSE 0x00001000
#define OBJ_VALID_ATTRIBUTES 0x00001FF2
#define RTL_CONSTANT_OBJECT_ATTRIBUTES(name, attributes) \
  { sizeof(OBJECT_ATTRIBUTES), 0, (PUNICODE_STRING)(name), (attributes), 0, 0 }

#define InitializeObjectAttributes(object, name, attributes, root, security) \
  do {                                                                       \
    (object)->Length = sizeof(OBJECT_ATTRIBUTES);                            \
    (object)->RootDirectory = (root);                                        \
    (object)->Attributes = (attributes);                                     \
    (object)->ObjectName = (name);                                           \
    (object)->SecurityDescriptor = (security);                               \
    (object)->SecurityQualityOfService = 0;                                  \
  } while (0)

#define DELETE 0x00010000
#define READ_CONTROL 0x00020000
#define WRITE_DAC 0x00040000
#define WRITE_OWNER 0x00080000
#define SYNCHRONIZE 0x00100000
#define STANDARD_RIGHTS_REQUIRED 0x000F0000
#define STANDARD_RIGHTS_READ READ_CONTROL
#define STANDARD_RIGHTS_WRITE READ_CONTROL
#define STANDARD_RIGHTS_ALL 0x001F0000
#define GENERIC_READ 0x80000000U
#define GENERIC_WRITE 0x40000000
#define GENERIC_EXECUTE 0x20000000
#define GENERIC_ALL 0x10000000
#define STANDARD_RIGHTS_EXECUTE READ_CONTROL
#define SPECIFIC_RIGHTS_ALL 0x0000FFFF
#define ACCESS_SYSTEM_SECURITY 0x01000000
#define MAXIMUM_ALLOWED 0x02000000

#define MAXUCHAR 0xFF
#define MAXUSHORT 0xFFFF
#define MAXULONG 0xFFFFFFFFU
#define MAXLONG 0x7FFFFFFF
#define MAXULONG64 0xFFFFFFFFFFFFFFFFULL
#define MAXULONGLONG 0xFFFFFFFFFFFFFFFFULL
#define MINCHAR 0x80
#define MAXCHAR 0x7F
#define MINSHORT 0x8000
#define MAXSHORT 0x7FFF
#define MINLONG 0x80000000U
#define MAXBYTE 0xFF
#define MAXWORD 0xFFFF
#define MAXDWORD 0xFFFFFFFFU
#define MAXUINT 0xFFFFFFFFU
#define MAXINT 0x7FFFFFFF
#define MININT (-0x7FFFFFFF - 1)
#define MAXUINT8 0xFF
#define MAXINT8 0x7F
#define MAXUINT16 0xFFFF
#define MAXINT16 0x7FFF
#define MAXUINT32 0xFFFFFFFFU
#define MAXINT32 0x7FFFFFFF
#define MAXULONG32 0xFFFFFFFFU
#define MAXUINT64 0xFFFFFFFFFFFFFFFFULL
#define MAXINT64 0x7FFFFFFFFFFFFFFFLL
#define MAXLONGLONG 0x7FFFFFFFFFFFFFFFLL
#define MAXULONG_PTR 0xFFFFFFFFFFFFFFFFULL
#define MAXLONG_PTR 0x7FFFFFFFFFFFFFFFLL
#define MAXUINT_PTR 0xFFFFFFFFFFFFFFFFULL
#define MAXSIZE_T 0xFFFFFFFFFFFFFFFFULL
#define MAXDWORDLONG 0xFFFFFFFFFFFFFFFFULL
#define UNICODE_STRING_MAX_BYTES 65534
#define UNICODE_STRING_MAX_CHARS 32767
#define ANSI_NULL ((CHAR)0)
#define LANG_NEUTRAL 0
#define APPLICATION_ERROR_MASK 0x20000000
#define ERROR_SEVERITY_SUCCESS 0x00000000
#define ERROR_SEVERITY_INFORMATIONAL 0x40000000
#define ERROR_SEVERITY_WARNING 0x80000000U
#define ERROR_SEVERITY_ERROR 0xC0000000U
#define UNICODE_NULL ((WCHAR)0)
#ifndef MAX_PATH
#define MAX_PATH 260
#endif

#define NT_SUCCESS(status) (((NTSTATUS)(status)) >= 0)
#define NT_INFORMATION(status) ((((ULONG)(status)) >> 30) == 1)
#define NT_WARNING(status) ((((ULONG)(status)) >> 30) == 2)
#define NT_ERROR(status) ((((ULONG)(status)) >> 30) == 3)

#endif  /* DXGKIT_ABI_NTDEF_H_ */
