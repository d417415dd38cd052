//! `--vision`.

/// What becomes of a model's vision tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Vision {
    /// Loaded with the model, which reads pictures and videos.
    #[default]
    Resident,
    /// Left out: a request with pictures or videos is refused, and the device keeps the memory.
    Off,
}

impl Vision {
    /// Whether pictures are read.
    pub(crate) fn reads(self) -> bool {
        self == Self::Resident
    }
}
