//! Statistics of decisions, checked against scikit-learn and SciPy.

mod bootstrap;
mod calibration;
mod distance;
mod interval;
mod scores;

pub use bootstrap::{RESAMPLES, bootstrap};
pub use calibration::{Bin, Judgement, brier, calibration_error, reliability};
pub use distance::{mean, median, quantile, relative_l2};
pub use interval::{mcnemar, wilson};
pub use scores::{Judged, accuracy, macro_f1};
