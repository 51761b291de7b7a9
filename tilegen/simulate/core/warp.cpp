// Operations between the lanes of a warp, and special registers (PTX ISA 9.7.9.6, 9.7.13, 10).
#include "lanes.h"

namespace sim {
namespace {

// Waits until every lane of the member mask that is alive has come; false if it has to wait.
bool gathered(Warp &w, Mask m, Mask members, const char *what) {
  Mask missing = members & w.alive & ~m;
  if (!missing) return true;
  w.block_on(format("%s waits for lanes 0x%08x of its member mask 0x%08x", what, missing, members));
  return false;
}
Mask member_mask(const Warp &w, const Inst &i, Mask m, int slot) { return w.in<uint32_t>(i.a[slot])[w.first_lane(m)]; }
bool ready(Warp &w, const Inst &i, Mask m, int slot, const char *what) {
  Mask members = member_mask(w, i, m, slot);
  if (m & ~members) {
    w.m->report("divergence", format("%s: lanes 0x%08x run it and are not in its member mask 0x%08x", what, m & ~members, members),
                &w, w.first_lane(m & ~members));
    return true;
  }
  return gathered(w, m, members, what);
}

// a: destination, predicate (or -1), value, lane operand, clamp, member mask.
template <int kMode>
void shfl(Warp &w, const Inst &i, Mask m) {
  if (!ready(w, i, m, 5, "shfl.sync")) return;
  uint32_t a[kLanes];
  std::memcpy(a, w.in<uint32_t>(i.a[2]), sizeof a);
  const uint32_t *b = w.in<uint32_t>(i.a[3]), *c = w.in<uint32_t>(i.a[4]);
  uint32_t result[kLanes];
  Mask inside = 0;
  for (int l = 0; l < kLanes; ++l) {
    int bval = int(b[l] & 31), cval = int(c[l] & 31), segment = int(c[l] >> 8 & 31);
    int top = (l & segment) | (cval & ~segment), low = l & segment, j = 0;
    bool p = false;
    if (kMode == 0) j = l - bval, p = j >= top;
    if (kMode == 1) j = l + bval, p = j <= top;
    if (kMode == 2) j = l ^ bval, p = j <= top;
    if (kMode == 3) j = low | (bval & ~segment), p = j <= top;
    if (!p) j = l;
    inside |= Mask(p) << l;
    result[l] = a[j];
    if ((m >> l & 1) && p && !(m >> j & 1))
      w.m->report("divergence", format("shfl.sync: lane %d reads lane %d, which does not take part", l, j), &w, l);
  }
  each_lane(w.out<uint32_t>(i.a[0]), m, [&](int l) { return result[l]; });
  if (i.a[1] >= 0) w.preds[i.a[1]] = (w.preds[i.a[1]] & ~m) | (inside & m);
}

// a: destination, source predicate, member mask. Results are predicates but for ballot.
template <int kMode>
void vote(Warp &w, const Inst &i, Mask m) {
  if (!ready(w, i, m, 2, "vote.sync")) return;
  Mask p = w.pred(i.a[1]) & m;
  if (kMode == 3) {
    each_lane(w.out<uint32_t>(i.a[0]), m, [=](int) { return p; });
    return;
  }
  bool r = kMode == 0 ? p == m : kMode == 1 ? p != 0 : p == m || p == 0;
  w.preds[i.a[0]] = r ? w.preds[i.a[0]] | m : w.preds[i.a[0]] & ~m;
}

// a: destination or -1, predicate, member mask.
void elect(Warp &w, const Inst &i, Mask m) {
  if (!ready(w, i, m, 2, "elect.sync")) return;
  int leader = w.first_lane(m);
  if (w.m->adversarial) {
    // The same lane for the same mask; which one, PTX leaves open.
    int skip = int((m * 2654435761u >> 8) % uint32_t(__builtin_popcount(m)));
    if (__builtin_popcount(m) > 1 && skip == 0) skip = 1;
    Mask rest = m;
    while (skip--) rest &= rest - 1;
    leader = __builtin_ctz(rest);
  }
  if (i.a[0] >= 0) each_lane(w.out<uint32_t>(i.a[0]), m, [=](int) { return uint32_t(leader); });
  w.preds[i.a[1]] = (w.preds[i.a[1]] & ~m) | 1u << leader;
}

template <class T, bool kAll>
void match(Warp &w, const Inst &i, Mask m) {
  if (!ready(w, i, m, 3, "match.sync")) return;
  const T *a = w.in<T>(i.a[2]);
  uint32_t r[kLanes] = {};
  bool same = true;
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    for (int k = 0; k < kLanes; ++k)
      if (m >> k & 1) r[l] |= Mask(a[k] == a[l]) << k;
    same &= r[l] == m;
  }
  each_lane(w.out<uint32_t>(i.a[0]), m, [&](int l) { return kAll ? (same ? m : 0) : r[l]; });
  if (i.a[1] >= 0) w.preds[i.a[1]] = same ? w.preds[i.a[1]] | m : w.preds[i.a[1]] & ~m;
}

template <class T, int kOp>
void redux(Warp &w, const Inst &i, Mask m) {
  if (!ready(w, i, m, 2, "redux.sync")) return;
  const T *a = w.in<T>(i.a[1]);
  T r = a[w.first_lane(m)];
  for (int l = w.first_lane(m) + 1; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    T v = a[l];
    r = kOp == 0 ? T(r + v) : kOp == 1 ? (v < r ? v : r) : kOp == 2 ? (v > r ? v : r) : kOp == 3 ? T(r & v) : kOp == 4 ? T(r | v) : T(r ^ v);
  }
  each_lane(w.out<T>(i.a[0]), m, [=](int) { return r; });
}

void activemask(Warp &w, const Inst &i, Mask m) {
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int) { return m; });
}
void bar_warp(Warp &w, const Inst &i, Mask m) {
  if (!ready(w, i, m, 1, "bar.warp.sync")) return;
  warp_sync(w);
}

// imm: which register, see lower/control.py.
void special(Warp &w, const Inst &i, Mask m) {
  const Block &b = *w.block;
  const Machine &k = *w.m;
  uint32_t *d = w.out<uint32_t>(i.a[0]);
  int what = int(i.imm), axis = what % 4;
  const uint32_t *bd = k.block_dim, *cd = k.cluster_dim;
  auto fill = [&](uint32_t v) { each_lane(d, m, [=](int) { return v; }); };
  switch (what / 4) {
    case 0: {  // tid
      uint32_t base = uint32_t(w.index * kLanes), x = bd[0], y = bd[1];
      each_lane(d, m, [=](int l) {
        uint32_t t = base + uint32_t(l);
        return axis == 0 ? t % x : axis == 1 ? t / x % y : t / x / y;
      });
      break;
    }
    case 1: fill(bd[axis]); break;                             // ntid
    case 2: fill(b.id[axis]); break;                           // ctaid
    case 3: fill(k.grid[axis]); break;                         // nctaid
    case 4: fill(b.id[axis] % cd[axis]); break;                // cluster_ctaid
    case 5: fill(cd[axis]); break;                             // cluster_nctaid
    case 6: fill(b.id[axis] / cd[axis]); break;                // clusterid
    case 7: fill(k.grid[axis] / cd[axis]); break;              // nclusterid
    case 8: each_lane(d, m, [](int l) { return uint32_t(l); }); break;  // laneid
    case 9: fill(uint32_t(w.index)); break;                    // warpid
    case 10: fill(k.warps); break;                             // nwarpid
    case 11: fill(b.rank); break;                              // cluster_ctarank
    case 12: fill(k.cluster_size); break;                      // cluster_nctarank
    case 13: fill(k.dynamic_shared); break;
    case 14: fill(k.shared_bytes); break;
    case 15: fill(b.linear % 132); break;                      // smid
    case 16: fill(132); break;                                 // nsmid
    case 17: each_lane(d, m, [=](int l) {                      // lanemask eq, le, lt, ge
        uint32_t bit = 1u << l;
        return axis == 0 ? bit : axis == 1 ? bit | (bit - 1) : axis == 2 ? bit - 1 : ~(bit - 1);
      });
      break;
    case 18: each_lane(d, m, [](int l) { return l == 31 ? 0u : ~0u << (l + 1); }); break;  // lanemask_gt
    case 19: fill(uint32_t(k.steps)); break;                   // clock, globaltimer_lo
    case 20: fill(uint32_t(k.steps >> 32)); break;
    case 21: each_lane(w.out<uint64_t>(i.a[0]), m, [&](int) { return k.steps; }); break;  // clock64, globaltimer
    case 22: fill(0); break;                                   // gridid
  }
}
// Address of a shared variable in the block's window. imm: offset.
template <class T>
void shared_address(Warp &w, const Inst &i, Mask m) {
  T v = T((uint64_t(w.block->rank) << kRankShift) + uint64_t(i.imm));
  each_lane(w.out<T>(i.a[0]), m, [=](int) { return v; });
}
// mapa: a: destination, address, rank; imm 1: generic addresses.
template <class T>
void mapa(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]);
  const uint32_t *r = w.in<uint32_t>(i.a[2]);
  uint32_t count = w.m->cluster_size;
  Mask wrong = lane_bits(m, [=](int l) { return r[l] >= count; });
  if (wrong)
    w.m->report("out-of-bounds", format("mapa: block rank %u in a cluster of %u", r[w.first_lane(wrong)], count), &w, w.first_lane(wrong));
  constexpr T low = (T(1) << kRankShift) - 1;
  T base = i.imm ? T(kSharedWindow) : 0;
  each_lane(w.out<T>(i.a[0]), m, [=](int l) { return T(base | T(r[l]) << kRankShift | (a[l] & low)); });
}
template <class T>
void getctarank(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]);
  each_lane(w.out<uint32_t>(i.a[0]), m, [=](int l) { return uint32_t(a[l] >> kRankShift) & 255; });
}
// isspacep: a: predicate, address; imm: space. shared::cta asks for the own block's window.
void isspacep(Warp &w, const Inst &i, Mask m) {
  const uint64_t *a = w.in<uint64_t>(i.a[1]);
  int what = int(i.imm & 15);
  bool own = i.imm & 16;
  uint64_t rank = w.block->rank;
  Mask r = lane_bits(m, [=](int l) {
    uint64_t v = a[l];
    int s = v - kSharedWindow < kWindowBytes ? kShared : v - kLocalWindow < kWindowBytes ? kLocal
            : v - kParamWindow < kWindowBytes ? kParam : v - kConstWindow < kWindowBytes ? kConst : kGlobal;
    return s == what && (!own || ((v - kSharedWindow) >> kRankShift) == rank);
  });
  w.preds[i.a[0]] = (w.preds[i.a[0]] & ~m) | r;
}

SIM_OPS(warp) {
  add("shfl.up", shfl<0>, kControl), add("shfl.down", shfl<1>, kControl), add("shfl.bfly", shfl<2>, kControl), add("shfl.idx", shfl<3>, kControl);
  add("vote.all", vote<0>, kControl), add("vote.any", vote<1>, kControl), add("vote.uni", vote<2>, kControl), add("vote.ballot", vote<3>, kControl);
  add("elect", elect, kControl);
  add("match.any.b32", match<uint32_t, false>, kControl), add("match.any.b64", match<uint64_t, false>, kControl);
  add("match.all.b32", match<uint32_t, true>, kControl), add("match.all.b64", match<uint64_t, true>, kControl);
  add("redux.add.u32", redux<uint32_t, 0>, kControl), add("redux.min.u32", redux<uint32_t, 1>, kControl), add("redux.max.u32", redux<uint32_t, 2>, kControl);
  add("redux.add.s32", redux<uint32_t, 0>, kControl), add("redux.min.s32", redux<int32_t, 1>, kControl), add("redux.max.s32", redux<int32_t, 2>, kControl);
  add("redux.and.b32", redux<uint32_t, 3>, kControl), add("redux.or.b32", redux<uint32_t, 4>, kControl), add("redux.xor.b32", redux<uint32_t, 5>, kControl);
  add("activemask", activemask), add("bar.warp.sync", bar_warp, kControl);
  add("special", special), add("shared.address.b32", shared_address<uint32_t>), add("shared.address.b64", shared_address<uint64_t>);
  add("mapa.u32", mapa<uint32_t>), add("mapa.u64", mapa<uint64_t>);
  add("getctarank.u32", getctarank<uint32_t>), add("getctarank.u64", getctarank<uint64_t>);
  add("isspacep", isspacep);
}

}  // namespace
}  // namespace sim
