/* excpt.h: structured exception handling, a part of the language for these compilers. */
#ifndef DXGKIT_ABI_EXCPT_H_
#define DXGKIT_ABI_EXCPT_H_

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#if defined(_WIN32)

#define EXCEPTION_EXECUTE_HANDLER 1
#define EXCEPTION_CONTINUE_SEARCH 0
#define EXCEPTION_CONTINUE_EXECUTION (-1)
#ifndef GetExceptionCode
#define GetExceptionCode _exception_code
#define GetExceptionInformation() ((struct _EXCEPTION_POINTERS*)_exception_info())
#define AbnormalTermination _abnormal_termination
#endif

#endif  /* _WIN32 */
#endif  /* DXGKIT_ABI_EXCPT_H_ */
