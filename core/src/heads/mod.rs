//! Decision heads: hidden states → logits, as graph steps.

mod joint;
mod scorer;

pub use joint::joint;

use crate::graph::{Activation, GraphBuilder, InputKind, LstmDirection, Pool, TensorId};
use crate::models::gliclass::{GliClassConfig, Pooling};

/// Adds the GLiClass head to a graph: pooling, projectors, scorer; returns the logits `[labels, 1]`.
///
/// The order is the reference's: text part (→ LSTM → pooling) → text projector; class vectors → class projector;
/// optional L2 norm; scorer; optional logit scale.
pub fn gliclass(b: &mut GraphBuilder, config: &GliClassConfig, hidden: TensorId) -> TensorId {
    let spans = b.input(InputKind::ClassSpans);
    let classes = b.pool_spans("classes.pooled", hidden, spans);
    let text = text_part(b, config, hidden);
    let [projected, mut classes] = projectors(b, config, [text.tensor, classes]);
    let mut text = Text { tensor: projected, ..text };
    if config.normalize_features {
        text.tensor = b.l2_normalize("text.normalized", text.tensor, 1e-8);
        classes = b.l2_normalize("classes.normalized", classes, 1e-8);
    }
    let logits = scorer::score(b, config, &text, classes);
    if config.normalize_features {
        let by = b.weight("model.logit_scale", &[]);
        return b.scale("logits.scaled", logits, by);
    }
    logits
}

/// Whether the head reads a copy of the text rows ([`InputKind::TextRows`]) instead of all token rows.
pub fn selects_text_rows(config: &GliClassConfig) -> bool {
    config.extract_text_features && (config.pooling == Pooling::Pass || config.use_lstm)
}

/// The text part: one vector a sequence, or packed rows.
struct Text {
    tensor: TensorId,
    /// Packed rows: `[sequences+1]` offsets, `[sequences]` lengths.
    offsets: TensorId,
    lengths: TensorId,
}

fn text_part(b: &mut GraphBuilder, config: &GliClassConfig, hidden: TensorId) -> Text {
    let mut text = if selects_text_rows(config) {
        let rows = b.input(InputKind::TextRows);
        Text {
            tensor: b.select_rows("text.rows", hidden, rows),
            offsets: b.input(InputKind::TextOffsets),
            lengths: b.input(InputKind::TextLengths),
        }
    } else {
        let (offsets, lengths) = (b.input(InputKind::SequenceOffsets), b.input(InputKind::AttendedLengths));
        Text { tensor: hidden, offsets, lengths }
    };
    if config.use_lstm {
        let (d, h) = (config.hidden_size, config.hidden_size / 2);
        let mut direction = |suffix: &str| LstmDirection {
            input: b.weight(format!("model.lstm.lstm.weight_ih_l0{suffix}"), &[4 * h, d]),
            hidden: b.weight(format!("model.lstm.lstm.weight_hh_l0{suffix}"), &[4 * h, h]),
            input_bias: b.weight(format!("model.lstm.lstm.bias_ih_l0{suffix}"), &[4 * h]),
            hidden_bias: b.weight(format!("model.lstm.lstm.bias_hh_l0{suffix}"), &[4 * h]),
        };
        let directions = (direction(""), direction("_reverse"));
        text.tensor = b.bi_lstm("text.lstm", text.tensor, (text.offsets, text.lengths), directions);
    }
    let pool = match config.pooling {
        Pooling::Pass => return text,
        Pooling::First => Pool::First,
        Pooling::Last => Pool::Last,
        Pooling::Avg => Pool::Avg,
        Pooling::Sum => Pool::Sum,
        Pooling::Max => Pool::Max,
        Pooling::Rms => Pool::Rms,
        Pooling::AbsMax => Pool::AbsMax,
        Pooling::AbsAvg => Pool::AbsAvg,
    };
    let spans = b.input(InputKind::TextSpans);
    text.tensor = b.pool_text("text.pooled", text.tensor, spans, pool);
    text
}

/// `linear_2(gelu(linear_1(x)))` of the text and of the classes, layer by layer: what does not wait for each other stands side
/// by side.
fn projectors(b: &mut GraphBuilder, config: &GliClassConfig, inputs: [TensorId; 2]) -> [TensorId; 2] {
    let d = config.hidden_size;
    let mut both = |inputs: [TensorId; 2], name: &str, layer: &str, activation| {
        let mut project = |which: &str, x| {
            let module = format!("model.{which}_projector.{layer}");
            linear(b, &format!("{which}.{name}"), x, &module, d, activation)
        };
        [project("text", inputs[0]), project("classes", inputs[1])]
    };
    let hidden = both(inputs, "projector.1", "linear_1", Some(Activation::GeluErf));
    both(hidden, "projected", "linear_2", None)
}

/// A linear layer of the checkpoint with its bias.
fn linear(
    b: &mut GraphBuilder,
    name: &str,
    x: TensorId,
    module: &str,
    out: usize,
    activation: Option<Activation>,
) -> TensorId {
    let k = b.width(x);
    let weight = b.weight(format!("{module}.weight"), &[out, k]);
    let bias = b.weight(format!("{module}.bias"), &[out]);
    b.linear(name, x, weight, Some(bias), activation, None)
}
