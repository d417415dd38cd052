//! Reading the files of vectors.

use safetensors::SafeTensors;

pub(crate) fn data(path: &str) -> Vec<u8> {
    let path = format!("{}/../tests/data/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub(crate) struct File<'a>(SafeTensors<'a>);

impl<'a> File<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Self {
        Self(SafeTensors::deserialize(bytes).expect("safetensors"))
    }
    pub(crate) fn shape(&self, name: &str) -> Vec<usize> {
        self.0.tensor(name).expect(name).shape().to_vec()
    }
    pub(crate) fn u8(&self, name: &str) -> &'a [u8] {
        self.0.tensor(name).unwrap_or_else(|_| panic!("{name}")).data()
    }
    pub(crate) fn i8(&self, name: &str) -> &'a [i8] {
        bytemuck::cast_slice(self.u8(name))
    }
    pub(crate) fn u16(&self, name: &str) -> Vec<u16> {
        self.numbers(name, u16::from_le_bytes)
    }
    pub(crate) fn i32(&self, name: &str) -> Vec<i32> {
        self.numbers(name, i32::from_le_bytes)
    }
    pub(crate) fn f32(&self, name: &str) -> Vec<f32> {
        self.numbers(name, f32::from_le_bytes)
    }
    pub(crate) fn f64(&self, name: &str) -> Vec<f64> {
        self.numbers(name, f64::from_le_bytes)
    }
    pub(crate) fn bf16(&self, name: &str) -> Vec<half::bf16> {
        self.u16(name).into_iter().map(half::bf16::from_bits).collect()
    }
    fn numbers<const N: usize, T>(&self, name: &str, of: impl Fn([u8; N]) -> T) -> Vec<T> {
        self.u8(name).as_chunks::<N>().0.iter().map(|b| of(*b)).collect()
    }
}

pub(crate) fn widen(x: &[half::bf16]) -> Vec<f32> {
    x.iter().map(|v| v.to_f32()).collect()
}

pub(crate) fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}
