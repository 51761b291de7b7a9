"""The kernel of the Triton peer, in a module of its own: it cannot be loaded without Triton."""

import triton
import triton.language as tl


@triton.jit
def product(
    a,
    b,
    added,
    c,
    m,
    n,
    k,
    lda,
    ldb,
    ldc,
    EPILOGUE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    # Eight rows of tiles together, column by column, so that they share B in L2.
    group = tl.program_id(0) // (8 * tiles_n)
    rows_of_group = tl.minimum(8, tiles_m - group * 8)
    within = tl.program_id(0) % (8 * tiles_n)
    rows = (group * 8 + within % rows_of_group) * BM + tl.arange(0, BM)
    columns = within // rows_of_group * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    x = a + (rows % m)[:, None] * lda + depth[None, :]
    y = b + (columns % n)[None, :] * ldb + depth[:, None]
    sums = tl.zeros((BM, BN), tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        left = k - step * BK
        tile_a = tl.load(x, mask=depth[None, :] < left, other=0.0)
        tile_b = tl.load(y, mask=depth[:, None] < left, other=0.0)
        sums = tl.dot(tile_a, tile_b, sums)
        x += BK
        y += BK
    exists = (rows[:, None] < m) & (columns[None, :] < n)
    place = rows[:, None] * ldc + columns[None, :]
    if EPILOGUE == "residual":
        sums += tl.load(added + place, mask=exists, other=0.0)
    elif EPILOGUE != "none":
        sums += tl.load(added + columns, mask=columns < n, other=0.0)[None, :]
    if EPILOGUE == "bias_gelu":
        sums = 0.5 * sums * (1 + tl.erf(sums * 0.7071067811865476))
    tl.store(c + place, sums.to(c.dtype.element_ty), mask=exists)
