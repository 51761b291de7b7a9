// Finding memory, and counting what an access costs.
#include <algorithm>

#include "memory.h"

namespace sim {

int space_of(uint64_t a) {
  if (a - kSharedWindow < kWindowBytes) return kShared;
  if (a - kLocalWindow < kWindowBytes) return kLocal;
  if (a - kParamWindow < kWindowBytes) return kParam;
  if (a - kConstWindow < kWindowBytes) return kConst;
  return kGlobal;
}

GlobalBuffer *Machine::find(uint64_t address) {
  if (last_buffer < buffers.size() && address - buffers[last_buffer].address < buffers[last_buffer].size)
    return &buffers[last_buffer];
  auto it = std::upper_bound(buffers.begin(), buffers.end(), address,
                             [](uint64_t a, const GlobalBuffer &b) { return a < b.address; });
  if (it == buffers.begin()) return nullptr;
  --it;
  if (address - it->address >= it->size) return nullptr;
  last_buffer = size_t(it - buffers.begin());
  return &*it;
}

static std::string nearest(Machine &m, uint64_t address, uint64_t bytes) {
  const GlobalBuffer *best = nullptr;
  uint64_t distance = ~0ull;
  for (const GlobalBuffer &b : m.buffers) {
    uint64_t end = b.address + b.size;
    uint64_t d = address < b.address ? b.address - address : address >= end ? address - end : 0;
    if (d < distance) distance = d, best = &b;
  }
  if (!best) return format("address 0x%llx: no buffer is allocated", (unsigned long long)address);
  long long at = (long long)(address - best->address);
  if (distance > (1ull << 32))
    return format("%llu bytes at address 0x%llx, which is no buffer", (unsigned long long)bytes, (unsigned long long)address);
  return format("%llu bytes at byte %lld of '%s', which has %llu bytes", (unsigned long long)bytes, at, best->name,
                (unsigned long long)best->size);
}

bool Locator::look_up(uint64_t address, uint64_t bytes, int lane) {
  Machine &m = *w_.m;
  Block &own = *w_.block;
  int space = space_ == kGeneric ? space_of(address) : space_;
  uint64_t base = space_ == kGeneric ? address & ~(kWindowBytes - 1) : 0, local = address - base;
  region_ = Region();
  const char *verb = write_ ? "writes" : "reads";
  if (space == kShared) {
    uint64_t rank = local >> kRankShift, count = own.cluster->blocks.size();
    if (rank >= count) {
      m.report("out-of-bounds", format("%s shared memory of block rank %llu in a cluster of %llu", verb,
                                       (unsigned long long)rank, (unsigned long long)count), &w_, lane);
      return false;
    }
    Block &b = own.cluster->blocks[rank];
    if (b.live_warps == 0 && &b != &own) {
      m.report("pending-at-exit", format("%s shared memory of block rank %llu, which has exited", verb, (unsigned long long)rank), &w_, lane);
      return false;
    }
    region_.low = base + (rank << kRankShift) + kSharedStart;
    region_.size = b.shared.size() - kSharedStart;
    region_.host = b.shared.data() + kSharedStart;
    region_.shadow = m.detect ? &b.shadow : nullptr;
    region_.shadow_offset = kSharedStart;
    region_.shared_of = &b;
    if (region_.holds(address, bytes)) return true;
    m.report("out-of-bounds", format("%s %llu bytes at shared byte %lld; the block has %llu bytes (from %u)", verb,
                                     (unsigned long long)bytes, (long long)(local & ((1 << kRankShift) - 1)),
                                     (unsigned long long)region_.size, kSharedStart), &w_, lane);
    return false;
  }
  if (space == kGlobal) {
    GlobalBuffer *b = m.find(address);
    if (b && address - b->address + bytes <= b->size) {
      region_.low = b->address, region_.size = b->size, region_.host = b->data, region_.writable = b->writable;
      if (b->tracked) region_.shadow = &b->shadow, region_.shadow_offset = b->address & 15;
      return true;
    }
    m.report("out-of-bounds", std::string(verb) + " " + nearest(m, address, bytes), &w_, lane);
    return false;
  }
  std::vector<uint8_t> *store = space == kParam ? &m.params : space == kConst ? &m.constant_memory : &own.locals;
  region_.low = base;
  region_.host = store->data();
  region_.size = store->size();
  region_.writable = space == kLocal;
  if (space == kLocal) {
    region_.size = m.local_bytes;
    region_.host = store->data() + size_t(w_.index * kLanes + lane) * m.local_bytes;
  }
  if (region_.holds(address, bytes)) return true;
  static const char *names[] = {"generic", "global", "shared", "local", "parameter", "constant"};
  m.report("out-of-bounds", format("%s %llu bytes at byte %llu of %s memory, which has %llu", verb, (unsigned long long)bytes,
                                   (unsigned long long)local, names[space], (unsigned long long)region_.size), &w_, lane);
  return false;
}

Place Locator::at(uint64_t address, uint64_t bytes, int lane, uint64_t align) {
  if (address & (align - 1)) {
    w_.m->report("misaligned", format("address 0x%llx is not a multiple of %llu", (unsigned long long)address,
                                      (unsigned long long)align), &w_, lane);
    return {};
  }
  bool cached = region_.holds(address, bytes) && space_ != kLocal && !(space_ == kGeneric && space_of(address) == kLocal);
  if (!cached && !look_up(address, bytes, lane)) {
    region_ = Region();
    return {};
  }
  if (write_ && !region_.writable) {
    const GlobalBuffer *b = space_of(address) == kGlobal ? w_.m->find(address) : nullptr;
    w_.m->report("read-only", format("writes to %s, which is read-only", b ? b->name : "parameter or constant memory"), &w_, lane);
    return {};
  }
  uint64_t offset = address - region_.low;
  return {region_.host + offset, &region_, region_.shadow_offset + offset};
}

void Gatherer::add(const Place &p, unsigned bytes, int lane) {
  Shadow *shadow = p.region->shadow;
  if (!shadow) return;
  uint64_t granule = p.offset / 16;
  unsigned start = unsigned(p.offset & 15);
  unsigned step = unsigned(__builtin_ctz(bytes));
  if (start + bytes > 16) {
    // A vector access that is not 16-byte aligned by itself cannot happen; wider ones are added piecewise.
    return;
  }
  uint16_t mask = uint16_t(((1u << bytes) - 1) << start);
  if (shadow == shadow_ && granule == granule_) {
    if (lane == last_ + 1 && start == unsigned(start_) + unsigned(lane - first_) * bytes && step == unsigned(step_) && !many_) {
      bytes_ = uint16_t(bytes_ | mask), last_ = lane;
      return;
    }
    if (mask == bytes_ && !a_.write) {
      many_ = true, last_ = lane;
      return;
    }
  }
  flush();
  shadow_ = shadow, granule_ = granule, bytes_ = mask;
  first_ = last_ = lane, step_ = int(step), start_ = int(start), many_ = false;
}

void Gatherer::flush() {
  if (!shadow_) return;
  a_.stamp.lanes = many_ ? kManyLanes : lane_pattern(first_, step_, start_);
  shadow_->touch(m_, granule_, bytes_, a_);
  shadow_ = nullptr;
}

// Wavefronts: passes of 32 banks of 4 bytes. Lanes that read the same word share it. Accesses of 8 and 16 bytes go
// in halves and quarters of the warp, unless all their words fit in one pass.
void count_shared(Machine &m, const Inst &i, const uint64_t *address, Mask mask, unsigned bytes) {
  unsigned words = bytes < 4 ? 1 : bytes / 4, lanes = kLanes / words;
  uint64_t seen[32][4];
  uint64_t passes = 0;
  unsigned parts = 0, worst_part = 1;
  for (unsigned part = 0; part < words; ++part) {
    uint64_t low = ~0ull, high = 0;
    for (unsigned l = part * lanes; l < (part + 1) * lanes; ++l)
      if (mask >> l & 1) low = std::min(low, address[l]), high = std::max(high, address[l] + bytes);
    if (high == 0) continue;
    if (high - low <= 128 && (bytes >= 4 || low / 4 + 31 >= (high - 1) / 4)) {
      // Within 128 bytes no bank holds two of the words.
      ++passes, ++parts;
      continue;
    }
    uint8_t depth[32] = {};
    std::vector<uint64_t> spill[1];
    unsigned worst = 0;
    for (unsigned l = part * lanes; l < (part + 1) * lanes; ++l) {
      if (!(mask >> l & 1)) continue;
      for (unsigned k = 0; k < words; ++k) {
        uint64_t word = address[l] / 4 + k;
        unsigned bank = unsigned(word & 31);
        bool known = false;
        for (unsigned d = 0; d < depth[bank] && d < 4; ++d) known |= seen[bank][d] == word;
        if (!known && depth[bank] >= 4) known = std::find(spill->begin(), spill->end(), word) != spill->end();
        if (known) continue;
        if (depth[bank] < 4) seen[bank][depth[bank]] = word;
        else spill->push_back(word);
        ++depth[bank];
        worst = std::max(worst, unsigned(depth[bank]));
      }
    }
    passes += worst;
    parts += worst > 0;
    worst_part = std::max(worst_part, worst);
  }
  if (words > 1 && worst_part == 1 && passes > 1) {
    // Quarters that read the same words need them once.
    uint64_t first = ~0ull, last = 0;
    for (int l = 0; l < kLanes; ++l)
      if (mask >> l & 1) first = std::min(first, address[l]), last = std::max(last, address[l] + bytes);
    if (last - first <= 128) passes = 1;
  }
  m.wavefronts[size_t(i.index)] += passes;
  m.ideal_wavefronts[size_t(i.index)] += std::min<uint64_t>(passes, std::max(1u, parts));
}

void count_global(Machine &m, const Inst &i, const uint64_t *address, Mask mask, unsigned bytes) {
  uint64_t sectors[64];
  unsigned count = 0, lanes = 0;
  for (int l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    ++lanes;
    uint64_t s = address[l] / 32;
    if (count && sectors[count - 1] == s) continue;
    bool known = false;
    for (unsigned k = 0; k < count; ++k) known |= sectors[k] == s;
    if (!known) sectors[count++] = s;
  }
  m.sectors[size_t(i.index)] += count;
  m.ideal_sectors[size_t(i.index)] += std::min(count, (lanes * bytes + 31) / 32);
}

}  // namespace sim
