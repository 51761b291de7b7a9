// Calls a generated GEMM from C++ and checks the product against a plain loop.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tilegen_kernels.h"

namespace {

constexpr std::int64_t kM = 65, kN = 130, kK = 77;

// A[m,k] and B[n,k] with values that differ everywhere.
float value(std::int64_t i) { return static_cast<float>(i * 37 % 101) / 50.0f - 1.0f; }

}  // namespace

int main() {
  std::vector<float> a(kM * kK), b(kN * kK), c(kM * kN);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = value(static_cast<std::int64_t>(i));
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    b[i] = value(static_cast<std::int64_t>(i) + 11);
  }

  const int status =
      tilegen_gemm_f32_tn_128x128x32(kM, kN, kK, a.data(), kK, b.data(), kK, c.data(), kN, 0);
  if (status != 0) {
    std::printf("the kernel returned %d\n", status);
    return 1;
  }

  double worst = 0.0;
  for (std::int64_t m = 0; m < kM; ++m) {
    for (std::int64_t n = 0; n < kN; ++n) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < kK; ++k) {
        sum += static_cast<double>(a[static_cast<std::size_t>(m * kK + k)]) *
               static_cast<double>(b[static_cast<std::size_t>(n * kK + k)]);
      }
      const double error = std::fabs(sum - static_cast<double>(c[static_cast<std::size_t>(m * kN + n)]));
      worst = error > worst ? error : worst;
    }
  }
  std::printf("largest error %.2e\n", worst);
  return worst < 1e-4 ? 0 : 1;
}
