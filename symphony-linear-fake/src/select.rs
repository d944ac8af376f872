//! Filters, orders and pages over records, whatever they are records of.

use std::cmp::Ordering;

use serde_json::{Map, Value};

/// Whether a record is as the filter wants it. A null in a comparison matches everything, as it
/// may on the real server: a client that sends one is to notice.
pub(crate) fn matches(filter: &Value, record: &Value) -> bool {
    let Some(filter) = filter.as_object() else { return true };
    filter.iter().all(|(key, wanted)| match key.as_str() {
        "and" => list(wanted).iter().all(|one| matches(one, record)),
        "or" => list(wanted).iter().any(|one| matches(one, record)),
        "eq" => wanted.is_null() || wanted == record,
        "neq" => wanted.is_null() || wanted != record,
        "in" => wanted.is_null() || list(wanted).contains(record),
        "nin" => wanted.is_null() || !list(wanted).contains(record),
        "eqIgnoreCase" => wanted.is_null() || lower(wanted) == lower(record),
        field => record.get(field).is_some_and(|value| matches(wanted, value)),
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn lower(value: &Value) -> Option<String> {
    value.as_str().map(str::to_lowercase)
}

/// Sorts issues as the server does.
pub(crate) fn sort(records: &mut [&Value], orders: &Value, urgent_last: bool) {
    records.sort_by(|a, b| {
        let compare = |order: &Value| by(order, a, b, urgent_last);
        list(orders).iter().map(compare).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
}

fn by(order: &Value, a: &Value, b: &Value, urgent_last: bool) -> Ordering {
    let Some((field, how)) = order.as_object().and_then(|order| order.iter().next()) else {
        return Ordering::Equal;
    };
    let descends = how.get("order").and_then(Value::as_str) == Some("Descending");
    let turn = |order: Ordering, yes: bool| if yes { order.reverse() } else { order };
    if field == "priority" {
        let rank = |record: &Value| record["priority"].as_f64().unwrap_or_default();
        // No priority comes last in either direction, unless it is to come first.
        let none = (rank(a) == 0.0).cmp(&(rank(b) == 0.0));
        let turned = descends != urgent_last;
        return none.then(turn(rank(a).total_cmp(&rank(b)), turned));
    }
    let text = |record: &Value| record[field].as_str().map(str::to_owned);
    turn(text(a).cmp(&text(b)), descends)
}

/// One page: its records, and whether more follow, and where.
pub(crate) fn page<'r>(
    records: &[&'r Value],
    arguments: &Map<String, Value>,
) -> (Vec<&'r Value>, bool, Option<String>) {
    let after = arguments.get("after").and_then(Value::as_str);
    let from = after.and_then(|cursor| cursor.strip_prefix("cursor-")).and_then(|n| n.parse().ok());
    let from: usize = from.unwrap_or(0);
    let first = arguments.get("first").and_then(Value::as_u64).unwrap_or(50).min(250);
    let first = usize::try_from(first).unwrap_or(250);
    let page: Vec<_> = records.iter().skip(from).take(first).copied().collect();
    let to = from + page.len();
    (page, to < records.len(), (to > 0).then(|| format!("cursor-{to}")))
}
