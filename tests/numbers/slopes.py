"""Derivatives of the built-in elementwise operators at chosen points, by mpmath to 60 digits: writes slopes.txt.

A line is `operator operand point… first second third`: the derivatives by the numbered operand at the point. Points
are exact in f32, so that one file serves f32 and f64. `python3 tests/numbers/slopes.py > tests/numbers/slopes.txt`
"""

import random
import struct

from mpmath import mp, mpf

mp.dps = 60
random.seed(1)


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def points(low, high, even):
    """|x| from 10^low to 10^high, and evenly from -even to even: some of each sign."""
    large = [10 ** (low + (high - low) * (k + random.random()) / 14) for k in range(14)]
    small = [even * (k + random.random()) / 10 for k in range(10)]
    return sorted(single(sign * x) for x in large + small for sign in (1, -1))


half = mpf(1) / 2
ncdf = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2
sigmoid = lambda x: 1 / (1 + mp.exp(-x))
softplus = lambda x: mp.log1p(mp.exp(-abs(x))) + (x if x > 0 else 0)
scale, alpha = mpf("1.0507009873554804934193349852946"), mpf("1.6732632423543772848170429916717")

# Operator: function, (low, high, even), whether a point belongs to its domain.
ONE = {
    "neg": (lambda x: -x, (-20, 20, 3)),
    "square": (lambda x: x * x, (-15, 15, 3)),
    "recip": (lambda x: 1 / x, (-10, 10, 3)),
    "abs": (abs, (-20, 20, 3)),
    "exp": (mp.exp, (-20, 1.9, 80)),
    "exp2": (lambda x: mpf(2) ** x, (-20, 2, 100)),
    "exp_m1": (mp.expm1, (-20, 1.9, 3)),
    "ln": (mp.log, (-30, 30, 3), lambda x: x > 0),
    "log2": (lambda x: mp.log(x) / mp.log(2), (-30, 30, 3), lambda x: x > 0),
    "log10": (mp.log10, (-30, 30, 3), lambda x: x > 0),
    "ln_1p": (mp.log1p, (-20, 30, 1), lambda x: x > -1),
    "sin": (mp.sin, (-15, 20, 10)),
    "cos": (mp.cos, (-15, 20, 10)),
    "tan": (mp.tan, (-15, 15, 10)),
    "asin": (mp.asin, (-15, 0, 1), lambda x: abs(x) < 1),
    "acos": (mp.acos, (-15, 0, 1), lambda x: abs(x) < 1),
    "atan": (mp.atan, (-15, 15, 4)),
    "sinh": (mp.sinh, (-15, 1.9, 3)),
    "cosh": (mp.cosh, (-15, 1.9, 3)),
    "tanh": (mp.tanh, (-15, 1.6, 3)),
    "asinh": (mp.asinh, (-15, 15, 3)),
    "acosh": (mp.acosh, (-1, 15, 5), lambda x: x > 1),
    "atanh": (mp.atanh, (-15, 0, 1), lambda x: abs(x) < 1),
    "erf": (mp.erf, (-15, 0.9, 6)),
    "erfc": (mp.erfc, (-15, 0.9, 6)),
    "erfinv": (mp.erfinv, (-10, 0, 1), lambda x: abs(x) < 1),
    "ndtr": (ncdf, (-15, 1.1, 10)),
    "log_ndtr": (lambda x: mp.log(ncdf(x)), (-15, 1.1, 10)),
    "gamma": (mp.gamma, (-5, 1.5, 10)),
    "lgamma": (lambda x: mp.log(abs(mp.gamma(x))), (-5, 2, 10)),
    "digamma": (mp.digamma, (-5, 3, 10)),
    "j0": (lambda x: mp.besselj(0, x), (-5, 2.5, 30)),
    "j1": (lambda x: mp.besselj(1, x), (-5, 2.5, 30)),
    "y0": (lambda x: mp.bessely(0, x), (-5, 2.5, 30), lambda x: x > 0),
    "y1": (lambda x: mp.bessely(1, x), (-5, 2.5, 30), lambda x: x > 0),
    "i0": (lambda x: mp.besseli(0, x), (-5, 1.9, 10)),
    "i1": (lambda x: mp.besseli(1, x), (-5, 1.9, 10)),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), (-5, 2.5, 10)),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), (-5, 2.5, 10)),
    "sinc": (lambda x: mp.sin(mp.pi * x) / (mp.pi * x), (-8, 5, 3)),
    "logit": (lambda x: mp.log(x / (1 - x)), (-15, 0, 1), lambda x: 0 < x < 1),
    "to_radians": (lambda x: x * mp.pi / 180, (-15, 15, 4)),
    "to_degrees": (lambda x: x * 180 / mp.pi, (-15, 15, 4)),
    "sqrt": (mp.sqrt, (-15, 15, 4), lambda x: x > 0),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), (-10, 10, 4), lambda x: x > 0),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), (-15, 15, 4)),
    "relu": (lambda x: max(x, 0), (-15, 15, 4)),
    "sigmoid": (sigmoid, (-15, 1.9, 20)),
    "log_sigmoid": (lambda x: -softplus(-x), (-15, 1.9, 20)),
    "silu": (lambda x: x * sigmoid(x), (-15, 1.9, 20)),
    "softplus": (softplus, (-15, 1.9, 20)),
    "gelu": (lambda x: x * ncdf(x), (-15, 1.1, 8)),
    "gelu_tanh": (lambda x: x * sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3)), (-15, 1, 6)),
    "mish": (lambda x: x * mp.tanh(softplus(x)), (-15, 1.9, 20)),
    "relu6": (lambda x: min(max(x, 0), 6), (-15, 15, 8)),
    "hard_tanh": (lambda x: min(max(x, -1), 1), (-15, 15, 2)),
    "hard_swish": (lambda x: x * min(max(x / 6 + half, 0), 1), (-15, 15, 5)),
    "hard_sigmoid": (lambda x: min(max(x / 6 + half, 0), 1), (-15, 15, 5)),
    "selu": (lambda x: scale * (x if x > 0 else alpha * mp.expm1(x)), (-15, 1.9, 5)),
    "elu": (lambda x: x if x > 0 else mp.expm1(x), (-15, 1.9, 5)),
    "tanh_shrink": (lambda x: x - mp.tanh(x), (-8, 1.6, 3)),
    "softsign": (lambda x: x / (1 + abs(x)), (-15, 10, 3)),
}

# Functions of two operands, with the values of the other operand.
TWO = {
    "add": (lambda x, y: x + y, (-15, 15, 3), [0.25, 7.0]),
    "sub": (lambda x, y: x - y, (-15, 15, 3), [0.25, 7.0]),
    "mul": (lambda x, y: x * y, (-15, 15, 3), [0.25, 7.0]),
    "div": (lambda x, y: x / y, (-9, 9, 3), [0.25, -7.0]),
    "atan2": (mp.atan2, (-8, 8, 3), [0.25, -7.0]),
    "xlogy": (lambda x, y: x * mp.log(y), (-15, 15, 3), [0.25, 7.0], lambda x, y: y > 0),
    "xlog1py": (lambda x, y: x * mp.log1p(y), (-15, 15, 3), [0.25, 7.0], lambda x, y: y > -1),
    "powf": (lambda x, y: x**y, (-2, 1, 3), [0.25, 2.5, 7.0], lambda x, y: x > 0),
    "hypot": (lambda x, y: mp.sqrt(x * x + y * y), (-8, 8, 3), [0.25, -7.0]),
    "log_add_exp": (lambda x, y: mp.log(mp.exp(x) + mp.exp(y)), (-10, 1.8, 5), [0.25, -7.0]),
    "log_add_exp2": (lambda x, y: mp.log(mpf(2) ** x + mpf(2) ** y) / mp.log(2), (-10, 1.8, 5), [0.25, -7.0]),
    "leaky_relu": (lambda x, y: x if x > 0 else x * y, (-15, 15, 3), [0.25, 0.01]),
    "mse_loss": (lambda x, y: (x - y) ** 2, (-15, 15, 3), [0.25, -7.0]),
    "binary_cross_entropy": (
        lambda x, y: -(y * mp.log(x) + (1 - y) * mp.log(1 - x)), (-8, 0, 1), [0.25, 0.75], lambda x, y: 0 < x < 1),
    "binary_cross_entropy_with_logits": (lambda x, y: softplus(x) - x * y, (-10, 1.8, 5), [0.25, 1.0]),
    "kl_div": (lambda x, y: y * (mp.log(y) - x), (-8, 8, 3), [0.25, 7.0], lambda x, y: y > 0),
    "kl_div_log_target": (lambda x, y: mp.exp(y) * (y - x), (-8, 1.8, 3), [0.25, -7.0]),
}


def derivatives(f, x):
    # A step relative to x, so that tiny points are not swamped by it.
    with mp.workdps(200):
        return [mp.diff(f, x, n, h=abs(x) * mpf(10) ** -40) for n in (1, 2, 3)]


def line(name, by, at, values):
    if all(mp.isfinite(v) for v in values) and 1e-30 < abs(values[0]) < 1e30:
        numbers = [repr(float(x)) for x in at] + [repr(float(values[0])), repr(float(values[1])), f"{float(values[2]):.3g}"]
        print(name, by, *numbers)


for name, (f, spread, *inside) in ONE.items():
    for x in points(*spread):
        if x != 0 and (not inside or inside[0](x)):
            line(name, 0, [x], derivatives(f, mpf(x)))
for name, (f, spread, others, *inside) in TWO.items():
    for by in (0, 1):
        for other in others:
            other = single(other)
            for x in points(*spread)[::2]:
                at = [x, other] if by == 0 else [other, x]
                if x != 0 and (not inside or inside[0](*at)):
                    along = (lambda x: f(x, mpf(other))) if by == 0 else (lambda x: f(mpf(other), x))
                    line(name, by, at, derivatives(along, mpf(x)))
