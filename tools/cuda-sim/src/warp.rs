//! Functions that the lanes of a warp call together: all that the mask names arrive, then each gets its
//! result.

use std::ffi::c_int;

/// Lanes of a warp.
pub const LANES: usize = 32;

/// The names of the functions, by the numbers of `host.h`.
const NAMES: [&str; 21] = [
    "__shfl_sync",
    "__shfl_up_sync",
    "__shfl_down_sync",
    "__shfl_xor_sync",
    "__ballot_sync",
    "__any_sync",
    "__all_sync",
    "__match_any_sync",
    "__reduce_add_sync",
    "__reduce_min_sync",
    "__reduce_max_sync",
    "__reduce_min_sync of unsigned numbers",
    "__reduce_max_sync of unsigned numbers",
    "__reduce_and_sync",
    "__reduce_or_sync",
    "__reduce_xor_sync",
    "__syncwarp",
    "mma.m16n8k16 of f16",
    "mma.m16n8k16 of bf16",
    "ldmatrix.x4",
    "ldmatrix.x4.trans",
];
/// The number of the last shuffle.
const LAST_SHUFFLE: c_int = 3;
/// The number of the first function of tensor cores, which `tensor.rs` computes.
pub const FIRST_TENSOR: c_int = 17;

/// The call of one lane.
#[derive(Clone, Copy, Default, Debug)]
pub struct Call {
    pub function: c_int,
    pub mask: u32,
    pub line: c_int,
    pub value: u64,
    /// Of a shuffle: the lane or the distance, and the number of lanes that exchange values.
    pub argument: c_int,
    pub width: c_int,
}

impl Call {
    fn name(&self) -> &'static str {
        NAMES.get(self.function as usize).copied().unwrap_or("an unknown function")
    }

    /// Whether two lanes make the same call. Their values, and the lanes that they read, may differ.
    pub fn joins(&self, other: &Call) -> bool {
        let key = |call: &Call| (call.function, call.mask, call.line);
        key(self) == key(other)
    }

    /// The lanes that its mask names.
    pub fn lanes(&self) -> impl Iterator<Item = usize> {
        let mask = self.mask;
        (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
    }

    /// The call in words.
    pub fn words(&self) -> String {
        format!("`{}` in line {} with the mask {:#010x}", self.name(), self.line, self.mask)
    }

    /// The error of this call by `lane` of a warp of `count` lanes, if it is one by itself.
    pub fn error(&self, lane: usize, count: usize) -> Option<String> {
        if self.mask >> lane & 1 == 0 {
            return Some(format!("lane {lane} calls {}, which does not name it", self.words()));
        }
        if let Some(absent) = self.lanes().find(|&lane| lane >= count) {
            return Some(format!(
                "lane {lane} calls {}, which names lane {absent} of a warp of {count}",
                self.words()
            ));
        }
        let is_width =
            self.width > 0 && self.width <= LANES as c_int && (self.width as u32).is_power_of_two();
        (self.function <= LAST_SHUFFLE && !is_width)
            .then(|| format!("lane {lane} calls {} among {} lanes", self.words(), self.width))
    }

    /// The lane from which a shuffle by `lane` takes its value.
    fn source(&self, lane: usize) -> usize {
        let (width, argument) = (self.width as usize, self.argument as usize);
        let first = lane & !(width - 1);
        match self.function {
            0 => first + (argument & (width - 1)),
            1 => lane.checked_sub(argument).filter(|&source| source >= first).unwrap_or(lane),
            2 => Some(lane.wrapping_add(argument))
                .filter(|source| (lane..first + width).contains(source))
                .unwrap_or(lane),
            _ => Some(lane ^ argument).filter(|&source| source < first + width).unwrap_or(lane),
        }
    }
}

/// The result of each lane that the mask of `call` names, all of which have made it.
///
/// # Errors
/// A shuffle that reads a lane outside the mask, in words.
pub fn results(call: &Call, calls: &[Call]) -> Result<[u64; LANES], String> {
    let mut results = [0; LANES];
    let values = || call.lanes().map(|lane| calls[lane].value);
    let words = || values().map(|value| value as u32);
    let signed = || words().map(|value| value as i32);
    let set = call.lanes().filter(|&lane| calls[lane].value != 0).fold(0u32, |set, lane| set | 1 << lane);
    let common = match call.function {
        4 => set,
        5 => u32::from(set != 0),
        6 => u32::from(set == call.mask),
        8 => words().fold(0, u32::wrapping_add),
        9 => signed().min().unwrap_or(0) as u32,
        10 => signed().max().unwrap_or(0) as u32,
        11 => words().min().unwrap_or(0),
        12 => words().max().unwrap_or(0),
        13 => words().fold(u32::MAX, |a, b| a & b),
        14 => words().fold(0, |a, b| a | b),
        15 => words().fold(0, |a, b| a ^ b),
        _ => 0,
    };
    for lane in call.lanes() {
        let own = &calls[lane];
        results[lane] = match call.function {
            0..=LAST_SHUFFLE => {
                let source = own.source(lane);
                if call.mask >> source & 1 == 0 {
                    return Err(format!(
                        "lane {lane} reads lane {source} by {}, which does not name it",
                        own.words()
                    ));
                }
                calls[source].value
            }
            7 => {
                let equal = call.lanes().filter(|&other| calls[other].value == own.value);
                u64::from(equal.fold(0u32, |set, other| set | 1 << other))
            }
            _ => u64::from(common),
        };
    }
    Ok(results)
}
