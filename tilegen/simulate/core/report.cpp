// Findings, once for each kind and pair of instructions, and the story of a deadlock.
#include "machine.h"

namespace sim {

Finding *Machine::report(const char *kind, std::string message, const Warp *w, int lane, int other) {
  return report_at(kind, std::move(message), current, other, w ? int(w->block->linear) : -1, w ? w->index : -1, lane);
}

Finding *Machine::report_at(const char *kind, std::string message, int inst, int other, int block, int warp, int lane) {
  auto key = std::make_tuple(std::string(kind), inst, other);
  auto it = finding_index.find(key);
  if (it != finding_index.end()) {
    Finding &f = findings[it->second];
    ++f.count;
    return &f;
  }
  if (findings.size() >= max_findings) return nullptr;
  finding_index[key] = findings.size();
  findings.push_back({kind, std::move(message), inst, other, block, warp, lane, 1});
  return &findings.back();
}

// "{n}" stands for instruction n; the report on the Python side puts its line and text there.
void report_deadlock(Machine &m, const std::vector<Cluster *> &running, const char *why) {
  struct Waiter {
    uint32_t pc;
    std::string text, first;
    int count;
  };
  std::vector<Waiter> waiters;
  int block = -1, warp = -1;
  for (Cluster *c : running)
    for (Block &b : c->blocks)
      for (Warp &w : b.warps)
        for (Group &g : w.groups) {
          if (block < 0) block = int(b.linear), warp = w.index;
          std::string text = g.blocked ? g.waiting : "runs and finds nothing changed";
          bool known = false;
          for (Waiter &k : waiters)
            if (k.pc == g.pc && k.text == text) ++k.count, known = true;
          if (!known)
            waiters.push_back({g.pc, text, format("block %u warp %d lanes 0x%08x", b.linear, w.index, g.mask), 1});
        }
  std::string message = std::string("the kernel ") + why + ":";
  for (size_t k = 0; k < waiters.size() && k < 16; ++k) {
    const Waiter &x = waiters[k];
    message += "\n  " + x.first + (x.count > 1 ? format(" and %d more", x.count - 1) : "") + format(" at {%u}: ", x.pc) + x.text;
  }
  if (waiters.size() > 16) message += format("\n  and %zu more places", waiters.size() - 16);
  m.report_at("deadlock", message, waiters.empty() ? m.current : int(waiters[0].pc), -1, block, warp, -1);
}

}  // namespace sim
