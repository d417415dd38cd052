//! Does a backend do what the steps say?
//!
//! [`record`] runs sequences on a backend and keeps what every step wrote. [`judge`] then gives each step's *own recorded
//! operands* to its definition, the CPU's, and compares the results. So a difference never comes from an earlier step, a
//! code that fell to the other side of a rounding boundary does not hide what follows, and a wrong sign in one kernel
//! shows at that kernel alone. The logits of the whole forward pass are compared besides.
//!
//! ```text
//! engine ─► record ─┬─► operands of step i ─► its definition ─► compare with what the backend wrote
//!                   └─► logits ─────────────────────────────► compare with the CPU's
//! ```
//!
//! [`check_layer`] holds a backend to INT8 layers whose values are stored in a file, bit for bit.

mod compare;
mod contract;
mod html;
mod layers;
mod record;
mod report;
mod text;

pub use compare::judge;
pub use contract::{Rule, Tolerance};
pub use layers::{KnownLayer, check_layer, known_layers, known_products, known_weight_only, run_layer};
pub use record::{Device, Recording, record};
pub use report::{Logits, Report, StepReport};
