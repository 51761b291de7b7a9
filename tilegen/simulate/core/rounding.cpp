// f32 and f64 arithmetic with a rounding mode other than nearest: slow, and seldom used.
#include <cfenv>

#include "lanes.h"
#include "numbers.h"

namespace sim {
namespace {

// The host's rounding mode for the length of one instruction. The volatile operands keep the compiler from
// moving arithmetic out of it.
struct Mode {
  int before = std::fegetround();
  explicit Mode(int mode) { std::fesetround(mode); }
  ~Mode() { std::fesetround(before); }
};

template <class T, int kOperation, int kMode, bool kFtz>
void rounded(Warp &w, const Inst &i, Mask m) {
  const T *a = w.in<T>(i.a[1]);
  const T *b = kOperation < 5 ? w.in<T>(i.a[2]) : a;
  const T *c = kOperation == 4 ? w.in<T>(i.a[3]) : a;
  T *d = w.out<T>(i.a[0]);
  Mode mode(kMode);
  for (int l = 0; l < kLanes; ++l) {
    if (!(m >> l & 1)) continue;
    volatile T x = a[l], y = b[l], z = c[l], r = 0;
    if (kFtz && sizeof(T) == 4) x = T(flush(float(x))), y = T(flush(float(y))), z = T(flush(float(z)));
    if (kOperation == 0) r = x + y;
    if (kOperation == 1) r = x - y;
    if (kOperation == 2) r = x * y;
    if (kOperation == 3) r = x / y;
    if (kOperation == 4) r = std::fma(T(x), T(y), T(z));
    if (kOperation == 5) r = T(1) / x;
    if (kOperation == 6) r = std::sqrt(T(x));
    T v = r;
    if (kFtz && sizeof(T) == 4) v = T(flush(float(v)));
    d[l] = canonical(v);
  }
}

template <class T, int kOperation>
void modes(Registry &add, const char *name, const char *type) {
  add({name, ".rz.", type}, rounded<T, kOperation, FE_TOWARDZERO, false>);
  add({name, ".rm.", type}, rounded<T, kOperation, FE_DOWNWARD, false>);
  add({name, ".rp.", type}, rounded<T, kOperation, FE_UPWARD, false>);
  if (sizeof(T) == 4) {
    add({name, ".rz.ftz.", type}, rounded<T, kOperation, FE_TOWARDZERO, true>);
    add({name, ".rm.ftz.", type}, rounded<T, kOperation, FE_DOWNWARD, true>);
    add({name, ".rp.ftz.", type}, rounded<T, kOperation, FE_UPWARD, true>);
  }
}
template <class T>
void all_modes(Registry &add, const char *type) {
  modes<T, 0>(add, "add", type), modes<T, 1>(add, "sub", type), modes<T, 2>(add, "mul", type);
  modes<T, 3>(add, "div", type), modes<T, 4>(add, "fma", type), modes<T, 5>(add, "rcp", type);
  modes<T, 6>(add, "sqrt", type);
}

SIM_OPS(rounding) {
  all_modes<float>(add, "f32");
  all_modes<double>(add, "f64");
}

}  // namespace
}  // namespace sim
