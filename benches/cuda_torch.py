"""The cases of benches/cuda.rs in PyTorch, one a line: case, tab, seconds. Chains are compiled (torch.compile) where that works."""
import os
import sys
import time

import torch

if not torch.cuda.is_available():
    sys.exit("no GPU")
numel = int(os.environ.get("RANKFORM_BENCH_MIB", 512)) << 18
side = int(os.environ.get("RANKFORM_BENCH_MATRIX", 8192))
x, y, z = (torch.rand(max(numel // 4096, 1), 4096, device="cuda") for _ in range(3))
xh, yh = x.bfloat16(), y.bfloat16()
m = torch.rand(side, side, device="cuda")
mh = m.bfloat16()
torch.backends.cuda.matmul.allow_tf32 = False


def seconds(run, runs=10):
    run()
    least = float("inf")
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(runs):
            run()
        torch.cuda.synchronize()
        least = min(least, (time.perf_counter() - start) / runs)
    return least


def host(run, runs=2000):
    run()
    least = float("inf")
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(runs):
            run()
        least = min(least, (time.perf_counter() - start) / runs)
    torch.cuda.synchronize()
    return least


def chain(x, y, z):
    return torch.exp(torch.tanh(x * y + z) * 0.5)


try:
    fused = torch.compile(chain)
    fused(x, y, z)
except Exception as error:  # no compiler for Triton: the eager chain, which is another measure
    print(f"torch.compile: {error}", file=sys.stderr)
    fused = None
cases = {
    "copy f32": lambda: x.clone(),
    "add f32": lambda: x + y,
    "exp f32": lambda: x.exp(),
    "add bf16": lambda: xh + yh,
    "sum rows f32": lambda: x.sum(1),
    "sum columns f32": lambda: x.sum(0),
    "sum all f32": lambda: x.sum(),
    "max rows bf16": lambda: xh.amax(1),
    "transpose f32": lambda: x.t().contiguous(),
    "softmax f32": lambda: x.softmax(1),
    "softmax bf16": lambda: xh.softmax(1),
    "layer norm f32": lambda: torch.nn.functional.layer_norm(x, (4096,)),
    "matmul f32": lambda: m @ m,
    "matmul bf16": lambda: mh @ mh,
}
if fused:
    cases["chain f32"] = lambda: fused(x, y, z)
for case, run in cases.items():
    print(case, seconds(run), sep="\t")
small, out = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
print("launch", host(lambda: torch.abs(small, out=out)), sep="\t")
print("launch and result", host(lambda: small.abs()), sep="\t")
print("allocate and free", host(lambda: torch.empty(1 << 16, dtype=torch.uint8, device="cuda")), sep="\t")
