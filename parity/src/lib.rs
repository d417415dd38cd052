//! Do two backends agree, step by step?
//!
//! [`record`] runs sequences on a backend and keeps what every step wrote; [`compare`] holds two [`Recording`]s of one
//! model against each other and says which steps are within their contract and which is the first that is not. A wrong
//! sign in one kernel shows at its own step: everything before it agrees, everything after it is off too.
//!
//! ```text
//! engine A ─► record ─┐
//!                     ├─► compare ─► Report ─► text, JSON, HTML
//! engine B ─► record ─┘
//! ```

mod compare;
mod contract;
mod html;
mod record;
mod report;
mod text;

pub use compare::compare;
pub use contract::{Rule, Tolerance};
pub use record::{Device, Recording, record};
pub use report::{Logits, Report, StepReport};
