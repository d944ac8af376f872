//! What a Liquid body is made of.

use std::sync::Arc;

use crate::prompt::liquid::filters::Filter;
use crate::prompt::liquid::value::Value;

#[derive(Debug)]
pub(super) enum LiquidNode {
    Text(Arc<str>),
    Output(Chain),
    If {
        arms: Vec<(Condition, Vec<LiquidNode>)>,
        otherwise: Vec<LiquidNode>,
    },
    Case {
        subject: Operand,
        arms: Vec<(Vec<Operand>, Vec<LiquidNode>)>,
        otherwise: Vec<LiquidNode>,
    },
    For(Box<Loop>),
    Assign {
        name: String,
        value: Chain,
    },
    Capture {
        name: String,
        body: Vec<LiquidNode>,
        at: usize,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct Loop {
    pub(super) name: String,
    pub(super) over: Operand,
    pub(super) reversed: bool,
    pub(super) limit: Option<Operand>,
    pub(super) offset: Option<Operand>,
    pub(super) body: Vec<LiquidNode>,
    pub(super) otherwise: Vec<LiquidNode>,
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) enum Condition {
    Truth(Operand),
    Compare(Operand, Comparison, Operand),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

/// A value and what is done to it.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) base: Operand,
    pub(super) calls: Vec<Call>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) filter: &'static Filter,
    pub(super) args: Vec<Operand>,
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) enum Operand {
    Literal(Value),
    Path(Path),
    Range { first: Box<Operand>, last: Box<Operand>, at: usize },
}

#[derive(Debug)]
pub(super) struct Path {
    pub(super) root: String,
    pub(super) steps: Vec<PathStep>,
    /// As it stands in the file.
    pub(super) text: String,
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) enum PathStep {
    Field(String),
    Item(Operand),
}
