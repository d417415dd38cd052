//! The joint schema head: hidden states of one record → a logit for every option of every question.
//!
//! Options attend to the record (evidence routing), are summed up per question, and the questions of a record attend
//! to each other and to the record; every option is then scored against its question.

use super::linear;
use crate::graph::{
    Activation, Columns, Elements, GraphBuilder, InputKind, JointScales, JointScore, Residency, Symbol,
    TensorId, Weight,
};
use crate::models::clef::{HEAD, HeadConfig, QUESTION_TYPES};

/// Epsilon of the head's norms.
const EPS: f32 = 1e-5;

/// Adds the head to a graph; returns the logits `[labels, 1]`.
///
/// `hidden` is `[tokens, H]` after the final norm; the LM head's rows `[vocabulary, H]` stay on the host.
pub fn joint(b: &mut GraphBuilder, c: &HeadConfig, vocabulary: usize, hidden: TensorId) -> TensorId {
    let head = Head { c };
    let (last, questions) = (b.input(InputKind::LastRows), b.input(InputKind::QuestionSpans));
    let (options, owner) = (b.input(InputKind::ClassSpans), b.input(InputKind::LabelQuestions));
    let sequence = b.input(InputKind::QuestionSequences);
    let normed = norm(b, "head.hidden", hidden, &format!("{HEAD}hidden_norm"));
    let memory = projection(b, "head.memory", normed, "memory", c.width, None);
    let summary = b.select_rows("head.summary", normed, last);
    let question = b.pool_spans("head.question", normed, questions);
    let context = b.pool_spans("head.option", normed, options);
    let lexical = lexical(b, vocabulary, b.width(hidden));

    let asked = projection(b, "head.options.question", question, "option_question", c.width, None);
    let asked = b.select_rows("head.options.asked", asked, owner);
    let read = projection(b, "head.options.lexical", lexical, "option_lexical", c.width, Some(asked));
    let mut x = projection(b, "head.options", context, "option_context", c.width, Some(read));
    for i in 0..c.routing_layers {
        x = head.evidence(b, i, x, memory);
    }

    let base = projection(b, "head.base", question, "question", c.width, None);
    let groups = b.input(InputKind::OptionOffsets);
    let scale = 1.0 / (c.width as f32).sqrt();
    let summed = b.softmax_pool("head.summed", x, base, groups, scale);
    let summed = norm(b, "head.summed.norm", summed, &format!("{HEAD}option_summary_norm"));
    let global = projection(b, "head.global", summary, "global", c.width, None);
    let global = b.select_rows("head.global.rows", global, sequence);
    let kinds = (
        b.input(InputKind::QuestionTypes),
        b.weight(format!("{HEAD}type_embedding.weight"), &[QUESTION_TYPES, c.width]),
    );
    let kind = b.embed("head.kind", kinds.0, kinds.1, None);
    let mut f = b.sum("head.fields", vec![base, summed, global, kind]);
    for i in 0..c.layers {
        f = head.decoder(b, i, f, memory);
    }

    let field = norm(b, "head.field", f, &format!("{HEAD}field_norm"));
    let option = norm(b, "head.option.norm", x, &format!("{HEAD}option_norm"));
    let pairs = b.pair_features("head.pairs", field, option, owner);
    let gelu = Some(Activation::GeluErf);
    let residual = linear(b, "head.residual.1", pairs, &format!("{HEAD}residual_scorer.0"), c.width, gelu);
    let residual = linear(b, "head.residual", residual, &format!("{HEAD}residual_scorer.3"), 1, None);
    let scales = JointScales {
        prior: b.weight(format!("{HEAD}prior_logit_scale"), &[]),
        joint: b.weight(format!("{HEAD}joint_logit_scale"), &[]),
        gate: b.weight(format!("{HEAD}residual_gate"), &[]),
    };
    let operands = JointScore { question, summary, sequence, lexical, field, option, owner, residual };
    b.joint_score("logits", operands, scales)
}

/// The mean LM-head row of each option's tokens.
fn lexical(b: &mut GraphBuilder, vocabulary: usize, width: usize) -> TensorId {
    let table = b.add_weight(Weight {
        name: "lm_head.weight".to_owned(),
        parts: vec!["lm_head.weight".to_owned()],
        shape: vec![vocabulary, width],
        elements: Elements::Real,
        residency: Residency::HostRows,
    });
    let ids = (b.input(InputKind::OptionTokens), b.input(InputKind::OptionTokenOffsets));
    b.pool_table_rows("head.lexical", ids, Symbol::Labels.into(), table)
}

struct Head<'a> {
    c: &'a HeadConfig,
}

impl Head<'_> {
    /// Every option attends to its record.
    fn evidence(&self, b: &mut GraphBuilder, i: usize, x: TensorId, memory: TensorId) -> TensorId {
        let (path, name) = (format!("{HEAD}evidence_layers.{i}"), format!("head.evidence.{i}"));
        let q = norm(b, &format!("{name}.q"), x, &format!("{path}.query_norm"));
        let kv = norm(b, &format!("{name}.kv"), memory, &format!("{path}.memory_norm"));
        let offsets = b.input(InputKind::LabelOffsets);
        let attention = format!("{path}.attention");
        let x = self.cross_attention(b, &format!("{name}.attended"), &attention, (q, kv), offsets, x);
        let n = norm(b, &format!("{name}.norm"), x, &format!("{path}.feedforward_norm"));
        let modules = [format!("{path}.feedforward.0"), format!("{path}.feedforward.3")];
        self.feed_forward(b, &name, n, &modules, x)
    }

    /// The questions of a record attend to each other, then to the record.
    fn decoder(&self, b: &mut GraphBuilder, i: usize, f: TensorId, memory: TensorId) -> TensorId {
        let (path, name) = (format!("{HEAD}layers.{i}"), format!("head.decoder.{i}"));
        let offsets = b.input(InputKind::QuestionOffsets);
        let n = norm(b, &format!("{name}.norm1"), f, &format!("{path}.norm1"));
        let f = self.self_attention(b, &format!("{name}.self"), &format!("{path}.self_attn"), n, offsets, f);
        let q = norm(b, &format!("{name}.norm2"), f, &format!("{path}.norm2"));
        let attention = format!("{path}.multihead_attn");
        let f = self.cross_attention(b, &format!("{name}.cross"), &attention, (q, memory), offsets, f);
        let n = norm(b, &format!("{name}.norm3"), f, &format!("{path}.norm3"));
        let modules = [format!("{path}.linear1"), format!("{path}.linear2")];
        self.feed_forward(b, &name, n, &modules, f)
    }

    fn feed_forward(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        x: TensorId,
        [first, second]: &[String; 2],
        residual: TensorId,
    ) -> TensorId {
        let gelu = Some(Activation::GeluErf);
        let hidden = linear(b, &format!("{name}.hidden"), x, first, self.c.feedforward, gelu);
        into_residual(b, name, hidden, second, residual)
    }

    fn self_attention(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        module: &str,
        x: TensorId,
        offsets: TensorId,
        residual: TensorId,
    ) -> TensorId {
        let w = self.c.width;
        let packed = packed(b, &format!("{name}.qkv"), x, module, "", 3 * w);
        let part = |n| Columns { tensor: packed, start: n * w, width: w };
        self.attend(b, name, module, (part(0), part(1), part(2)), (offsets, offsets), residual)
    }

    fn cross_attention(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        module: &str,
        (x, memory): (TensorId, TensorId),
        offsets: TensorId,
        residual: TensorId,
    ) -> TensorId {
        let w = self.c.width;
        let q = packed(b, &format!("{name}.q"), x, module, ".q", w);
        let kv = packed(b, &format!("{name}.kv"), memory, module, ".kv", 2 * w);
        let rows = b.input(InputKind::SequenceOffsets);
        let part = |n| Columns { tensor: kv, start: n * w, width: w };
        self.attend(b, name, module, (b.columns(q), part(0), part(1)), (offsets, rows), residual)
    }

    fn attend(
        &self,
        b: &mut GraphBuilder,
        name: &str,
        module: &str,
        operands: (Columns, Columns, Columns),
        offsets: (TensorId, TensorId),
        residual: TensorId,
    ) -> TensorId {
        let (heads, width) = (self.c.heads, self.c.width / self.c.heads);
        let scale = 1.0 / (width as f32).sqrt();
        let context =
            b.attention(&format!("{name}.context"), operands, offsets, None, (heads, width), scale, None);
        into_residual(b, name, context, &format!("{module}.out_proj"), residual)
    }
}

/// Rows of a packed input projection.
fn packed(b: &mut GraphBuilder, name: &str, x: TensorId, module: &str, part: &str, out: usize) -> TensorId {
    let k = b.width(x);
    let weight = b.weight(format!("{module}.in_proj_weight{part}"), &[out, k]);
    let bias = b.weight(format!("{module}.in_proj_bias{part}"), &[out]);
    b.linear(name, x, weight, Some(bias), None, None)
}

fn into_residual(
    b: &mut GraphBuilder,
    name: &str,
    x: TensorId,
    module: &str,
    residual: TensorId,
) -> TensorId {
    let (out, k) = (b.width(residual), b.width(x));
    let weight = b.weight(format!("{module}.weight"), &[out, k]);
    let bias = b.weight(format!("{module}.bias"), &[out]);
    b.linear(name, x, weight, Some(bias), None, Some(residual))
}

fn norm(b: &mut GraphBuilder, name: &str, x: TensorId, module: &str) -> TensorId {
    let d = b.width(x);
    let (weight, bias) =
        (b.weight(format!("{module}.weight"), &[d]), b.weight(format!("{module}.bias"), &[d]));
    b.layer_norm(name, x, weight, bias, EPS)
}

fn projection(
    b: &mut GraphBuilder,
    name: &str,
    x: TensorId,
    which: &str,
    width: usize,
    residual: Option<TensorId>,
) -> TensorId {
    let k = b.width(x);
    let weight = b.weight(format!("{HEAD}{which}_projection.weight"), &[width, k]);
    b.linear(name, x, weight, None, None, residual)
}
