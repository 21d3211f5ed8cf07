/* nt_crt.h: what a driver imports from the C runtime inside the kernel.
 * Included by wdm.h and by the headers C names for these functions. Drivers only.
 */
#ifndef DXGKIT_ABI_DXGKIT_NT_CRT_H_
#define DXGKIT_ABI_DXGKIT_NT_CRT_H_

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#include <ntdef.h>
#include <stdarg.h>

DXGKIT_ABI_BEGIN

typedef USHORT wint_t;
typedef USHORT wctype_t;
#ifndef _CRT_SIZE_T_DEFINED
typedef size_t rsize_t;
typedef int errno_t;
#endif

void* CDECL memcpy(void* to, const void* from, size_t size);
void* CDECL memmove(void* to, const void* from, size_t size);
void* CDECL memset(void* to, int value, size_t size);
int CDECL memcmp(const void* a, const void* b, size_t size);
void* CDECL memchr(const void* text, int value, size_t size);
size_t CDECL strlen(const char* text);
size_t CDECL strnlen(const char* text, size_t size);
int CDECL strcmp(const char* a, const char* b);
int CDECL strncmp(const char* a, const char* b, size_t size);
int CDECL _stricmp(const char* a, const char* b);
int CDECL _strnicmp(const char* a, const char* b, size_t size);
char* CDECL strcpy(char* to, const char* from);
char* CDECL strncpy(char* to, const char* from, size_t size);
char* CDECL strcat(char* to, const char* from);
char* CDECL strncat(char* to, const char* from, size_t size);
char* CDECL strchr(const char* text, int value);
char* CDECL strrchr(const char* text, int value);
char* CDECL strstr(const char* text, const char* part);
size_t CDECL strspn(const char* text, const char* set);
errno_t CDECL strcpy_s(char* to, rsize_t size, const char* from);
errno_t CDECL strncpy_s(char* to, rsize_t size, const char* from, rsize_t count);
errno_t CDECL strcat_s(char* to, rsize_t size, const char* from);
errno_t CDECL memcpy_s(void* to, rsize_t size, const void* from, rsize_t count);
errno_t CDECL memmove_s(void* to, rsize_t size, const void* from, rsize_t count);
size_t CDECL wcslen(const wchar_t* text);
size_t CDECL wcsnlen(const wchar_t* text, size_t size);
int CDECL wcscmp(const wchar_t* a, const wchar_t* b);
int CDECL wcsncmp(const wchar_t* a, const wchar_t* b, size_t size);
int CDECL _wcsicmp(const wchar_t* a, const wchar_t* b);
int CDECL _wcsnicmp(const wchar_t* a, const wchar_t* b, size_t size);
wchar_t* CDECL wcscpy(wchar_t* to, const wchar_t* from);
wchar_t* CDECL wcsncpy(wchar_t* to, const wchar_t* from, size_t size);
wchar_t* CDECL wcscat(wchar_t* to, const wchar_t* from);
wchar_t* CDECL wcsncat(wchar_t* to, const wchar_t* from, size_t size);
wchar_t* CDECL wcschr(const wchar_t* text, wchar_t value);
wchar_t* CDECL wcsrchr(const wchar_t* text, wchar_t value);
wchar_t* CDECL wcsstr(const wchar_t* text, const wchar_t* part);
errno_t CDECL wcscpy_s(wchar_t* to, rsize_t size, const wchar_t* from);
errno_t CDECL wcsncpy_s(wchar_t* to, rsize_t size, const wchar_t* from, rsize_t count);
errno_t CDECL wcscat_s(wchar_t* to, rsize_t size, const wchar_t* from);
int CDECL sprintf(char* to, const char* format, ...);
int CDECL vsprintf(char* to, const char* format, va_list arguments);
int CDECL sprintf_s(char* to, size_t size, const char* format, ...);
int CDECL vsprintf_s(char* to, size_t size, const char* format, va_list arguments);
int CDECL swprintf(wchar_t* to, const wchar_t* format, ...);
int CDECL swprintf_s(wchar_t* to, size_t size, const wchar_t* format, ...);
int CDECL vswprintf_s(wchar_t* to, size_t size, const wchar_t* format, va_list arguments);
int CDECL _snprintf(char* to, size_t size, const char* format, ...);
int CDECL _snprintf_s(char* to, size_t size, size_t count, const char* format, ...);
int CDECL _vsnprintf(char* to, size_t size, const char* format, va_list arguments);
int CDECL _vsnprintf_s(char* to, size_t size, size_t count, const char* format, va_list arguments);
int CDECL _snwprintf(wchar_t* to, size_t size, const wchar_t* format, ...);
int CDECL _snwprintf_s(wchar_t* to, size_t size, size_t count, const wchar_t* format, ...);
int CDECL _vsnwprintf(wchar_t* to, size_t size, const wchar_t* format, va_list arguments);
int CDECL _vsnwprintf_s(wchar_t* to, size_t size, size_t count, const wchar_t* format,
                        va_list arguments);
int CDECL sscanf_s(const char* text, const char* format, ...);
int CDECL swscanf_s(const wchar_t* text, const wchar_t* format, ...);
int CDECL atoi(const char* text);
long CDECL atol(const char* text);
int CDECL _wtoi(const wchar_t* text);
unsigned long CDECL strtoul(const char* text, char** end, int base);
long CDECL strtol(const char* text, char** end, int base);
unsigned long CDECL wcstoul(const wchar_t* text, wchar_t** end, int base);
int CDECL rand(void);
void CDECL srand(unsigned int seed);
void CDECL qsort(void* base, size_t count, size_t size,
                 int(CDECL* compare)(const void* a, const void* b));
void* CDECL bsearch(const void* key, const void* base, size_t count, size_t size,
                    int(CDECL* compare)(const void* a, const void* b));
int CDECL abs(int value);
long CDECL labs(long value);
int CDECL toupper(int value);
int CDECL tolower(int value);
int CDECL isdigit(int value);
int CDECL isxdigit(int value);
int CDECL isspace(int value);
int CDECL isalpha(int value);
int CDECL isalnum(int value);
int CDECL isupper(int value);
int CDECL islower(int value);
int CDECL isprint(int value);
wint_t CDECL towupper(wint_t value);
wint_t CDECL towlower(wint_t value);
int CDECL iswdigit(wint_t value);
int CDECL iswalpha(wint_t value);
int CDECL iswspace(wint_t value);

unsigned int CDECL _rotl(unsigned int value, int shift);
unsigned int CDECL _rotr(unsigned int value, int shift);
unsigned short CDECL _byteswap_ushort(unsigned short value);
unsigned long CDECL _byteswap_ulong(unsigned long value);
unsigned long long CDECL _byteswap_uint64(unsigned long long value);

DXGKIT_ABI_END

#define _countof(array) (sizeof(array) / sizeof((array)[0]))
#define RtlUshortByteSwap(v) _byteswap_ushort(v)
#define RtlUlongByteSwap(v) _byteswap_ulong(v)
#define RtlUlonglongByteSwap(v) _byteswap_uint64(v)

#endif  /* DXGKIT_ABI_DXGKIT_NT_CRT_H_ */
