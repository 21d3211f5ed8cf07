// The display library: how a driver reaches the graphics kernel, of which it imports nothing. It
// opens the kernel's device and asks for the routine it is to call.
#include <dispmprt.h>
#include <ntddk.h>

/* Codes of the graphics kernel's device: FILE_DEVICE_VIDEO, METHOD_NEITHER, FILE_ANY_ACCESS. */
#define GET_INITIALIZE_WIN7 0x23003F
#define GET_INITIALIZE_DISPLAY_ONLY 0x230043
#define GET_INITIALIZE 0x230047
#define GET_UNINITIALIZE 0x23004B

typedef NTSTATUS(NTAPI* InitializeRoutine)(PDRIVER_OBJECT, PUNICODE_STRING, PVOID);
typedef NTSTATUS(NTAPI* UninitializeRoutine)(PDRIVER_OBJECT);

static NTSTATUS ask(ULONG code, PVOID* routine) {
  UNICODE_STRING service, name;
  PFILE_OBJECT file = 0;
  PDEVICE_OBJECT device = 0;
  KEVENT done;
  IO_STATUS_BLOCK answer = {0};
  *routine = 0;
  /* Whether it had to be loaded is all the same: opening it decides. */
  RtlInitUnicodeString(&service,
                       L"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\DXGKrnl");
  (void)ZwLoadDriver(&service);
  RtlInitUnicodeString(&name, L"\\Device\\DxgKrnl");
  NTSTATUS status = IoGetDeviceObjectPointer(&name, 0x1F01FF /* all access */, &file, &device);
  if (!NT_SUCCESS(status)) return status;
  KeInitializeEvent(&done, NotificationEvent, FALSE);
  PIRP request = IoBuildDeviceIoControlRequest(code, device, 0, 0, routine, sizeof(*routine), TRUE,
                                               &done, &answer);
  if (request == 0) {
    status = STATUS_INSUFFICIENT_RESOURCES;
  } else {
    status = IoCallDriver(device, request);
    if (status == STATUS_PENDING) {
      KeWaitForSingleObject(&done, Executive, KernelMode, FALSE, 0);
      status = answer.Status;
    }
    if (NT_SUCCESS(status) && *routine == 0) status = STATUS_UNSUCCESSFUL;
  }
  ObDereferenceObject(file);
  return status;
}

NTSTATUS NTAPI DxgkInitialize(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                              PDRIVER_INITIALIZATION_DATA data) {
  PVOID routine = 0;
  NTSTATUS status = ask(GET_INITIALIZE, &routine);
  /* A kernel of Windows 7 knows the older code only. */
  if (status == STATUS_INVALID_DEVICE_REQUEST) status = ask(GET_INITIALIZE_WIN7, &routine);
  return NT_SUCCESS(status) ? ((InitializeRoutine)routine)(driver, path, data) : status;
}

NTSTATUS NTAPI DxgkInitializeDisplayOnlyDriver(PDRIVER_OBJECT driver, PUNICODE_STRING path,
                                               PKMDDOD_INITIALIZATION_DATA data) {
  PVOID routine = 0;
  const NTSTATUS status = ask(GET_INITIALIZE_DISPLAY_ONLY, &routine);
  return NT_SUCCESS(status) ? ((InitializeRoutine)routine)(driver, path, data) : status;
}

NTSTATUS NTAPI DxgkUnInitialize(PDRIVER_OBJECT driver) {
  PVOID routine = 0;
  const NTSTATUS status = ask(GET_UNINITIALIZE, &routine);
  return NT_SUCCESS(status) ? ((UninitializeRoutine)routine)(driver) : status;
}
