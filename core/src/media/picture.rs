//! One decoded picture.

use std::fmt;

use crate::{Error, Result};

/// A decoded picture: 8-bit RGB, rows from the top, without gaps. Never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl Picture {
    /// A picture of `width * height * 3` bytes.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an empty picture or another number of bytes.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Result<Self> {
        let needed = u64::from(width).checked_mul(u64::from(height)).and_then(|n| n.checked_mul(3));
        if needed != Some(rgb.len() as u64) || rgb.is_empty() {
            return Err(Error::invalid(
                "picture",
                format!(
                    "{} bytes found for {width} x {height} pixels, allowed: 3 a pixel, 1 x 1 at least",
                    rgb.len()
                ),
            ));
        }
        Ok(Self { width, height, rgb })
    }

    /// Pixels of a row.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// `[height, width, 3]`.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Picture({} x {})", self.width, self.height)
    }
}
