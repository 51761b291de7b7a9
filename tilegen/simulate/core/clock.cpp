// What the lanes of a warp know to have happened, and how they pass it on.
//
// A warp has two views: that of all its lanes, and that of a lane that runs alone (an elected producer). The lanes
// learn of each other's memory accesses only where the warp synchronises; `Warp::clock` counts such epochs.
#include <cstdarg>

#include "machine.h"

namespace sim {

std::string format(const char *pattern, ...) {
  char text[1024];
  va_list args;
  va_start(args, pattern);
  vsnprintf(text, sizeof text, pattern, args);
  va_end(args);
  return text;
}

static bool alone(Mask m) { return (m & (m - 1)) == 0; }

const Knowledge &knowledge(const Warp &w, Mask m) { return alone(m) && w.solo_differs ? w.solo : w.all; }

Access access_of(Warp &w, Mask m, const Inst &i, bool write) {
  Access a;
  bool one = alone(m);
  a.stamp.dim = uint16_t(w.dim + one);
  a.stamp.clock = one ? w.solo_clock : w.clock;
  a.stamp.cluster = w.block->cluster->serial;
  a.stamp.inst = uint32_t(i.index);
  a.know = &knowledge(w, m);
  a.warp = &w;
  a.write = write;
  return a;
}

void acquire(Warp &w, Mask m, const Knowledge &k) {
  if (!w.m->detect) return;
  if (alone(m)) {
    if (!w.solo_differs) w.solo = w.all, w.solo_differs = true;
  } else {
    w.all.join_with(k);
  }
  if (w.solo_differs) w.solo.join_with(k);
}

void learn(Warp &w, Mask m, uint16_t dim, uint32_t clock) {
  if (!w.m->detect) return;
  if (alone(m)) {
    if (!w.solo_differs) w.solo = w.all, w.solo_differs = true;
  } else {
    raise(w.all.seen, dim, clock);
  }
  if (w.solo_differs) raise(w.solo.seen, dim, clock);
}

void release(Warp &w, Mask m, Knowledge &to) {
  if (!w.m->detect) return;
  to.join_with(knowledge(w, m));
  bool one = alone(m);
  if (!one && w.solo_differs) to.join_with(w.solo);
  if (!one || m == w.alive) {
    raise(to.seen, w.dim, w.clock++);
    raise(to.seen, uint32_t(w.dim + 2), w.copy_done);
  }
  if (one || m == w.alive) raise(to.seen, uint32_t(w.dim + 1), w.solo_clock++);
}

void warp_sync(Warp &w) {
  if (!w.m->detect) return;
  if (w.solo_differs) w.all.join_with(w.solo), w.solo_differs = false;
  raise(w.all.seen, w.dim, w.clock++);
  raise(w.all.seen, uint32_t(w.dim + 1), w.solo_clock++);
  raise(w.all.seen, uint32_t(w.dim + 2), w.copy_done);
}

void proxy_fence(Warp &w, Mask m) {
  if (!w.m->detect) return;
  bool one = alone(m);
  Knowledge &k = one && w.solo_differs ? w.solo : w.all;
  join(k.fenced, k.seen);
  // The fence covers the executing lanes' own accesses as well, which no synchronisation has published yet.
  if (one) {
    raise(k.fenced, uint32_t(w.dim + 1), w.solo_clock++);
  } else {
    raise(k.fenced, w.dim, w.clock++);
    if (m == w.alive) raise(k.fenced, uint32_t(w.dim + 1), w.solo_clock++);
    if (w.solo_differs) join(w.solo.fenced, k.fenced);
  }
}

uint16_t new_dim(Cluster &c, std::string name) {
  c.dim_names.push_back(std::move(name));
  return uint16_t(c.dim_names.size() - 1);
}

// Ordering through global memory (PTX ISA 8, memory consistency): a fence makes earlier events publishable by later
// strong stores and atomics; a strong load makes what it saw known at the next fence, or at once if it acquires.
void gpu_fence(Warp &w, Mask m) {
  if (!w.m->detect) return;
  if (w.pending_acquire) {
    acquire(w, m, *w.pending_acquire);
    w.pending_acquire.reset();
  }
  auto copy = std::make_shared<Knowledge>();
  release(w, m, *copy);
  w.fence_copy = copy;
}

void publish_global(Warp &w, Mask m, uint64_t address, bool release_now) {
  if (!w.m->detect || (!release_now && !w.fence_copy)) return;
  Knowledge now;
  if (release_now) release(w, m, now);
  const Knowledge &k = release_now ? now : *w.fence_copy;
  Knowledge &object = w.m->sync_objects[address];
  if (!object.foreign) object.foreign = std::make_shared<Foreign>();
  uint32_t serial = w.block->cluster->serial;
  for (size_t d = 0; d < k.seen.size(); ++d) {
    if (!k.seen[d]) continue;
    uint32_t &mine = (*object.foreign)[foreign_key(serial, uint32_t(d))];
    if (mine < k.seen[d]) mine = k.seen[d];
  }
  if (k.foreign)
    for (auto &[key, clock] : *k.foreign) {
      uint32_t &mine = (*object.foreign)[key];
      if (mine < clock) mine = clock;
    }
}

void acquire_global(Warp &w, Mask m, uint64_t address, bool acquire_now) {
  if (!w.m->detect || w.m->sync_objects.empty()) return;
  auto it = w.m->sync_objects.find(address);
  if (it == w.m->sync_objects.end()) return;
  Knowledge k;
  k.foreign = std::make_shared<Foreign>(*it->second.foreign);
  uint32_t serial = w.block->cluster->serial;
  for (auto &[key, clock] : *k.foreign)
    if (key >> 16 == serial) raise(k.seen, uint32_t(key & 0xffff), clock);
  if (acquire_now) {
    acquire(w, m, k);
  } else {
    if (!w.pending_acquire) w.pending_acquire = std::make_shared<Knowledge>();
    w.pending_acquire->join_with(k);
  }
}

}  // namespace sim
