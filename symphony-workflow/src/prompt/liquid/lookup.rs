//! Looking up the names of a Liquid body.

use crate::prompt::liquid::tree::{Chain, Condition, LiquidNode, Operand, Path, PathStep};
use crate::prompt::marks::PromptFault;
use crate::prompt::names::{Hop, Scope, Shape};
use symphony_core::settings::PromptEngine;

/// Looks up every name of a template.
pub(super) fn lookup(nodes: &[LiquidNode]) -> Lookup {
    let mut reader = ValueReader {
        scope: Scope::new(PromptEngine::Liquid),
        tested: Vec::new(),
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
    /// The foreign names that the conditions around have tested.
    tested: Vec<String>,
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
                for (condition, body) in arms {
                    let before = self.tested.len();
                    self.condition(condition, true);
                    self.nodes(body);
                    self.tested.truncate(before);
                }
                self.nodes(otherwise);
            }
            LiquidNode::Case { subject, arms, otherwise } => {
                self.operand(subject, Use::Tested);
                for (values, body) in arms {
                    for value in values {
                        self.operand(value, Use::Tested);
                    }
                    self.nodes(body);
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

    /// `holds` says whether the body is shown when the condition is true.
    fn condition(&mut self, condition: &Condition, holds: bool) {
        match condition {
            Condition::Truth(operand) => {
                self.operand(operand, Use::Tested);
                if let (true, Operand::Path(path)) = (holds, operand) {
                    self.tested.push(foreign_name(path));
                }
            }
            Condition::Compare(left, _, right) => {
                self.operand(left, Use::Tested);
                self.operand(right, Use::Tested);
                if let (true, Operand::Path(path)) = (holds, left) {
                    self.tested.push(foreign_name(path));
                }
            }
            Condition::Not(inner) => self.condition(inner, !holds),
            Condition::And(left, right) => {
                self.condition(left, holds);
                self.condition(right, holds);
            }
            Condition::Or(left, right) => {
                self.condition(left, false);
                self.condition(right, false);
            }
        }
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
        let hops: Vec<Hop<'_>> = path
            .steps
            .iter()
            .map(|step| match step {
                PathStep::Field(name) => Hop::Field(name),
                PathStep::Item(_) => Hop::Item,
            })
            .collect();
        match self.scope.shape(&path.root, &hops, path.at) {
            Ok(Shape::Foreign) => {
                self.foreign(path, how);
                Some(Shape::Foreign)
            }
            Ok(shape) => Some(shape),
            Err(fault) => {
                self.found.faults.push(fault);
                None
            }
        }
    }

    fn foreign(&mut self, path: &Path, how: Use) {
        let name = foreign_name(path);
        let message = format!("`{name}` is a variable of other implementations: here it is null");
        let fault = PromptFault::new(path.at, message);
        if how == Use::Used && !self.tested.contains(&name) {
            self.found.faults.push(fault.with_help(format!(
                "it may be tested, and used between `{{% if {name} %}}` and `{{% endif %}}`"
            )));
        } else if self.found.warnings.iter().all(|known| known.message != fault.message) {
            self.found.warnings.push(fault.with_help("what depends on it is never shown"));
        }
    }
}

/// The part of a path that is null for good.
fn foreign_name(path: &Path) -> String {
    match path.steps.first() {
        Some(PathStep::Field(field)) if path.root == "issue" => format!("issue.{field}"),
        _ => path.root.clone(),
    }
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
