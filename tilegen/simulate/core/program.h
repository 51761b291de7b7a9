// The lowered kernel: instructions with operand slots, and the table of operations that can run them.
#pragma once
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

namespace sim {

using Mask = uint32_t;
constexpr int kLanes = 32;
constexpr Mask kFull = 0xffffffffu;

struct Warp;
struct Inst;
using Handler = void (*)(Warp &, const Inst &, Mask);

enum Flags : uint32_t {
  kControl = 1,     // may branch, block or end; the scheduler looks at the warp's status afterwards
  kTouches = 2,     // reads or writes a register that some wgmma uses: `list_touch` names them
};

// One instruction as Python packs it (the layout is mirrored in lower/program.py).
struct Packed {
  int32_t op, guard;      // index in the table; predicate * 2 + negated, or -1
  uint32_t flags;
  int32_t a[9];           // operand slots; their meaning belongs to the operation
  int64_t imm;
  int32_t list, count;    // a stretch of the program's pool: register lists, coordinates
  int32_t touch, touched; // a stretch of the pool: (wgmma register index * 2 + written)
};

struct Inst {
  Handler run;
  int32_t guard;
  uint32_t flags;
  int32_t a[9];
  int32_t list, count;
  int64_t imm;
  int32_t touch, touched;
  int32_t index;
};

struct Op {
  std::string name;
  Handler run;
  uint32_t flags;
};

// Operations register themselves; the lowering finds them by name.
class Registry {
 public:
  static std::vector<Op> &table();
  void operator()(const char *name, Handler run, uint32_t flags = 0);
  // A name in parts. Not in line: there are 1500 calls, and compiling them was a third of the core's build.
  void operator()(std::initializer_list<const char *> name, Handler run, uint32_t flags = 0);
};

struct Registrar {
  explicit Registrar(void (*fill)(Registry &)) {
    Registry add;
    fill(add);
  }
};

#define SIM_OPS(unit)                        \
  static void fill_##unit(Registry &add);    \
  static const Registrar reg_##unit(fill_##unit); \
  static void fill_##unit(Registry &add)

}  // namespace sim
