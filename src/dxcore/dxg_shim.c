/* LD_PRELOAD: a program that opens /dev/dxg gets the kernel of libdxcore.so, which lies beside this
 * library.
 *
 * The descriptor is one of /dev/null, so that everything else that is done with it works. Copies
 * (dup) and descriptors that were inherited through exec are not known. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DXG "/dev/dxg"
#define DESCRIPTORS 65536

static atomic_uchar is_dxg[DESCRIPTORS];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The library's requests, found at the first one. Null: it is not there, which standard error has
 * said. */
static int (*requests(void))(unsigned long, void*) {
  static _Atomic(void*) known;
  void* found = atomic_load(&known);
  if (found == NULL) {
    Dl_info here;
    char path[4096];
    if (dladdr((void*)&requests, &here) == 0) return NULL;
    const char* slash = strrchr(here.dli_fname, '/');
    const int folder = slash == NULL ? 0 : (int)(slash + 1 - here.dli_fname);
    snprintf(path, sizeof path, "%.*slibdxcore.so", folder, here.dli_fname);
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    found = library == NULL ? NULL : dlsym(library, "dxgkit_dxg_ioctl");
    if (found == NULL) fprintf(stderr, "dxgkit: %s: %s\n", DXG, dlerror());
    atomic_store(&known, found);
  }
  return (int (*)(unsigned long, void*))found;
}

/* By itself, so that the compiler takes no path for one that is never null: programs may pass null
 * and expect EFAULT. */
__attribute__((noipa)) static int is_device(const char* path) {
  return path != NULL && strcmp(path, DXG) == 0;
}

static int open_dxg(int flags) {
  const int descriptor = REAL(open)("/dev/null", O_RDWR | (flags & O_CLOEXEC));
  if (descriptor >= DESCRIPTORS) {
    REAL(close)(descriptor);
    errno = EMFILE;
    return -1;
  }
  if (descriptor >= 0) atomic_store(&is_dxg[descriptor], 1);
  return descriptor;
}

/* The mode, which is there only if a file may be made. */
#define MODE(flags)                                                   \
  __extension__({                                                     \
    mode_t mode = 0;                                                  \
    if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) { \
      va_list more;                                                   \
      va_start(more, flags);                                          \
      mode = va_arg(more, mode_t);                                    \
      va_end(more);                                                   \
    }                                                                 \
    mode;                                                             \
  })

int open(const char* path, int flags, ...) {
  if (is_device(path)) return open_dxg(flags);
  return REAL(open)(path, flags, MODE(flags));
}
int open64(const char* path, int flags, ...) {
  if (is_device(path)) return open_dxg(flags);
  return REAL(open64)(path, flags, MODE(flags));
}
int openat(int folder, const char* path, int flags, ...) {
  if (is_device(path)) return open_dxg(flags);
  return REAL(openat)(folder, path, flags, MODE(flags));
}
int openat64(int folder, const char* path, int flags, ...) {
  if (is_device(path)) return open_dxg(flags);
  return REAL(openat64)(folder, path, flags, MODE(flags));
}

int close(int descriptor) {
  if (descriptor >= 0 && descriptor < DESCRIPTORS) atomic_store(&is_dxg[descriptor], 0);
  return REAL(close)(descriptor);
}

int ioctl(int descriptor, unsigned long request, ...) {
  va_list more;
  va_start(more, request);
  void* argument = va_arg(more, void*);
  va_end(more);
  if (descriptor < 0 || descriptor >= DESCRIPTORS || atomic_load(&is_dxg[descriptor]) == 0)
    return REAL(ioctl)(descriptor, request, argument);
  int (*call)(unsigned long, void*) = requests();
  if (call != NULL) return call(request, argument);
  errno = ENODEV;
  return -1;
}
