"""NumPy's and PyTorch's side of DLPack: every element and layout goes to the library and comes back, with the same bytes and,
where it is not copied, at the same address; memory is given back. `check.py LIBRARY`."""
import ctypes
import gc
import sys
import weakref

import numpy as np

try:
    import torch
except ImportError:
    torch = None

bridge = ctypes.CDLL(sys.argv[1])
bridge.bridge_bytes.restype = ctypes.c_ssize_t
bridge.bridge_bytes.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
bridge.bridge_turn.restype = ctypes.c_void_p
bridge.bridge_turn.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
bridge.bridge_drop_elsewhere.argtypes = [ctypes.c_void_p]
bridge.bridge_drop_elsewhere.restype = None
api = ctypes.pythonapi
DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
NAME, USED = b"dltensor_versioned", b"used_dltensor_versioned"


def take(x):
    """The struct that a producer makes; its capsule is used then."""
    capsule = x.__dlpack__(max_version=(1, 0))
    pointer = api.PyCapsule_GetPointer(capsule, NAME)
    api.PyCapsule_SetName(capsule, USED)
    return pointer


class Given:
    """A producer as the protocol wants it."""

    def __init__(self, pointer):
        assert pointer, "refused"
        self.capsule = api.PyCapsule_New(pointer, NAME, None)

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def turned(x, form):
    axes = tuple(range(x.ndim))
    if form == 1:
        return x.transpose(axes[::-1])
    if form == 2 and axes:
        return x[tuple(slice(None, None, -1) for _ in axes)]
    if form == 3 and x.ndim:
        return x[..., ::2]
    return x


def layouts(make):
    yield make(())
    yield make((5,))
    yield make((0, 3))
    yield make((3, 4))
    yield make((3, 4)).T
    yield make((6, 8))[::2, 1::3]
    yield make((2, 3, 4)).transpose(1, 2, 0) if isinstance(make((1,)), np.ndarray) else make((2, 3, 4)).permute(1, 2, 0)


def check_numpy():
    count = 0
    for dtype in "?,i1,i2,i4,i8,u1,u2,u4,u8,f2,f4,f8,c8,c16".split(","):
        make = lambda shape: (np.arange(int(np.prod(shape))) % 5).astype(dtype).reshape(shape)
        every = list(layouts(make)) + [make((3, 4))[::-1, ::-1], np.broadcast_to(make((1, 4)), (3, 4))]
        for x in every:
            room = ctypes.create_string_buffer(x.size * x.itemsize + 1)
            n = bridge.bridge_bytes(take(x), room, len(room))
            assert room.raw[:n] == x.tobytes(), (dtype, x.shape, x.strides)
            for form in range(4):
                y = np.from_dlpack(Given(bridge.bridge_turn(take(x), form)))
                z = turned(x, form)
                assert y.dtype == x.dtype and y.shape == z.shape and y.tobytes() == z.tobytes(), (dtype, form, x.strides)
                if x.flags.writeable and z.size:
                    assert y.ctypes.data == z.ctypes.data and y.flags.writeable == z.flags.writeable, (dtype, form, x.strides)
            count += 1
    return count


def check_torch():
    count = 0
    names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex32 complex64 complex128"
    names += " float8_e4m3fn float8_e5m2"
    for name in names.split():
        dtype = getattr(torch, name)
        make = lambda shape: (torch.arange(int(np.prod(shape))) % 5).to(torch.float32).to(dtype).reshape(shape)
        for x in layouts(make):
            bits = lambda x: x.contiguous().flatten().view(torch.uint8).numpy().tobytes() if x.numel() else b""
            room = ctypes.create_string_buffer(x.numel() * x.element_size() + 1)
            n = bridge.bridge_bytes(take(x), room, len(room))
            assert room.raw[:n] == bits(x), (name, tuple(x.shape))
            for form in [0, 1, 3]:  # PyTorch has no negative strides
                y = torch.from_dlpack(Given(bridge.bridge_turn(take(x), form)))
                z = {0: x, 1: x.permute(tuple(range(x.ndim))[::-1]), 3: x[..., ::2] if x.ndim else x}[form]
                assert y.dtype == x.dtype and y.shape == z.shape and bits(y) == bits(z), (name, form, tuple(x.shape))
                if z.numel():
                    assert y.data_ptr() == z.data_ptr(), (name, form)
            count += 1
    return count


class Memory(np.ndarray):
    """An array that can be watched."""


def check_memory():
    """All memory is released: of imported tensors, of tensors imported and exported, and of exported ones that were never imported."""
    for path in ["drop", "turn", "never"]:
        x = np.arange(1000, dtype="f4").view(Memory)
        watch = weakref.ref(x)
        y = np.asarray(x)
        y = x.view()
        del y
        if path == "drop":
            bridge.bridge_drop_elsewhere(take(x))
            del x
        elif path == "turn":
            z = np.from_dlpack(Given(bridge.bridge_turn(take(x), 2)))
            del x
            gc.collect()
            assert watch() is not None and z[0] == 999.0, "it lives as long as the other side needs it"
            del z
        else:
            del x
        gc.collect()
        assert watch() is None, path


print("DLPack:", check_numpy(), "arrays of NumPy", np.__version__)
if torch is None:
    print("skipped: no PyTorch here")
else:
    print("DLPack:", check_torch(), "tensors of PyTorch", torch.__version__)
check_memory()
