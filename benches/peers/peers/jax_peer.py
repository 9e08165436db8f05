"""JAX on the CPU: every case under `jax.jit`, waited for; AdamW gives its arguments away (`donate`)."""

import jax
import jax.numpy as jnp
from harness import BINS, SHARE, TOP, inputs, serve

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
f4 = jnp.float32


def gelu(x):
    return f4(0.5) * x * (1 + jnp.tanh(f4(0.7978845608) * (x + f4(0.044715) * x * x * x)))


def adamw(p, m, v, g):
    m = f4(0.9) * m + f4(0.1) * g
    v = f4(0.999) * v + f4(0.001) * g * g
    return p * f4(1 - 1e-5) - f4(1e-3) * m / (jnp.sqrt(v) + f4(1e-8)), m, v


def layer_norm(x, weight, bias):
    mean, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + f4(1e-5)) * weight + bias


CASES = {
    "ew/add": jnp.add,
    "ew/add_row": jnp.add,
    "ew/add_col": jnp.add,
    "ew/add_t": lambda a, b: a + b.T,
    "ew/step2": lambda a, b: a[:, ::2] + b[:, ::2],
    "fused/gelu": gelu,
    "fused/swiglu": lambda x, y: x / (1 + jnp.exp(-x)) * y,
    "fused/ratio": lambda a, b, c, d: (a * b + c) / (jnp.abs(d) + f4(1e-6)),
    "user/f": lambda x, y: x * y + jnp.sin(x),
    "trans/exp": jnp.exp,
    "trans/tanh": jnp.tanh,
    "trans/log": jnp.log,
    "trans/sin": jnp.sin,
    "trans/erf": jax.scipy.special.erf,
    "red/sum": jnp.sum,
    "red/sum0": lambda a: a.sum(0),
    "red/sum1": lambda a: a.sum(1),
    "red/max1": lambda a: a.max(1),
    "red/argmax1": lambda a: a.argmax(1),
    "red/meanvar1": lambda a: (a.mean(1), a.var(1)),
    "red/softmax": lambda a: jax.nn.softmax(a, 1),
    "red/layernorm": layer_norm,
    "red/scaled_softmax": lambda a: jax.nn.softmax(a / 8, 1),
    "red/rmsnorm": lambda x, weight: x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + f4(1e-5)) * weight,
    "short/distances": lambda points, centers: ((points[:, None] - centers) ** 2).sum(2),
    "short/sum": lambda a: a.sum(1),
    "short/median": lambda a: jnp.median(a, 1),
    "dm/sort": jnp.sort,
    "dm/argsort": jnp.argsort,
    "dm/quantile": lambda a: jnp.quantile(a, SHARE),
    "dm/histogram": lambda a: jnp.histogram(a, BINS, (-1, 1)),
    "dm/scatter": lambda a, at, b: a.at[at].add(b),
    "mm/f32": jnp.matmul,
    "mm/f64": jnp.matmul,
    "mm/f16": jnp.matmul,
    "mm/bf16": jnp.matmul,
    "mm/i8": lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.int32),
    "mm/gemv": jnp.matmul,
    "mm/skinny16": jnp.matmul,
    "mm/batched64": jnp.matmul,
    "dm/transpose": lambda a: a.T,
    "dm/nhwc": lambda a: a.transpose(0, 2, 3, 1),
    "dm/concat0": lambda a, b: jnp.concatenate((a, b), 0),
    "dm/concat1": lambda a, b: jnp.concatenate((a, b), 1),
    "dm/gather": lambda a, at: jnp.take(a, at, 0),
    "dm/cumsum0": lambda a: a.cumsum(0),
    "dm/cumsum1": lambda a: a.cumsum(1),
    "dm/sort1": lambda a: jnp.sort(a, 1),
    "dm/topk10": lambda a: jax.lax.top_k(a, TOP),
    "nn/conv2d": lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
    "nn/conv1d": lambda x, w: jax.lax.conv_general_dilated(x, w, (1,), "SAME"),
    "nn/conv3d": lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1, 1), "SAME"),
    "nn/depthwise": lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=len(w)),
    "mm/einsum3": lambda a, b, c: jnp.einsum("ij,jk,kl->il", a, b, c),
}
ELEMENT = {"mm/f64": jnp.float64, "mm/f16": jnp.float16, "mm/bf16": jnp.bfloat16}
COMPILED = {case: jax.jit(f) for case, f in CASES.items()}
ADAMW = jax.jit(adamw, donate_argnums=(0, 1, 2))


def operands(case, n):
    return [jnp.asarray(a, ELEMENT.get(case)) for a in inputs(case, n)]


def forms(case, n):
    def jit():
        arrays, f = operands(case, n), COMPILED[case]
        return lambda: jax.block_until_ready(f(*arrays))

    def donate():
        *state, gradient = operands(case, n)

        def run():
            state[:] = jax.block_until_ready(ADAMW(*state, gradient))

        return run

    return [("jit", jit)] * (case in CASES) + [("jit, donate", donate)] * (case == "fused/adamw")


serve(forms)
