"""Training steps of PyTorch on the CPU, eager: the losses of the models by their parameters."""

import gc

import torch
import torch.nn.functional as F
from harness import places_of, uniform

STEPS, WIDTH, CHANNELS, HEADS = 64, 32, 384, 6


def tensor(*size, seed=1):
    return torch.from_numpy(uniform(*size, seed=seed))


def labels(n):
    return torch.from_numpy(places_of(n, 10, 9)).long()


def mlp(widths):
    def make(n):
        layers = torch.nn.ModuleList(torch.nn.Linear(i, o) for i, o in zip(widths, widths[1:]))
        x, y = tensor(n, widths[0]), labels(n)

        def loss():
            h = x
            for layer in layers[:-1]:
                h = F.relu(layer(h))
            return F.cross_entropy(layers[-1](h), y)

        return layers, loss

    return make


def conv(n):
    convolutions = [torch.nn.Conv2d(i, o, 3, padding=1) for i, o in [(1, 16), (16, 32), (32, 64)]]
    net = torch.nn.ModuleList([*convolutions, torch.nn.Linear(256, 10)])
    x, y = tensor(n, 1, 8, 8), labels(n)
    first, second, third, last = net

    def loss():
        h = F.max_pool2d(F.relu(second(F.relu(first(x)))), 2)
        h = F.max_pool2d(F.relu(third(h)), 2)
        return F.cross_entropy(last(h.flatten(1)), y)

    return net, loss


def transformer(n):
    d = CHANNELS
    parts = [torch.nn.LayerNorm(d), torch.nn.Linear(d, 3 * d), torch.nn.Linear(d, d)]
    parts += [torch.nn.LayerNorm(d), torch.nn.Linear(d, 4 * d), torch.nn.Linear(4 * d, d)]
    net = torch.nn.ModuleList(parts)
    attention_norm, attention, projection, hidden_norm, hidden, output = net
    x = tensor(n, 128, d)

    def loss():
        q, k, v = attention(attention_norm(x)).view(n, 128, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = x + projection(y.transpose(1, 2).reshape(n, 128, d))
        h = h + output(F.gelu(hidden(hidden_norm(h))))
        return h.square().mean()

    return net, loss


def lstm(n, at_once=False):
    of_x, of_h = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False)
    x = tensor(STEPS, n, WIDTH)

    def loss():
        h = c = torch.zeros(n, WIDTH)
        for step in of_x(x) if at_once else x:
            i, f, g, o = ((step if at_once else of_x(step)) + of_h(h)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h.square().mean()

    return torch.nn.ModuleList([of_x, of_h]), loss


def lstm_module(n):
    net, x = torch.nn.LSTM(WIDTH, WIDTH), tensor(STEPS, n, WIDTH)
    return net, lambda: net(x)[0][-1].square().mean()


MODELS = {
    "train/mlp_small": [("eager", mlp([64, 256, 10]))],
    "train/mlp": [("eager", mlp([784, 1024, 1024, 10]))],
    "train/conv": [("eager", conv)],
    "train/transformer": [("eager", transformer)],
    "train/lstm": [("eager", lstm), ("inputs at once", lambda n: lstm(n, True)), ("nn.LSTM", lstm_module)],
}


def step(case, make, n):
    """A function that makes one training step."""
    net, loss = make(n)
    parameters = list(net.parameters())
    plain = case == "train/lstm"
    optimizer = torch.optim.SGD(parameters, 1e-2, fused=True) if plain else torch.optim.AdamW(parameters, 1e-3, fused=True)

    def run():
        with torch.enable_grad():
            value = loss()
            value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value.item()

    return run


def kept(make, n):
    """Bytes of the tensors that a forward pass saves, without parameters and inputs."""
    net, loss = make(n)
    tensors = [x for x in gc.get_objects() if issubclass(type(x), torch.Tensor)]
    before = {x.untyped_storage().data_ptr() for x in tensors}
    saved = {}

    def pack(x):
        storage = x.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        value = loss()
    del value
    return sum(nbytes for address, nbytes in saved.items() if address not in before)


def forms(case, n):
    """Names of forms, and functions that return the function to be timed."""
    return [(name, lambda make=make: step(case, make, n)) for name, make in MODELS.get(case, [])]


def kept_bytes(case, n):
    """Names of forms, and functions that count the bytes that the forward pass keeps."""
    return [(name, lambda make=make: kept(make, n)) for name, make in MODELS.get(case, [])]
