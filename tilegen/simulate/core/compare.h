// Comparison operators, and what setp does with their results (PTX ISA 9.3.1, 9.7.5).
#pragma once
#include "lanes.h"

namespace sim {

struct Eq { template <class T> static bool of(T a, T b) { return a == b; } };
struct Ne { template <class T> static bool of(T a, T b) { return a != b && a == a && b == b; } };
struct Lt { template <class T> static bool of(T a, T b) { return a < b; } };
struct Le { template <class T> static bool of(T a, T b) { return a <= b; } };
struct Gt { template <class T> static bool of(T a, T b) { return a > b; } };
struct Ge { template <class T> static bool of(T a, T b) { return a >= b; } };
template <class F> struct Or_nan { template <class T> static bool of(T a, T b) { return a != a || b != b || F::of(a, b); } };
struct Num { template <class T> static bool of(T a, T b) { return a == a && b == b; } };
struct Nan { template <class T> static bool of(T a, T b) { return a != a || b != b; } };

inline Mask combine(int op, Mask a, Mask c) { return op == 1 ? a & c : op == 2 ? a | c : op == 3 ? a ^ c : a; }
inline void store_predicate(Warp &w, int p, Mask m, Mask v) {
  if (p > 1) w.preds[p] = (w.preds[p] & ~m) | (v & m);
}

}  // namespace sim
