//! Small graphs with random weights, run on the CPU and on the device.

use std::cell::OnceCell;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::{Blob, Checks, Expected, ModelFiles, StoredType, TensorSpec, Values, Weights};
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::{
    Elements, Graph, GraphBuilder, InputKind, Residency, Sizes, TensorId, Weight, WeightId,
};
use dikast_wgpu::{DeviceOptions, LimitOverrides, Precision, WgpuBackend};

/// Set to `required`, it makes these tests fail on a machine without a device; otherwise they say that they did not run.
const REQUIRED: &str = "DIKAST_TEST_GPU";

/// A backend on the one device that all tests share, or on one of its own where limits need that; `None` where there is none
/// and none is required, which is then printed.
pub(crate) fn open(options: &DeviceOptions) -> Option<WgpuBackend> {
    static SHARED: LazyLock<Option<WgpuBackend>> = LazyLock::new(|| open_anew(&DeviceOptions::from_env()));
    if options.limits != LimitOverrides::default() {
        return open_anew(options);
    }
    wait_for_turn();
    SHARED.as_ref().map(|shared| shared.again(options))
}

/// A test that uses a device has it to itself until it ends: some drivers do not survive two at a time.
fn wait_for_turn() {
    static TURN: Mutex<()> = Mutex::new(());
    thread_local! { static MINE: OnceCell<MutexGuard<'static, ()>> = const { OnceCell::new() } }
    MINE.with(|mine| {
        mine.get_or_init(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    });
}

/// Opens a device of the test's own.
pub(crate) fn open_anew(options: &DeviceOptions) -> Option<WgpuBackend> {
    wait_for_turn();
    match pollster::block_on(WgpuBackend::open(options)) {
        Ok(backend) => Some(backend),
        Err(error) if std::env::var(REQUIRED).is_ok_and(|v| v == "required") => panic!(
            "no device to test on, and {REQUIRED}=required: {error}\nA software device will do (Debian: \
             mesa-vulkan-drivers libvulkan1)."
        ),
        Err(error) => {
            eprintln!("NOT RUN, no device to test on: {error}");
            None
        }
    }
}

pub(crate) fn f32_path() -> DeviceOptions {
    DeviceOptions { precision: Precision::F32, ..DeviceOptions::from_env() }
}

pub(crate) fn f16_path() -> DeviceOptions {
    DeviceOptions::from_env()
}

/// A reproducible sequence of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.bits() as usize % n.max(1)
    }

    /// Roughly normal, unit variance.
    pub(crate) fn normal(&mut self) -> f32 {
        let mut uniform = || self.bits() as f32 / u32::MAX as f32 - 0.5;
        (0..12).map(|_| uniform()).sum()
    }
}

/// A tensor of the made-up checkpoint.
struct Stored {
    name: String,
    dtype: StoredType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// A graph under construction and its weights.
pub(crate) struct Case {
    pub(crate) b: GraphBuilder,
    pub(crate) random: Random,
    stored: Vec<Stored>,
    /// Rows of the made-up embedding tables.
    tokens: usize,
}

/// A graph with weights and a batch.
pub(crate) struct Ready {
    pub(crate) graph: Graph,
    pub(crate) weights: Weights,
    pub(crate) packing: Packing,
}

impl Case {
    pub(crate) fn new(seed: u64, packing: &Packing) -> Self {
        Self {
            b: GraphBuilder::new("test"),
            random: Random::new(seed),
            stored: Vec::new(),
            tokens: packing.tokens(),
        }
    }

    /// A weight of given values, rounded to the stored type.
    pub(crate) fn given(
        &mut self,
        name: &str,
        shape: &[usize],
        values: &[f32],
        dtype: StoredType,
    ) -> WeightId {
        self.store(name, shape, values, dtype);
        self.b.weight(name, shape)
    }

    pub(crate) fn store(&mut self, name: &str, shape: &[usize], values: &[f32], dtype: StoredType) {
        let bytes = match dtype {
            StoredType::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            StoredType::F16 => values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect(),
            StoredType::BF16 => values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect(),
            StoredType::F8E4M3 => values.iter().map(|v| dikast_core::numerics::e4m3::encode(*v)).collect(),
            StoredType::I8 => values.iter().map(|v| *v as i8 as u8).collect(),
        };
        self.stored.push(Stored { name: name.to_owned(), dtype, shape: shape.to_vec(), bytes });
    }

    /// A random weight.
    pub(crate) fn weight(&mut self, name: &str, shape: &[usize], scale: f32, dtype: StoredType) -> WeightId {
        let values = self.normals(shape.iter().product(), scale);
        self.given(name, shape, &values, dtype)
    }

    /// Random norm weights around one.
    pub(crate) fn norm(&mut self, name: &str, width: usize) -> WeightId {
        let values: Vec<f32> = (0..width).map(|_| 1.0 + 0.2 * self.random.normal()).collect();
        self.given(name, &[width], &values, StoredType::BF16)
    }

    /// A random FP8 weight in `parts` stacked tensors, and its channel scales.
    pub(crate) fn quantized(
        &mut self,
        name: &str,
        rows: usize,
        k: usize,
        parts: usize,
    ) -> (WeightId, WeightId) {
        let (mut names, mut scales) = (Vec::new(), Vec::new());
        for part in 0..parts {
            let codes = self.normals(rows / parts * k, 80.0);
            let weight = format!("{name}.{part}.weight");
            self.store(&weight, &[rows / parts, k], &codes, StoredType::F8E4M3);
            let values: Vec<f32> =
                (0..rows / parts).map(|_| 0.001 + 0.0005 * self.random.normal().abs()).collect();
            let scale = format!("{name}.{part}.weight_scale");
            self.store(&scale, &[rows / parts, 1], &values, StoredType::BF16);
            names.push(weight);
            scales.push(scale);
        }
        let whole = |name: String, parts, width, elements| Weight {
            name,
            parts,
            shape: vec![rows, width],
            elements,
            residency: Residency::Device,
        };
        let weight = self.b.add_weight(whole(format!("{name}.weight"), names, k, Elements::E4M3));
        (weight, self.b.add_weight(whole(format!("{name}.scale"), scales, 1, Elements::Real)))
    }

    /// An FP8 weight of given values, which E4M3 has, and scales of one.
    pub(crate) fn given_codes(
        &mut self,
        name: &str,
        shape: [usize; 2],
        values: &[f32],
    ) -> (WeightId, WeightId) {
        let names = [format!("{name}.weight"), format!("{name}.scale")];
        self.store(&names[0], &shape, values, StoredType::F8E4M3);
        self.store(&names[1], &[shape[0], 1], &vec![1.0; shape[0]], StoredType::BF16);
        let [weight, scale] = names.map(|name| Weight {
            parts: vec![name.clone()],
            name,
            shape: shape.to_vec(),
            elements: Elements::Real,
            residency: Residency::Device,
        });
        let weight = self.b.add_weight(Weight { elements: Elements::E4M3, ..weight });
        (weight, self.b.add_weight(Weight { shape: vec![shape[0], 1], ..scale }))
    }

    /// An embedding table.
    pub(crate) fn table(
        &mut self,
        name: &str,
        shape: [usize; 2],
        values: &[f32],
        dtype: StoredType,
        residency: Residency,
    ) -> WeightId {
        self.store(name, &shape, values, dtype);
        self.b.add_weight(Weight {
            name: name.to_owned(),
            parts: vec![name.to_owned()],
            shape: shape.to_vec(),
            elements: Elements::Real,
            residency,
        })
    }

    /// `[tokens, width]` activations of given values, one row a token.
    pub(crate) fn activations(&mut self, name: &str, width: usize, values: &[f32]) -> TensorId {
        let shape = [self.tokens, width];
        let table = self.table(&format!("{name}.table"), shape, values, StoredType::F32, Residency::HostRows);
        let ids = self.b.input(InputKind::TokenIds);
        self.b.embed(name, ids, table, None)
    }

    /// Random `[tokens, width]` activations.
    pub(crate) fn random_activations(&mut self, name: &str, width: usize, scale: f32) -> TensorId {
        let values = self.normals(self.tokens * width, scale);
        self.activations(name, width, &values)
    }

    /// Random `[labels, width]` activations.
    pub(crate) fn label_rows(&mut self, name: &str, width: usize, scale: f32) -> TensorId {
        let x = self.random_activations(&format!("{name}.tokens"), width, scale);
        let spans = self.b.input(InputKind::ClassSpans);
        self.b.pool_spans(name, x, spans)
    }

    /// Random `[sequences, width]` activations.
    pub(crate) fn sequence_rows(&mut self, name: &str, width: usize, scale: f32) -> TensorId {
        let x = self.random_activations(&format!("{name}.tokens"), width, scale);
        let spans = self.b.input(InputKind::TextSpans);
        self.b.pool_text(name, x, spans, dikast_core::graph::Pool::Avg)
    }

    pub(crate) fn normals(&mut self, n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|_| scale * self.random.normal()).collect()
    }

    pub(crate) fn finish(self, output: TensorId, packing: &Packing) -> Ready {
        let graph = self.b.finish(output).expect("the test's graph is well formed");
        Ready { graph, weights: checkpoint(&self.stored), packing: packing.clone() }
    }
}

/// A safetensors file in memory, opened.
fn checkpoint(stored: &[Stored]) -> Weights {
    let mut header = String::new();
    let mut data: Vec<u8> = Vec::new();
    let mut expected = Expected::default();
    for s in stored {
        let dtype = match s.dtype {
            StoredType::F32 => "F32",
            StoredType::F16 => "F16",
            StoredType::BF16 => "BF16",
            StoredType::F8E4M3 => "F8_E4M3",
            StoredType::I8 => "I8",
        };
        let start = data.len();
        data.extend(&s.bytes);
        let comma = if header.is_empty() { "" } else { "," };
        header.push_str(&format!(
            r#"{comma}"{}":{{"dtype":"{dtype}","shape":{:?},"data_offsets":[{start},{}]}}"#,
            s.name,
            s.shape,
            data.len()
        ));
        expected.tensors.push(TensorSpec {
            name: s.name.clone(),
            allowed: vec![s.dtype],
            shape: s.shape.clone(),
            values: Values::Finite,
            companions: vec![],
        });
    }
    let header = format!("{{{header}}}");
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    let blob = Blob::Owned(Arc::from(file));
    let mut files = vec![("model.safetensors".to_owned(), blob)];
    if stored.iter().any(|s| s.dtype == StoredType::I8) {
        // Codes must say whether they are rotated.
        let text = br#"{"quant_method": "int8_tensorwise", "convrot": false}"#;
        files.push(("quantization_config.json".to_owned(), Blob::Owned(Arc::from(text.to_vec()))));
    }
    let files = ModelFiles::from_memory("test", files);
    Weights::open(&files, &expected, Checks::HEADERS).expect("the made-up checkpoint opens")
}

/// Sequences of a batch.
#[derive(Debug, Clone)]
pub(crate) struct Packing {
    pub(crate) sequences: Vec<Packed>,
}

/// One sequence.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    pub(crate) ids: Vec<i32>,
    pub(crate) attended: usize,
    /// Rows of each class, from the sequence's first.
    pub(crate) classes: Vec<(usize, usize)>,
    /// First row of the text.
    pub(crate) text: usize,
    pub(crate) text_padding: usize,
}

impl Packing {
    /// Sequences of given lengths with given numbers of labels.
    pub(crate) fn new(seed: u64, shapes: &[(usize, usize)]) -> Self {
        let mut random = Random::new(seed);
        let total: usize = shapes.iter().map(|s| s.0).sum();
        // A permutation, so that a row depends on its token and not on its place.
        let mut ids: Vec<i32> = (0..total as i32).collect();
        for i in (1..ids.len()).rev() {
            ids.swap(i, random.below(i + 1));
        }
        let sequences = shapes
            .iter()
            .map(|&(len, labels)| {
                let ids = ids.split_off(ids.len() - len);
                let classes = (0..labels)
                    .map(|_| {
                        let start = random.below(len);
                        (start, (start + random.below(4)).min(len))
                    })
                    .collect();
                let attended = len - random.below(3).min(len / 2);
                Packed { ids, attended, classes, text: len / 3, text_padding: random.below(2) }
            })
            .collect();
        Self { sequences }
    }

    pub(crate) fn tokens(&self) -> usize {
        self.sequences.iter().map(|s| s.ids.len()).sum()
    }

    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            tokens: self.tokens(),
            sequences: self.sequences.len(),
            labels: self.sequences.iter().map(|s| s.classes.len()).sum(),
            text_tokens: self.sequences.iter().map(|s| s.ids.len() - s.text).sum(),
            ..crate::clef_inputs::sizes(&self.sequences)
        }
    }

    /// The batch of some of the sequences, in the given order.
    pub(crate) fn batch(&self, which: &[usize]) -> Batch {
        let chosen = Self { sequences: which.iter().map(|&i| self.sequences[i].clone()).collect() };
        let mut batch = Batch::new(chosen.sizes());
        let mut values: Vec<(InputKind, Vec<i32>)> = [
            InputKind::TokenIds,
            InputKind::SegmentIds,
            InputKind::SequenceOffsets,
            InputKind::AttendedLengths,
            InputKind::ClassSpans,
            InputKind::LabelSequences,
            InputKind::LabelOffsets,
            InputKind::TextRows,
            InputKind::TextOffsets,
            InputKind::TextLengths,
            InputKind::TextSpans,
        ]
        .map(|k| (k, Vec::new()))
        .into();
        let (mut row, mut label, mut text) = (0, 0, 0);
        for (kind, list) in &mut values {
            if matches!(kind, InputKind::SequenceOffsets | InputKind::LabelOffsets | InputKind::TextOffsets) {
                list.push(0);
            }
        }
        for (index, s) in chosen.sequences.iter().enumerate() {
            let text_len = s.ids.len() - s.text;
            for (kind, list) in &mut values {
                match kind {
                    InputKind::TokenIds => list.extend(&s.ids),
                    InputKind::SegmentIds => list.extend(s.ids.iter().map(|id| id % 2)),
                    InputKind::SequenceOffsets => list.push((row + s.ids.len()) as i32),
                    InputKind::AttendedLengths => list.push(s.attended as i32),
                    InputKind::ClassSpans => {
                        list.extend(s.classes.iter().flat_map(|c| [(row + c.0) as i32, (row + c.1) as i32]));
                    }
                    InputKind::LabelSequences => list.extend(s.classes.iter().map(|_| index as i32)),
                    InputKind::LabelOffsets => list.push((label + s.classes.len()) as i32),
                    InputKind::TextRows => list.extend((s.text..s.ids.len()).map(|r| (row + r) as i32)),
                    InputKind::TextOffsets => list.push((text + text_len) as i32),
                    InputKind::TextLengths => {
                        list.push(s.attended.saturating_sub(s.text).min(text_len) as i32);
                    }
                    InputKind::TextSpans => {
                        let first = (row + s.text) as i32;
                        list.extend([first, (row + s.ids.len()) as i32, s.text_padding as i32]);
                    }
                    other => unreachable!("{} is filled elsewhere", other.name()),
                }
            }
            row += s.ids.len();
            label += s.classes.len();
            text += text_len;
        }
        for (kind, list) in values {
            batch.set(kind, list);
        }
        crate::clef_inputs::fill(&chosen.sequences, &mut batch);
        batch
    }

    pub(crate) fn whole(&self) -> Batch {
        self.batch(&(0..self.sequences.len()).collect::<Vec<_>>())
    }
}

/// All step outputs of one run.
pub(crate) fn run<B: Backend>(backend: &B, ready: &Ready, batch: &Batch, bucket: &Sizes) -> Taps {
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).expect("load");
    let mut plan = backend.plan(&ready.graph, &resident, bucket).expect("plan");
    let mut taps = Taps::all(&ready.graph);
    let out = pollster::block_on(backend.run(&mut plan, &resident, batch, &mut taps)).expect("run");
    assert_eq!(bits(&out), bits(taps.get(ready.graph.output()).expect("the output is tapped")));
    taps
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Runs on the CPU and on a device and compares every step's output: the largest error may be `tolerance(name)` times
/// the largest magnitude of the tensor. Returns the largest relative error.
pub(crate) fn compare(ready: &Ready, options: &DeviceOptions, tolerance: impl Fn(&str) -> f32) -> f32 {
    let Some(backend) = open(options) else { return 0.0 };
    let batch = ready.packing.whole();
    let bucket = backend.bucket(&batch.sizes);
    let device = run(&backend, ready, &batch, &bucket);
    let cpu = run(&CpuBackend::new(), ready, &batch, &batch.sizes);
    let mut most = 0.0f32;
    for step in ready.graph.steps() {
        for id in step.outputs() {
            let name = &ready.graph.tensor(id).name;
            let (a, b) = (device.get(id).expect("tapped"), cpu.get(id).expect("tapped"));
            assert_eq!(a.len(), b.len(), "{name}");
            let scale = b.iter().fold(f32::MIN_POSITIVE, |m, v| m.max(v.abs()));
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                let error = (a - b).abs() / scale;
                let allowed = tolerance(name);
                assert!(
                    error <= allowed,
                    "{name}[{i}]: {a} on the device, {b} on the CPU, {error:.2e} of {scale}"
                );
                most = most.max(error);
            }
        }
    }
    most
}
