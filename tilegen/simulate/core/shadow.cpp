// The happens-before check itself. Method: vector clocks with the last write and the concurrent reads kept for each
// location (Flanagan and Freund, FastTrack, PLDI 2009), locations being sets of bytes in 16-byte granules.
#include "machine.h"

namespace sim {

void Shadow::reset(uint64_t bytes, bool initialised) {
  first_.assign((bytes + 15) / 16, Entry());
  pool_.clear();
  readers_.assign(1, Reader());
  free_entries_ = nullptr;
  free_readers_ = 0;
  initialised_ = initialised;
}

Shadow::Entry *Shadow::new_entry() {
  if (free_entries_) {
    Entry *e = free_entries_;
    free_entries_ = e->next;
    *e = Entry();
    return e;
  }
  pool_.emplace_back();
  return &pool_.back();
}

void Shadow::free_entry(Entry *e) {
  drop_readers(*e);
  e->next = free_entries_;
  free_entries_ = e;
}

void Shadow::drop_readers(Entry &e) {
  e.read.clock = 0;
  while (e.more) {
    uint32_t r = e.more;
    e.more = readers_[r].next;
    readers_[r].next = free_readers_;
    free_readers_ = r;
  }
}

// Program order of one lane, and of a lane's finished cp.async, needs no synchronisation.
static bool same_lane(const Stamp &s, uint16_t bytes, const Access &a) {
  if ((s.lanes | a.stamp.lanes) & kManyLanes) return false;
  int low = __builtin_ctz(bytes), high = 31 - __builtin_clz(uint32_t(bytes));
  return lane_of(s.lanes, low) == lane_of(a.stamp.lanes, low) && lane_of(s.lanes, high) == lane_of(a.stamp.lanes, high);
}

bool Shadow::ordered(const Stamp &s, const Entry &e, const Access &a) const {
  if (a.know->knows(s, a.stamp.cluster)) return true;
  if (s.cluster != a.stamp.cluster) return false;
  unsigned own = unsigned(s.dim) - a.warp->dim;
  if (own > 2 || (a.stamp.inst & kAsync)) return false;
  if (own == 2 && s.clock > a.warp->copy_done) return false;
  return same_lane(s, e.bytes, a);
}

void Shadow::conflict(Machine &m, const Entry &e, const Stamp &s, uint64_t granule, const Access &a, bool written) {
  const Cluster &c = *a.warp->block->cluster;
  std::string who = s.cluster == a.stamp.cluster ? c.dim_names[s.dim] : format("a block of cluster %u", s.cluster);
  unsigned own = unsigned(s.dim) - a.warp->dim;
  bool within = s.cluster == a.stamp.cluster && own < 2 && !((s.inst | a.stamp.inst) & kAsync);
  long long offset = (long long)(granule * 16 + __builtin_ctz(e.bytes)) - (long long)skew;
  m.report("race",
           format("%s of %s byte %lld is not ordered after the %s by %s%s", a.write ? "write" : "read", name, offset,
                  written ? "write" : "read", who.c_str(),
                  within ? ", another lane of the same warp: __syncwarp() is missing" : ""),
           a.warp, -1, int(s.inst & kInstBits));
}

void Shadow::add_reader(Entry &e, const Access &a) {
  const Stamp &n = a.stamp;
  if (!e.read.clock || (e.read.dim == n.dim && e.read.cluster == n.cluster && e.read.lanes == n.lanes)) {
    e.read = n;
    return;
  }
  if (!e.more && a.know->knows(e.read, n.cluster)) {
    e.read = n;
    return;
  }
  for (uint32_t r = e.more; r; r = readers_[r].next) {
    Stamp &s = readers_[r].stamp;
    if ((s.dim == n.dim && s.cluster == n.cluster && s.lanes == n.lanes) || a.know->knows(s, n.cluster)) {
      s = n;
      return;
    }
  }
  uint32_t r = free_readers_;
  if (r) {
    free_readers_ = readers_[r].next;
  } else {
    r = uint32_t(readers_.size());
    readers_.emplace_back();
  }
  readers_[r] = {n, e.more};
  e.more = r;
}

void Shadow::visit(Machine &m, Entry &e, uint64_t granule, const Access &a) {
  bool strong = a.stamp.inst & kStrong, async = a.stamp.inst & kAsync;
  const Stamp &w = e.write;
  if (w.clock) {
    if (w.inst & kBarrierObject) {
      if (!(a.stamp.inst & kBarrierObject))
        m.report("mbarrier", format("%s of byte %llu of shared memory, which holds an mbarrier",
                                    a.write ? "write" : "read", (unsigned long long)(granule * 16)),
                 a.warp, -1, int(w.inst & kInstBits));
    } else if (!(strong && (w.inst & kStrong)) && !ordered(w, e, a)) {
      conflict(m, e, w, granule, a, true);
    } else if (async && !(w.inst & kAsync) && !a.know->has_fenced(w, a.stamp.cluster)) {
      m.report("proxy",
               format("the async proxy %s byte %llu of %s, written through the generic proxy by %s, with no "
                      "fence.proxy.async in between",
                      a.write ? "overwrites" : "reads", (unsigned long long)(granule * 16), name,
                      a.warp->block->cluster->dim_names[w.dim].c_str()),
               a.warp, -1, int(w.inst & kInstBits));
    }
  } else if (!a.write && !initialised_) {
    m.report("uninitialised", format("read of %s byte %lld, which nothing has written", name,
                                     (long long)(granule * 16 + __builtin_ctz(e.bytes)) - (long long)skew),
             a.warp, -1);
  }
  if (!a.write) {
    add_reader(e, a);
    return;
  }
  if (e.read.clock) {
    if (!(strong && (e.read.inst & kStrong)) && !ordered(e.read, e, a)) conflict(m, e, e.read, granule, a, false);
    for (uint32_t r = e.more; r; r = readers_[r].next)
      if (!(strong && (readers_[r].stamp.inst & kStrong)) && !ordered(readers_[r].stamp, e, a))
        conflict(m, e, readers_[r].stamp, granule, a, false);
    drop_readers(e);
  }
  e.write = a.stamp;
}

void Shadow::touch(Machine &m, uint64_t granule, uint16_t bytes, const Access &a) {
  Entry &head = first_[granule];
  if (head.bytes == bytes && !head.next) return visit(m, head, granule, a);
  if (!head.bytes) {
    head.bytes = bytes;
    return visit(m, head, granule, a);
  }
  uint16_t left = bytes;
  Entry *keeper = nullptr, *previous = nullptr;
  for (Entry *e = &head; e;) {
    uint16_t overlap = e->bytes & bytes;
    if (overlap) {
      left = uint16_t(left & ~overlap);
      if (overlap != e->bytes) {
        // Split: the bytes outside the access keep their history in an entry of their own.
        Entry *rest = new_entry();
        rest->bytes = uint16_t(e->bytes & ~overlap);
        rest->write = e->write, rest->read = e->read;
        for (uint32_t r = e->more; r; r = readers_[r].next) {
          readers_.push_back({readers_[r].stamp, rest->more});
          rest->more = uint32_t(readers_.size() - 1);
        }
        rest->next = e->next, e->next = rest, e->bytes = overlap;
      }
      visit(m, *e, granule, a);
      if (a.write && keeper) {
        // After a write the overlapped entries are alike: fold them into one.
        keeper->bytes = uint16_t(keeper->bytes | e->bytes);
        previous->next = e->next;
        free_entry(e);
        e = previous->next;
        continue;
      }
      if (!keeper) keeper = e;
    }
    previous = e;
    e = e->next;
  }
  if (!left) return;
  Entry *fresh = new_entry();
  fresh->bytes = left;
  fresh->next = head.next;
  head.next = fresh;
  visit(m, *fresh, granule, a);
}

void Shadow::range(Machine &m, uint64_t offset, uint64_t bytes, const Access &a) {
  for (uint64_t end = offset + bytes; offset < end;) {
    uint64_t granule = offset / 16, stop = std::min(end, granule * 16 + 16);
    touch(m, granule, uint16_t(((1u << (stop - offset)) - 1) << (offset & 15)), a);
    offset = stop;
  }
}

void Shadow::forget(uint64_t offset, uint64_t bytes) {
  for (uint64_t g = offset / 16; g * 16 < offset + bytes; ++g) {
    uint16_t gone = 0;
    for (int b = 0; b < 16; ++b)
      if (g * 16 + uint64_t(b) >= offset && g * 16 + uint64_t(b) < offset + bytes) gone = uint16_t(gone | 1 << b);
    for (Entry *e = &first_[g]; e; e = e->next)
      if (e->bytes & gone) e->write.clock = 0, drop_readers(*e);
  }
}

}  // namespace sim
