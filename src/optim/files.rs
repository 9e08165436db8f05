//! The state of an optimizer in a file.
// Imports: `error`, `dtype`, `element`, `device`, `tensor`, `autograd`, `io`, `optim`.

use super::parts::parts_count;
use super::{Optimizer, UpdateRule};
use crate::autograd::{Differentiable, Name, ParameterVisitor, Parameters};
use crate::device::{Cpu, Device};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::{Error, Result, text};
use crate::io::safetensors::{SafeTensors, write};
use crate::io::{Order, TensorBytes};
use crate::tensor::Tensor;
use std::collections::HashSet;
use std::path::Path;

/// The key of the number of steps in the file's metadata.
const STEPS: &str = "steps";

/// A tensor of a state with the sizes of its parameter.
struct Shaped<'a> {
    tensor: &'a dyn TensorBytes,
    sizes: &'a [usize],
}

impl TensorBytes for Shaped<'_> {
    fn dtype(&self) -> DType {
        self.tensor.dtype()
    }
    fn sizes(&self) -> Vec<usize> {
        self.sizes.to_vec()
    }
    fn order(&self) -> Order {
        Order::RowMajor
    }
    fn for_each_chunk(&self, _: Order, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.tensor.for_each_chunk(Order::RowMajor, each)
    }
}

/// The name of a tensor of a parameter's state, for example `layers.0.weight.exp_avg`.
fn joined(parameter: &str, tensor: &str) -> String {
    if parameter.is_empty() { tensor.into() } else { [parameter, tensor].join(".") }
}

impl<R: UpdateRule> Optimizer<R> {
    /// Writes the state to a safetensors file: the numbers of steps, and each tensor with the name of its
    /// parameter before its own, for example `layers.0.weight.exp_avg`. The names of tensors are PyTorch's.
    /// The options are not written.
    ///
    /// # Errors
    /// As [`safetensors::write`](crate::io::safetensors::write()).
    ///
    /// # Examples
    /// ```
    /// use rankform::optim::Adam;
    /// use rankform::prelude::*;
    /// let (mut w, gradient) = (Tensor::from([1.0, 2.0]), Tensor::from([0.5, -4.0]));
    /// let mut optimizer = Adam::new(0.1);
    /// optimizer.step(&mut w, &gradient)?;
    /// let path = std::env::temp_dir().join("rankform-adam.safetensors");
    /// optimizer.save(&path)?;
    /// let mut other = Adam::new(0.1);
    /// other.load(&path, &w)?;
    /// let mut copy = w.copy()?;
    /// optimizer.step(&mut w, &gradient)?;
    /// other.step(&mut copy, &gradient)?;
    /// assert_eq!((w.to_vec()?, other.steps()), (copy.to_vec()?, 2));
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), rankform::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut counts = Vec::new();
        let mut tensors = Vec::new();
        for slot in self.slots.iter().filter(|slot| slot.count > 0) {
            let count = i64::try_from(slot.count).unwrap_or(i64::MAX);
            counts.push((joined(&slot.name, "step"), Tensor::full([], count, &Cpu)?));
            for (name, tensor) in slot.state_names.iter().zip(slot.tensors()) {
                tensors.push((joined(&slot.name, name), Shaped { tensor, sizes: &slot.sizes }));
            }
        }
        let counts = counts.iter().map(|(name, count)| (name.as_str(), count as &dyn TensorBytes));
        let tensors = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor as &dyn TensorBytes));
        let steps = self.steps.to_string();
        write(path, &counts.chain(tensors).collect::<Vec<_>>(), &[(STEPS, &steps)])
    }

    /// Reads the state for some parameters from a file that [`save`](Optimizer::save) wrote, in place of the
    /// present state. The parameters give names, sizes and the device; they keep their values.
    ///
    /// # Errors
    /// [`Error::Value`] if the file lacks a tensor of the state or has one of another parameter;
    /// [`Error::Parameter`], with the name of the parameter, if its sizes are others; as
    /// [`SafeTensors::open`]. After an error there is no state.
    pub fn load<D: Device>(&mut self, path: impl AsRef<Path>, parameters: impl Parameters<D>) -> Result<()> {
        self.reset();
        let file = SafeTensors::open(path)?;
        let mut load = LoadState { optimizer: &mut *self, file: &file, names: HashSet::new() };
        let mut loaded = parameters.visit_tensors(Name::ROOT, &mut load);
        let names = load.names;
        if let (Ok(()), Some(other)) = (&loaded, file.names().find(|name| !names.contains(*name))) {
            let what = text(format_args!("the file has {other:?}, which belongs to none of the parameters"));
            loaded = Err(Error::Value { op: "load", what });
        }
        match (loaded, file.metadata().get(STEPS).map(|steps| steps.parse())) {
            (Ok(()), Some(Ok(steps))) => {
                self.steps = steps;
                Ok(())
            }
            (loaded, _) => {
                self.reset();
                let what = "the metadata has no number of steps: not the state of an optimizer";
                loaded.and(Err(Error::Format { op: "load", what: what.into() }))
            }
        }
    }
}

/// Makes the state of each parameter with the elements of a file.
struct LoadState<'a, R> {
    optimizer: &'a mut Optimizer<R>,
    file: &'a SafeTensors,
    names: HashSet<String>,
}

impl<R: UpdateRule, D: Device> ParameterVisitor<D, 0, 1> for LoadState<'_, R> {
    fn tensor<T: Differentiable, const RANK: usize>(
        &mut self,
        name: Name<'_>,
        _: [&mut Tensor<T, RANK, D>; 0],
        [parameter]: [&Tensor<T, RANK, D>; 1],
    ) -> Result<()> {
        let place = self.optimizer.slot(name, parameter, usize::MAX)?;
        let slot = &mut self.optimizer.slots[place];
        let step = joined(&slot.name, "step");
        // A parameter that was never updated has no state in the file.
        if !self.file.names().any(|name| name == step) {
            return Ok(());
        }
        slot.count = self.file.read::<i64, 0>(&step)?.item()?.try_into().unwrap_or(0);
        self.names.insert(step);
        let (names, rows) = (self.optimizer.rule().state_names(), [parameter.numel(), parts_count::<T>()]);
        let slot = &mut self.optimizer.slots[place];
        let (prefix, sizes) = (slot.name.clone(), slot.sizes.clone());
        let state = slot.state::<T::State, D>(names, rows, parameter.device())?;
        for (state_name, tensor) in names.iter().zip(state) {
            let name = joined(&prefix, state_name);
            let found = self.file.about(&name)?.sizes;
            if found != sizes {
                let what = text(format_args!("the file has the sizes {found:?} and the parameter {sizes:?}"));
                return Err(Error::Value { op: "load", what });
            }
            let values = self.file.read_dyn(&name)?.reshaped(&rows)?;
            let values: Tensor<T::State, 2> = values.cast::<Cpu>(T::State::DTYPE)?.downcast()?;
            values.copy_to(tensor)?;
            self.names.insert(name);
        }
        Ok(())
    }
}
