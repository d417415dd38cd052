//! `--vision`.

/// What becomes of a model's vision tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Vision {
    /// Loaded with the model, which reads pictures and videos.
    #[default]
    Resident,
    /// With CUDA, brought onto the device with the first picture or video, which waits for that; elsewhere as resident.
    Lazy,
    /// Left out: a request with pictures or videos is refused, and the device keeps the memory.
    Off,
}

impl Vision {
    /// Whether it comes with the first picture.
    pub(crate) fn is_lazy(self) -> bool {
        self == Self::Lazy
    }

    /// Whether pictures are read.
    pub(crate) fn reads(self) -> bool {
        self != Self::Off
    }
}
