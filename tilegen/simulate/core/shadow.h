// Shadow memory: for each 16 bytes, who last wrote and who has read since, byte by byte where they differ.
#pragma once
#include <deque>

#include "clock.h"

namespace sim {

struct Machine;
struct Warp;

struct Access {
  Stamp stamp;
  const Knowledge *know = nullptr;
  const Warp *warp = nullptr;  // for messages and the same-lane rule
  bool write = false;
};

class Shadow {
 public:
  void reset(uint64_t bytes, bool initialised);
  // Record an access to some bytes of a granule (16 bytes), and report what it conflicts with.
  void touch(Machine &m, uint64_t granule, uint16_t bytes, const Access &a);
  // The same for a stretch of bytes.
  void range(Machine &m, uint64_t offset, uint64_t bytes, const Access &a);
  // Forget everything about a stretch (an mbarrier that was invalidated).
  void forget(uint64_t offset, uint64_t bytes);
  bool empty() const { return first_.empty(); }

  const char *name = "shared memory";
  uint64_t skew = 0;  // address of the buffer's first byte modulo 16: offsets in messages subtract it

 private:
  struct Entry {
    uint16_t bytes = 0;      // which bytes of the granule; 0 in an untouched first entry
    uint32_t more = 0;       // further concurrent readers
    Entry *next = nullptr;   // further entries of the same granule
    Stamp write, read;
  };
  struct Reader {
    Stamp stamp;
    uint32_t next;
  };

  void visit(Machine &m, Entry &e, uint64_t granule, const Access &a);
  bool ordered(const Stamp &s, const Entry &e, const Access &a) const;
  void conflict(Machine &m, const Entry &e, const Stamp &s, uint64_t granule, const Access &a, bool written);
  void add_reader(Entry &e, const Access &a);
  void drop_readers(Entry &e);
  void free_entry(Entry *e);
  Entry *new_entry();

  std::vector<Entry> first_;
  std::deque<Entry> pool_;
  std::vector<Reader> readers_;
  Entry *free_entries_ = nullptr;
  uint32_t free_readers_ = 0;
  bool initialised_ = false;
};

}  // namespace sim
