// Runs a kernel that `tilegen build -o DIR` compiled ahead of time: no compiler, no Python, no link step.
//
//   tilegen build gemm --target portable --dtype f32 --layout tt --tile 64x64x64 -o built
//   cc -Ibuilt product.c -ldl -o product
//   ./product built/libtilegen_gemm_f32_tt_64x64x64.so

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include "gemm_f32_tt_64x64x64.h"

// The type of the launcher as the header declares it, so that the compiler checks the call.
typedef __typeof__(tilegen_gemm_f32_tt_64x64x64) Gemm;

int main(int count, char **words) {
  if (count != 2) {
    fprintf(stderr, "usage: %s LIBRARY\n", words[0]);
    return 2;
  }
  void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  // POSIX lets dlsym's result be stored through a pointer to the function pointer.
  Gemm *gemm = NULL;
  *(void **)&gemm = dlsym(library, "tilegen_gemm_f32_tt_64x64x64");
  if (gemm == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }

  const float a[2 * 3] = {1, 2, 3, 4, 5, 6};
  const float b[3 * 2] = {1, 0, 0, 1, 1, 1};
  float c[2 * 2] = {0};
  const int status = gemm(2, 2, 3, a, 3, b, 2, c, 2, 1);
  printf("status %d: %g %g %g %g\n", status, c[0], c[1], c[2], c[3]);
  dlclose(library);
  return status;
}
