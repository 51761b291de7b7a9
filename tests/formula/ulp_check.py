"""Measures the float32 functions of emitted C against the double functions of the C library.

    python tests/formula/ulp_check.py --stride 1

walks every float (a few minutes a function on one core); a larger stride walks a part. Prints, for each
function, the largest error in ulp of the result and where; exits 1 if one is past its documented limit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tilegen.emit.c_expr import helper_texts, includes_for

# function: (reference in double, documented limit in ulp).
FUNCTIONS = {
    "exp_f32": ("exp(x)", 1.01),
    "exp_negative_f32": ("exp(x)", 1.01),
    "exp2_f32": ("exp2(x)", 2.0),
    "expm1_f32": ("expm1(x)", 2.0),
    "log_f32": ("log(x)", 1.0),
    "log1p_f32": ("log1p(x)", 2.0),
    "tanh_f32": ("tanh(x)", 3.0),
    "erf_f32": ("erf(x)", 2.0),
    "rsqrt_f32": ("1.0 / sqrt(x)", 2.0),
    "round_f32": ("rint(x)", 0.0),
    "floor_f32": ("floor(x)", 0.0),
    "ceil_f32": ("ceil(x)", 0.0),
    "trunc_f32": ("trunc(x)", 0.0),
    "sigmoid": ("x < 0 ? exp(x) / (1.0 + exp(x)) : 1.0 / (1.0 + exp(-x))", 3.0),
    "silu": ("x < 0 ? x * (exp(x) / (1.0 + exp(x))) : x / (1.0 + exp(-x))", 4.0),
    "softplus": ("(x > 0 ? x : 0.0) + log1p(exp(-fabs(x)))", 3.0),
    "mish": ("x * tanh((x > 0 ? x : 0.0) + log1p(exp(-fabs(x))))", 5.0),
}

# What a function is not measured for: silu and mish multiply by x what may have lost bits to underflow.
SKIPPED = {"silu": "x < -80.0", "mish": "x < -80.0", "exp_negative_f32": "x > 0.0"}

MAIN = """
// Distance of got from exact in units of the last place of exact; signed zeros, NaN and
// infinities must agree.
static double ulps(float got, double exact) {
  const float nearest = (float)exact;
  if (nearest != nearest || got != got) {
    return (nearest != nearest) == (got != got) ? 0.0 : INFINITY;
  }
  if (got == nearest) {
    return signbit(got) == signbit(nearest) || got != 0.0f ? fabs(0.0 * exact) : INFINITY;
  }
  if (isinf(got) && fabs(exact) > 3.4028234e38) {
    return 1.0;
  }
  int exponent;
  frexp(exact, &exponent);
  const int lowest = exponent - 24 > -149 ? exponent - 24 : -149;
  return fabs((double)got - exact) / ldexp(1.0, lowest);
}

int main(void) {
  const uint32_t stride = @stride@;
  const uint32_t offset = @offset@;
@checks@
  return 0;
}
"""

CHECK = """  {
    double worst = -1.0;
    uint32_t where = 0;
    for (uint64_t i = offset; i <= 0xffffffffu; i += stride) {
      float f;
      const uint32_t bits = (uint32_t)i;
      memcpy(&f, &bits, sizeof f);
      const double x = (double)f;
      if (@skip@) {
        continue;
      }
      const double error = ulps(@function@(f), @reference@);
      if (error > worst) {
        worst = error;
        where = bits;
      }
    }
    float f;
    memcpy(&f, &where, sizeof f);
    printf("@function@ %.3f %a\\n", worst, (double)f);
  }"""


def measure(
    names: list[str], stride: int, flags: list[str], offset: int = 0
) -> dict[str, tuple[float, str]]:
    """The largest error in ulp of each function and the argument that has it, as a hex float."""
    texts = helper_texts(names, "c")
    checks = "\n".join(
        CHECK.replace("@function@", n)
        .replace("@reference@", FUNCTIONS[n][0])
        .replace("@skip@", SKIPPED.get(n, "0"))
        for n in names
    )
    main = MAIN.replace("@stride@", f"{stride}u").replace("@offset@", f"{offset}u")
    headers = sorted(
        {*includes_for(texts, "c"), "<math.h>", "<stdint.h>", "<stdio.h>", "<string.h>"}
    )
    source = "\n".join(f"#include {h}" for h in headers) + "\n\n"
    source += "\n\n".join(texts) + "\n" + main.replace("@checks@", checks)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ulp.c")
        path.write_text(source)
        program = Path(folder, "ulp")
        command = ["cc", "-std=gnu11", "-O2", *flags, str(path), "-o", str(program), "-lm"]
        subprocess.run(command, check=True)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in output.splitlines())
    return {name: (float(error), where) for name, error, where in rows}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--stride", type=int, default=1009, help="walk every STRIDE-th float")
    parser.add_argument("functions", nargs="*", help="functions to measure; all if left out")
    options = parser.parse_args()
    failed = 0
    for flags in (["-ffp-contract=off"], ["-march=native", "-ffp-contract=fast"]):
        measured = measure(options.functions or list(FUNCTIONS), options.stride, flags)
        for name, (error, where) in measured.items():
            limit = FUNCTIONS[name][1]
            failed += error > limit
            mark = "" if error <= limit else "  TOO LARGE"
            print(f"{name:10s} {error:7.3f} ulp of {limit} at {where:16s} {' '.join(flags)}{mark}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
