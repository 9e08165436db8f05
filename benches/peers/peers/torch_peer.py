"""PyTorch on the CPU: eager (`new`, `out=`), compiled (`compile`), and its own fused functions, without gradients; training
steps."""

import torch
import torch.nn.functional as F
import torch_training
from harness import BINS, ENCODER, SHARE, THREADS, TOP, inputs, serve

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def swiglu(x, y):
    return x * torch.sigmoid(x) * y


def ratio(a, b, c, d):
    return (a * b + c) / (d.abs() + 1e-6)


def adamw(p, m, v, g):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    p.mul_(1 - 1e-5).addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)


def user(x, y):
    return x * y + torch.sin(x)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)


def rms_norm(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def distances(points, centers):
    return ((points[:, None] - centers) ** 2).sum(2)


def conv(x, w):
    return F.conv2d(x, w, padding=1)


def encoder(x, wqkv, bqkv, wout, bout, wwide, bwide, wnarrow, bnarrow, weight, bias):
    batches, tokens, width = x.shape
    heads = ENCODER[2]
    q, k, v = F.linear(x, wqkv, bqkv).view(batches, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batches, tokens, width)
    x = layer_norm(x + F.linear(y, wout, bout), weight, bias)
    return layer_norm(x + F.linear(F.gelu(F.linear(x, wwide, bwide)), wnarrow, bnarrow), weight, bias)


EAGER = {
    "view/slice": lambda a: a[1 : len(a) // 2, 2 : len(a) // 2],
    "view/transpose": lambda a: a.t(),
    "view/permute4": lambda a: a.permute(0, 2, 3, 1),
    "view/broadcast": lambda a: a.expand(a.shape[1], a.shape[1]),
    "view/reshape": lambda a: a.view(len(a) // 2, len(a) * 2),
    "ew/add": torch.add,
    "ew/add_inplace": lambda a, b: a.add_(b),
    "ew/add_row": torch.add,
    "ew/add_col": torch.add,
    "ew/add_t": lambda a, b: a + b.t(),
    "ew/step2": lambda a, b: a[:, ::2] + b[:, ::2],
    "fused/gelu": lambda x: F.gelu(x, approximate="tanh"),
    "fused/swiglu": lambda x, y: F.silu(x) * y,
    "fused/ratio": ratio,
    "fused/adamw": adamw,
    "user/f": user,
    "trans/exp": torch.exp,
    "trans/tanh": torch.tanh,
    "trans/log": torch.log,
    "trans/erf": torch.erf,
    "trans/sin": torch.sin,
    "red/sum": torch.sum,
    "red/sum0": lambda a: a.sum(0),
    "red/sum1": lambda a: a.sum(1),
    "red/max1": lambda a: a.amax(1),
    "red/argmax1": lambda a: a.argmax(1),
    "red/meanvar1": lambda a: torch.var_mean(a, 1, correction=0),
    "red/softmax": lambda a: torch.softmax(a, 1),
    "red/layernorm": layer_norm,
    "red/scaled_softmax": lambda a: torch.softmax(a / 8, 1),
    "red/rmsnorm": rms_norm,
    "short/distances": distances,
    "short/sum": lambda a: a.sum(1),
    "short/median": lambda a: torch.median(a, 1),
    "nn/crossentropy": F.cross_entropy,
    "dm/sort": lambda a: a.sort().values,
    "dm/argsort": torch.argsort,
    "dm/quantile": lambda a: torch.kthvalue(a, int(SHARE * len(a))),
    "dm/histogram": lambda a: torch.histc(a, BINS, -1, 1),
    "dm/unique": torch.unique,
    "dm/scatter": lambda a, at, b: a.scatter_add_(0, at, b),
    "mm/f32": torch.mm,
    "mm/f64": torch.mm,
    "mm/f16": torch.mm,
    "mm/bf16": torch.mm,
    "mm/i8": torch._int_mm,
    "mm/gemv": torch.mv,
    "mm/skinny16": torch.mm,
    "mm/batched64": torch.bmm,
    "dm/transpose": lambda a: a.t().contiguous(),
    "dm/nhwc": lambda a: a.permute(0, 2, 3, 1).contiguous(),
    "dm/concat0": lambda a, b: torch.cat((a, b), 0),
    "dm/concat1": lambda a, b: torch.cat((a, b), 1),
    "dm/gather": lambda a, at: a.index_select(0, at),
    "dm/cumsum0": lambda a: a.cumsum(0),
    "dm/cumsum1": lambda a: a.cumsum(1),
    "dm/sort1": lambda a: a.sort(1),
    "dm/topk10": lambda a: a.topk(TOP, 1),
    "nn/conv2d": conv,
    "nn/conv1d": lambda x, w: F.conv1d(x, w, padding=2),
    "nn/conv3d": lambda x, w: F.conv3d(x, w, padding=1),
    "nn/depthwise": lambda x, w: F.conv2d(x, w, padding=1, groups=len(w)),
    "nn/max_pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "nn/attention": F.scaled_dot_product_attention,
    "nn/causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "nn/encoder": encoder,
    "mm/einsum3": lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c),
}
OUT = {
    "ew/add": lambda out, a, b: torch.add(a, b, out=out),
    "ew/add_row": lambda out, a, b: torch.add(a, b, out=out),
    "ew/add_col": lambda out, a, b: torch.add(a, b, out=out),
    "ew/add_t": lambda out, a, b: torch.add(a, b.t(), out=out),
    "trans/exp": lambda out, a: torch.exp(a, out=out),
    "trans/tanh": lambda out, a: torch.tanh(a, out=out),
    "trans/log": lambda out, a: torch.log(a, out=out),
    "trans/erf": lambda out, a: torch.erf(a, out=out),
    "trans/sin": lambda out, a: torch.sin(a, out=out),
    "red/softmax": lambda out, a: torch.softmax(a, 1, out=out),
    "mm/f32": lambda out, a, b: torch.mm(a, b, out=out),
    "mm/f64": lambda out, a, b: torch.mm(a, b, out=out),
    "dm/transpose": lambda out, a: out.copy_(a.t()),
    "dm/cumsum0": lambda out, a: torch.cumsum(a, 0, out=out),
    "dm/cumsum1": lambda out, a: torch.cumsum(a, 1, out=out),
}
COMPILE = {
    "fused/gelu": gelu,
    "fused/swiglu": swiglu,
    "fused/ratio": ratio,
    "fused/adamw": adamw,
    "user/f": user,
    "ew/add_t": EAGER["ew/add_t"],
    "red/meanvar1": EAGER["red/meanvar1"],
    "red/softmax": EAGER["red/softmax"],
    "red/layernorm": layer_norm,
    "red/scaled_softmax": EAGER["red/scaled_softmax"],
    "red/rmsnorm": rms_norm,
    "short/distances": distances,
    "short/sum": EAGER["short/sum"],
}
ELEMENT = {"mm/f64": torch.float64, "mm/f16": torch.float16, "mm/bf16": torch.bfloat16}
compiled = {}


def operands(case, n):
    return [torch.from_numpy(a).to(ELEMENT[case]) if case in ELEMENT else torch.from_numpy(a) for a in inputs(case, n)]


def forms(case, n):
    def eager():
        tensors, f = operands(case, n), EAGER[case]
        return lambda: f(*tensors)

    def out():
        tensors, f = operands(case, n), OUT[case]
        into = torch.zeros_like(tensors[0])
        return lambda: f(into, *tensors)

    def compile():
        tensors = operands(case, n)
        f = compiled.setdefault((case, n), torch.compile(COMPILE[case], dynamic=False, fullgraph=True))
        return lambda: f(*tensors)

    def optimiser():
        values, _, _, gradient = operands(case, n)
        parameter = torch.nn.Parameter(values)
        parameter.grad = gradient
        step = torch.optim.AdamW([parameter], lr=1e-3, fused=True).step
        return lambda: step()

    def channels_last():
        x, w = (tensor.to(memory_format=torch.channels_last) for tensor in operands(case, n))
        return lambda: conv(x, w)

    if case.startswith("train/"):
        return torch_training.forms(case, n)
    match case:
        case "create/zeros":
            return [("zeros", lambda: lambda: torch.zeros(n, n))]
        case "create/full":
            return [("full", lambda: lambda: torch.full((n, n), 1.5))]
    return (
        [("new", eager)] * (case in EAGER)
        + [("out=", out)] * (case in OUT)
        + [("compile", compile)] * (case in COMPILE)
        + [("AdamW(fused=True)", optimiser)] * (case == "fused/adamw")
        + [("channels last", channels_last)] * (case == "nn/conv2d")
    )


serve(forms, torch_training.kept_bytes)
