/* acpiioct.h: buffers of an ACPI method evaluation (DxgkCbEvalAcpiMethod). */
#ifndef DXGKIT_ABI_ACPIIOCT_H_
#define DXGKIT_ABI_ACPIIOCT_H_

#include <ntdef.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#define ACPI_EVAL_INPUT_BUFFER_SIGNATURE 0x42696541
#define ACPI_EVAL_INPUT_BUFFER_COMPLEX_SIGNATURE 0x43696541
#define ACPI_EVAL_OUTPUT_BUFFER_SIGNATURE 0x426F6541
#define ACPI_METHOD_ARGUMENT_INTEGER 0
#define ACPI_METHOD_ARGUMENT_STRING 1
#define ACPI_METHOD_ARGUMENT_BUFFER 2
#define ACPI_METHOD_ARGUMENT_PACKAGE 3

DXGKIT_ABI_BEGIN

typedef struct _ACPI_METHOD_ARGUMENT {
  USHORT Type;
  USHORT DataLength;
  union {
    ULONG Argument;
    UCHAR Data[1];
  };
} ACPI_METHOD_ARGUMENT, *PACPI_METHOD_ARGUMENT;

typedef struct _ACPI_EVAL_INPUT_BUFFER_COMPLEX {
  ULONG Signature;
  union {
    UCHAR MethodName[4];
    ULONG MethodNameAsUlong;
  };
  ULONG Size;
  ULONG ArgumentCount;
  ACPI_METHOD_ARGUMENT Argument[1];
} ACPI_EVAL_INPUT_BUFFER_COMPLEX, *PACPI_EVAL_INPUT_BUFFER_COMPLEX;

typedef struct _ACPI_EVAL_OUTPUT_BUFFER {
  ULONG Signature;
  ULONG Length;
  ULONG Count;
  ACPI_METHOD_ARGUMENT Argument[1];
} ACPI_EVAL_OUTPUT_BUFFER, *PACPI_EVAL_OUTPUT_BUFFER;

typedef struct _ACPI_EVAL_INPUT_BUFFER {
  ULONG Signature;
  union {
    UCHAR MethodName[4];
    ULONG MethodNameAsUlong;
  };
} ACPI_EVAL_INPUT_BUFFER, *PACPI_EVAL_INPUT_BUFFER;

typedef struct _ACPI_EVAL_INPUT_BUFFER_SIMPLE_INTEGER {
  ULONG Signature;
  union {
    UCHAR MethodName[4];
    ULONG MethodNameAsUlong;
  };
  ULONG IntegerArgument;
} ACPI_EVAL_INPUT_BUFFER_SIMPLE_INTEGER, *PACPI_EVAL_INPUT_BUFFER_SIMPLE_INTEGER;

DXGKIT_ABI_END

#define ACPI_EVAL_INPUT_BUFFER_SIMPLE_INTEGER_SIGNATURE 0x49696541
#define ACPI_EVAL_INPUT_BUFFER_SIMPLE_STRING_SIGNATURE 0x53696541
/* An argument is its two-word head and its data, at least four bytes of it. */
#define ACPI_METHOD_ARGUMENT_LENGTH(size) \
  (FIELD_OFFSET(ACPI_METHOD_ARGUMENT, Data) + ((size) > sizeof(ULONG) ? (size) : sizeof(ULONG)))
#define ACPI_METHOD_ARGUMENT_LENGTH_FROM_ARGUMENT(argument) \
  (ACPI_METHOD_ARGUMENT_LENGTH(((PACPI_METHOD_ARGUMENT)(argument))->DataLength))
#define ACPI_METHOD_NEXT_ARGUMENT(argument)           \
  ((PACPI_METHOD_ARGUMENT)((PUCHAR)(argument) +       \
                           ACPI_METHOD_ARGUMENT_LENGTH_FROM_ARGUMENT(argument)))

#endif  /* DXGKIT_ABI_ACPIIOCT_H_ */
