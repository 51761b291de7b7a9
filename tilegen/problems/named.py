"""The named formulas: memory-bound operators that have a name, one row each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Named:
    """A formula with a name.

    Attributes:
        text: the formula.
        meaning: one line for listings.
        operands: element types that differ from the problem's, as NAME:DTYPE.
    """

    text: str
    meaning: str
    operands: str = ""


def _norm(mean: str, value: str, scale: str) -> str:
    """A normalisation around the mean, its variance in a second pass over what the first left."""
    at = value[value.index("[") :]
    return f"mu = mean({value}, {mean}); d = {value} - mu; y{at} = d * rsqrt(mean(d * d, {mean}) + eps){scale}"


_SCALE = " * w[n] + b[n]"

NAMED: dict[str, Named] = {
    "softmax": Named(
        "e = exp(x[m,n] - max(x[m,n], n)); y[m,n] = e * (1 / sum(e, n))", "softmax of each row"
    ),
    "log_softmax": Named(
        "d = x[m,n] - max(x[m,n], n); y[m,n] = d - log(sum(exp(d), n))", "logarithm of the softmax"
    ),
    "masked_softmax": Named(
        "s = where(k[m,n] != 0, x[m,n], -inf); t = max(s, n); e = exp(s - where(t == -inf, 0, t)); "
        "z = sum(e, n); y[m,n] = e * (1 / where(z == 0, 1, z))",
        "softmax over the elements of each row whose mask k is not 0; zeros where none is",
        "k:u8",
    ),
    "layernorm": Named(_norm("n", "x[m,n]", _SCALE), "layer normalisation with scale and shift"),
    "rmsnorm": Named(
        "y[m,n] = x[m,n] * rsqrt(mean(x[m,n] * x[m,n], n) + eps) * w[n]",
        "RMS normalisation with scale",
    ),
    "add_layernorm": Named(
        "h[m,n] = x[m,n] + r[m,n]; mu = mean(h, n); d = h - mu; "
        "y[m,n] = d * rsqrt(mean(d * d, n) + eps) * w[n] + b[n]",
        "residual sum and its layer normalisation, both stored",
    ),
    "add_rmsnorm": Named(
        "h[m,n] = x[m,n] + r[m,n]; y[m,n] = h * rsqrt(mean(h * h, n) + eps) * w[n]",
        "residual sum and its RMS normalisation, both stored",
    ),
    "groupnorm": Named(
        _norm("(c, s)", "x[i,g,c,s]", " * w[g,c] + b[g,c]"),
        "group normalisation of x[image, group, channel in the group, pixel]",
    ),
    "instancenorm": Named(
        _norm("s", "x[i,c,s]", " * w[c] + b[c]"),
        "instance normalisation of x[image, channel, pixel]",
    ),
    "batchnorm": Named(
        "y[i,c,s] = (x[i,c,s] - mu[c]) * rsqrt(var[c] + eps) * w[c] + b[c]",
        "batch normalisation with given statistics, x[image, channel, pixel]",
    ),
    "l2norm": Named(
        "y[m,n] = x[m,n] * rsqrt(sum(x[m,n] * x[m,n], n) + eps)", "rows scaled to unit length"
    ),
    "cross_entropy": Named(
        "loss[m] = logsumexp(x[m,n], n) - sum(where(n == t[m], x[m,n], 0), n)",
        "softmax cross-entropy of class t of each row",
        "t:i64",
    ),
    "logsumexp": Named(
        "y[m] = logsumexp(x[m,n], n)", "logarithm of the sum of exponentials of a row"
    ),
    "argmax": Named("y[m] = argmax(x[m,n], n)", "position of a row's first largest element"),
    "argmin": Named("y[m] = argmin(x[m,n], n)", "position of a row's first smallest element"),
    "sum": Named("y[m] = sum(x[m,n], n)", "sum of each row"),
    "mean": Named("y[m] = mean(x[m,n], n)", "mean of each row"),
    "max": Named("y[m] = max(x[m,n], n)", "maximum of each row"),
    "min": Named("y[m] = min(x[m,n], n)", "minimum of each row"),
    "prod": Named("y[m] = prod(x[m,n], n)", "product of each row"),
    "norm1": Named("y[m] = sum(abs(x[m,n]), n)", "1-norm of each row"),
    "norm2": Named("y[m] = sqrt(sum(x[m,n] * x[m,n], n))", "2-norm of each row"),
    "variance": Named(
        "d = x[m,n] - mean(x[m,n], n); y[m] = mean(d * d, n)", "variance of each row, in two passes"
    ),
    "column_sum": Named("y[n] = sum(x[m,n], m)", "sum of each column"),
    "column_mean": Named("y[n] = mean(x[m,n], m)", "mean of each column"),
    "column_max": Named("y[n] = max(x[m,n], m)", "maximum of each column"),
    "total": Named("y = sum(x[m,n], (m, n))", "sum of all elements"),
    "sum_squares": Named("y = sum(x[m,n] * x[m,n], (m, n))", "sum of the squares of all elements"),
    "relu": Named("y[m,n] = relu(x[m,n])", "the positive part"),
    "gelu": Named("y[m,n] = gelu(x[m,n])", "GELU with the exact erf"),
    "gelu_tanh": Named("y[m,n] = gelu_tanh(x[m,n])", "the tanh approximation of GELU"),
    "silu": Named("y[m,n] = silu(x[m,n])", "x * sigmoid(x)"),
    "bias_gelu": Named(
        "y[m,n] = gelu(x[m,n] + b[n]) + r[m,n]", "bias, GELU and residual in one pass"
    ),
    "swiglu": Named("y[m,n] = silu(g[m,n]) * u[m,n]", "gated SiLU"),
    "geglu": Named("y[m,n] = gelu(g[m,n]) * u[m,n]", "gated GELU"),
    "rotary": Named(
        "p[t,h,d] = a[t,h,d] * c[t,d] - b[t,h,d] * s[t,d]; q[t,h,d] = b[t,h,d] * c[t,d] + a[t,h,d] * s[t,d]",
        "rotary embedding of the halves a and b of every head; c and s are the cosines and sines",
    ),
    "dropout": Named(
        "k = (m * 1103515245 + (seed % 2147483647) * 48271) % 2147483647; h = (k * k + n * 69621) % 2147483647; "
        "h2 = (h * h + k) % 2147483647; y[m,n] = where((h2 * h2) % 2147483647 >= cut, x[m,n] * scale, 0)",
        "dropout by a hash of row, column and seed: cut = p * 2147483647, scale = 1 / (1 - p)",
        "seed:i64,cut:i64",
    ),
    "quantize_i8": Named(
        "s[m] = max(abs(x[m,n]), n) / 127; q[m,n] = clamp(round(x[m,n] / where(s == 0, 1, s)), -127, 127)",
        "rows in 8-bit integers with a scale each",
        "q:i8,s:f32",
    ),
    "quantize_e4m3": Named(
        "s[m] = max(abs(x[m,n]), n) / 448; q[m,n] = clamp(x[m,n] / where(s == 0, 1, s), -448, 448)",
        "rows in fp8 (e4m3) with a scale each",
        "q:e4m3,s:f32",
    ),
    "dequantize_i8": Named(
        "y[m,n] = q[m,n] * s[m]", "rows of 8-bit integers times their scale", "q:i8,s:f32"
    ),
    "transpose": Named("y[n,m] = x[m,n]", "transpose"),
    "permute": Named("y[a,c,b,d] = x[a,b,c,d]", "the two middle dimensions exchanged"),
}


def named(text: str) -> Named | None:
    """The named formula of that name, or None."""
    return NAMED.get(text)
