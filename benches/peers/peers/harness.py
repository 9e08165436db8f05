"""The common part of the peers in Python: the same numbers as the other programs, the clock, and the lines of the driver.

Asked for a case, `ew/add/256`, a program answers a line for each way of computing it, `form <TAB> ns,ns,...`, then `end`.
"""

import os
import sys
import time

import numpy as np

THREADS = int(os.environ.get("PEER_THREADS", "1"))
SAMPLE_NS = 2e6

GATHER = (100_000, 50_000, 256)
NCHW = (32, 64, 56, 56)
IMAGES = (8, 64, 56, 56)
SIGNALS, SIGNAL_WEIGHTS = (8, 64, 4096), (64, 64, 5)
VOLUMES, VOLUME_WEIGHTS = (2, 16, 24, 24, 24), (32, 16, 3, 3, 3)
POOLED = (8, 64, 112, 112)
ENCODER = (8, 384, 12)
BATCH, SKINNY, TOP = 64, 16, 10
DISTANCES, SHORT, KINDS, SHARE, BINS = (20_000, 16), 1 << 20, 1000, 0.3, 100


def mixed(count, seed):
    """32 well-mixed bits of each place and a seed; the same as in src/lib.rs."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed * 0x85EBCA6B & 0xFFFFFFFF)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x735A2D97)
    return x ^ (x >> np.uint32(15))


def uniform(*shape, seed=1):
    bits = mixed(int(np.prod(shape)), seed) >> np.uint32(8)
    return (bits.astype(np.float32) * np.float32(2**-23) - np.float32(1)).reshape(shape)


def positive(*shape, seed=1):
    return np.abs(uniform(*shape, seed=seed)) + np.float32(0.05)


def small_integers(*shape, seed=1):
    return (mixed(int(np.prod(shape)), seed) % np.uint32(201)).astype(np.int16).reshape(shape) - 100


def places_of(count, bound, seed):
    return (mixed(count, seed) % np.uint32(bound)).astype(np.int32)


def places():
    taken, rows, _ = GATHER
    return places_of(taken, rows, 7)


def inputs(case, n):
    """The operands of a case, as NumPy arrays."""
    square = lambda seed: uniform(n, n, seed=seed)
    match case:
        case "ew/add_row":
            return square(1), uniform(1, n, seed=2)
        case "ew/add_col":
            return square(1), uniform(n, 1, seed=2)
        case "ew/add" | "ew/add_inplace" | "ew/add_t" | "ew/step2" | "fused/swiglu" | "user/f":
            return square(1), square(2)
        case "fused/ratio":
            return square(1), square(2), square(3), positive(n, n, seed=4)
        case "fused/adamw":
            return square(1), square(2), positive(n, n, seed=3), square(4)
        case "trans/log":
            return (positive(n, n),)
        case "red/layernorm":
            return square(1), uniform(n, seed=2), uniform(n, seed=3)
        case "red/rmsnorm":
            return square(1), uniform(n, seed=2)
        case "short/distances":
            points, centers = DISTANCES
            return uniform(points, n), uniform(centers, n, seed=2)
        case "short/sum" | "short/median":
            return (uniform(SHORT // n, n),)
        case "nn/crossentropy":
            return square(1), (mixed(n, 7) % np.uint32(n)).astype(np.int64)
        case "dm/sort" | "dm/argsort" | "dm/quantile" | "dm/histogram":
            return (uniform(n * n),)
        case "dm/unique":
            return ((mixed(n * n, 7) % np.uint32(KINDS)).astype(np.int64),)
        case "dm/scatter":
            return uniform(KINDS, seed=2), (mixed(n * n, 7) % np.uint32(KINDS)).astype(np.int64), uniform(n * n)
        case "mm/gemv":
            return square(1), uniform(n, seed=2)
        case "mm/skinny16":
            return uniform(SKINNY, n), square(2)
        case "mm/batched64":
            return uniform(BATCH, n, n), uniform(BATCH, n, n, seed=2)
        case "mm/i8":
            return small_integers(n, n).astype(np.int8), small_integers(n, n, seed=2).astype(np.int8)
        case "mm/f32" | "mm/f64" | "mm/f16" | "mm/bf16" | "dm/concat0" | "dm/concat1":
            return square(1), square(2)
        case "dm/nhwc":
            return (uniform(*NCHW),)
        case "dm/gather":
            return uniform(*GATHER[1:]), places()
        case "nn/conv2d":
            channels = IMAGES[1]
            return uniform(*IMAGES), uniform(channels, channels, 3, 3, seed=2)
        case "nn/conv1d":
            return uniform(*SIGNALS), uniform(*SIGNAL_WEIGHTS, seed=2)
        case "nn/conv3d":
            return uniform(*VOLUMES), uniform(*VOLUME_WEIGHTS, seed=2)
        case "nn/depthwise":
            return uniform(*IMAGES), uniform(IMAGES[1], 1, 3, 3, seed=2)
        case "nn/max_pool":
            return (uniform(*POOLED),)
        case "nn/attention" | "nn/causal":
            heads = (1, 8, n, 64) if n > 1024 else (8, 12, n, 32)
            return tuple(uniform(*heads, seed=seed) for seed in (1, 2, 3))
        case "nn/encoder":
            batches, width, _ = ENCODER
            linear = lambda outputs, inputs, seed: (
                uniform(outputs, inputs, seed=seed) / np.float32(inputs**0.5),
                uniform(outputs, seed=seed + 1),
            )
            layers = linear(3 * width, width, 2), linear(width, width, 4), linear(4 * width, width, 6), linear(width, 4 * width, 8)
            norm = uniform(width, seed=10), uniform(width, seed=11)
            return uniform(batches, n, width), *(array for layer in layers for array in layer), *norm
        case "mm/einsum3":
            return square(1), square(2), square(3)
        case "view/permute4":
            return (uniform(2, 3, 4, 5),)
        case "view/broadcast":
            return (uniform(1, n),)
        case "create/zeros" | "create/full":
            return ()
        case _:
            return (square(1),)


def measure(run):
    """Nanoseconds a run: up to six samples, each the mean of as many runs as fill two milliseconds."""

    def mean(runs):
        start = time.perf_counter_ns()
        for _ in range(runs):
            run()
        return (time.perf_counter_ns() - start) / runs

    mean(1)
    first = mean(1)
    runs = int(min(max(SAMPLE_NS / max(first, 200), 1), 20_000))
    if runs > 1:
        runs = int(min(max(SAMPLE_NS / max(mean(runs), 50), 1), 40_000))
    samples = 1 if first > 400e6 else 2 if first > 50e6 else 4 if first > 2e6 else 6
    return [mean(runs) for _ in range(samples)]


def serve(forms, kept=lambda case, n: ()):
    """Answers the driver; `forms(case, n)` gives names and functions that return the function to be timed,
    `kept(case, n)` names and functions that count the bytes that a forward pass keeps."""
    for line in sys.stdin:
        case, _, n = line.strip().rpartition("/")
        for form, setup in forms(case, int(n)):
            try:
                times = ",".join(f"{ns:.2f}" for ns in measure(setup()))
            except Exception as error:  # whatever a library raises is its answer
                times = "failed: " + " ".join(f"{type(error).__name__} {error}".split())[:160]
            print(form, times, sep="\t", flush=True)
        for form, count in kept(case, int(n)):
            print(form, f"bytes:{count()}", sep="\t", flush=True)
        print("end", flush=True)
