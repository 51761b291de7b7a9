// Runs warps in turn or at random, keeps lanes together (lowest program counter first), notices when nothing moves.
#include <algorithm>
#include <list>

#include "machine.h"

namespace sim {
namespace {

constexpr uint64_t kQuantum = 4096;             // instructions of a warp before the next one's turn
// Steps without a change that a spinning thread could see, until something else is started, and until it is a hang.
constexpr uint64_t kRestlessSteps = 20'000, kIdleSteps = 8'000'000;
constexpr size_t kMostResident = 264;           // clusters started to let a spinning one go on

uint64_t now(const Warp &w) { return w.block->cluster->progress + w.m->progress; }

Group *pick(Warp &w) {
  uint64_t t = now(w);
  Group *best = nullptr;
  for (Group &g : w.groups)
    if (!(g.blocked && g.seen == t) && (!best || g.pc < best->pc)) best = &g;
  return best;
}

// Joins groups that have come to the same place.
void merge(Warp &w, Group *&g) {
  for (size_t k = 0; k < w.groups.size(); ++k) {
    Group &o = w.groups[k];
    if (&o == g || o.pc != g->pc || o.arrived || g->arrived) continue;
    g->mask |= o.mask;
    g->blocked = false;
    size_t mine = size_t(g - w.groups.data());
    w.groups.erase(w.groups.begin() + long(k));
    g = &w.groups[mine - (k < mine)];
    k = size_t(-1);
  }
}

void end_lanes(Warp &w, Group *g) {
  w.alive &= ~w.taken;
  g->mask &= ~w.taken;
  ++w.block->cluster->progress;
  if (g->mask) {
    ++g->pc;
    return;
  }
  w.groups.erase(w.groups.begin() + (g - w.groups.data()));
  if (w.alive) return;
  Block &b = *w.block;
  Cluster &c = *b.cluster;
  --b.live_warps, --c.live_warps;
  finish_copies(w, w.copy_clock);
  if (!w.wgmma.empty())
    w.m->report_at("pending-at-exit", "the warp exits with wgmma operations that it has not waited for",
                   w.wgmma.back().inst->index, -1, int(b.linear), w.index, -1);
  if (b.live_warps) check_barriers_after_exit(b);
  else finish_block(b);
  if (c.live_warps) check_cluster_barrier(c);
}

}  // namespace

uint64_t step_warp(Warp &w, uint64_t quantum) {
  Machine &m = *w.m;
  const Inst *program = m.program.data();
  uint64_t *executions = m.executions.data();
  uint64_t left = quantum;
  while (left && !m.stop) {
    Group *g = pick(w);
    if (!g) break;
    g->blocked = false;
    if (w.groups.size() > 1) merge(w, g);
    w.cur = g;
    bool together = w.groups.size() == 1;
    while (left) {
      const Inst &i = program[g->pc];
      Mask mask = g->mask;
      if (i.guard >= 0) mask &= w.pred(i.guard);
      --left;
      if (mask) {
        m.current = i.index;
        ++executions[i.index];
        if (i.flags & kTouches) touch_registers(w, i, mask);
        i.run(w, i, mask);
        if (i.flags & kControl) {
          Warp::Status status = w.status;
          w.status = Warp::kNext;
          if (status == Warp::kNext) {
            ++g->pc;
          } else if (status == Warp::kJump) {
            Mask rest = g->mask & ~w.taken;
            uint32_t next = g->pc + 1;
            g->pc = w.target;
            if (rest) {
              g->mask = w.taken;
              Group other;
              other.pc = next, other.mask = rest;
              w.groups.push_back(other);
              break;
            }
          } else if (status == Warp::kSplit) {
            g->mask &= ~w.taken;
            Group other;
            other.pc = w.target, other.mask = w.taken;
            if (!g->mask) *g = other;
            else w.groups.push_back(other);
            break;
          } else if (status == Warp::kBlock) {
            --executions[i.index], ++left;
            g->blocked = true;
            g->seen = now(w);
            break;
          } else if (status == Warp::kYield) {
            ++g->pc;
            m.steps += quantum - left;
            return quantum - left;
          } else {
            if (status == Warp::kExit) end_lanes(w, g);
            break;
          }
        } else {
          ++g->pc;
        }
      } else {
        ++g->pc;
      }
      if (!together) {
        size_t before = w.groups.size();
        merge(w, g);
        w.cur = g;
        if (before != w.groups.size()) {
          together = w.groups.size() == 1;
          if (!together) break;
        } else if (pick(w) != g) {
          break;
        }
      }
    }
  }
  m.steps += quantum - left;
  return quantum - left;
}

namespace {

std::unique_ptr<Cluster> launch(Machine &m, uint32_t serial) {
  auto c = std::make_unique<Cluster>();
  c->m = &m;
  c->serial = serial;
  const uint32_t *cd = m.cluster_dim;
  uint32_t gx = m.grid[0] / cd[0], gy = m.grid[1] / cd[1];
  uint32_t cx = serial % gx, cy = serial / gx % gy, cz = serial / gx / gy;
  c->blocks.resize(m.cluster_size);
  c->live_warps = m.cluster_size * m.warps;
  for (uint32_t r = 0; r < m.cluster_size; ++r) {
    Block &b = c->blocks[r];
    b.cluster = c.get();
    b.rank = r;
    b.id[0] = cx * cd[0] + r % cd[0], b.id[1] = cy * cd[1] + r / cd[0] % cd[1], b.id[2] = cz * cd[2] + r / cd[0] / cd[1];
    b.linear = b.id[0] + m.grid[0] * (b.id[1] + m.grid[1] * b.id[2]);
    b.shared.assign(kSharedStart + m.shared_bytes, 0xff);
    if (m.detect) b.shadow.reset(b.shared.size(), false);
    b.barrier_at.assign(b.shared.size() / 8 + 1, 0);
    if (!m.spare.empty()) {
      b.registers = std::move(m.spare.back());
      m.spare.pop_back();
    } else {
      b.registers.resize(size_t(m.register_bytes) * m.warps + 64);
    }
    b.predicates.assign(size_t(m.predicate_count) * m.warps, 0);
    b.locals.assign(size_t(m.local_bytes) * m.warps * kLanes, 0xff);
    b.live_warps = int(m.warps);
    b.wgmma_done.assign((m.warps + 3) / 4, 0);
    b.wgmma_dim.assign((m.warps + 3) / 4, -1);
    b.wgmma_checked.assign((m.warps + 3) / 4, 0);
    b.warps.resize(m.warps);
    uint8_t *regs = reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(b.registers.data()) + 63) & ~uintptr_t(63));
    for (uint32_t k = 0; k < m.warps; ++k) {
      Warp &w = b.warps[k];
      w.m = &m;
      w.block = &b;
      w.index = int(k);
      w.regs = regs + size_t(k) * m.register_bytes;
      w.consts = m.consts.data();
      w.preds = b.predicates.data() + size_t(k) * m.predicate_count;
      w.preds[1] = kFull;
      uint32_t lanes = std::min(32u, m.threads - k * 32);
      w.alive = lanes == 32 ? kFull : (1u << lanes) - 1;
      Group g;
      g.mask = w.alive;
      w.groups.push_back(g);
      std::string name = format("%swarp %u", m.cluster_size > 1 ? format("block rank %u ", r).c_str() : "", k);
      w.dim = new_dim(*c, name);
      new_dim(*c, name);
      new_dim(*c, "cp.async of " + name);
      w.in_flight.assign(m.wgmma_registers, 0);
      w.dirty.assign(m.wgmma_registers, 1);
    }
  }
  return c;
}

}  // namespace

void run(Machine &m) {
  uint32_t total = m.blocks_total / m.cluster_size, next = 0;
  size_t resident = m.random ? 1 + m.draw(3) : 1;
  std::list<std::unique_ptr<Cluster>> running;
  uint64_t last_seen = 0, idle_since = 0;
  std::vector<Warp *> order;
  while (!m.stop && (next < total || !running.empty())) {
    while (running.size() < resident && next < total) running.push_back(launch(m, next++));
    order.clear();
    for (auto &c : running)
      for (Block &b : c->blocks)
        for (Warp &w : b.warps)
          if (w.alive) order.push_back(&w);
    if (m.random) std::shuffle(order.begin(), order.end(), m.rng);
    uint64_t ran = 0;
    for (Warp *w : order) {
      ran += step_warp(*w, m.random ? 1 + m.draw(64) : kQuantum);
      Cluster &c = *w->block->cluster;
      if (m.random && !c.pending.empty() && m.draw(4) == 0) {
        size_t k = m.draw(c.pending.size());
        Pending p = std::move(c.pending[k]);
        c.pending.erase(c.pending.begin() + long(k));
        p.run();
        ++c.progress, ++ran;
      }
      if (m.stop) break;
    }
    uint64_t seen = m.progress;
    for (auto it = running.begin(); it != running.end();) {
      seen += (*it)->progress;
      if ((*it)->live_warps == 0) {
        while (!(*it)->pending.empty()) {
          Pending p = std::move((*it)->pending.front());
          (*it)->pending.pop_front();
          p.run();
        }
        for (Block &b : (*it)->blocks) m.spare.push_back(std::move(b.registers));
        ++m.progress;
        it = running.erase(it);
      } else {
        ++it;
      }
    }
    if (seen != last_seen) last_seen = seen, idle_since = m.steps;
    if (m.max_steps && m.steps > m.max_steps) {
      m.report_at("watchdog", format("stopped after %llu warp instructions", (unsigned long long)m.steps), m.current, -1, -1, -1, -1);
      break;
    }
    bool spinning = ran && m.steps - idle_since > kRestlessSteps;
    if (m.stop || (ran && !spinning) || running.empty()) continue;
    // Nothing moves. Complete asynchronous work, else start another cluster, else it is a deadlock.
    bool helped = false;
    for (auto &c : running) {
      if (c->pending.empty()) continue;
      size_t k = m.random ? m.draw(c->pending.size()) : c->pending.size() - 1;
      Pending p = std::move(c->pending[k]);
      c->pending.erase(c->pending.begin() + long(k));
      p.run();
      ++c->progress;
      helped = true;
      break;
    }
    if (!helped && next < total && running.size() < kMostResident) resident = running.size() + 1, helped = true;
    if (helped) idle_since = m.steps;
    if (helped || (spinning && m.steps - idle_since <= kIdleSteps)) continue;
    std::vector<Cluster *> stuck;
    for (auto &c : running) stuck.push_back(c.get());
    report_deadlock(m, stuck, spinning ? "spins without end" : "waits for ever");
    break;
  }
}

}  // namespace sim
