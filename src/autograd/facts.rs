//! The facts about a program on which its backward pass depends, found once for each program.
// Imports: `dtype`, `scalar`, `element`, `kernel`.

use super::step::has_gradient;
use super::vjp::ConstantsAsLoads;
use crate::dtype::DType;
use crate::element::{Compute, Element};
use crate::kernel::{Body, Io, Program, Reducer, Slope, Slopes, Store};
use crate::scalar::{Dual, Lane, Need, Needs, Prim};
use std::any::TypeId;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{LazyLock, PoisonError, RwLock};

/// The element types of a program, and what its derivatives read.
#[derive(Debug)]
pub(super) struct Facts {
    /// With derivatives: a program [by its result](Program::BY_RESULT) loads that last.
    pub(super) loads: Vec<DType>,
    pub(super) outputs: Vec<DType>,
    /// For each load: the dependencies of the derivatives of the outputs by it; `None` if no output has one.
    pub(super) slopes: Vec<Option<Need>>,
    /// Whether the derivatives are as the type of the program [states](Slopes).
    pub(super) is_as_stated: bool,
}

impl Facts {
    /// The loads on which the derivatives by the loads of a mask depend.
    pub(super) fn reads(&self, mask: u64) -> u64 {
        let slope = |(k, slope): (usize, &Option<Need>)| match slope {
            Some(slope) if mask >> k & 1 == 1 => slope.loads,
            _ => 0,
        };
        self.slopes.iter().enumerate().map(slope).fold(0, |reads, loads| reads | loads)
    }

    /// Whether the derivative by a load is 1 and the gradient of the only output is of the element `dtype`.
    pub(super) fn is_identity(&self, k: usize, dtype: DType) -> bool {
        matches!(self.outputs[..], [output] if output == dtype)
            && self.slopes[k].is_some_and(|slope| slope.literal == Some(1.0))
    }

    /// Whether the derivatives by two loads are the same expression, so that the gradients are equal.
    pub(super) fn are_equal(&self, a: usize, b: usize) -> bool {
        let is_same = match (self.slopes[a], self.slopes[b]) {
            (Some(a), Some(b)) => a.is_same(b),
            _ => false,
        };
        is_same && self.loads[a] == self.loads[b] && !self.loads[a].is_complex()
    }

    /// Whether the derivatives by `loads` loads are what a type states of them. Those of complex numbers are
    /// computed by another kernel than one for equal derivatives.
    fn agree_with(&self, stated: Slopes, loads: usize) -> bool {
        let mut loads = 0..loads;
        match stated {
            Slopes::Any => true,
            Slopes::One => loads.all(|k| self.slopes[k].is_none() || self.is_identity(k, self.loads[k])),
            Slopes::Equal => {
                self.loads.iter().any(|dtype| dtype.is_complex())
                    || loads.skip(1).all(|k| self.are_equal(0, k))
            }
        }
    }
}

/// Records the loads and stores of a program that runs under `Dual<Needs>`, with load `k` as the variable.
struct FactsIo {
    k: usize,
    next: usize,
    parameters: usize,
    loads: Vec<DType>,
    outputs: Vec<DType>,
    slope: Option<Need>,
}

impl FactsIo {
    /// The next number that is known at run time.
    fn parameter<C: Prim>(&mut self) -> Lane<Dual<Needs>, C> {
        self.parameters += 1;
        Lane::from_raw((Need::parameter(self.parameters), None))
    }
}

impl Io<Dual<Needs>> for FactsIo {
    fn load<T: Element>(&mut self) -> Lane<Dual<Needs>, Compute<T>> {
        let k = self.next;
        self.next += 1;
        self.loads.push(T::DTYPE);
        let seed = (k == self.k && has_gradient(T::DTYPE)).then_some(Need::ONE);
        Lane::from_raw((Need::load(k), seed))
    }
    fn param<T: Element>(&mut self, _: T) -> Lane<Dual<Needs>, Compute<T>> {
        self.parameter()
    }
    fn store<T: Element>(&mut self, value: Lane<Dual<Needs>, Compute<T>>) {
        let output = self.outputs.len();
        self.outputs.push(T::DTYPE);
        let tangent = value.raw().1.filter(|_| has_gradient(T::DTYPE));
        let tangent = tangent.map(|tangent| tangent.of_output(output));
        self.slope = match (self.slope, tangent) {
            (Some(a), Some(b)) => Some(a.union(b)),
            (a, b) => a.or(b),
        };
    }
    fn row_constant<T: Element>(&mut self, _: Compute<T>, loads: usize) -> Lane<Dual<Needs>, Compute<T>> {
        self.next += loads;
        self.parameter()
    }
}

fn find<P: Program>(program: &P) -> Facts {
    find_by(&|io| program.run_dual::<Needs>(io))
}

/// Compiled once for all programs.
fn find_by(run: &dyn Fn(&mut FactsIo)) -> Facts {
    let with_variable = |k| {
        let mut io =
            FactsIo { k, next: 0, parameters: 0, loads: Vec::new(), outputs: Vec::new(), slope: None };
        run(&mut io);
        io
    };
    let first = with_variable(0);
    let slopes = (0..first.loads.len()).map(|k| with_variable(k).slope).collect();
    Facts { loads: first.loads, outputs: first.outputs, slopes, is_as_stated: true }
}

/// A hash that takes the number that it is given: a `TypeId` is a hash already, and blocks are numbered.
#[derive(Default)]
pub(super) struct Identity(u64);
impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = self.0.rotate_left(8) ^ u64::from_ne_bytes(word);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = self.0.rotate_left(8) ^ value;
    }
}

/// The type of a program and its [variant](Program::variant).
type ProgramKey = (TypeId, u64);

/// A set of blocks.
pub(super) type Ids = HashSet<u64, BuildHasherDefault<Identity>>;

type FactsTable = HashMap<ProgramKey, &'static Facts, BuildHasherDefault<Identity>>;

/// The facts of the programs of this process. Each program type adds an entry, which stays.
static TABLE: LazyLock<RwLock<FactsTable>> = LazyLock::new(RwLock::default);

/// The number of programs that a thread remembers.
const RECENT: usize = 64;

thread_local! {
    /// The programs that this thread looked up last, by their hashes.
    static FOUND: [Cell<Option<(ProgramKey, &'static Facts)>>; RECENT] = const {
        [const { Cell::new(None) }; RECENT]
    };
}

#[inline(never)]
fn cached(key: ProgramKey, find: &dyn Fn() -> Facts) -> &'static Facts {
    let mut hash = Identity::default();
    key.hash(&mut hash);
    let place = hash.finish() as usize % RECENT;
    FOUND.with(|found| match found[place].get() {
        Some((known, facts)) if known == key => facts,
        _ => {
            let facts = look_up(key, find);
            found[place].set(Some((key, facts)));
            facts
        }
    })
}

fn look_up(key: ProgramKey, find: &dyn Fn() -> Facts) -> &'static Facts {
    if let Some(facts) = TABLE.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return facts;
    }
    // Of several threads that find the same facts, one adds them.
    let facts = find();
    TABLE
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(key)
        .or_insert_with(|| Box::leak(Box::new(facts)))
}

/// The facts of a program, whose row constants count as loads.
pub(super) fn facts_of<P: Program>(program: &P) -> &'static Facts {
    cached((TypeId::of::<P>(), program.variant()), &|| {
        let mut facts = find(&ConstantsAsLoads(*program));
        facts.is_as_stated = facts.agree_with(P::SLOPES, P::LOADS);
        facts
    })
}

/// The facts of a reduction of a body.
pub(super) fn facts_of_reduction<B: Body, R: Reducer<B::Out>>(body: &B) -> &'static Facts {
    cached((TypeId::of::<(B, R)>(), 0), &|| {
        let mut facts = find(&Store(ConstantsAsLoads(*body)));
        facts.outputs = vec![R::Out::DTYPE];
        if !matches!(R::SLOPE, Slope::Constant) {
            // The slope depends on the value of the body, so on every load.
            facts.slopes.iter_mut().flatten().for_each(|slope| *slope = Need::any());
        }
        facts
    })
}
