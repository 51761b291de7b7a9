// Calls a packed f32 GEMM, whose text is included, on memory that shows what it must not touch.
// Compiled with -DKERNEL_FILE and -DLAUNCH of the kernel; the first argument picks what is tried.
#define _GNU_SOURCE
#define QUOTE(name) #name
#define FILE_OF(name) QUOTE(name)
#include FILE_OF(KERNEL_FILE)

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static const int64_t kSizes[][3] = {{1, 1, 1},   {1, 9, 15},   {7, 5, 3},    {6, 64, 32},  {24, 64, 32},
                                    {25, 65, 33}, {50, 130, 97}, {13, 17, 0}, {0, 3, 4},    {3, 0, 4},
                                    {5, 15, 200}, {97, 15, 64},  {49, 129, 65}};
enum { kCount = (int)(sizeof kSizes / sizeof kSizes[0]) };

// An array that ends where an unmapped page begins.
static float *at_page_end(int64_t count) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t bytes = (size_t)count * sizeof(float);
  const size_t whole = (bytes + page - 1) / page * page + page;
  char *base = (char *)mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(base + whole - page, page, PROT_NONE);
  return (float *)(base + whole - page - bytes);
}

static float *exact_heap(int64_t count) {
  return (float *)malloc((size_t)count * sizeof(float));
}

static float value(int64_t i, int64_t j) {
  return (float)((i * 7 + j * 3) % 11 - 5);
}

// Multiply small whole numbers, whose sums are exact, and compare every element.
static int product(int64_t m, int64_t n, int64_t k, float *(*allocate)(int64_t), int threads) {
  float *a = allocate(m * k), *b = allocate(n * k), *c = allocate(m * n);
  for (int64_t i = 0; i < m * k; ++i) a[i] = value(i / k, i % k);
  for (int64_t i = 0; i < n * k; ++i) b[i] = value(i % k, i / k);
  for (int64_t i = 0; i < m * n; ++i) c[i] = 777;
  if (LAUNCH(m, n, k, a, k, b, k, c, n, threads) != 0) return 1;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[j * k + p];
      if (c[i * n + j] != sum) {
        printf("%dx%dx%d: c[%d,%d] = %g, not %g\n", (int)m, (int)n, (int)k, (int)i, (int)j,
               (double)c[i * n + j], (double)sum);
        return 1;
      }
    }
  }
  if (allocate == exact_heap) {
    free(a);
    free(b);
    free(c);
  }
  return 0;
}

static int all(float *(*allocate)(int64_t), int threads) {
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) {
    wrong += product(kSizes[i][0], kSizes[i][1], kSizes[i][2], allocate, threads);
  }
  return wrong;
}

static void *on_small_stack(void *wrong) {
  *(int *)wrong = all(exact_heap, 1) + product(200, 200, 200, exact_heap, 2);
  return NULL;
}

// Cells of one product on threads of our own, which a race detector understands.
struct Share {
  struct Call *call;
  struct Grid *grid;
  int thread, threads;
};

static void *some_cells(void *argument) {
  const struct Share *share = (const struct Share *)argument;
  const struct Memory bytes = memory_of(share->call);
  char *memory = (char *)aligned_alloc(kLine, bytes.panel + bytes.sums);
  for (int64_t cell = share->thread; cell < share->grid->rows * share->grid->cols;
       cell += share->threads) {
    take_cell(share->call, share->grid, cell, memory);
  }
  free(memory);
  return NULL;
}

static int cells_on_threads(void) {
  enum { kThreads = 4, kM = 61, kN = 300, kK = 70 };
  static float a[kM * kK], b[kN * kK], c[kM * kN];
  for (int i = 0; i < kM * kK; ++i) a[i] = value(i, 1);
  for (int i = 0; i < kN * kK; ++i) b[i] = value(1, i);
  struct Call call = {kM, kN, kK, a, kK, b, kK, {c, kN}};
  struct Grid grid = {3, 4};
  pthread_t threads[kThreads];
  struct Share shares[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    shares[i] = (struct Share){&call, &grid, i, kThreads};
    pthread_create(&threads[i], NULL, some_cells, &shares[i]);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kM * kN; ++i) {
    float sum = 0;
    for (int p = 0; p < kK; ++p) sum += a[i / kN * kK + p] * b[i % kN * kK + p];
    if (c[i] != sum) return 1;
  }
  return 0;
}

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "heap";
  int wrong = 0;
  if (strcmp(what, "heap") == 0) {
    wrong = all(exact_heap, 1) + all(exact_heap, 3);
  } else if (strcmp(what, "pages") == 0) {
    wrong = all(at_page_end, 1);
  } else if (strcmp(what, "many") == 0) {
    wrong = product(150, 400, 300, exact_heap, 16);
  } else if (strcmp(what, "cells") == 0) {
    wrong = cells_on_threads();
  } else if (strcmp(what, "stack") == 0) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    pthread_t thread;
    pthread_create(&thread, &attributes, on_small_stack, &wrong);
    pthread_join(thread, NULL);
  } else if (strcmp(what, "nested") == 0) {
#ifdef _OPENMP
    omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    wrong += product(200, 200, 200, exact_heap, 0) + product(200, 200, 200, exact_heap, 4);
#pragma omp parallel num_threads(2)
#pragma omp single
#pragma omp task shared(wrong)
    wrong += product(200, 200, 200, exact_heap, 0);
#endif
  }
  puts(wrong ? "wrong" : "right");
  return wrong != 0;
}
