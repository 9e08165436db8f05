"""The other side of python.rs: writes files by NumPy and safetensors, and reads those that rankform wrote.

    round_trip.py write FOLDER    for every element and case: NAME.npy, NAME.bin with the elements row-major and native,
                                  all in stored.npz, deflated.npz and all.safetensors
    round_trip.py check FOLDER    whether the files in FOLDER/back hold the same

Prints one line a family of files, or `skipped: why`. `safetensors` may be missing: its part then says so.
"""
import os
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: no NumPy here")
    sys.exit(0)
try:
    import safetensors.numpy as st
except ImportError:
    st = None

DTYPES = "?,i1,i2,i4,i8,u1,u2,u4,u8,f2,f4,f8,c8,c16".split(",")
NO_SAFETENSORS = {"c16"}  # the format has no name for it


def base(dtype, shape):
    count = int(np.prod(shape))
    x = (np.arange(count) * 7 - 3).astype(dtype)
    if np.dtype(dtype).kind == "c":
        x = x * dtype_one(dtype)
    if np.dtype(dtype).kind in "fc" and count > 3:
        x[1], x[2], x[3] = np.nan, -np.inf, -0.0
    return x.reshape(shape)


def dtype_one(dtype):
    return np.dtype(dtype).type(1 + 2j)


def cases(dtype):
    """Arrays of all layouts that a NumPy array can have."""
    yield "scalar", base(dtype, ())
    yield "empty", base(dtype, (0, 3))
    yield "vector", base(dtype, (5,))
    yield "matrix", base(dtype, (3, 4))
    yield "fortran", np.asfortranarray(base(dtype, (3, 4)))
    yield "cube", base(dtype, (2, 3, 4))
    yield "cube_fortran", base(dtype, (4, 3, 2)).T
    yield "strided", base(dtype, (6, 8))[::2, 1::3]
    yield "negative", base(dtype, (3, 4))[::-1, ::-1]
    yield "permuted", base(dtype, (2, 3, 4)).transpose(1, 2, 0)
    yield "repeated", np.broadcast_to(base(dtype, (1, 4)), (3, 4))
    yield "big_endian", base(dtype, (3, 4)).astype(np.dtype(dtype).newbyteorder(">"))
    yield "little_endian", base(dtype, (3, 4)).astype(np.dtype(dtype).newbyteorder("<"))


def named():
    for dtype in DTYPES:
        for case, x in cases(dtype):
            yield np.dtype(dtype).name + "-" + case, x


def native(x):
    return np.ascontiguousarray(x.astype(x.dtype.newbyteorder("=")), dtype=x.dtype.newbyteorder("=")).reshape(x.shape)


def write(folder):
    every = dict(named())
    for name, x in every.items():
        np.save(os.path.join(folder, name + ".npy"), x)
        native(x).tofile(os.path.join(folder, name + ".bin"))
    np.savez(os.path.join(folder, "stored.npz"), **every)
    np.savez_compressed(os.path.join(folder, "deflated.npz"), **every)
    for version in [(1, 0), (2, 0), (3, 0)]:
        with open(os.path.join(folder, "version%d.npy" % version[0]), "wb") as file:
            np.lib.format.write_array(file, every["float32-matrix"], version=version)
    print("wrote", len(every), "arrays with NumPy", np.__version__)
    if st is None:
        print("skipped: no safetensors here")
        return
    kept = {name: native(x) for name, x in every.items() if x.dtype.str[1:] not in NO_SAFETENSORS}
    st.save_file(kept, os.path.join(folder, "all.safetensors"), metadata={"made": "by safetensors"})
    print("wrote", len(kept), "arrays with safetensors")


def same(name, x, y):
    assert y.shape == x.shape, (name, y.shape, x.shape)
    assert y.dtype == x.dtype.newbyteorder("="), (name, y.dtype, x.dtype)
    assert native(x).tobytes() == native(y).tobytes(), name


def check(folder):
    every, back = dict(named()), os.path.join(folder, "back")
    for name, x in every.items():
        for form in ["plain", "turned", "stepped", "backwards"]:
            y = np.load(os.path.join(back, name + "." + form + ".npy"))
            same(name + " " + form, x, y)
            if form == "turned" and x.ndim > 1 and min(x.shape) > 1:
                assert y.flags.f_contiguous, name
    for archive in ["stored", "deflated"]:
        with np.load(os.path.join(back, archive + ".npz")) as file:
            assert sorted(file.files) == sorted(every), archive
            for name, x in every.items():
                same(archive + " " + name, x, file[name])
    print("checked", len(every), "arrays with NumPy", np.__version__)
    if st is None:
        print("skipped: no safetensors here")
        return
    read = st.load_file(os.path.join(back, "all.safetensors"))
    kept = [name for name, x in every.items() if x.dtype.str[1:] not in NO_SAFETENSORS]
    assert sorted(read) == sorted(kept)
    for name in kept:
        same("safetensors " + name, every[name], read[name])
    print("checked", len(kept), "arrays with safetensors")


{"write": write, "check": check}[sys.argv[1]](sys.argv[2])
