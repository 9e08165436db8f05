//! Streams: work is kept until a call waits for it. The order of its uses of memory is checked.
//!
//! Each piece of work has a vector clock: the work that was ordered before it when it was queued, by its
//! stream, by events, and by waits of the host. Two uses of one block of memory, of which one is a write,
//! must be ordered. If they are not, a GPU would decide their order by chance. The simulator reports a fault.

use crate::block::{self, Dim, Kernel, Outcome};
use crate::memory::{self, Access, Freed};
use crate::{ILLEGAL_ADDRESS, INVALID_VALUE, LAUNCH_FAILED, MISALIGNED_ADDRESS, SUCCESS, Status, blas};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub const NOT_READY: Status = 600;
pub const CAPTURE_UNSUPPORTED: Status = 900;
pub const CAPTURE_INVALIDATED: Status = 901;
pub const CAPTURE_UNMATCHED: Status = 903;
pub const CAPTURE_ISOLATION: Status = 905;

/// The largest number of pending actions of a stream.
const MAX_PENDING: usize = 4096;

/// A position in each stream.
pub type Clock = BTreeMap<usize, u64>;

fn join(clock: &mut Clock, other: &Clock) {
    for (&stream, &tick) in other {
        let own = clock.entry(stream).or_default();
        *own = (*own).max(tick);
    }
}

/// Work of a stream.
#[derive(Clone)]
pub enum Action {
    Launch {
        kernel: usize,
        blocks: Dim,
        threads: Dim,
        shared: usize,
        arguments: Vec<u64>,
    },
    Set {
        to: usize,
        byte: u8,
        nbytes: usize,
    },
    Set32 {
        to: usize,
        word: u32,
        count: usize,
    },
    Copy {
        to: usize,
        from: usize,
        nbytes: usize,
    },
    /// A copy of bytes that were read from the host when it was queued.
    Write {
        to: usize,
        bytes: Vec<u8>,
    },
    Product {
        batch: i64,
        sizes: [i64; 3],
        operands: [blas::Matrix; 3],
        bytes: [usize; 3],
    },
    Free {
        address: usize,
    },
    /// A wait for a position of another stream.
    Wait {
        stream: usize,
        tick: u64,
    },
}

struct Work {
    tick: u64,
    clock: Clock,
    action: Action,
}

#[derive(Default)]
struct Stream {
    device: usize,
    tick: u64,
    done: u64,
    clock: Clock,
    pending: VecDeque<Work>,
    recording: Option<Vec<Action>>,
    invalidated: bool,
}

#[derive(Clone, Default)]
struct Event {
    stream: usize,
    tick: u64,
    clock: Clock,
}

/// A failure that a test has asked for.
struct Planned {
    skip: usize,
    times: usize,
    status: Status,
}

#[derive(Default)]
pub struct Machine {
    streams: BTreeMap<usize, Stream>,
    events: BTreeMap<usize, Event>,
    graphs: BTreeMap<usize, Vec<Action>>,
    /// The positions for which the host has waited.
    host: Clock,
    next: usize,
    /// For each device, the error that ended all work on it.
    faults: BTreeMap<usize, Status>,
    allocations: BTreeMap<usize, Planned>,
    launches: BTreeMap<usize, Planned>,
}

static MACHINE: Mutex<Option<Machine>> = Mutex::new(None);

/// The lock of the one machine. Work runs while it is held.
pub struct Held(MutexGuard<'static, Option<Machine>>);

pub fn machine() -> Held {
    Held(MACHINE.lock().unwrap_or_else(PoisonError::into_inner))
}

impl std::ops::Deref for Held {
    type Target = Machine;
    fn deref(&self) -> &Machine {
        self.0.as_ref().expect("made by deref_mut, which every call begins with")
    }
}
impl std::ops::DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Machine {
        self.0.get_or_insert_default()
    }
}

fn planned(plans: &mut BTreeMap<usize, Planned>, device: usize) -> Option<Status> {
    let plan = plans.get_mut(&device)?;
    if plan.skip > 0 {
        plan.skip -= 1;
        return None;
    }
    let status = plan.status;
    plan.times -= 1;
    if plan.times == 0 {
        plans.remove(&device);
    }
    Some(status)
}

impl Machine {
    fn number(&mut self) -> usize {
        self.next += 1;
        0x5000 + self.next
    }

    /// Plans a failure: of allocations (0) or, when they run, of kernels (1).
    pub fn plan(&mut self, device: usize, kind: i32, skip: usize, times: usize, status: Status) {
        let plans = if kind == 0 { &mut self.allocations } else { &mut self.launches };
        plans.insert(device, Planned { skip, times: times.max(1), status });
    }

    /// The error that ended all work on a device, or success.
    pub fn fault(&self, device: usize) -> Status {
        self.faults.get(&device).copied().unwrap_or(SUCCESS)
    }

    pub fn planned_allocation(&mut self, device: usize) -> Status {
        planned(&mut self.allocations, device).unwrap_or(SUCCESS)
    }

    pub fn create(&mut self, device: usize) -> usize {
        let stream = self.number();
        self.streams.insert(stream, Stream { device, ..Stream::default() });
        stream
    }

    /// Queues work. The null stream, which waits for all others, is not simulated.
    pub fn push(&mut self, stream: usize, action: Action) -> Status {
        let host = self.host.clone();
        let Some(queue) = self.streams.get_mut(&stream) else { return INVALID_VALUE };
        if let Some(recording) = &mut queue.recording {
            recording.push(action);
            return SUCCESS;
        }
        let fault = self.faults.get(&queue.device).copied();
        if let Some(fault) = fault {
            return fault;
        }
        join(&mut queue.clock, &host);
        queue.tick += 1;
        queue.clock.insert(stream, queue.tick);
        queue.pending.push_back(Work { tick: queue.tick, clock: queue.clock.clone(), action });
        if queue.pending.len() > MAX_PENDING {
            let half = queue.tick - MAX_PENDING as u64 / 2;
            self.run(stream, half);
        }
        SUCCESS
    }

    /// An error if a stream records a graph: such work cannot be waited for.
    pub fn refuse_recording(&mut self, stream: usize) -> Status {
        match self.streams.get_mut(&stream) {
            Some(queue) if queue.recording.is_some() => {
                queue.invalidated = true;
                CAPTURE_UNSUPPORTED
            }
            Some(_) => SUCCESS,
            None => INVALID_VALUE,
        }
    }

    /// Runs the work of a stream up to a tick.
    fn run(&mut self, stream: usize, tick: u64) {
        loop {
            let Some(queue) = self.streams.get_mut(&stream) else { return };
            let device = queue.device;
            if queue.pending.front().is_none_or(|work| work.tick > tick) {
                return;
            }
            let Some(work) = queue.pending.pop_front() else { return };
            queue.done = work.tick;
            if let Action::Wait { stream, tick } = work.action {
                self.run(stream, tick);
                continue;
            }
            if self.faults.contains_key(&device) {
                continue;
            }
            let planned = if matches!(work.action, Action::Launch { .. }) {
                planned(&mut self.launches, device)
            } else {
                None
            };
            let status = planned.unwrap_or_else(|| perform(stream, &work));
            // A kernel with a planned failure has begun.
            if let (Some(_), Action::Launch { arguments, .. }) = (planned, &work.action) {
                begin(arguments);
            }
            if status != SUCCESS {
                self.faults.insert(device, status);
            }
        }
    }

    /// Waits for a stream.
    pub fn synchronize(&mut self, stream: usize) -> Status {
        let refused = self.refuse_recording(stream);
        if refused != SUCCESS {
            return refused;
        }
        self.run(stream, u64::MAX);
        let Some(queue) = self.streams.get(&stream) else { return INVALID_VALUE };
        let (clock, device) = (queue.clock.clone(), queue.device);
        join(&mut self.host, &clock);
        self.fault(device)
    }

    /// Waits for all streams of a device, except those that record.
    pub fn synchronize_all(&mut self, device: usize) -> Status {
        let own = |queue: &Stream| queue.device == device && queue.recording.is_none();
        let streams: Vec<usize> =
            self.streams.iter().filter(|(_, queue)| own(queue)).map(|(&stream, _)| stream).collect();
        let statuses: Vec<Status> = streams.into_iter().map(|stream| self.synchronize(stream)).collect();
        statuses.into_iter().find(|&status| status != SUCCESS).unwrap_or(SUCCESS)
    }

    pub fn create_event(&mut self) -> usize {
        let event = self.number();
        self.events.insert(event, Event::default());
        event
    }

    pub fn destroy_event(&mut self, event: usize) -> Status {
        if self.events.remove(&event).is_some() { SUCCESS } else { INVALID_VALUE }
    }

    pub fn record(&mut self, event: usize, stream: usize) -> Status {
        let host = self.host.clone();
        let Some(queue) = self.streams.get_mut(&stream) else { return INVALID_VALUE };
        if queue.recording.is_some() {
            queue.invalidated = true;
            return CAPTURE_ISOLATION;
        }
        join(&mut queue.clock, &host);
        let recorded = Event { stream, tick: queue.tick, clock: queue.clock.clone() };
        let device = queue.device;
        let Some(event) = self.events.get_mut(&event) else { return INVALID_VALUE };
        *event = recorded;
        self.fault(device)
    }

    pub fn wait(&mut self, stream: usize, event: usize) -> Status {
        let Some(Event { stream: other, tick, clock }) = self.events.get(&event).cloned() else {
            return INVALID_VALUE;
        };
        let Some(queue) = self.streams.get_mut(&stream) else { return INVALID_VALUE };
        if queue.recording.is_some() {
            queue.invalidated = true;
            return CAPTURE_ISOLATION;
        }
        join(&mut queue.clock, &clock);
        self.push(stream, Action::Wait { stream: other, tick })
    }

    pub fn synchronize_event(&mut self, event: usize) -> Status {
        let Some(Event { stream, tick, clock }) = self.events.get(&event).cloned() else {
            return INVALID_VALUE;
        };
        self.run(stream, tick);
        join(&mut self.host, &clock);
        let device = self.streams.get(&stream).map_or(0, |queue| queue.device);
        self.fault(device)
    }

    /// Queries an event. If it is not reached, runs one piece of work.
    pub fn query(&mut self, event: usize) -> Status {
        let Some(Event { stream, tick, clock }) = self.events.get(&event).cloned() else {
            return INVALID_VALUE;
        };
        let Some(queue) = self.streams.get(&stream) else { return SUCCESS };
        if queue.done >= tick {
            let device = queue.device;
            join(&mut self.host, &clock);
            return self.fault(device);
        }
        let next = queue.done + 1;
        self.run(stream, next);
        NOT_READY
    }

    /// Queries a stream. If work is left, runs one piece of it.
    pub fn query_stream(&mut self, stream: usize) -> Status {
        let refused = self.refuse_recording(stream);
        let Some(queue) = self.streams.get(&stream) else { return refused };
        if refused != SUCCESS {
            return refused;
        }
        if queue.pending.is_empty() {
            let (clock, device) = (queue.clock.clone(), queue.device);
            join(&mut self.host, &clock);
            return self.fault(device);
        }
        let next = queue.done + 1;
        self.run(stream, next);
        NOT_READY
    }

    pub fn begin_capture(&mut self, stream: usize) -> Status {
        let Some(queue) = self.streams.get_mut(&stream) else { return CAPTURE_UNSUPPORTED };
        (queue.recording, queue.invalidated) = (Some(Vec::new()), false);
        SUCCESS
    }

    pub fn end_capture(&mut self, stream: usize) -> Result<usize, Status> {
        let queue = self.streams.get_mut(&stream).ok_or(INVALID_VALUE)?;
        let recorded = queue.recording.take().ok_or(CAPTURE_UNMATCHED)?;
        if queue.invalidated {
            return Err(CAPTURE_INVALIDATED);
        }
        let graph = self.number();
        self.graphs.insert(graph, recorded);
        Ok(graph)
    }

    pub fn instantiate(&mut self, graph: usize) -> Result<usize, Status> {
        let actions = self.graphs.get(&graph).cloned().ok_or(INVALID_VALUE)?;
        let ready = self.number();
        self.graphs.insert(ready, actions);
        Ok(ready)
    }

    pub fn destroy_graph(&mut self, graph: usize) -> Status {
        if self.graphs.remove(&graph).is_some() { SUCCESS } else { INVALID_VALUE }
    }

    pub fn launch_graph(&mut self, graph: usize, stream: usize) -> Status {
        let Some(actions) = self.graphs.get(&graph).cloned() else { return INVALID_VALUE };
        actions
            .into_iter()
            .map(|action| self.push(stream, action))
            .find(|&status| status != SUCCESS)
            .unwrap_or(SUCCESS)
    }

    /// Whether pending work uses these bytes.
    pub fn is_pending(&self, address: usize, nbytes: usize) -> bool {
        let touches = |action: &Action| match *action {
            Action::Copy { to, from, nbytes: count } => {
                [to, from].iter().any(|&at| at < address + nbytes && address < at + count)
            }
            _ => false,
        };
        self.streams.values().any(|queue| queue.pending.iter().any(|work| touches(&work.action)))
    }
}

/// Writes the number of the operation, as the first thread of a kernel does.
fn begin(arguments: &[u64]) {
    if let [at, operation, ..] = *arguments
        && memory::is_host(at as usize)
    {
        // SAFETY: the address lies in page-locked memory that is allocated.
        unsafe { (at as *mut u64).write_volatile(operation) };
    }
}

/// Runs a piece of work, and records its uses of memory.
fn perform(stream: usize, work: &Work) -> Status {
    let name = |kernel: usize| {
        // SAFETY: `cuModuleGetFunction` made the kernel, and it is never freed.
        unsafe { &*(kernel as *const Kernel) }
    };
    let touched = |address: usize, write| Access { address, write, stream, tick: work.tick };
    // The uses that are known before the work runs.
    let mut accesses: Vec<Access> = match &work.action {
        Action::Launch { .. } | Action::Wait { .. } => Vec::new(),
        Action::Set { to, .. } | Action::Set32 { to, .. } | Action::Write { to, .. } => {
            vec![touched(*to, true)]
        }
        Action::Copy { to, from, .. } => vec![touched(*from, false), touched(*to, true)],
        Action::Product { operands, .. } => {
            operands.iter().enumerate().map(|(k, operand)| touched(operand.address, k == 2)).collect()
        }
        Action::Free { address } => vec![touched(*address, true)],
    };
    let ranges: Vec<(usize, usize)> = match &work.action {
        Action::Set { to, nbytes, .. } => vec![(*to, *nbytes)],
        Action::Set32 { to, count, .. } => vec![(*to, count * 4)],
        Action::Write { to, bytes } => vec![(*to, bytes.len())],
        Action::Copy { to, from, nbytes } => vec![(*from, *nbytes), (*to, *nbytes)],
        Action::Product { operands, bytes, .. } => {
            operands.iter().zip(bytes).map(|(operand, &nbytes)| (operand.address, nbytes)).collect()
        }
        _ => Vec::new(),
    };
    let words = if let Action::Launch { arguments, .. } = &work.action { &arguments[..] } else { &[] };
    let used = words.iter().map(|&word| word as usize).chain(ranges.iter().map(|&(address, _)| address));
    let late = used.into_iter().find_map(memory::gone);
    if let Some(complaint) =
        late.or_else(|| ranges.iter().find_map(|&(address, nbytes)| memory::outside(address, nbytes)))
    {
        eprintln!("cuda-sim: {complaint}");
        return ILLEGAL_ADDRESS;
    }
    let status = match &work.action {
        Action::Launch { kernel, blocks, threads, shared, arguments } => {
            let kernel = name(*kernel);
            let blocks_of: Vec<usize> = memory::blocks_of(arguments);
            let before: Vec<u64> = blocks_of.iter().map(|&block| memory::digest(block)).collect();
            let mut pointers = [arguments.as_ptr().cast_mut().cast::<c_void>()];
            // SAFETY: these are the arguments of the launch, in the size that the kernel states.
            let outcome =
                unsafe { block::run(kernel, *blocks, *threads, *shared, pointers.as_mut_ptr(), &blocks_of) };
            accesses = blocks_of
                .iter()
                .zip(before)
                .map(|(&block, before)| touched(block, memory::digest(block) != before))
                .collect();
            match outcome {
                Outcome::Done => SUCCESS,
                Outcome::Stuck | Outcome::Races => LAUNCH_FAILED,
                Outcome::Misaligned => MISALIGNED_ADDRESS,
                Outcome::Refused | Outcome::Marred => ILLEGAL_ADDRESS,
            }
        }
        // SAFETY: ranges on the device were checked above; the caller promises those on the host.
        Action::Set { to, byte, nbytes } => unsafe {
            std::ptr::write_bytes(*to as *mut u8, *byte, *nbytes);
            SUCCESS
        },
        Action::Set32 { to, word, count } => {
            for k in 0..*count {
                // SAFETY: as above.
                unsafe { (*to as *mut u32).add(k).write_unaligned(*word) };
            }
            SUCCESS
        }
        // SAFETY: as above.
        Action::Copy { to, from, nbytes } => unsafe {
            std::ptr::copy(*from as *const u8, *to as *mut u8, *nbytes);
            SUCCESS
        },
        // SAFETY: as above.
        Action::Write { to, bytes } => unsafe {
            std::ptr::copy(bytes.as_ptr(), *to as *mut u8, bytes.len());
            SUCCESS
        },
        Action::Product { batch, sizes, operands: [a, b, c], .. } => {
            // SAFETY: as above.
            if unsafe { blas::product(*batch, *sizes, a, b, c) }.is_some() { SUCCESS } else { INVALID_VALUE }
        }
        Action::Free { .. } | Action::Wait { .. } => SUCCESS,
    };
    for access in &accesses {
        if let Some(complaint) = memory::touch(*access, &work.clock) {
            let what = if let Action::Launch { kernel, .. } = &work.action {
                name(*kernel).name.clone()
            } else {
                "a copy or a free".into()
            };
            eprintln!("cuda-sim: {what} of stream {stream:#x}: {complaint}");
            return ILLEGAL_ADDRESS;
        }
    }
    if let Action::Free { address } = work.action {
        return match memory::free(address) {
            Freed::Fine => SUCCESS,
            Freed::Unknown => INVALID_VALUE,
            Freed::Marred => ILLEGAL_ADDRESS,
        };
    }
    status
}
