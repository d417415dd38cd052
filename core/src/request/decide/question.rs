//! A question and its options.

use std::borrow::Cow;

use super::Json;

/// A question's type; the value is its row in the model's type embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// Is it true? Answered by the probability that it is.
    Noul = 0,
    /// Which of these options?
    Choice = 1,
    /// Which level of an ordered scale?
    Score = 2,
}

impl QuestionKind {
    /// All kinds, by their row in the type embedding.
    pub const ALL: [Self; 3] = [Self::Noul, Self::Choice, Self::Score];

    /// The name in requests, prompts and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Noul => "noul",
            Self::Choice => "choice",
            Self::Score => "score",
        }
    }

    /// Its row in the model's type embedding.
    pub fn type_id(self) -> u32 {
        self as u32
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Names the answer, and is part of what the model reads.
    pub id: String,
    /// What is asked: a string, a list or a map. `None`, null and `""` stand for the id.
    pub instructions: Option<Json>,
    /// Its type and options.
    pub criteria: Criteria,
}

/// A question's type and options.
#[derive(Debug, Clone, PartialEq)]
pub enum Criteria {
    /// When the answer is yes and when it is no.
    Noul {
        /// Describes `true`.
        yes: Side,
        /// Describes `false`.
        no: Side,
    },
    /// Ids with descriptions, in request order; null describes nothing.
    Choice(Vec<(String, Json)>),
    /// Descriptions of the levels, lowest first.
    Score(Vec<Json>),
}

/// How one side of a noul question is described.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Side {
    /// By the sentence that the model was trained with.
    #[default]
    Default,
    /// By the caller; null describes nothing.
    Given(Json),
}

/// An option as the model reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReadOption<'q> {
    pub(crate) id: Cow<'q, str>,
    /// Absent if null.
    pub(crate) description: Option<Cow<'q, Json>>,
}

const TRUE_BY_DEFAULT: &str = "The proposition is true or the answer is yes.";
const FALSE_BY_DEFAULT: &str = "The proposition is false or the answer is no.";

impl Question {
    /// A yes-or-no question with the default descriptions.
    pub fn noul(id: impl Into<String>, instructions: impl Into<Json>) -> Self {
        let criteria = Criteria::Noul { yes: Side::Default, no: Side::Default };
        Self { id: id.into(), instructions: Some(instructions.into()), criteria }
    }

    /// A choice among options with descriptions (null for none).
    pub fn choice(
        id: impl Into<String>,
        instructions: impl Into<Json>,
        options: impl IntoIterator<Item = (String, Json)>,
    ) -> Self {
        let criteria = Criteria::Choice(options.into_iter().collect());
        Self { id: id.into(), instructions: Some(instructions.into()), criteria }
    }

    /// A rating on a scale, lowest level first.
    pub fn score(
        id: impl Into<String>,
        instructions: impl Into<Json>,
        levels: impl IntoIterator<Item = Json>,
    ) -> Self {
        let criteria = Criteria::Score(levels.into_iter().collect());
        Self { id: id.into(), instructions: Some(instructions.into()), criteria }
    }

    /// Its type.
    pub fn kind(&self) -> QuestionKind {
        match self.criteria {
            Criteria::Noul { .. } => QuestionKind::Noul,
            Criteria::Choice(_) => QuestionKind::Choice,
            Criteria::Score(_) => QuestionKind::Score,
        }
    }

    /// Options or levels; 2 for noul.
    pub fn option_count(&self) -> usize {
        match &self.criteria {
            Criteria::Noul { .. } => 2,
            Criteria::Choice(options) => options.len(),
            Criteria::Score(levels) => levels.len(),
        }
    }

    /// Ids of the options in request order: `true` and `false`, the ids, or the levels' numbers.
    pub fn option_ids(&self) -> Vec<String> {
        match &self.criteria {
            Criteria::Noul { .. } => vec!["true".to_owned(), "false".to_owned()],
            Criteria::Choice(options) => options.iter().map(|(id, _)| id.clone()).collect(),
            Criteria::Score(levels) => (0..levels.len()).map(|level| level.to_string()).collect(),
        }
    }

    /// For each option in the order in which the model reads them, its place in request order: a choice is read
    /// sorted by code point.
    pub fn reading_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.option_count()).collect();
        if let Criteria::Choice(options) = &self.criteria {
            order.sort_by(|&a, &b| options[a].0.cmp(&options[b].0));
        }
        order
    }

    /// The options in the order in which the model reads them.
    pub(crate) fn read_options(&self) -> Vec<ReadOption<'_>> {
        match &self.criteria {
            Criteria::Noul { yes, no } => {
                vec![side("true", yes, TRUE_BY_DEFAULT), side("false", no, FALSE_BY_DEFAULT)]
            }
            Criteria::Choice(options) => {
                let order = self.reading_order();
                let read = |i: usize| ReadOption {
                    id: Cow::Borrowed(&*options[i].0),
                    description: described(&options[i].1),
                };
                order.into_iter().map(read).collect()
            }
            Criteria::Score(levels) => {
                let read = |(i, level): (usize, _)| ReadOption {
                    id: Cow::Owned(i.to_string()),
                    description: described(level),
                };
                levels.iter().enumerate().map(read).collect()
            }
        }
    }
}

fn described(description: &Json) -> Option<Cow<'_, Json>> {
    (*description != Json::Null).then_some(Cow::Borrowed(description))
}

fn side<'q>(id: &'static str, side: &'q Side, default: &str) -> ReadOption<'q> {
    let description = match side {
        Side::Default => Some(Cow::Owned(Json::from(default))),
        Side::Given(description) => described(description),
    };
    ReadOption { id: Cow::Borrowed(id), description }
}
