//! Tera, the prompt language.
//!
//! The library bounds how deep a template may be, not how long it may run. So probes are put into
//! the body before it is parsed: behind every `for`, which counts the steps, and behind every
//! `set`, which measures the value.

mod filters;
pub(super) mod inspect;

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use ::tera::{Context, Error, ErrorKind, Kwargs, ReportError, State, Tera, TeraResult, Value};
use serde_json::{Map, Value as Json};

use crate::prompt::marks::{PromptFault, cut};
use crate::prompt::meter::{MAX_TEXT_BYTES, StepMeter, StepsSpent};
use crate::prompt::source::{Compiled, RenderError};
use crate::prompt::tera::inspect::{Measure, Probe, TeraInspection, inspect, screen, unbalanced};
use symphony_core::settings::PromptEngine;

const TEMPLATE_NAME: &str = "prompt";
const STEP_FUNCTION: &str = "__step";
const SIZE_FUNCTION: &str = "__size";

/// A compiled body.
#[derive(Clone, Debug)]
pub(super) struct TeraTemplate {
    tera: Tera,
    shifts: Vec<Shift>,
    paths: Vec<(Range<usize>, String)>,
}

/// A probe in the body that is rendered, and the mark of the file that it belongs to.
#[derive(Clone, Debug)]
struct Shift {
    probe: Range<usize>,
    mark: usize,
}

/// Compiles a body and looks up its names.
pub(super) fn compile(body: &str) -> Result<Compiled<TeraTemplate>, Vec<PromptFault>> {
    let (pieces, fault) = cut(body, PromptEngine::Tera);
    screen(&pieces).map_err(|fault| vec![fault])?;
    let parsed = parse(body);
    if let Err(error) = &parsed
        && let ErrorKind::SyntaxError(report) = error.kind()
    {
        let syntax = syntax(body, report);
        // Where a mark or a block is not closed, the library names the end of the file.
        let ours = fault.or_else(|| unbalanced(&pieces)).filter(|ours| ours.at <= syntax.at);
        return Err(vec![ours.unwrap_or(syntax)]);
    }
    if let Some(fault) = fault {
        return Err(vec![fault]);
    }
    let TeraInspection { mut faults, probes, paths, set } = inspect(body, &pieces);
    match parsed {
        Ok(tera) if faults.is_empty() => faults.extend(strays(&tera, &set, &paths)),
        Ok(_) => {}
        Err(error) if faults.is_empty() => {
            let line = clip(error.to_string().lines().next().unwrap_or_default());
            faults.push(PromptFault::new(0, line.trim_start_matches("error: ")));
        }
        Err(_) => {}
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let (probed, shifts) = probed(body, &probes);
    let tera =
        parse(&probed).map_err(|error| vec![PromptFault::new(0, clip(&error.to_string()))])?;
    Ok(Compiled { template: TeraTemplate { tera, shifts, paths }, warnings: Vec::new() })
}

fn parse(body: &str) -> TeraResult<Tera> {
    let mut tera = Tera::default();
    tera.autoescape_on(Vec::<&str>::new());
    filters::register(&mut tera);
    measure(&mut tera, &Arc::new(StepMeter::new(0)));
    tera.add_raw_template(TEMPLATE_NAME, body)?;
    Ok(tera)
}

/// Gives the probes a meter.
fn measure(tera: &mut Tera, meter: &Arc<StepMeter>) {
    let spent = |_: StepsSpent| Error::message(StepsSpent::MESSAGE);
    let own = Arc::clone(meter);
    tera.register_function(STEP_FUNCTION, move |_: Kwargs, _: &State<'_>| {
        own.step().map(|()| false).map_err(spent)
    });
    let own = Arc::clone(meter);
    tera.register_function(SIZE_FUNCTION, move |kwargs: Kwargs, _: &State<'_>| {
        let value = kwargs.must_get::<Value>("value")?;
        let bytes = bytes(&value).ok_or_else(|| Error::message("this value is too large"))?;
        own.charge_bytes(bytes).map(|()| false).map_err(spent)
    });
}

/// Names that the library found and our reading missed.
fn strays(tera: &Tera, set: &[String], paths: &[(Range<usize>, String)]) -> Vec<PromptFault> {
    let known = |name: &str| {
        ["issue", "attempt", "turn", "max_turns"].contains(&name)
            || set.iter().any(|own| own == name)
    };
    let Ok(found) = tera.get_template_variables(TEMPLATE_NAME) else {
        return Vec::new();
    };
    let mut strays: Vec<&str> = found.into_iter().filter(|name| !known(name)).collect();
    strays.sort_unstable();
    strays
        .into_iter()
        .map(|name| {
            let root = |path: &str| path.split(['.', '[', '?', ' ']).next() == Some(name);
            let at = paths.iter().find(|(_, path)| root(path));
            PromptFault::new(
                at.map_or(0, |(span, _)| span.start),
                format!("there is no variable `{name}` here"),
            )
        })
        .collect()
}

/// Puts the probes in. They take the space behind a mark where the mark itself did.
fn probed(body: &str, probes: &[Probe]) -> (String, Vec<Shift>) {
    let mut out = String::with_capacity(body.len() + probes.len() * 48);
    let mut shifts = Vec::new();
    let mut from = 0;
    for probe in probes {
        out.push_str(&body[from..probe.mark.end]);
        from = probe.mark.end;
        let start = out.len();
        let call = match &probe.what {
            Measure::Step => format!("{STEP_FUNCTION}()"),
            Measure::Size(name) => format!("{SIZE_FUNCTION}(value={name})"),
        };
        let dash = if probe.trims_after { "-" } else { "" };
        out.push_str(&format!("{{% if {call} %}}{{% endif {dash}%}}"));
        shifts.push(Shift { probe: start..out.len(), mark: probe.mark.start });
    }
    out.push_str(&body[from..]);
    (out, shifts)
}

impl TeraTemplate {
    /// Renders the body with these variables.
    pub(super) fn render(
        &self,
        variables: Map<String, Json>,
        meter: StepMeter,
    ) -> Result<String, RenderError> {
        let mut context = Context::new();
        for (name, value) in variables {
            let value =
                Value::try_from_serializable(&value).map_err(|error| self.broken(&error))?;
            context.insert_value(name, value);
        }
        let mut tera = self.tera.clone();
        measure(&mut tera, &Arc::new(meter));
        let mut out = Bounded::default();
        match tera.render_to(TEMPLATE_NAME, &context, &mut out) {
            Ok(()) => String::from_utf8(out.bytes)
                .map_err(|_| RenderError::new(None, "the prompt is not valid text")),
            Err(_) if out.is_full => Err(RenderError::new(
                None,
                format!("the prompt is longer than {MAX_TEXT_BYTES} bytes"),
            )),
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn broken(&self, error: &Error) -> RenderError {
        let ErrorKind::RenderingError(report) = error.kind() else {
            return RenderError::new(None, clip(&error.to_string()));
        };
        let at = self.place(report.span().range.start);
        let mut broken = RenderError::new(Some(at), clip(report.message()));
        let path = self.paths.iter().find(|(span, _)| span.contains(&at));
        broken.name = path.map(|(_, name)| name.clone());
        if broken.message.contains("`none`") {
            broken.message.push_str("; it is null for this issue");
        }
        broken
    }

    /// The place in the file of a place in the body with probes.
    fn place(&self, offset: usize) -> usize {
        let mut added = 0;
        for shift in &self.shifts {
            if offset < shift.probe.start {
                break;
            }
            if shift.probe.contains(&offset) {
                return shift.mark;
            }
            added += shift.probe.len();
        }
        offset - added
    }
}

/// The library's word on what it could not parse.
fn syntax(body: &str, report: &ReportError) -> PromptFault {
    let span = report.span();
    // At the end of the input only line and column are right.
    let line = body.split_inclusive('\n').take(span.start_line.saturating_sub(1));
    let start: usize = line.map(str::len).sum();
    let column = body[start..].chars().take(span.start_col);
    let at = start + column.map(char::len_utf8).sum::<usize>();
    let message = report.message().trim_end_matches('.');
    let fault = PromptFault::new(at, clip(message));
    let unnamed = message.contains("expected identifier") && body[..at].trim_end().ends_with('(');
    if unnamed || message.starts_with("Found `:`") {
        let named = with_names(body[..at].trim_end().trim_end_matches(['(', ':']));
        return fault.with_help(format!("Tera's arguments have names: `{named}`"));
    }
    fault
}

/// How the filter at the end of a text is called with an argument.
fn with_names(text: &str) -> &'static str {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    match text.rsplit(|char| !is_part(char)).next() {
        Some("default") => "default(value=\"none\")",
        Some("replace") => "replace(from=\"a\", to=\"b\")",
        Some("split") => "split(pat=\",\")",
        Some("truncate") => "truncate(length=80)",
        _ => "join(sep=\", \")",
    }
}

/// The beginning of a message: the library may quote an issue's whole text.
fn clip(message: &str) -> String {
    const MAX_MESSAGE_CHARS: usize = 300;
    let cut = message.chars().count() > MAX_MESSAGE_CHARS;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let kept = message.chars().take(MAX_MESSAGE_CHARS).map(plain);
    kept.chain(cut.then_some('…')).collect()
}

/// How long a value is when written out; `None` when that is too long or too deep.
fn bytes(value: &Value) -> Option<usize> {
    const MAX_DEPTH: usize = 128;
    let mut total = 0_usize;
    let mut open = vec![(value, 0_usize)];
    while let Some((value, depth)) = open.pop() {
        total += value.as_str().map_or(8, str::len);
        if let Some(items) = value.as_array() {
            open.extend(items.iter().map(|item| (item, depth + 1)));
        }
        if let Some(fields) = value.as_map() {
            open.extend(fields.values().map(|field| (field, depth + 1)));
        }
        if total > MAX_TEXT_BYTES || depth > MAX_DEPTH || open.len() > MAX_TEXT_BYTES {
            return None;
        }
    }
    Some(total)
}

/// Takes what is rendered, up to a limit.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_TEXT_BYTES {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::variables::{Sample, variables};

    fn render(body: &str) -> Result<String, RenderError> {
        let template = compile(body).unwrap().template;
        let sample = Sample::full().unwrap();
        template.render(variables(&sample.input()), StepMeter::new(0))
    }

    #[test]
    fn probes_leave_no_trace() {
        let body = "a {% for l in issue.labels -%}  {{ l }} {%- endfor %} b\n\
            {% set x = 1 -%}  {{ x }}{% set y = 2 %} {{ y }}";
        assert_eq!(render(body).unwrap(), "a bugui b\n1 2");
    }

    #[test]
    fn a_place_behind_probes_is_that_of_the_file() {
        let body = "{% for l in issue.labels %}{% set x = 1 %}{{ issue.native_ref.a }}{% endfor %}";
        let broken = render(body).unwrap_err();
        let found = body.find("a }}");
        assert_eq!(broken.at, found);
        assert_eq!(broken.name.as_deref(), Some("issue.native_ref.a"));
    }

    #[test]
    fn a_failed_probe_points_to_its_mark() {
        let body =
            "a{% for i in range(end=200) %}{% for j in range(end=200) %}{% endfor %}{% endfor %}";
        let broken = render(body).unwrap_err();
        assert_eq!(broken.message, StepsSpent::MESSAGE);
        assert_eq!(broken.at, body.find("{% for j"));
    }

    #[test]
    fn a_long_message_is_cut() {
        assert_eq!(clip("short"), "short");
        assert_eq!(clip(&"é".repeat(400)).chars().count(), 301);
    }

    #[test]
    fn our_filters_do_what_the_library_says() {
        for (body, expected) in [
            ("{{ 'a b' | replace(from=' ', to='-') }}", "a-b"),
            ("{{ issue.labels | join(sep='/') }}{{ [1, none, 2] | join }}", "bug/ui12"),
            ("{{ 'a\nb\n\nc' | indent(width=2) }}", "a\n  b\n\n  c"),
            ("{{ 'a\nb' | indent(width=1, first=true, indentation='>') }}", ">a\n>b"),
            ("{{ 'a,b' | split(pat=',') }}{{ 'ab' | split(pat='') | length }}", "[\"a\", \"b\"]4"),
            ("{{ ['a', 1, 'a', 1] | unique }}", "[\"a\", 1]"),
            ("{{ range(end=3) }}{{ range(start=5, end=1, step_by=-2) }}", "[0, 1, 2][5, 3]"),
            ("{{ none | default(value=1) }}{{ 0 | default(value=2) }}", "10"),
            ("{{ 0 | default(value=2, boolean=true) }}", "2"),
        ] {
            assert_eq!(render(body).unwrap(), expected, "{body}");
        }
    }
}
