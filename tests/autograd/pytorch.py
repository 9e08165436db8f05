"""Losses and gradients of four small programs, and their parameters after five steps of two optimizers, by PyTorch in
f64: writes pytorch.txt, which pytorch.rs reads.

A line is `program what name numbers…`. `what` is `gradient` (of the first parameters), or the name of an optimizer:
its losses before each step, and each parameter after the last one.
`python3 tests/autograd/pytorch.py > tests/autograd/pytorch.txt`
"""

import math

import torch
import torch.nn.functional as F

STEPS = 5
WORD = (1 << 64) - 1


def unit(seed, k):
    """A number in (0, 1): `unit` of check.rs."""
    z = ((seed << 32 ^ k) + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return ((z ^ z >> 31) >> 12) / (1 << 52)


def between(size, seed, low=-1.0, high=1.0):
    values = [low + (high - low) * unit(seed, k) for k in range(math.prod(size))]
    return torch.tensor(values, dtype=torch.float64).reshape(size)


def mlp(p):
    hidden = (between((8, 16), 1) @ p["first"] + p["first_bias"]).relu()
    return F.cross_entropy(hidden @ p["second"] + p["second_bias"], torch.arange(8) * 7 % 5)


def logistic(p):
    scores = between((12, 9), 2) @ p["weight"] + p["bias"]
    return F.binary_cross_entropy_with_logits(scores, between((12,), 3, 0.0, 1.0))


def convolutions(p):
    x = F.conv2d(between((3, 2, 10, 8), 4), p["first"], p["first_bias"], padding=1).relu()
    x = F.conv2d(F.max_pool2d(x, 2), p["second"], p["second_bias"], padding=(1, 0), stride=(2, 1)).relu()
    return F.cross_entropy(x.mean((2, 3)) @ p["weight"] + p["bias"], torch.tensor([1, 4, 2]))


def attention(p):
    x, heads = between((2, 6, 8), 5), 2
    normed = F.layer_norm(x, (8,), p["attention_scale"], p["attention_shift"], 1e-5)
    split = lambda w: torch.einsum("bnd,de->bne", normed, w).reshape(2, 6, heads, 4).transpose(1, 2)
    y = F.scaled_dot_product_attention(split(p["query"]), split(p["key"]), split(p["value"]), is_causal=True)
    x = x + torch.einsum("bhne,hed->bnd", y, p["projection"].reshape(heads, 4, 8))
    normed = F.layer_norm(x, (8,), p["hidden_scale"], p["hidden_shift"], 1e-5)
    x = x + F.gelu(normed @ p["hidden"] + p["hidden_bias"]) @ p["output"] + p["output_bias"]
    return F.mse_loss(x, between((2, 6, 8), 6))


# Each program and the sizes of its parameters, whose numbers have the seeds 10, 11, …
PROGRAMS = {
    mlp: {"first": (16, 12), "first_bias": (12,), "second": (12, 5), "second_bias": (5,)},
    logistic: {"weight": (9,), "bias": (1,)},
    convolutions: {
        "first": (4, 2, 3, 3),
        "first_bias": (4,),
        "second": (6, 4, 3, 3),
        "second_bias": (6,),
        "weight": (6, 5),
        "bias": (5,),
    },
    attention: {
        "attention_scale": (8,),
        "attention_shift": (8,),
        "query": (8, 8),
        "key": (8, 8),
        "value": (8, 8),
        "projection": (8, 8),
        "hidden_scale": (8,),
        "hidden_shift": (8,),
        "hidden": (8, 16),
        "hidden_bias": (16,),
        "output": (16, 8),
        "output_bias": (8,),
    },
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.01),
}


def put(program, what, name, numbers):
    print(program.__name__, what, name, *(repr(float(x)) for x in numbers.reshape(-1)))


for program, sizes in PROGRAMS.items():
    for optimizer, make in OPTIMIZERS.items():
        p = {name: between(size, 10 + k).requires_grad_() for k, (name, size) in enumerate(sizes.items())}
        update, losses = make(p.values()), []
        for step in range(STEPS):
            update.zero_grad()
            loss = program(p)
            loss.backward()
            losses.append(loss.item())
            if step == 0 and optimizer == "sgd":
                for name, x in p.items():
                    put(program, "gradient", name, x.grad)
            update.step()
        put(program, optimizer, "losses", torch.tensor(losses, dtype=torch.float64))
        for name, x in p.items():
            put(program, optimizer, name, x.detach())
