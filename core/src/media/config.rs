//! Settings of the media processor.

/// What `processor_config.json` says about pictures and videos.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessorConfig {
    /// Side of a patch in pixels; 16 in the releases.
    pub patch: usize,
    /// Frames of a temporal patch; 2 in the releases. A picture is repeated to fill one.
    pub temporal: usize,
    /// Side of the block of patches that become one token; 2 in the releases.
    pub merge: usize,
    /// Pictures.
    pub image: ImageSettings,
    /// Videos.
    pub video: VideoSettings,
}

impl ProcessorConfig {
    /// What the sides of a resized picture are multiples of.
    pub(super) fn factor(&self) -> u64 {
        (self.patch * self.merge) as u64
    }

    /// Values of one patch, in the order channel, time, row, column.
    pub fn patch_values(&self) -> usize {
        3 * self.temporal * self.patch * self.patch
    }
}

/// Settings for pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageSettings {
    /// Fewest pixels after resizing.
    pub min_pixels: u64,
    /// Most pixels after resizing.
    pub max_pixels: u64,
    /// Bytes → values.
    pub normalisation: Normalisation,
}

/// Settings for videos.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoSettings {
    /// Fewest pixels of all frames after resizing.
    pub min_pixels: u64,
    /// Most pixels of all frames after resizing.
    pub max_pixels: u64,
    /// Bytes → values.
    pub normalisation: Normalisation,
    /// Choose frames; otherwise all are used.
    pub sample: bool,
    /// Frames a second to choose.
    pub fps: f64,
    /// Fewest frames to choose, if there are as many.
    pub min_frames: usize,
    /// Most frames to choose.
    pub max_frames: usize,
    /// Bound the pixels of one frame too, see [`Self::max_frame_tokens`]. Off in the releases (transformers 5.24);
    /// announced to become the reference's default.
    pub cap_pixels_per_frame: bool,
    /// Most tokens of one frame with [`Self::cap_pixels_per_frame`].
    pub max_frame_tokens: u64,
}

/// `(byte - mean / rescale) / (std / rescale)` per channel, in 32-bit floats.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalisation {
    /// Mean of each channel after rescaling.
    pub mean: [f32; 3],
    /// Standard deviation of each channel after rescaling.
    pub std: [f32; 3],
    /// Factor for bytes; 1/255 in the releases.
    pub rescale: f64,
}

impl Normalisation {
    /// The value of every byte in every channel. The reference folds the factor into mean and deviation, in 32-bit
    /// floats, before it touches pixels.
    pub(super) fn table(&self) -> [[f32; 256]; 3] {
        let inverse = (1.0 / self.rescale) as f32;
        std::array::from_fn(|c| {
            let (mean, std) = (self.mean[c] * inverse, self.std[c] * inverse);
            std::array::from_fn(|byte| (byte as f32 - mean) / std)
        })
    }
}
