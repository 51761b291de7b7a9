"""The kernel of the TileLang peer, in a module of its own: it cannot be loaded without TileLang."""

import tilelang
import tilelang.language as T


def product(m, n, k, element, epilogue, tile, stages, threads):
    """The product of an [m,k] and an [n,k] matrix with an epilogue, as a function that TileLang compiles.

    Sizes are constants of the compiled kernel. `epilogue` is none, bias, bias_gelu or residual;
    `added` is the [n] bias or the [m,n] residual, and unread where there is neither.
    """
    bm, bn, bk = tile
    added_shape = (m, n) if epilogue == "residual" else (n,)

    @T.prim_func
    def main(
        a: T.Tensor((m, k), element),
        b: T.Tensor((n, k), element),
        added: T.Tensor(added_shape, element),
        c: T.Tensor((m, n), element),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            x = T.alloc_shared((bm, bk), element)
            y = T.alloc_shared((bn, bk), element)
            staged = T.alloc_shared((bm, bn), element)
            sums = T.alloc_fragment((bm, bn), "float32")
            # Tiles that share B lie together, so that they find it in L2.
            T.use_swizzle(10)
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(a[by * bm, step * bk], x)
                T.copy(b[bx * bn, step * bk], y)
                T.gemm(x, y, sums, transpose_B=True)
            if epilogue == "residual":
                T.copy(added[by * bm, bx * bn], staged)
                for i, j in T.Parallel(bm, bn):
                    sums[i, j] += T.cast(staged[i, j], "float32")
            elif epilogue != "none":
                for i, j in T.Parallel(bm, bn):
                    sums[i, j] += T.cast(added[bx * bn + j], "float32")
            if epilogue == "bias_gelu":
                for i, j in T.Parallel(bm, bn):
                    sums[i, j] = 0.5 * sums[i, j] * (1 + T.erf(sums[i, j] * 0.7071067811865476))
            T.copy(sums, staged)
            T.copy(staged, c[by * bm, bx * bn])

    return main


def compiled(*arguments):
    """`product`, built for the device at hand; a call takes a, b, added and c."""
    return tilelang.compile(product(*arguments), target="cuda")
