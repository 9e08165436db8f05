//! The simulator finds work that is not ordered: a free before the last use, a read concurrent with a write.

mod common;

use cuda_sim::*;

const ILLEGAL_ADDRESS: i32 = 700;

/// Two streams of a device of its own, and memory.
struct Case {
    streams: [usize; 2],
    memory: u64,
    event: usize,
}

impl Case {
    fn new(device: usize) -> Case {
        let mut case = Case { streams: [0; 2], memory: 0, event: 0 };
        // SAFETY: the outputs are valid for writes.
        unsafe {
            assert_eq!(cuCtxSetCurrent(0x1000 + device), 0);
            case.streams.iter_mut().for_each(|stream| assert_eq!(cuStreamCreate(stream, 1), 0));
            assert_eq!((cuMemAlloc_v2(&mut case.memory, 64), cuEventCreate(&mut case.event, 2)), (0, 0));
        }
        case
    }
    fn write(&self, stream: usize) {
        // SAFETY: the memory belongs to this case.
        assert_eq!(unsafe { cuMemsetD8Async(self.memory, 7, 64, self.streams[stream]) }, 0);
    }
    fn read(&self, stream: usize) {
        let mut other = 0;
        // SAFETY: both allocations have the same size.
        unsafe {
            assert_eq!(cuMemAlloc_v2(&mut other, 64), 0);
            assert_eq!(cuMemcpyDtoDAsync_v2(other, self.memory, 64, self.streams[stream]), 0);
        }
    }
    fn free(&self, stream: usize) {
        // SAFETY: the memory belongs to this case, and is freed once.
        assert_eq!(unsafe { cuMemFreeAsync(self.memory, self.streams[stream]) }, 0);
    }
    /// Makes the second stream wait for the first.
    fn order(&self) {
        // SAFETY: the streams and the event belong to this case.
        unsafe {
            assert_eq!(cuEventRecord(self.event, self.streams[0]), 0);
            assert_eq!(cuStreamWaitEvent(self.streams[1], self.event, 0), 0);
        }
    }
    /// Waits for both streams, the second first: work of the first runs as late as possible. Returns the
    /// worse result.
    fn end(&self) -> i32 {
        // SAFETY: the streams belong to this case.
        let [first, second] = [1, 0].map(|stream| unsafe { cuStreamSynchronize(self.streams[stream]) });
        first.max(second)
    }
}

#[test]
fn a_free_that_is_recorded_before_the_last_use_is_found() {
    let case = Case::new(100);
    case.write(0);
    case.free(1);
    assert_eq!(case.end(), ILLEGAL_ADDRESS, "on another stream");

    let case = Case::new(101);
    case.write(0);
    case.order();
    case.free(1);
    assert_eq!(case.end(), 0, "ordered");

    let case = Case::new(102);
    case.free(0);
    case.write(0);
    assert_eq!(case.end(), ILLEGAL_ADDRESS, "on the same stream");
}

#[test]
fn an_unordered_use_and_write_are_found_and_two_reads_are_allowed() {
    for (device, first_writes, second_writes, ordered, expected) in [
        (110, true, false, false, ILLEGAL_ADDRESS),
        (111, false, true, false, ILLEGAL_ADDRESS),
        (112, true, true, false, ILLEGAL_ADDRESS),
        (113, false, false, false, 0),
        (114, true, false, true, 0),
        (115, false, true, true, 0),
    ] {
        let case = Case::new(device);
        let touch = |stream, writes| if writes { case.write(stream) } else { case.read(stream) };
        touch(0, first_writes);
        if ordered {
            case.order();
        }
        touch(1, second_writes);
        assert_eq!(case.end(), expected, "{first_writes} {second_writes} {ordered}");
    }
    // Here the host waits between the two uses.
    let case = Case::new(116);
    case.write(0);
    // SAFETY: the stream belongs to this case.
    assert_eq!(unsafe { cuStreamSynchronize(case.streams[0]) }, 0);
    case.write(1);
    assert_eq!(case.end(), 0);
}

#[test]
fn writes_of_kernels_are_found_and_limits_are_those_of_a_gpu() {
    if !common::has_compiler() {
        return;
    }
    let source = "struct Args { long long begun, operation; float* x; };
        extern \"C\" __global__ void kernel(const Args a) {
          __shared__ float s[4]; s[0] = 2.0f; a.x[threadIdx.x] = s[0]; }";
    let big = source.replace("s[4]", "s[12289]");
    let launch = |case: &Case, function, blocks, threads, shared| {
        common::launch(function, case.streams[0], blocks, threads, shared, &[0, 1, case.memory])
    };
    let (small, big) = (common::load(source), common::load(&big));
    let case = Case::new(120);
    assert_eq!(launch(&case, big, 1, 4, 0), 1, "48 KiB and a word");
    assert_eq!(launch(&case, small, 1, 4, 48 << 10), 1, "48 KiB in addition to its own");
    assert_eq!(launch(&case, small, 1 << 31, 1, 0), 1, "blocks");
    assert_eq!(launch(&case, small, 1, 1025, 0), 1, "threads");
    assert_eq!(launch(&case, small, 1, 16, 0), 0);
    case.read(1);
    assert_eq!(case.end(), ILLEGAL_ADDRESS, "the kernel writes memory that is read concurrently");
    let case = Case::new(121);
    assert_eq!(launch(&case, small, 1, 16, 0), 0);
    case.order();
    case.read(1);
    assert_eq!(case.end(), 0);
}
