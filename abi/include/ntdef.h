/* ntdef.h: base types of the NT kernel interface, for two compilers' worlds.
 *
 * Drivers: clang for an x86_64 Windows target (COFF or ELF), C11 or C++17. There long is 32 bits,
 * wchar_t is 16 bits, and every function already has the Win64 calling convention.
 * Native: gcc or clang for x86-64 Linux. There the same names keep their Windows sizes, and
 * NTAPI marks every function a driver calls or implements as Win64. C works natively too.
 */
#ifndef DXGKIT_ABI_NTDEF_H_
#define DXGKIT_ABI_NTDEF_H_

#include <stddef.h>
#include <stdint.h>

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

/* Annotations that driver sources carry; they mean nothing to these compilers. Only for drivers:
 * the names belong to the implementation, and native standard libraries use some of them. */
#if defined(DXGKIT_ABI_DRIVER) && !defined(_In_)
#define _In_
#define _In_opt_
#define _In_z_
#define _In_reads_(n)
#define _In_reads_opt_(n)
#define _In_reads_bytes_(n)
#define _In_reads_bytes_opt_(n)
#define _In_range_(a, b)
#define _Inout_
#define _Inout_opt_
#define _Inout_updates_(n)
#define _Inout_updates_bytes_(n)
#define _Out_
#define _Out_opt_
#define _Out_writes_(n)
#define _Out_writes_opt_(n)
#define _Out_writes_all_(n)
#define _Out_writes_to_(n, m)
#define _Out_writes_bytes_(n)
#define _Out_writes_bytes_opt_(n)
#define _Out_writes_bytes_all_(n)
#define _Out_writes_bytes_to_(n, m)
#define _Outptr_
#define _Outptr_opt_
#define _Outptr_result_maybenull_
#define _Outptr_result_bytebuffer_(n)
#define _Deref_out_
#define _Field_size_(n)
#define _Field_size_bytes_(n)
#define _Field_size_opt_(n)
#define _Ret_maybenull_
#define _Ret_notnull_
#define _Check_return_
#define _Must_inspect_result_
#define _Use_decl_annotations_
#define _Success_(e)
#define _When_(c, a)
#define _At_(t, a)
#define _Pre_
#define _Post_
#define _Pre_notnull_
#define _Analysis_assume_(e)
#define _Function_class_(f)
#define _IRQL_requires_(l)
#define _IRQL_requires_max_(l)
#define _IRQL_requires_min_(l)
#define _IRQL_requires_same_
#define _IRQL_raises_(l)
#define _IRQL_saves_
#define _IRQL_restores_
#define _Acquires_lock_(l)
#define _Releases_lock_(l)
#define _Requires_lock_held_(l)
#define __drv_aliasesMem
#define __drv_allocatesMem(k)
#define __drv_freesMem(k)
#endif

#define UNREFERENCED_PARAMETER(name) ((void)(name))
#define DBG_UNREFERENCED_PARAMETER(name) ((void)(name))
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

#define RTL_CONSTANT_STRING(text) \
  { sizeof(text) - sizeof((text)[0]), sizeof(text), text }
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

#define MAXUCHAR 0xFF
#define MAXUSHORT 0xFFFF
#define MAXULONG 0xFFFFFFFFU
#define MAXLONG 0x7FFFFFFF
#define MAXULONG64 0xFFFFFFFFFFFFFFFFULL
#define MAXULONGLONG 0xFFFFFFFFFFFFFFFFULL
#define UNICODE_NULL ((WCHAR)0)
#ifndef MAX_PATH
#define MAX_PATH 260
#endif

#define NT_SUCCESS(status) (((NTSTATUS)(status)) >= 0)
#define NT_INFORMATION(status) ((((ULONG)(status)) >> 30) == 1)
#define NT_WARNING(status) ((((ULONG)(status)) >> 30) == 2)
#define NT_ERROR(status) ((((ULONG)(status)) >> 30) == 3)

#endif  /* DXGKIT_ABI_NTDEF_H_ */
