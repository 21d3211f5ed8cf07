/* nt_types.h: executive records beyond those of wdm.h itself: PCI, work items, lookaside lists,
 * power, PnP, versions, registry queries. Included by wdm.h; not by itself.
 */
#ifndef DXGKIT_ABI_NT_TYPES_H_
#define DXGKIT_ABI_NT_TYPES_H_

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

/* PCI configuration space. */
#define PCI_TYPE0_ADDRESSES 6
#define PCI_TYPE1_ADDRESSES 2
#define PCI_TYPE2_ADDRESSES 5
#define DXGKIT_PCI_HEADER_FIELDS                 \
  USHORT VendorID;                               \
  USHORT DeviceID;                               \
  USHORT Command;                                \
  USHORT Status;                                 \
  UCHAR RevisionID;                              \
  UCHAR ProgIf;                                  \
  UCHAR SubClass;                                \
  UCHAR BaseClass;                               \
  UCHAR CacheLineSize;                           \
  UCHAR LatencyTimer;                            \
  UCHAR HeaderType;                              \
  UCHAR BIST;                                    \
  union {                                        \
    struct _PCI_HEADER_TYPE_0 {                  \
      ULONG BaseAddresses[PCI_TYPE0_ADDRESSES];  \
      ULONG CIS;                                 \
      USHORT SubVendorID;                        \
      USHORT SubSystemID;                        \
      ULONG ROMBaseAddress;                      \
      UCHAR CapabilitiesPtr;                     \
      UCHAR Reserved1[3];                        \
      ULONG Reserved2;                           \
      UCHAR InterruptLine;                       \
      UCHAR InterruptPin;                        \
      UCHAR MinimumGrant;                        \
      UCHAR MaximumLatency;                      \
    } type0;                                     \
    struct _PCI_HEADER_TYPE_1 {                  \
      ULONG BaseAddresses[PCI_TYPE1_ADDRESSES];  \
      UCHAR PrimaryBus;                          \
      UCHAR SecondaryBus;                        \
      UCHAR SubordinateBus;                      \
      UCHAR SecondaryLatency;                    \
      UCHAR IOBase;                              \
      UCHAR IOLimit;                             \
      USHORT SecondaryStatus;                    \
      USHORT MemoryBase;                         \
      USHORT MemoryLimit;                        \
      USHORT PrefetchBase;                       \
      USHORT PrefetchLimit;                      \
      ULONG PrefetchBaseUpper32;                 \
      ULONG PrefetchLimitUpper32;                \
      USHORT IOBaseUpper16;                      \
      USHORT IOLimitUpper16;                     \
      UCHAR CapabilitiesPtr;                     \
      UCHAR Reserved1[3];                        \
      ULONG ROMBaseAddress;                      \
      UCHAR InterruptLine;                       \
      UCHAR InterruptPin;                        \
      USHORT BridgeControl;                      \
    } type1;                                     \
    struct _PCI_HEADER_TYPE_2 {                  \
      ULONG SocketRegistersBaseAddress;          \
      UCHAR CapabilitiesPtr;                     \
      UCHAR Reserved;                            \
      USHORT SecondaryStatus;                    \
      UCHAR PrimaryBus;                          \
      UCHAR SecondaryBus;                        \
      UCHAR SubordinateBus;                      \
      UCHAR SecondaryLatency;                    \
      struct {                                   \
        ULONG Base;                              \
        ULONG Limit;                             \
      } Range[PCI_TYPE2_ADDRESSES - 1];          \
      UCHAR InterruptLine;                       \
      UCHAR InterruptPin;                        \
      USHORT BridgeControl;                      \
    } type2;                                     \
  } u;

typedef struct _PCI_COMMON_HEADER {
  DXGKIT_PCI_HEADER_FIELDS
} PCI_COMMON_HEADER, *PPCI_COMMON_HEADER;
#ifdef __cplusplus
typedef struct _PCI_COMMON_CONFIG : PCI_COMMON_HEADER {
  UCHAR DeviceSpecific[192];
} PCI_COMMON_CONFIG, *PPCI_COMMON_CONFIG;
#else
#define _PCI_HEADER_TYPE_0 DXGKIT_PCI_CONFIG_TYPE_0
#define _PCI_HEADER_TYPE_1 DXGKIT_PCI_CONFIG_TYPE_1
#define _PCI_HEADER_TYPE_2 DXGKIT_PCI_CONFIG_TYPE_2
typedef struct _PCI_COMMON_CONFIG {
  DXGKIT_PCI_HEADER_FIELDS
  UCHAR DeviceSpecific[192];
} PCI_COMMON_CONFIG, *PPCI_COMMON_CONFIG;
#undef _PCI_HEADER_TYPE_0
#undef _PCI_HEADER_TYPE_1
#undef _PCI_HEADER_TYPE_2
#endif
#define PCI_COMMON_HDR_LENGTH 64
#define PCI_EXTENDED_CONFIG_LENGTH 0x1000

typedef struct _PCI_CAPABILITIES_HEADER {
  UCHAR CapabilityID;
  UCHAR Next;
} PCI_CAPABILITIES_HEADER, *PPCI_CAPABILITIES_HEADER;

typedef struct _PCI_SLOT_NUMBER {
  union {
    struct {
      ULONG DeviceNumber : 5;
      ULONG FunctionNumber : 3;
      ULONG Reserved : 24;
    } bits;
    ULONG AsULONG;
  } u;
} PCI_SLOT_NUMBER, *PPCI_SLOT_NUMBER;

#define PCI_MAX_DEVICES 32
#define PCI_MAX_FUNCTION 8
#define PCI_INVALID_VENDORID 0xFFFF
#define PCI_DEVICE_TYPE 0x00
#define PCI_BRIDGE_TYPE 0x01
#define PCI_CARDBUS_BRIDGE_TYPE 0x02
#define PCI_MULTIFUNCTION 0x80
#define PCI_CONFIGURATION_TYPE(header) (((PPCI_COMMON_CONFIG)(header))->HeaderType & 0x7F)
#define PCI_MULTIFUNCTION_DEVICE(header) \
  ((((PPCI_COMMON_CONFIG)(header))->HeaderType & PCI_MULTIFUNCTION) != 0)
#define PCI_ENABLE_IO_SPACE 0x0001
#define PCI_ENABLE_MEMORY_SPACE 0x0002
#define PCI_ENABLE_BUS_MASTER 0x0004
#define PCI_ENABLE_SPECIAL_CYCLES 0x0008
#define PCI_ENABLE_WRITE_AND_INVALIDATE 0x0010
#define PCI_ENABLE_VGA_COMPATIBLE_PALETTE 0x0020
#define PCI_ENABLE_PARITY 0x0040
#define PCI_ENABLE_WAIT_CYCLE 0x0080
#define PCI_ENABLE_SERR 0x0100
#define PCI_ENABLE_FAST_BACK_TO_BACK 0x0200
#define PCI_DISABLE_LEVEL_INTERRUPT 0x0400
#define PCI_STATUS_INTERRUPT_PENDING 0x0008
#define PCI_STATUS_CAPABILITIES_LIST 0x0010
#define PCI_STATUS_66MHZ_CAPABLE 0x0020
#define PCI_ADDRESS_IO_SPACE 0x00000001
#define PCI_ADDRESS_MEMORY_TYPE_MASK 0x00000006
#define PCI_ADDRESS_MEMORY_PREFETCHABLE 0x00000008
#define PCI_ADDRESS_IO_ADDRESS_MASK 0xFFFFFFFCU
#define PCI_ADDRESS_MEMORY_ADDRESS_MASK 0xFFFFFFF0U
#define PCI_ADDRESS_ROM_ADDRESS_MASK 0xFFFFF800U
#define PCI_TYPE_32BIT 0
#define PCI_TYPE_20BIT 2
#define PCI_TYPE_64BIT 4
#define PCI_ROMADDRESS_ENABLED 0x00000001
#define PCI_CLASS_DISPLAY_CTLR 0x03
#define PCI_CLASS_PROCESSING_ACCELERATOR 0x12
#define PCI_SUBCLASS_VID_VGA_CTLR 0x00
#define PCI_SUBCLASS_VID_XGA_CTLR 0x01
#define PCI_SUBCLASS_VID_3D_CTLR 0x02
#define PCI_SUBCLASS_VID_OTHER 0x80
#define PCI_CAPABILITY_ID_POWER_MANAGEMENT 0x01
#define PCI_CAPABILITY_ID_AGP 0x02
#define PCI_CAPABILITY_ID_VPD 0x03
#define PCI_CAPABILITY_ID_SLOT_ID 0x04
#define PCI_CAPABILITY_ID_MSI 0x05
#define PCI_CAPABILITY_ID_VENDOR_SPECIFIC 0x09
#define PCI_CAPABILITY_ID_PCI_EXPRESS 0x10
#define PCI_CAPABILITY_ID_MSIX 0x11
#define PCI_WHICHSPACE_CONFIG 0x0
#define PCI_WHICHSPACE_ROM 0x52696350

/* Bus access by interface. */
struct _DEVICE_OBJECT;
struct _DEVICE_DESCRIPTION;
struct _DMA_ADAPTER;
typedef BOOLEAN NTAPI TRANSLATE_BUS_ADDRESS(PVOID Context, PHYSICAL_ADDRESS BusAddress,
                                            ULONG Length, PULONG AddressSpace,
                                            PPHYSICAL_ADDRESS TranslatedAddress);
typedef TRANSLATE_BUS_ADDRESS* PTRANSLATE_BUS_ADDRESS;
typedef struct _DMA_ADAPTER* NTAPI GET_DMA_ADAPTER(PVOID Context,
                                                   struct _DEVICE_DESCRIPTION* DeviceDescriptor,
                                                   PULONG NumberOfMapRegisters);
typedef GET_DMA_ADAPTER* PGET_DMA_ADAPTER;
typedef ULONG NTAPI GET_SET_DEVICE_DATA(PVOID Context, ULONG DataType, PVOID Buffer, ULONG Offset,
                                        ULONG Length);
typedef GET_SET_DEVICE_DATA* PGET_SET_DEVICE_DATA;

typedef struct _BUS_INTERFACE_STANDARD {
  USHORT Size;
  USHORT Version;
  PVOID Context;
  PINTERFACE_REFERENCE InterfaceReference;
  PINTERFACE_DEREFERENCE InterfaceDereference;
  PTRANSLATE_BUS_ADDRESS TranslateBusAddress;
  PGET_DMA_ADAPTER GetDmaAdapter;
  PGET_SET_DEVICE_DATA SetBusData;
  PGET_SET_DEVICE_DATA GetBusData;
} BUS_INTERFACE_STANDARD, *PBUS_INTERFACE_STANDARD;

typedef enum _BUS_DATA_TYPE DXGKIT_ENUM_INT {
  ConfigurationSpaceUndefined = -1,
  Cmos = 0,
  EisaConfiguration = 1,
  Pos = 2,
  CbusConfiguration = 3,
  PCIConfiguration = 4,
  VMEConfiguration = 5,
  NuBusConfiguration = 6,
  PCMCIAConfiguration = 7,
  MPIConfiguration = 8,
  MPSAConfiguration = 9,
  PNPISAConfiguration = 10,
  SgiInternalConfiguration = 11,
  MaximumBusDataType = 12,
} BUS_DATA_TYPE, *PBUS_DATA_TYPE;

typedef struct _PNP_BUS_INFORMATION {
  GUID BusTypeGuid;
  INTERFACE_TYPE LegacyBusType;
  ULONG BusNumber;
} PNP_BUS_INFORMATION, *PPNP_BUS_INFORMATION;

typedef struct _DEVICE_CAPABILITIES {
  USHORT Size;
  USHORT Version;
  ULONG DeviceD1 : 1;
  ULONG DeviceD2 : 1;
  ULONG LockSupported : 1;
  ULONG EjectSupported : 1;
  ULONG Removable : 1;
  ULONG DockDevice : 1;
  ULONG UniqueID : 1;
  ULONG SilentInstall : 1;
  ULONG RawDeviceOK : 1;
  ULONG SurpriseRemovalOK : 1;
  ULONG WakeFromD0 : 1;
  ULONG WakeFromD1 : 1;
  ULONG WakeFromD2 : 1;
  ULONG WakeFromD3 : 1;
  ULONG HardwareDisabled : 1;
  ULONG NonDynamic : 1;
  ULONG WarmEjectSupported : 1;
  ULONG NoDisplayInUI : 1;
  ULONG Reserved1 : 1;
  ULONG WakeFromInterrupt : 1;
  ULONG SecureDevice : 1;
  ULONG ChildOfVgaEnabledBridge : 1;
  ULONG DecodeIoOnBoot : 1;
  ULONG Reserved : 9;
  ULONG Address;
  ULONG UINumber;
  DEVICE_POWER_STATE DeviceState[7];
  SYSTEM_POWER_STATE SystemWake;
  DEVICE_POWER_STATE DeviceWake;
  ULONG D1Latency;
  ULONG D2Latency;
  ULONG D3Latency;
} DEVICE_CAPABILITIES, *PDEVICE_CAPABILITIES;

/* Power and PnP requests. */
#define IRP_MN_START_DEVICE 0x00
#define IRP_MN_QUERY_REMOVE_DEVICE 0x01
#define IRP_MN_REMOVE_DEVICE 0x02
#define IRP_MN_CANCEL_REMOVE_DEVICE 0x03
#define IRP_MN_STOP_DEVICE 0x04
#define IRP_MN_QUERY_STOP_DEVICE 0x05
#define IRP_MN_CANCEL_STOP_DEVICE 0x06
#define IRP_MN_QUERY_DEVICE_RELATIONS 0x07
#define IRP_MN_QUERY_INTERFACE 0x08
#define IRP_MN_QUERY_CAPABILITIES 0x09
#define IRP_MN_QUERY_RESOURCES 0x0A
#define IRP_MN_QUERY_RESOURCE_REQUIREMENTS 0x0B
#define IRP_MN_QUERY_DEVICE_TEXT 0x0C
#define IRP_MN_FILTER_RESOURCE_REQUIREMENTS 0x0D
#define IRP_MN_READ_CONFIG 0x0F
#define IRP_MN_WRITE_CONFIG 0x10
#define IRP_MN_QUERY_ID 0x13
#define IRP_MN_QUERY_BUS_INFORMATION 0x15
#define IRP_MN_SURPRISE_REMOVAL 0x17
#define IRP_MN_WAIT_WAKE 0x00
#define IRP_MN_POWER_SEQUENCE 0x01
#define IRP_MN_SET_POWER 0x02
#define IRP_MN_QUERY_POWER 0x03
#define IRP_MJ_CREATE_NAMED_PIPE 0x01
#define IRP_MJ_QUERY_INFORMATION 0x05
#define IRP_MJ_SET_INFORMATION 0x06
#define IRP_MJ_FLUSH_BUFFERS 0x09
#define IRP_MJ_SHUTDOWN 0x10
#define IRP_MJ_SCSI IRP_MJ_INTERNAL_DEVICE_CONTROL
#define IO_VIDEO_INCREMENT 1
#define IO_DISK_INCREMENT 1
#define EVENT_INCREMENT 1
#define SEMAPHORE_INCREMENT 1
#define SL_PENDING_RETURNED 0x01
#define SL_INVOKE_ON_CANCEL 0x20
#define SL_INVOKE_ON_SUCCESS 0x40
#define SL_INVOKE_ON_ERROR 0x80
#define DO_BUFFERED_IO 0x00000004
#define DO_EXCLUSIVE 0x00000008
#define DO_DIRECT_IO 0x00000010
#define DO_DEVICE_INITIALIZING 0x00000080
#define DO_POWER_PAGABLE 0x00002000
#define FILE_DEVICE_SECURE_OPEN 0x00000100

/* Work items. */
typedef VOID NTAPI WORKER_THREAD_ROUTINE(PVOID Parameter);
typedef WORKER_THREAD_ROUTINE* PWORKER_THREAD_ROUTINE;
typedef struct _WORK_QUEUE_ITEM {
  LIST_ENTRY List;
  PWORKER_THREAD_ROUTINE WorkerRoutine;
  PVOID Parameter;
} WORK_QUEUE_ITEM, *PWORK_QUEUE_ITEM;
typedef enum _WORK_QUEUE_TYPE DXGKIT_ENUM_INT {
  CriticalWorkQueue = 0,
  DelayedWorkQueue = 1,
  HyperCriticalWorkQueue = 2,
  NormalWorkQueue = 3,
  BackgroundWorkQueue = 4,
  RealTimeWorkQueue = 5,
  SuperCriticalWorkQueue = 6,
  MaximumWorkQueue = 7,
  CustomPriorityWorkQueue = 32,
} WORK_QUEUE_TYPE;
typedef VOID NTAPI IO_WORKITEM_ROUTINE_EX(PVOID IoObject, PVOID Context,
                                          struct _IO_WORKITEM* IoWorkItem);
typedef IO_WORKITEM_ROUTINE_EX* PIO_WORKITEM_ROUTINE_EX;

/* Interlocked singly linked lists. */
typedef struct DECLSPEC_ALIGN(16) _SLIST_ENTRY {
  struct _SLIST_ENTRY* Next;
} SLIST_ENTRY, *PSLIST_ENTRY;
typedef union DECLSPEC_ALIGN(16) _SLIST_HEADER {
  struct {
    ULONGLONG Alignment;
    ULONGLONG Region;
  };
  struct {
    ULONGLONG Depth : 16;
    ULONGLONG Sequence : 48;
    ULONGLONG Reserved : 4;
    ULONGLONG NextEntry : 60;
  } HeaderX64;
} SLIST_HEADER, *PSLIST_HEADER;

typedef struct _KFLOATING_SAVE {
  ULONG Dummy;
} KFLOATING_SAVE, *PKFLOATING_SAVE;

typedef struct _XSTATE_SAVE {
  ULONG64 Opaque[9];
} XSTATE_SAVE, *PXSTATE_SAVE;

typedef struct _PHYSICAL_MEMORY_RANGE {
  PHYSICAL_ADDRESS BaseAddress;
  LARGE_INTEGER NumberOfBytes;
} PHYSICAL_MEMORY_RANGE, *PPHYSICAL_MEMORY_RANGE;

typedef struct _GROUP_AFFINITY {
  KAFFINITY Mask;
  USHORT Group;
  USHORT Reserved[3];
} GROUP_AFFINITY, *PGROUP_AFFINITY;

typedef struct _PROCESSOR_NUMBER {
  USHORT Group;
  UCHAR Number;
  UCHAR Reserved;
} PROCESSOR_NUMBER, *PPROCESSOR_NUMBER;

typedef struct _KLOCK_QUEUE_HANDLE {
  struct {
    PVOID Next;
    PKSPIN_LOCK Lock;
  } LockQueue;
  KIRQL OldIrql;
} KLOCK_QUEUE_HANDLE, *PKLOCK_QUEUE_HANDLE;

typedef ULONG_PTR EX_PUSH_LOCK, *PEX_PUSH_LOCK;
typedef struct _EX_RUNDOWN_REF {
  union {
    ULONG_PTR Count;
    PVOID Ptr;
  };
} EX_RUNDOWN_REF, *PEX_RUNDOWN_REF;
typedef LONG EX_SPIN_LOCK, *PEX_SPIN_LOCK;
typedef FAST_MUTEX KGUARDED_MUTEX, *PKGUARDED_MUTEX;

typedef struct _IO_REMOVE_LOCK {
  ULONG_PTR Opaque[4];
} IO_REMOVE_LOCK, *PIO_REMOVE_LOCK;

/* Versions. */
typedef struct _OSVERSIONINFOW {
  ULONG dwOSVersionInfoSize;
  ULONG dwMajorVersion;
  ULONG dwMinorVersion;
  ULONG dwBuildNumber;
  ULONG dwPlatformId;
  WCHAR szCSDVersion[128];
} OSVERSIONINFOW, *POSVERSIONINFOW, RTL_OSVERSIONINFOW, *PRTL_OSVERSIONINFOW;
typedef struct _OSVERSIONINFOEXW {
  ULONG dwOSVersionInfoSize;
  ULONG dwMajorVersion;
  ULONG dwMinorVersion;
  ULONG dwBuildNumber;
  ULONG dwPlatformId;
  WCHAR szCSDVersion[128];
  USHORT wServicePackMajor;
  USHORT wServicePackMinor;
  USHORT wSuiteMask;
  UCHAR wProductType;
  UCHAR wReserved;
} OSVERSIONINFOEXW, *POSVERSIONINFOEXW, RTL_OSVERSIONINFOEXW, *PRTL_OSVERSIONINFOEXW;
#define _WIN32_WINNT_WIN6 0x0600
#define _WIN32_WINNT_WIN7 0x0601
#define _WIN32_WINNT_WIN8 0x0602
#define _WIN32_WINNT_WINBLUE 0x0603
#define _WIN32_WINNT_WIN10 0x0A00
#define NTDDI_WIN6 0x06000000
#define NTDDI_VISTA 0x06000000
#define NTDDI_VISTASP1 0x06000100
#define NTDDI_WIN7 0x06010000
#define NTDDI_WIN8 0x06020000
#define NTDDI_WINBLUE 0x06030000
#define NTDDI_WINTHRESHOLD 0x0A000000
#define NTDDI_WIN10 0x0A000000
#define NTDDI_WIN10_TH2 0x0A000001
#define NTDDI_WIN10_RS1 0x0A000002
#define NTDDI_WIN10_RS2 0x0A000003
#define NTDDI_WIN10_RS3 0x0A000004
#define NTDDI_WIN10_RS4 0x0A000005
#define NTDDI_WIN10_RS5 0x0A000006
#define NTDDI_WIN10_19H1 0x0A000007
#define NTDDI_WIN10_VB 0x0A000008
#define NTDDI_WIN10_MN 0x0A000009
#define NTDDI_WIN10_FE 0x0A00000A
#define NTDDI_WIN10_CO 0x0A00000B
#define NTDDI_WIN11_NI 0x0A00000C
#define NTDDI_WIN11_ZN 0x0A00000E
#define NTDDI_WIN11_GA 0x0A00000F
#define NTDDI_WIN11_GE 0x0A000010
#define OSVERSION_MASK 0xFFFF0000U

/* Registry, beyond single values. */
#define REG_DWORD_LITTLE_ENDIAN 4
#define REG_DWORD_BIG_ENDIAN 5
#define REG_LINK 6
#define REG_RESOURCE_LIST 8
#define REG_FULL_RESOURCE_DESCRIPTOR 9
#define REG_CREATED_NEW_KEY 1
#define REG_OPENED_EXISTING_KEY 2
#define KEY_NOTIFY 0x0010
#define KEY_CREATE_LINK 0x0020
#define KEY_EXECUTE KEY_READ
#define KEY_WOW64_64KEY 0x0100
#define KEY_WOW64_32KEY 0x0200
#define RTL_REGISTRY_ABSOLUTE 0
#define RTL_REGISTRY_SERVICES 1
#define RTL_REGISTRY_CONTROL 2
#define RTL_REGISTRY_WINDOWS_NT 3
#define RTL_REGISTRY_DEVICEMAP 4
#define RTL_REGISTRY_USER 5
#define RTL_REGISTRY_HANDLE 0x40000000
#define RTL_REGISTRY_OPTIONAL 0x80000000U
#define RTL_QUERY_REGISTRY_SUBKEY 0x00000001
#define RTL_QUERY_REGISTRY_TOPKEY 0x00000002
#define RTL_QUERY_REGISTRY_REQUIRED 0x00000004
#define RTL_QUERY_REGISTRY_NOVALUE 0x00000008
#define RTL_QUERY_REGISTRY_NOEXPAND 0x00000010
#define RTL_QUERY_REGISTRY_DIRECT 0x00000020
#define RTL_QUERY_REGISTRY_DELETE 0x00000040
#define RTL_QUERY_REGISTRY_TYPECHECK 0x00000100
#define RTL_QUERY_REGISTRY_TYPECHECK_SHIFT 24
typedef NTSTATUS NTAPI RTL_QUERY_REGISTRY_ROUTINE(PWSTR ValueName, ULONG ValueType,
                                                  PVOID ValueData, ULONG ValueLength,
                                                  PVOID Context, PVOID EntryContext);
typedef RTL_QUERY_REGISTRY_ROUTINE* PRTL_QUERY_REGISTRY_ROUTINE;
typedef struct _RTL_QUERY_REGISTRY_TABLE {
  PRTL_QUERY_REGISTRY_ROUTINE QueryRoutine;
  ULONG Flags;
  PWSTR Name;
  PVOID EntryContext;
  ULONG DefaultType;
  PVOID DefaultData;
  ULONG DefaultLength;
} RTL_QUERY_REGISTRY_TABLE, *PRTL_QUERY_REGISTRY_TABLE;
typedef enum _KEY_INFORMATION_CLASS DXGKIT_ENUM_INT {
  KeyBasicInformation = 0,
  KeyNodeInformation = 1,
  KeyFullInformation = 2,
  KeyNameInformation = 3,
} KEY_INFORMATION_CLASS;
typedef struct _KEY_BASIC_INFORMATION {
  LARGE_INTEGER LastWriteTime;
  ULONG TitleIndex;
  ULONG NameLength;
  WCHAR Name[1];
} KEY_BASIC_INFORMATION, *PKEY_BASIC_INFORMATION;
typedef struct _KEY_FULL_INFORMATION {
  LARGE_INTEGER LastWriteTime;
  ULONG TitleIndex;
  ULONG ClassOffset;
  ULONG ClassLength;
  ULONG SubKeys;
  ULONG MaxNameLen;
  ULONG MaxClassLen;
  ULONG Values;
  ULONG MaxValueNameLen;
  ULONG MaxValueDataLen;
  WCHAR Class[1];
} KEY_FULL_INFORMATION, *PKEY_FULL_INFORMATION;

typedef struct _TIME_FIELDS {
  CSHORT Year;
  CSHORT Month;
  CSHORT Day;
  CSHORT Hour;
  CSHORT Minute;
  CSHORT Second;
  CSHORT Milliseconds;
  CSHORT Weekday;
} TIME_FIELDS, *PTIME_FIELDS;

typedef struct _OBJECT_HANDLE_INFORMATION {
  ULONG HandleAttributes;
  ACCESS_MASK GrantedAccess;
} OBJECT_HANDLE_INFORMATION, *POBJECT_HANDLE_INFORMATION;

#define THREAD_ALL_ACCESS 0x1FFFFF
#define PROCESS_ALL_ACCESS 0x1FFFFF
#define EVENT_QUERY_STATE 0x0001
#define EVENT_MODIFY_STATE 0x0002
#define EVENT_ALL_ACCESS 0x1F0003
#define SECTION_QUERY 0x0001
#define SECTION_MAP_WRITE 0x0002
#define SECTION_MAP_READ 0x0004
#define SECTION_ALL_ACCESS 0xF001F
#define MEM_COMMIT 0x1000
#define MEM_RESERVE 0x2000
#define MEM_RELEASE 0x8000
#define MEM_DECOMMIT 0x4000
#define SEC_COMMIT 0x8000000
#define FILE_READ_ACCESS 1
#define FILE_WRITE_ACCESS 2
#define FILE_APPEND_DATA 4
#define FILE_WRITE_ATTRIBUTES 0x0100
#define FILE_READ_ATTRIBUTES 0x0080
#define FILE_ALL_ACCESS 0x1F01FF
#define FILE_READ_EA 0x0008
#define FILE_WRITE_EA 0x0010
#define FILE_GENERIC_READ 0x120089
#define FILE_GENERIC_WRITE 0x120116
#define FILE_SHARE_DELETE 4
#define FILE_SUPERSEDE 0
#define FILE_OVERWRITE 4
#define FILE_OVERWRITE_IF 5
#define FILE_WRITE_THROUGH 0x02
#define FILE_ATTRIBUTE_READONLY 0x01
#define FILE_ATTRIBUTE_HIDDEN 0x02
#define FILE_ATTRIBUTE_SYSTEM 0x04
#define FILE_ATTRIBUTE_DIRECTORY 0x10
#define FILE_DEVICE_UNKNOWN 0x22
#define FILE_DEVICE_BUS_EXTENDER 0x2A
#define FILE_DEVICE_ACPI 0x32

typedef struct _EXCEPTION_RECORD {
  NTSTATUS ExceptionCode;
  ULONG ExceptionFlags;
  struct _EXCEPTION_RECORD* ExceptionRecord;
  PVOID ExceptionAddress;
  ULONG NumberParameters;
  ULONG_PTR ExceptionInformation[15];
} EXCEPTION_RECORD, *PEXCEPTION_RECORD;
typedef struct _EXCEPTION_POINTERS {
  PEXCEPTION_RECORD ExceptionRecord;
  struct _CONTEXT* ContextRecord;
} EXCEPTION_POINTERS, *PEXCEPTION_POINTERS;

/* Bug-check callbacks. */
typedef enum _KBUGCHECK_BUFFER_DUMP_STATE DXGKIT_ENUM_INT {
  BufferEmpty = 0,
  BufferInserted = 1,
  BufferStarted = 2,
  BufferFinished = 3,
  BufferIncomplete = 4,
} KBUGCHECK_BUFFER_DUMP_STATE;
typedef VOID NTAPI KBUGCHECK_CALLBACK_ROUTINE(PVOID Buffer, ULONG Length);
typedef KBUGCHECK_CALLBACK_ROUTINE* PKBUGCHECK_CALLBACK_ROUTINE;
typedef struct _KBUGCHECK_CALLBACK_RECORD {
  LIST_ENTRY Entry;
  PKBUGCHECK_CALLBACK_ROUTINE CallbackRoutine;
  PVOID Buffer;
  ULONG Length;
  PUCHAR Component;
  ULONG_PTR Checksum;
  UCHAR State;
} KBUGCHECK_CALLBACK_RECORD, *PKBUGCHECK_CALLBACK_RECORD;

/* Interrupts a driver connects itself. */
typedef BOOLEAN NTAPI KSERVICE_ROUTINE(struct _KINTERRUPT* Interrupt, PVOID ServiceContext);
typedef KSERVICE_ROUTINE* PKSERVICE_ROUTINE;
typedef BOOLEAN NTAPI KMESSAGE_SERVICE_ROUTINE(struct _KINTERRUPT* Interrupt, PVOID ServiceContext,
                                               ULONG MessageID);
typedef KMESSAGE_SERVICE_ROUTINE* PKMESSAGE_SERVICE_ROUTINE;

#endif  /* DXGKIT_ABI_NT_TYPES_H_ */
