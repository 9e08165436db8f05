"""NumPy, with the BLAS of its wheel: `new` makes results, `out=` writes into arrays that are there."""

import numpy as np
from harness import BINS, SHARE, TOP, inputs, serve

f4 = np.float32


def gelu(x):
    return f4(0.5) * x * (1 + np.tanh(f4(0.7978845608) * (x + f4(0.044715) * x * x * x)))


def adamw(p, m, v, g):
    m *= f4(0.9)
    m += f4(0.1) * g
    v *= f4(0.999)
    v += f4(0.001) * g * g
    p *= f4(1 - 1e-5)
    p -= f4(1e-3) * m / (np.sqrt(v) + f4(1e-8))


def softmax(x):
    powers = np.exp(x - x.max(1, keepdims=True))
    powers /= powers.sum(1, keepdims=True)
    return powers


def layer_norm(x, weight, bias):
    mean, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    return (x - mean) / np.sqrt(var + f4(1e-5)) * weight + bias


def user_out(x, y, out, part):
    np.multiply(x, y, out=out)
    np.sin(x, out=part)
    out += part


NEW = {
    "view/slice": lambda a: a[1 : len(a) // 2, 2 : len(a) // 2],
    "view/transpose": lambda a: a.T,
    "view/permute4": lambda a: a.transpose(0, 2, 3, 1),
    "view/broadcast": lambda a: np.broadcast_to(a, (a.size, a.size)),
    "view/reshape": lambda a: a.reshape(len(a) // 2, len(a) * 2),
    "ew/add": np.add,
    "ew/add_inplace": lambda a, b: np.add(a, b, out=a),
    "ew/add_row": np.add,
    "ew/add_col": np.add,
    "ew/add_t": lambda a, b: a + b.T,
    "ew/step2": lambda a, b: a[:, ::2] + b[:, ::2],
    "fused/gelu": gelu,
    "fused/swiglu": lambda x, y: x / (1 + np.exp(-x)) * y,
    "fused/ratio": lambda a, b, c, d: (a * b + c) / (np.abs(d) + f4(1e-6)),
    "fused/adamw": adamw,
    "user/f": lambda x, y: x * y + np.sin(x),
    "trans/exp": np.exp,
    "trans/tanh": np.tanh,
    "trans/log": np.log,
    "trans/sin": np.sin,
    "red/sum": np.sum,
    "red/sum0": lambda a: a.sum(0),
    "red/sum1": lambda a: a.sum(1),
    "red/max1": lambda a: a.max(1),
    "red/argmax1": lambda a: a.argmax(1),
    "red/meanvar1": lambda a: (a.mean(1), a.var(1)),
    "red/softmax": softmax,
    "red/layernorm": layer_norm,
    "red/scaled_softmax": lambda a: softmax(a / f4(8)),
    "red/rmsnorm": lambda x, weight: x / np.sqrt((x * x).mean(1, keepdims=True) + f4(1e-5)) * weight,
    "short/distances": lambda points, centers: ((points[:, None] - centers) ** 2).sum(2),
    "short/sum": lambda a: a.sum(1),
    "short/median": lambda a: np.median(a, 1),
    "dm/sort": np.sort,
    "dm/argsort": np.argsort,
    "dm/quantile": lambda a: np.quantile(a, SHARE),
    "dm/histogram": lambda a: np.histogram(a, BINS, (-1, 1)),
    "dm/unique": np.unique,
    "dm/scatter": lambda a, at, b: np.add.at(a, at, b),
    "mm/f32": np.matmul,
    "mm/f64": np.matmul,
    "mm/gemv": np.matmul,
    "mm/skinny16": np.matmul,
    "mm/batched64": np.matmul,
    "dm/transpose": lambda a: np.ascontiguousarray(a.T),
    "dm/nhwc": lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1)),
    "dm/concat0": lambda a, b: np.concatenate((a, b), 0),
    "dm/concat1": lambda a, b: np.concatenate((a, b), 1),
    "dm/gather": lambda a, at: np.take(a, at, 0),
    "dm/cumsum0": lambda a: a.cumsum(0),
    "dm/cumsum1": lambda a: a.cumsum(1),
    "dm/sort1": lambda a: np.sort(a, 1),
    "dm/topk10": lambda a: np.sort(np.partition(a, a.shape[1] - TOP, 1)[:, -TOP:], 1),
}
# Into arrays that are there, of these sizes.
OUT = {
    "ew/add": lambda out, a, b: np.add(a, b, out=out),
    "ew/add_row": lambda out, a, b: np.add(a, b, out=out),
    "ew/add_col": lambda out, a, b: np.add(a, b, out=out),
    "ew/add_t": lambda out, a, b: np.add(a, b.T, out=out),
    "trans/exp": lambda out, a: np.exp(a, out=out),
    "trans/tanh": lambda out, a: np.tanh(a, out=out),
    "trans/log": lambda out, a: np.log(a, out=out),
    "trans/sin": lambda out, a: np.sin(a, out=out),
    "mm/f32": lambda out, a, b: np.matmul(a, b, out=out),
    "mm/f64": lambda out, a, b: np.matmul(a, b, out=out),
    "dm/transpose": lambda out, a: np.copyto(out, a.T),
    "dm/cumsum0": lambda out, a: np.cumsum(a, 0, out=out),
    "dm/cumsum1": lambda out, a: np.cumsum(a, 1, out=out),
}


def operands(case, n):
    arrays = inputs(case, n)
    return [a.astype(np.float64) for a in arrays] if case == "mm/f64" else arrays


def forms(case, n):
    def new():
        arrays, f = operands(case, n), NEW[case]
        return lambda: f(*arrays)

    def out():
        arrays, f = operands(case, n), OUT[case]
        into = np.zeros_like(arrays[0])
        return lambda: f(into, *arrays)

    def user():
        (x, y), into, part = inputs(case, n), np.zeros((n, n), f4), np.zeros((n, n), f4)
        return lambda: user_out(x, y, into, part)

    match case:
        case "create/zeros":
            return [("zeros", lambda: lambda: np.zeros((n, n), f4))]
        case "create/full":
            return [("full", lambda: lambda: np.full((n, n), 1.5, f4))]
        case "user/f":
            return [("new", new), ("out=", user)]
    return [("new", new)] * (case in NEW) + [("out=", out)] * (case in OUT)


serve(forms)
