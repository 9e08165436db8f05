//! Tensors.
pub mod error;
pub mod dim;
pub mod rank;
pub mod layout;
pub mod scalar;
pub mod element;
pub use dim::*; pub use layout::*; pub use error::*; pub use element::*;
