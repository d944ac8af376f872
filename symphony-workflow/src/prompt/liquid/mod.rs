//! Liquid, for the prompts that only it can render.
//!
//! Written here rather than taken from a library, because a prompt may come with any mistake and
//! is filled with untrusted text: it must not panic, run for long, read the clock, or take a
//! mistyped name for false, and an error must say its line.

pub(super) mod filters;
mod lookup;
mod numbers;
mod parse;
mod render;
mod tree;
mod value;
mod words;

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::prompt::liquid::lookup::lookup;
use crate::prompt::liquid::tree::LiquidNode;
use crate::prompt::liquid::value::Value;
use crate::prompt::marks::PromptFault;
use crate::prompt::meter::StepMeter;
use crate::prompt::source::{Compiled, RenderError};

/// A compiled body.
#[derive(Clone, Debug)]
pub(super) struct LiquidTemplate {
    nodes: Arc<[LiquidNode]>,
}

/// Compiles a body and looks up its names.
pub(super) fn compile(body: &str) -> Result<Compiled<LiquidTemplate>, Vec<PromptFault>> {
    let nodes = parse::parse(body).map_err(|fault| vec![fault])?;
    let looked_up = lookup(&nodes);
    if !looked_up.faults.is_empty() {
        return Err(looked_up.faults);
    }
    Ok(Compiled { template: LiquidTemplate { nodes: nodes.into() }, warnings: looked_up.warnings })
}

impl LiquidTemplate {
    /// Renders the body with these variables.
    pub(super) fn render(
        &self,
        variables: Map<String, Json>,
        meter: &StepMeter,
    ) -> Result<String, RenderError> {
        let variables =
            variables.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
        render::render(&self.nodes, variables, meter).map_err(|failed| RenderError {
            at: Some(failed.at),
            name: failed.name,
            message: failed.message,
        })
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
        let broken = template.render(variables(&sample.input()), &StepMeter::new(0));
        let broken = broken.unwrap_err();
        (broken.at, broken.message)
    }

    #[test]
    fn what_cannot_be_parsed_has_a_place() {
        for (body, at, message) in [
            ("{{ }}", 3, "expected a value, but the mark ends"),
            ("a{{ turn | }}", 11, "expected a filter, but the mark ends"),
            ("{{ turn turn }}", 8, "expected the end of the mark, but found `turn`"),
            ("{{ turn '\r' }}", 8, "expected the end of the mark, but found `'\\r'`"),
            ("{{ turn | join: }}", 16, "expected a value, but the mark ends"),
            ("{{ turn | plus }}", 10, "`plus` takes one argument, not 0"),
            ("{{ turn | slice: 1, 2, 3 }}", 10, "`slice` takes 1 to 2 arguments, not 3"),
            ("{{ issue.labels[0 }}", 18, "expected `]`, but the mark ends"),
            ("{{ (1..) }}", 7, "expected a value, but found `)`"),
            ("{% if %}{% endif %}", 6, "expected a value, but the mark ends"),
            ("{% if turn %}{% endfor %}", 13, "this `endfor` closes nothing that is open"),
            ("{% else %}", 0, "this `else` belongs to no block"),
            ("{% break %}", 0, "`break` stands in no loop"),
            ("{% fro %}", 0, "Liquid has no tag `fro`"),
            ("{% for x on turn %}", 9, "expected `in`, but found `on`"),
            ("{% assign x 1 %}", 12, "expected `=`, but found `1`"),
            ("{% case turn %}a{% endcase %}", 0, "between `case` and `when` nothing is shown"),
            ("{% for x in turn %}{{ 'a", 22, "this text is never closed by `'`"),
            ("{% 1 %}", 0, "a tag begins with its name"),
        ] {
            assert_eq!(fault(body), (at, message.to_owned()), "{body}");
        }
    }

    #[test]
    fn what_cannot_be_rendered_has_a_place() {
        for (body, at, message) in [
            ("{% if issue.title > 1 %}{% endif %}", 6, "text cannot be compared with a number"),
            ("{% for c in issue.title %}{% endfor %}", 0, "a loop needs a list, but this is text"),
            ("{{ 1 | divided_by: 0 }}", 7, "nothing can be divided by zero"),
            ("{{ issue.title | times: 2 }}", 17, "this text is not a number"),
            ("{{ 9223372036854775807 | plus: 1 }}", 25, "the result is too large"),
            ("{{ -9223372036854775808 | abs }}", 26, "the result is too large"),
            ("{% for i in (1..'a') %}{% endfor %}", 12, "a range needs two whole numbers"),
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
        let rendered = template.render(variables(&sample.input()), &StepMeter::new(0));
        assert_eq!(rendered.unwrap(), "bug,ui");
    }
}
