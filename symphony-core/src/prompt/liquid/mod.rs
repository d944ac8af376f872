//! Liquid, for the prompts that only it can render.
//!
//! Written here rather than taken from a library, because a prompt may come with any mistake and
//! is filled with anyone's text: it must not panic, run for long, read the clock, or take a
//! mistyped name for false, and an error must say its line.

mod filters;
mod parse;
mod render;
mod value;

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::prompt::liquid::parse::{Chain, Condition, Node, Operand, Path, Step};
use crate::prompt::liquid::value::Value;
use crate::prompt::marks::Fault;
use crate::prompt::meter::Meter;
use crate::prompt::names::{Hop, Scope, Shape};
use crate::prompt::{Broken, Compiled};
use crate::settings::PromptEngine;

/// A compiled body.
#[derive(Clone, Debug)]
pub(super) struct Template {
    nodes: Arc<[Node]>,
}

/// Compiles a body and looks up its names.
pub(super) fn compile(body: &str) -> Result<Compiled<Template>, Vec<Fault>> {
    let nodes = parse::parse(body).map_err(|fault| vec![fault])?;
    let mut reader = Reader {
        scope: Scope::new(PromptEngine::Liquid),
        tested: Vec::new(),
        faults: Vec::new(),
        warnings: Vec::new(),
    };
    reader.bind_assigned(&nodes);
    reader.nodes(&nodes);
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    Ok(Compiled {
        template: Template {
            nodes: nodes.into(),
        },
        warnings: reader.warnings,
    })
}

impl Template {
    /// Renders the body with these variables.
    pub(super) fn render(
        &self,
        variables: Map<String, Json>,
        meter: &Meter,
    ) -> Result<String, Broken> {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name, Value::from(value)))
            .collect();
        render::render(&self.nodes, variables, meter).map_err(|failed| Broken {
            at: Some(failed.at),
            name: failed.name,
            message: failed.message,
        })
    }
}

/// Looks up every name of a template.
struct Reader {
    scope: Scope,
    /// The foreign names that the conditions around have tested.
    tested: Vec<String>,
    faults: Vec<Fault>,
    warnings: Vec<Fault>,
}

/// How a value is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Only to decide something.
    Tested,
    /// Printed, looped over or given to a filter.
    Used,
}

impl Reader {
    /// A variable may be tested before the place where it is assigned, as in a loop.
    fn bind_assigned(&mut self, nodes: &[Node]) {
        for node in nodes {
            if let Node::Assign { name, .. } | Node::Capture { name, .. } = node {
                self.scope.bind(name, Shape::Any);
            }
            for body in bodies(node) {
                self.bind_assigned(body);
            }
        }
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            self.node(node);
        }
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Text(_) | Node::Break | Node::Continue => {}
            Node::Output(chain) | Node::Assign { value: chain, .. } => self.chain(chain),
            Node::Capture { body, .. } => self.nodes(body),
            Node::If { arms, otherwise } => {
                for (condition, body) in arms {
                    let before = self.tested.len();
                    self.condition(condition, true);
                    self.nodes(body);
                    self.tested.truncate(before);
                }
                self.nodes(otherwise);
            }
            Node::Case {
                subject,
                arms,
                otherwise,
            } => {
                self.operand(subject, Use::Tested);
                for (values, body) in arms {
                    for value in values {
                        self.operand(value, Use::Tested);
                    }
                    self.nodes(body);
                }
                self.nodes(otherwise);
            }
            Node::For(each) => {
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
        let optional = chain
            .calls
            .first()
            .is_some_and(|call| call.filter.name == "default");
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
            if let Step::Item(operand) = step {
                self.operand(operand, Use::Used);
            }
        }
        let hops: Vec<Hop<'_>> = path
            .steps
            .iter()
            .map(|step| match step {
                Step::Field(name) => Hop::Field(name),
                Step::Item(_) => Hop::Item,
            })
            .collect();
        match self.scope.shape(&path.root, &hops, path.at) {
            Ok(Shape::Foreign) => {
                self.foreign(path, how);
                Some(Shape::Foreign)
            }
            Ok(shape) => Some(shape),
            Err(fault) => {
                self.faults.push(fault);
                None
            }
        }
    }

    fn foreign(&mut self, path: &Path, how: Use) {
        let name = foreign_name(path);
        let message = format!("`{name}` is a variable of other implementations: here it is null");
        let fault = Fault::new(path.at, message);
        if how == Use::Used && !self.tested.contains(&name) {
            self.faults.push(fault.help(format!(
                "it may be tested, and used between `{{% if {name} %}}` and `{{% endif %}}`"
            )));
        } else if self
            .warnings
            .iter()
            .all(|known| known.message != fault.message)
        {
            self.warnings
                .push(fault.help("what depends on it is never shown"));
        }
    }
}

/// The part of a path that is null for good.
fn foreign_name(path: &Path) -> String {
    match path.steps.first() {
        Some(Step::Field(field)) if path.root == "issue" => format!("issue.{field}"),
        _ => path.root.clone(),
    }
}

fn bodies(node: &Node) -> Vec<&[Node]> {
    match node {
        Node::If { arms, otherwise } => {
            let arms = arms.iter().map(|(_, body)| body.as_slice());
            arms.chain([otherwise.as_slice()]).collect()
        }
        Node::Case {
            arms, otherwise, ..
        } => {
            let arms = arms.iter().map(|(_, body)| body.as_slice());
            arms.chain([otherwise.as_slice()]).collect()
        }
        Node::For(each) => vec![&each.body, &each.otherwise],
        Node::Capture { body, .. } => vec![body],
        Node::Text(_) | Node::Output(_) | Node::Assign { .. } | Node::Break | Node::Continue => {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::variables::{Sample, variables};

    fn fault(body: &str) -> (usize, String) {
        let faults = compile(body).err().unwrap();
        (faults[0].at, faults[0].message.clone())
    }

    fn broken(body: &str) -> (Option<usize>, String) {
        let template = compile(body).unwrap().template;
        let sample = Sample::full().unwrap();
        let broken = template.render(variables(&sample.input()), &Meter::new(0));
        let broken = broken.unwrap_err();
        (broken.at, broken.message)
    }

    #[test]
    fn what_cannot_be_parsed_has_a_place() {
        for (body, at, message) in [
            ("{{ }}", 3, "expected a value, but the mark ends"),
            ("a{{ turn | }}", 11, "expected a filter, but the mark ends"),
            (
                "{{ turn turn }}",
                8,
                "expected the end of the mark, but found `turn`",
            ),
            (
                "{{ turn | join: }}",
                16,
                "expected a value, but the mark ends",
            ),
            ("{{ turn | plus }}", 10, "`plus` takes one argument, not 0"),
            (
                "{{ turn | slice: 1, 2, 3 }}",
                10,
                "`slice` takes 1 to 2 arguments, not 3",
            ),
            (
                "{{ issue.labels[0 }}",
                18,
                "expected `]`, but the mark ends",
            ),
            ("{{ (1..) }}", 7, "expected a value, but found `)`"),
            (
                "{% if %}{% endif %}",
                6,
                "expected a value, but the mark ends",
            ),
            (
                "{% if turn %}{% endfor %}",
                13,
                "this `endfor` closes nothing that is open",
            ),
            ("{% else %}", 0, "this `else` belongs to no block"),
            ("{% break %}", 0, "`break` stands in no loop"),
            ("{% fro %}", 0, "Liquid has no tag `fro`"),
            ("{% for x on turn %}", 9, "expected `in`, but found `on`"),
            ("{% assign x 1 %}", 12, "expected `=`, but found `1`"),
            (
                "{% case turn %}a{% endcase %}",
                0,
                "between `case` and `when` nothing is shown",
            ),
            (
                "{% for x in turn %}{{ 'a",
                22,
                "this text is never closed by `'`",
            ),
            ("{% 1 %}", 0, "a tag begins with its name"),
        ] {
            assert_eq!(fault(body), (at, message.to_owned()), "{body}");
        }
    }

    #[test]
    fn what_cannot_be_rendered_has_a_place() {
        for (body, at, message) in [
            (
                "{% if issue.title > 1 %}{% endif %}",
                6,
                "text cannot be compared with a number",
            ),
            (
                "{% for c in issue.title %}{% endfor %}",
                0,
                "a loop needs a list, but this is text",
            ),
            (
                "{{ 1 | divided_by: 0 }}",
                7,
                "nothing can be divided by zero",
            ),
            ("{{ issue.title | times: 2 }}", 17, "this text is no number"),
            (
                "{{ 9223372036854775807 | plus: 1 }}",
                25,
                "the result is too large",
            ),
            (
                "{{ -9223372036854775808 | abs }}",
                26,
                "the result is too large",
            ),
            (
                "{% for i in (1..'a') %}{% endfor %}",
                12,
                "a range needs two whole numbers",
            ),
            ("{{ issue.labels[9] }}", 3, "it has no value for this issue"),
        ] {
            assert_eq!(broken(body), (Some(at), message.to_owned()), "{body}");
        }
    }

    #[test]
    fn a_variable_may_be_tested_before_it_is_assigned() {
        let body = "{% for l in issue.labels %}{% if seen %},{% endif %}{{ l }}\
            {% assign seen = true %}{% endfor %}";
        let template = compile(body).unwrap().template;
        let sample = Sample::full().unwrap();
        let rendered = template.render(variables(&sample.input()), &Meter::new(0));
        assert_eq!(rendered.unwrap(), "bug,ui");
    }
}
