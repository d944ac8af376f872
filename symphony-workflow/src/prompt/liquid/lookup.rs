//! Looking up the names of a Liquid body.

use crate::prompt::liquid::tree::{
    Chain, Comparison, Condition, LiquidNode, Operand, Path, PathStep,
};
use crate::prompt::liquid::value::Value;
use crate::prompt::marks::PromptFault;
use crate::prompt::names::{Hop, Scope, Shape, UnknownName};
use symphony_core::settings::PromptEngine;

/// Looks up every name of a template.
pub(super) fn lookup(nodes: &[LiquidNode]) -> Lookup {
    let mut reader = ValueReader {
        scope: Scope::new(PromptEngine::Liquid),
        is_dead: false,
        found: Lookup::default(),
    };
    reader.bind_assigned(nodes);
    reader.nodes(nodes);
    reader.found
}

/// What is wrong or doubtful about the names.
#[derive(Default)]
pub(super) struct Lookup {
    pub(super) faults: Vec<PromptFault>,
    pub(super) warnings: Vec<PromptFault>,
}

struct ValueReader {
    scope: Scope,
    /// Whether a condition around is false for every issue, because an unknown name is null.
    is_dead: bool,
    found: Lookup,
}

/// How a value is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Only to decide something.
    Tested,
    /// Printed, looped over or given to a filter.
    Used,
}

impl ValueReader {
    /// A variable may be tested before the place where it is assigned, as in a loop.
    fn bind_assigned(&mut self, nodes: &[LiquidNode]) {
        for node in nodes {
            if let LiquidNode::Assign { name, .. } | LiquidNode::Capture { name, .. } = node {
                self.scope.bind(name, Shape::Any);
            }
            for body in bodies(node) {
                self.bind_assigned(body);
            }
        }
    }

    fn nodes(&mut self, nodes: &[LiquidNode]) {
        for node in nodes {
            self.node(node);
        }
    }

    fn node(&mut self, node: &LiquidNode) {
        match node {
            LiquidNode::Text(_) | LiquidNode::Break | LiquidNode::Continue => {}
            LiquidNode::Output(chain) | LiquidNode::Assign { value: chain, .. } => {
                self.chain(chain)
            }
            LiquidNode::Capture { body, .. } => self.nodes(body),
            LiquidNode::If { arms, otherwise } => {
                let mut is_settled = false;
                for (condition, body) in arms {
                    self.condition(condition);
                    self.body(body, is_settled || self.is_never(condition, true));
                    is_settled |= self.is_never(condition, false);
                }
                self.body(otherwise, is_settled);
            }
            LiquidNode::Case { subject, arms, otherwise } => {
                self.operand(subject, Use::Tested);
                for (values, body) in arms {
                    for value in values {
                        self.operand(value, Use::Tested);
                    }
                    let differs = |value: &Operand| self.is_unequal(subject, value);
                    self.body(body, values.iter().all(differs));
                }
                self.nodes(otherwise);
            }
            LiquidNode::For(each) => {
                let item = match self.operand(&each.over, Use::Used) {
                    Some(Shape::List(item)) => *item,
                    _ => Shape::Any,
                };
                for bound in [&each.limit, &each.offset].into_iter().flatten() {
                    self.operand(bound, Use::Used);
                }
                let before = self.scope.open();
                self.scope.bind(&each.name, item);
                self.scope.bind("forloop", Shape::Loop);
                self.nodes(&each.body);
                self.scope.close(before);
                self.nodes(&each.otherwise);
            }
        }
    }

    /// Looks up the names of a body, which is never shown if `is_dead`.
    fn body(&mut self, nodes: &[LiquidNode], is_dead: bool) {
        let around = self.is_dead;
        self.is_dead |= is_dead;
        self.nodes(nodes);
        self.is_dead = around;
    }

    fn condition(&mut self, condition: &Condition) {
        match condition {
            Condition::Truth(operand) => {
                self.operand(operand, Use::Tested);
            }
            Condition::Compare(left, _, right) => {
                self.operand(left, Use::Tested);
                self.operand(right, Use::Tested);
            }
            Condition::Not(inner) => self.condition(inner),
            Condition::And(left, right) | Condition::Or(left, right) => {
                self.condition(left);
                self.condition(right);
            }
        }
    }

    /// Whether a condition is for no issue what `value` says, because an unknown name is null.
    fn is_never(&self, condition: &Condition, value: bool) -> bool {
        match (condition, value) {
            (Condition::Truth(operand), true) => self.is_null(operand),
            (Condition::Truth(_), false) => false,
            (Condition::Compare(left, Comparison::Equal, right), true)
            | (Condition::Compare(left, Comparison::NotEqual, right), false) => {
                self.is_unequal(left, right)
            }
            (Condition::Compare(_, Comparison::Equal | Comparison::NotEqual, _), _) => false,
            (Condition::Compare(left, Comparison::Contains, _), value) => {
                value && self.is_null(left)
            }
            (Condition::Compare(left, _, right), value) => {
                value && (self.is_null(left) || self.is_null(right))
            }
            (Condition::Not(inner), value) => self.is_never(inner, !value),
            (Condition::And(left, right), true) | (Condition::Or(left, right), false) => {
                self.is_never(left, value) || self.is_never(right, value)
            }
            (Condition::And(left, right), false) | (Condition::Or(left, right), true) => {
                self.is_never(left, value) && self.is_never(right, value)
            }
        }
    }

    /// Whether one of two operands is null for good, and the other one a value.
    fn is_unequal(&self, left: &Operand, right: &Operand) -> bool {
        let is_value = |operand: &Operand| match operand {
            Operand::Literal(Value::Null | Value::Empty | Value::Blank) => false,
            Operand::Literal(_) => true,
            Operand::Path(_) | Operand::Range { .. } => false,
        };
        self.is_null(left) && is_value(right) || self.is_null(right) && is_value(left)
    }

    /// Whether an operand is a name that no prompt has.
    fn is_null(&self, operand: &Operand) -> bool {
        let Operand::Path(path) = operand else { return false };
        let known = self.scope.shape(&path.root, &hops(path), path.at);
        known.is_err_and(|unknown| !unknown.is_slip)
    }

    fn chain(&mut self, chain: &Chain) {
        let optional = chain.calls.first().is_some_and(|call| call.filter.name == "default");
        self.operand(&chain.base, if optional { Use::Tested } else { Use::Used });
        for arg in chain.calls.iter().flat_map(|call| &call.args) {
            self.operand(arg, Use::Used);
        }
    }

    fn operand(&mut self, operand: &Operand, how: Use) -> Option<Shape> {
        match operand {
            Operand::Literal(_) => None,
            Operand::Range { first, last, .. } => {
                self.operand(first, Use::Used);
                self.operand(last, Use::Used);
                None
            }
            Operand::Path(path) => self.path(path, how),
        }
    }

    fn path(&mut self, path: &Path, how: Use) -> Option<Shape> {
        for step in &path.steps {
            if let PathStep::Item(operand) = step {
                self.operand(operand, Use::Used);
            }
        }
        match self.scope.shape(&path.root, &hops(path), path.at) {
            Ok(shape) => Some(shape),
            Err(unknown) => {
                self.unknown(unknown, how);
                None
            }
        }
    }

    /// A name that is tested, or used where rendering never gets, is null as it is elsewhere. One
    /// that is likely a slip is not: what depends on it would silently be left out.
    fn unknown(&mut self, unknown: UnknownName, how: Use) {
        let UnknownName { fault, is_slip, counterpart } = unknown;
        if is_slip || (how == Use::Used && !self.is_dead) {
            self.found.faults.push(fault);
        } else {
            let message = format!("{}: it is null", fault.message);
            let help = match counterpart {
                Some(ours) => format!("did you mean `{ours}`?"),
                None => "in a condition it is false, and `default` stands in for it".to_owned(),
            };
            self.found.warnings.push(PromptFault::new(fault.at, message).with_help(help));
        }
    }
}

fn hops(path: &Path) -> Vec<Hop<'_>> {
    let steps = path.steps.iter().map(|step| match step {
        PathStep::Field(name) => Hop::Field(name),
        PathStep::Item(_) => Hop::Item,
    });
    steps.collect()
}

fn bodies(node: &LiquidNode) -> Vec<&[LiquidNode]> {
    match node {
        LiquidNode::If { arms, otherwise } => {
            let arms = arms.iter().map(|(_, body)| body.as_slice());
            arms.chain([otherwise.as_slice()]).collect()
        }
        LiquidNode::Case { arms, otherwise, .. } => {
            let arms = arms.iter().map(|(_, body)| body.as_slice());
            arms.chain([otherwise.as_slice()]).collect()
        }
        LiquidNode::For(each) => vec![&each.body, &each.otherwise],
        LiquidNode::Capture { body, .. } => vec![body],
        LiquidNode::Text(_)
        | LiquidNode::Output(_)
        | LiquidNode::Assign { .. }
        | LiquidNode::Break
        | LiquidNode::Continue => Vec::new(),
    }
}
