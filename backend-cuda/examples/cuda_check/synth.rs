//! Synthetic checkpoints: seeded, with a trained model's sizes of values, in the real file layout.

use std::fmt::Write as _;
use std::sync::Arc;

use dikast_core::checkpoint::{Blob, Checks, Expected, ModelFiles, StoredType, TensorSpec, Values, Weights};
use dikast_core::graph::{Elements, Graph};
use dikast_core::models::gliclass::{ClassPooling, GliClassConfig, Mt5Config, Pooling, Scorer};
use dikast_core::numerics::e4m3;

/// Normal numbers by the sum of twelve uniform ones, from a xorshift generator.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 20) as usize % limit
    }

    pub fn normal(&mut self) -> f32 {
        (0..3)
            .map(|_| {
                let x = self.next();
                (0..4).map(|i| ((x >> (16 * i)) & 0xFFFF) as f32 / 65536.0).sum::<f32>()
            })
            .sum::<f32>()
            - 6.0
    }
}

/// Codes of normal numbers of deviation 112: a row's largest comes near 448.
const CODE_DEVIATION: f32 = 112.0;
/// Values drawn once; tensors take pieces from random places.
const POOL: usize = 1 << 20;

/// Size of a tensor's values by its name: centre and deviation.
fn statistics(name: &str, shape: &[usize]) -> (f32, f32) {
    let k = shape.get(1).copied().unwrap_or(1).max(1) as f32;
    if name.contains("norm") && name.ends_with("weight") {
        (0.6, 0.15)
    } else if name.ends_with("relative_attention_bias.weight") {
        (0.0, 2.0)
    } else if name.contains("shared") || name.contains("embedding") {
        (0.0, 1.0)
    } else if name.ends_with("logit_scale") {
        (1.5, 0.0)
    } else if shape.len() < 2 {
        (0.0, 0.1)
    } else if name.contains("SelfAttention.q") {
        (0.0, 3.0 / (64.0 * k).sqrt())
    } else {
        (0.0, k.sqrt().recip())
    }
}

/// Weights for what is expected, `choose` saying how each tensor is stored. Tensors in `given` have these values (F32).
pub fn weights(
    expected: &Expected,
    choose: impl Fn(&TensorSpec) -> StoredType,
    given: &[(&str, Vec<f32>)],
    seed: u64,
) -> Result<Weights, dikast_core::Error> {
    let mut random = Random::new(seed);
    let pool: Vec<f32> = (0..POOL).map(|_| random.normal()).collect();
    let codes: Vec<u8> = pool.iter().map(|x| e4m3::encode(x * CODE_DEVIATION)).collect();
    let is_given = |name: &str| given.iter().find(|(n, _)| *n == name).map(|(_, v)| v);
    let tensors =
        expected.stored(|spec| if is_given(&spec.name).is_some() { StoredType::F32 } else { choose(spec) });
    let mut header = String::from("{");
    let (mut data, mut at) = (Vec::<u8>::new(), 0u64);
    data.reserve(tensors.iter().map(|t| t.bytes() as usize).sum());
    for (i, tensor) in tensors.iter().enumerate() {
        let dtype = match tensor.dtype {
            StoredType::F32 => "F32",
            StoredType::F16 => "F16",
            StoredType::BF16 => "BF16",
            StoredType::F8E4M3 => "F8_E4M3",
            StoredType::I8 => "I8",
        };
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(
            header,
            "{comma}\"{}\":{{\"dtype\":\"{dtype}\",\"shape\":{:?},\"data_offsets\":[{at},{}]}}",
            tensor.name,
            tensor.shape,
            at + tensor.bytes()
        );
        at += tensor.bytes();
        if let Some(values) = is_given(&tensor.name) {
            values.iter().for_each(|v| data.extend(v.to_le_bytes()));
            continue;
        }
        let count: usize = tensor.shape.iter().product();
        if tensor.name.ends_with("weight_scale") {
            // The deviation of the weight that it belongs to; near enough for every width here.
            for _ in 0..count {
                let scale =
                    1.0 / (45.0 * CODE_DEVIATION) * (1.0 + 0.2 * random.normal().clamp(-3.0, 3.0) / 3.0);
                push(&mut data, tensor.dtype, scale);
            }
            continue;
        }
        if tensor.dtype == StoredType::I8 {
            data.extend((0..count).map(|_| (random.next() >> 24) as u8));
            continue;
        }
        let (centre, deviation) = statistics(&tensor.name, &tensor.shape);
        let mut left = count;
        while left > 0 {
            let piece = left.min(1 << 14);
            let from = random.below(POOL - piece);
            if tensor.dtype == StoredType::F8E4M3 {
                data.extend(&codes[from..from + piece]);
            } else {
                pool[from..from + piece]
                    .iter()
                    .for_each(|x| push(&mut data, tensor.dtype, centre + deviation * x));
            }
            left -= piece;
        }
    }
    header.push('}');
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.append(&mut data);
    let files = ModelFiles::from_memory(
        "synthetic",
        [("model.safetensors".to_owned(), Blob::Owned(Arc::from(file)))],
    );
    Weights::open(&files, expected, Checks::HEADERS)
}

fn push(data: &mut Vec<u8>, dtype: StoredType, value: f32) {
    match dtype {
        StoredType::BF16 => data.extend(half::bf16::from_f32(value).to_le_bytes()),
        StoredType::F16 => data.extend(half::f16::from_f32(value).to_le_bytes()),
        _ => data.extend(value.to_le_bytes()),
    }
}

/// What the weights of a hand-made graph are.
pub fn expected_of(graph: &Graph) -> Expected {
    let tensors = graph.weights().iter().map(|w| {
        let allowed = if w.elements == Elements::E4M3 {
            vec![StoredType::F8E4M3]
        } else if w.elements == Elements::Int8 {
            vec![StoredType::I8]
        } else {
            vec![StoredType::F32, StoredType::F16, StoredType::BF16]
        };
        TensorSpec {
            name: w.name.clone(),
            allowed,
            shape: w.shape.clone(),
            values: Values::Finite,
            companions: Vec::new(),
        }
    });
    Expected { tensors: tensors.collect(), ..Expected::default() }
}

/// The shape of Multilang Ultra with fewer blocks or embedding rows where wanted.
pub fn ultra(blocks: usize, vocabulary: usize) -> GliClassConfig {
    GliClassConfig {
        encoder: Mt5Config {
            vocab_size: vocabulary,
            d_model: 2048,
            d_kv: 64,
            d_ff: 5120,
            num_layers: blocks,
            num_heads: 32,
            relative_attention_num_buckets: 32,
            relative_attention_max_distance: 128,
            layer_norm_epsilon: 1e-6,
        },
        hidden_size: 2048,
        class_token_index: vocabulary as u32 - 3,
        text_token_index: vocabulary as u32 - 2,
        example_token_index: vocabulary as u32 - 1,
        prompt_first: true,
        embed_class_token: true,
        extract_text_features: true,
        class_token_pooling: ClassPooling::Average,
        pooling: Pooling::Pass,
        scorer: Scorer::CrossAttn,
        scorer_num_heads: 16,
        scorer_mlp_hidden_size: 1024,
        normalize_features: false,
        use_lstm: false,
        use_segment_embeddings: false,
        max_labels: None,
    }
}
