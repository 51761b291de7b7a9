// A team of threads as gcc's OpenMP code asks for it, in pthreads, whose ordering ThreadSanitizer sees.
#include <pthread.h>
#include <stdlib.h>

typedef struct {
  void (*work)(void *);
  void *data;
  int thread;
} Member;

static _Thread_local int own_thread = 0;
static int team = 1;
static pthread_barrier_t barrier;

int omp_get_thread_num(void) {
  return own_thread;
}

int omp_get_num_threads(void) {
  return team;
}

int omp_get_max_threads(void) {
  return 4;
}

void GOMP_barrier(void) {
  pthread_barrier_wait(&barrier);
}

static void *start(void *argument) {
  Member *member = argument;
  own_thread = member->thread;
  member->work(member->data);
  return NULL;
}

void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags) {
  (void)flags;
  team = threads > 0 ? (int)threads : omp_get_max_threads();
  pthread_barrier_init(&barrier, NULL, (unsigned)team);
  pthread_t *others = malloc((size_t)team * sizeof *others);
  Member *members = malloc((size_t)team * sizeof *members);
  for (int thread = 1; thread < team; ++thread) {
    members[thread] = (Member){work, data, thread};
    pthread_create(&others[thread], NULL, start, &members[thread]);
  }
  work(data);
  for (int thread = 1; thread < team; ++thread) {
    pthread_join(others[thread], NULL);
  }
  free(members);
  free(others);
  pthread_barrier_destroy(&barrier);
  team = 1;
}
