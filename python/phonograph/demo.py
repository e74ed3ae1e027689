# SPDX-License-Identifier: MIT
"""python -m phonograph.demo: captures some work, replays it, rebinds its input, and finds a stale input. Needs no numpy."""

import ctypes
import sys
import time

import phonograph

SAXPY = """
extern "C" __global__ void saxpy(unsigned n, float a, const float *x, float *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}
"""
COUNT = 1024
CHAIN = 100  # launches in one graph


def saxpy(blocks, arguments):
    """The same for the host device, in Python."""
    x = (ctypes.c_float * arguments.n).from_address(arguments.x)
    y = (ctypes.c_float * arguments.n).from_address(arguments.y)
    for i in range(blocks.begin * blocks.block[0], min(blocks.end * blocks.block[0], arguments.n)):
        y[i] += arguments.a * x[i]


def floats(stream, array):
    """The numbers of an array, in a list."""
    kept = (ctypes.c_float * array.size)()
    stream.copy(kept, array)
    stream.synchronize()
    return list(kept)


def expect(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: {found[:4]}... instead of {expected[:4]}...")


def show_kernel(device, stream):
    """A kernel in two forms, captured and replayed, its input rebound by a slot."""
    parameters = [("n", ctypes.c_uint32), ("a", ctypes.c_float), ("x", phonograph.address), ("y", phonograph.address)]
    try:
        kernel = device.kernel("saxpy", parameters=parameters, cuda=SAXPY, host=saxpy)
    except phonograph.UnsupportedError as error:
        print(f"no kernel: {error}")
        return
    x, other, y = stream.zeros(COUNT), stream.zeros(COUNT), stream.zeros(COUNT)
    stream.fill(x, 1.0)
    stream.fill(other, 10.0)
    graph = phonograph.Graph()
    with graph.capture(stream):
        stream.launch(kernel, COUNT, 2.0, x, y, grid=COUNT // 256, block=256)
    graph.slot("x", x)
    graph.replay(stream)
    expect(floats(stream, y), [2.0] * COUNT, "a replay")
    graph.replay(stream, x=other)
    expect(floats(stream, y), [22.0] * COUNT, "a replay with another input")
    print("saxpy: captured once, replayed, and replayed with another input: no copy, no second capture")


def show_speed(stream):
    """A chain of short work, launched one by one and replayed."""
    arrays = [stream.zeros(COUNT) for _ in range(CHAIN)]

    def work():
        for array in arrays:
            stream.fill(array, 1.0)

    graph = phonograph.Graph()
    with graph.capture(stream):
        work()

    def median_of(function):
        times = []
        for _ in range(50):
            stream.synchronize()
            begin = time.perf_counter()
            function()
            stream.synchronize()
            times.append(time.perf_counter() - begin)
        return sorted(times)[len(times) // 2] * 1e6

    eager, replayed = median_of(work), median_of(lambda: graph.replay(stream))
    print(f"{CHAIN} fills: {eager:.0f} us one by one, {replayed:.0f} us as one launch")
    return graph


def show_stale_input(stream):
    """An input that is freed while a graph still addresses it."""
    x, y = stream.zeros(COUNT), stream.zeros(COUNT)
    graph = phonograph.Graph()
    with graph.capture(stream, check_input_liveness=True, enable_annotations=True):
        with phonograph.annotate(stream, "copy the input"):
            stream.copy(y, x)
    graph.replay(stream)
    del x
    try:
        graph.replay(stream)
    except phonograph.StaleInput as error:
        print(f"the stale input is found: {error}")
    else:
        sys.exit("the stale input was not found")
    return graph


def main():
    device = phonograph.Device("auto")
    print(f"phonograph {phonograph.__version__} on {device.name}: {device.info['description']}")
    stream = device.stream()
    show_kernel(device, stream)
    show_speed(stream)
    graph = show_stale_input(stream)
    try:
        page = graph.record().html()
    except (FileNotFoundError, phonograph.Error) as error:
        print(f"no page: {error}")
        return
    with open("phonograph-demo.html", "w", encoding="utf-8") as file:
        file.write(page)
    print("the graph's page: phonograph-demo.html")


if __name__ == "__main__":
    main()
