//! Rendering the tree.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::prompt::liquid::tree::{
    Chain, Comparison, Condition, LiquidNode, Loop, Operand, Path, PathStep,
};
use crate::prompt::liquid::value::Value;
use crate::prompt::meter::{MAX_ITEMS, MAX_TEXT_BYTES, StepMeter, StepsSpent};

/// What stopped a rendering, and where.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) at: usize,
    pub(super) name: Option<String>,
    pub(super) message: String,
}

impl Failed {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, name: None, message: message.into() }
    }

    fn spent(at: usize) -> impl FnOnce(StepsSpent) -> Self {
        move |_| Self::new(at, StepsSpent::MESSAGE)
    }
}

type Rendered<T> = Result<T, Failed>;

/// Where rendering goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

pub(super) fn render(
    nodes: &[LiquidNode],
    variables: BTreeMap<String, Value>,
    meter: &StepMeter,
) -> Rendered<String> {
    let mut renderer = Renderer { variables, loops: Vec::new(), meter };
    let mut out = String::new();
    renderer.nodes(nodes, &mut out)?;
    Ok(out)
}

struct Renderer<'a> {
    /// The prompt's own variables, and what was assigned.
    variables: BTreeMap<String, Value>,
    /// The loops around, with the name each binds, its item and its `forloop`.
    loops: Vec<(&'a str, Value, Value)>,
    meter: &'a StepMeter,
}

impl<'a> Renderer<'a> {
    fn nodes(&mut self, nodes: &'a [LiquidNode], out: &mut String) -> Rendered<Flow> {
        for node in nodes {
            let flow = self.node(node, out)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn node(&mut self, node: &'a LiquidNode, out: &mut String) -> Rendered<Flow> {
        match node {
            LiquidNode::Text(text) => write(out, text, 0)?,
            LiquidNode::Output(chain) => {
                let value = self.chain(chain)?;
                write(out, &value.to_string(), start(&chain.base))?;
            }
            LiquidNode::If { arms, otherwise } => {
                for (condition, body) in arms {
                    if self.holds(condition)? {
                        return self.nodes(body, out);
                    }
                }
                return self.nodes(otherwise, out);
            }
            LiquidNode::Case { subject, arms, otherwise } => {
                let subject = self.tested(subject)?;
                for (values, body) in arms {
                    for value in values {
                        if self.tested(value)?.equals(&subject) {
                            return self.nodes(body, out);
                        }
                    }
                }
                return self.nodes(otherwise, out);
            }
            LiquidNode::For(each) => return self.each(each, out),
            LiquidNode::Assign { name, value } => {
                let value = self.chain(value)?;
                self.variables.insert(name.clone(), value);
            }
            LiquidNode::Capture { name, body, at } => {
                let mut captured = String::new();
                let flow = self.nodes(body, &mut captured)?;
                self.meter.charge_bytes(captured.len()).map_err(Failed::spent(*at))?;
                self.variables.insert(name.clone(), Value::text(captured));
                return Ok(flow);
            }
            LiquidNode::Break => return Ok(Flow::Break),
            LiquidNode::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn each(&mut self, each: &'a Loop, out: &mut String) -> Rendered<Flow> {
        let mut items = self.items(each)?;
        let offset = self.bound(each.offset.as_ref(), each.at)?.unwrap_or(0);
        let limit = self.bound(each.limit.as_ref(), each.at)?;
        items.drain(..offset.min(items.len()));
        items.truncate(limit.unwrap_or(usize::MAX));
        if each.reversed {
            items.reverse();
        }
        if items.is_empty() {
            return self.nodes(&each.otherwise, out);
        }
        let length = items.len();
        for (index, item) in items.into_iter().enumerate() {
            self.meter.step().map_err(Failed::spent(each.at))?;
            self.loops.push((&each.name, item, forloop(index, length)));
            let flow = self.nodes(&each.body, out);
            self.loops.pop();
            if flow? == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    fn items(&self, each: &Loop) -> Rendered<Vec<Value>> {
        let over = self.present(&each.over)?;
        match over {
            Value::List(items) => Ok(items.to_vec()),
            Value::Null | Value::Empty | Value::Blank => Ok(Vec::new()),
            Value::Range(first, last) => {
                if over.size() > MAX_ITEMS {
                    return Err(Failed::new(
                        each.at,
                        format!("a range may have at most {MAX_ITEMS} numbers"),
                    ));
                }
                Ok((first..=last).map(Value::Int).collect())
            }
            Value::Map(fields) => Ok(fields
                .iter()
                .map(|(name, value)| {
                    Value::List(Arc::new([Value::text(name.as_str()), value.clone()]))
                })
                .collect()),
            other => Err(Failed::new(
                each.at,
                format!("a loop needs a list, but this is {}", other.kind()),
            )),
        }
    }

    fn bound(&self, operand: Option<&Operand>, at: usize) -> Rendered<Option<usize>> {
        match operand.map(|operand| self.present(operand)).transpose()? {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Int(int)) => Ok(Some(usize::try_from(int.max(0)).unwrap_or(usize::MAX))),
            Some(other) => Err(Failed::new(
                at,
                format!("`limit` and `offset` need a number, not {}", other.kind()),
            )),
        }
    }

    fn holds(&self, condition: &Condition) -> Rendered<bool> {
        match condition {
            Condition::Truth(operand) => Ok(self.tested(operand)?.is_true()),
            Condition::Not(inner) => Ok(!self.holds(inner)?),
            Condition::And(left, right) => Ok(self.holds(left)? && self.holds(right)?),
            Condition::Or(left, right) => Ok(self.holds(left)? || self.holds(right)?),
            Condition::Compare(left, sign, right) => {
                let (a, b) = (self.tested(left)?, self.tested(right)?);
                compare(&a, *sign, &b).map_err(|message| Failed::new(start(left), message))
            }
        }
    }

    fn chain(&self, chain: &Chain) -> Rendered<Value> {
        let optional = chain.calls.first().is_some_and(|call| call.filter.name == "default");
        let mut value = match optional {
            true => self.tested(&chain.base)?,
            false => self.present(&chain.base)?,
        };
        for call in &chain.calls {
            let args =
                call.args.iter().map(|arg| self.present(arg)).collect::<Rendered<Vec<Value>>>()?;
            value = (call.filter.apply)(&value, &args).map_err(|message| Failed {
                at: call.at,
                name: Some(call.filter.name.to_owned()),
                message,
            })?;
            self.meter.charge_bytes(value.bytes()).map_err(Failed::spent(call.at))?;
        }
        Ok(value)
    }

    /// The value of something that is only tested: what is missing is null.
    fn tested(&self, operand: &Operand) -> Rendered<Value> {
        Ok(self.value(operand)?.unwrap_or(Value::Null))
    }

    /// The value of something that is used: what is missing is an error.
    fn present(&self, operand: &Operand) -> Rendered<Value> {
        match (self.value(operand)?, operand) {
            (Some(value), _) => Ok(value),
            (None, Operand::Path(path)) => Err(Failed {
                at: path.at,
                name: Some(path.text.clone()),
                message: "it has no value for this issue".to_owned(),
            }),
            (None, _) => Ok(Value::Null),
        }
    }

    fn value(&self, operand: &Operand) -> Rendered<Option<Value>> {
        match operand {
            Operand::Literal(value) => Ok(Some(value.clone())),
            Operand::Path(path) => self.follow(path),
            Operand::Range { first, last, at } => {
                match (self.present(first)?, self.present(last)?) {
                    (Value::Int(first), Value::Int(last)) => Ok(Some(Value::Range(first, last))),
                    _ => Err(Failed::new(*at, "a range needs two whole numbers")),
                }
            }
        }
    }

    fn follow(&self, path: &Path) -> Rendered<Option<Value>> {
        let mut value = self.root(&path.root);
        for step in &path.steps {
            let Some(from) = value else { return Ok(None) };
            value = match step {
                PathStep::Field(name) => field(&from, name),
                PathStep::Item(operand) => item(&from, &self.present(operand)?),
            };
        }
        Ok(value)
    }

    fn root(&self, name: &str) -> Option<Value> {
        for (own, item, forloop) in self.loops.iter().rev() {
            if *own == name {
                return Some(item.clone());
            }
            if name == "forloop" {
                return Some(forloop.clone());
            }
        }
        self.variables.get(name).cloned()
    }
}

fn write(out: &mut String, text: &str, at: usize) -> Rendered<()> {
    if out.len() + text.len() > MAX_TEXT_BYTES {
        return Err(Failed::new(at, format!("the prompt is longer than {MAX_TEXT_BYTES} bytes")));
    }
    out.push_str(text);
    Ok(())
}

fn start(operand: &Operand) -> usize {
    match operand {
        Operand::Literal(_) => 0,
        Operand::Path(path) => path.at,
        Operand::Range { at, .. } => *at,
    }
}

fn field(value: &Value, name: &str) -> Option<Value> {
    let size = || i64::try_from(value.size()).ok().map(Value::Int);
    match value {
        Value::Map(fields) => fields.get(name).cloned(),
        Value::List(items) => match name {
            "size" => size(),
            "first" => Some(items.first().cloned().unwrap_or(Value::Null)),
            "last" => Some(items.last().cloned().unwrap_or(Value::Null)),
            _ => None,
        },
        Value::Text(_) if name == "size" => size(),
        // Nothing is known of what is null: it has no size either.
        _ => None,
    }
}

/// An item by its number, from the end where negative, or a field by its computed name.
fn item(value: &Value, key: &Value) -> Option<Value> {
    match (value, key) {
        (_, Value::Text(name)) => field(value, name),
        (Value::List(items), Value::Int(index)) => {
            let back = usize::try_from(index.unsigned_abs()).ok()?;
            let index = match index {
                0.. => back,
                _ => items.len().checked_sub(back)?,
            };
            items.get(index).cloned()
        }
        _ => None,
    }
}

fn compare(a: &Value, sign: Comparison, b: &Value) -> Result<bool, String> {
    let wanted: fn(Ordering) -> bool = match sign {
        Comparison::Equal => return Ok(a.equals(b)),
        Comparison::NotEqual => return Ok(!a.equals(b)),
        Comparison::Contains => return contains(a, b),
        Comparison::Less => Ordering::is_lt,
        Comparison::LessOrEqual => Ordering::is_le,
        Comparison::Greater => Ordering::is_gt,
        Comparison::GreaterOrEqual => Ordering::is_ge,
    };
    if *a == Value::Null || *b == Value::Null {
        return Ok(false);
    }
    a.order(b)
        .map(wanted)
        .ok_or_else(|| format!("{} cannot be compared with {}", a.kind(), b.kind()))
}

fn contains(whole: &Value, part: &Value) -> Result<bool, String> {
    match whole {
        Value::Text(text) => Ok(text.contains(&part.to_string())),
        Value::List(items) => Ok(items.iter().any(|item| item.equals(part))),
        Value::Map(fields) => Ok(fields.contains_key(&part.to_string())),
        Value::Null => Ok(false),
        other => Err(format!("{} contains nothing", other.kind())),
    }
}

fn forloop(index: usize, length: usize) -> Value {
    let int = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let fields = [
        ("first", Value::Truth(index == 0)),
        ("index", int(index + 1)),
        ("index0", int(index)),
        ("last", Value::Truth(index + 1 == length)),
        ("length", int(length)),
        ("rindex", int(length - index)),
        ("rindex0", int(length - index - 1)),
    ];
    let fields = fields.map(|(name, value)| (name.to_owned(), value));
    Value::Map(Arc::new(fields.into()))
}
