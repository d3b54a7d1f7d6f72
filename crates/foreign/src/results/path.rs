//! Paths in documents: names separated by `/`, with `[]` after a list.

use serde_json::Value;

/// Returns the value at a path without lists; an empty path is the value itself. `phases[kind=profiling]` is the first element of a list whose
/// member `kind` is `profiling`.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(value);
    }
    path.split('/').try_fold(value, |value, name| match name.split_once('[') {
        None => value.get(name),
        Some((list, condition)) => {
            let (member, wanted) = condition.strip_suffix(']')?.split_once('=')?;
            let is_wanted = |item: &&Value| item.get(member).and_then(Value::as_str) == Some(wanted);
            value.get(list)?.as_array()?.iter().find(is_wanted)
        }
    })
}

/// Returns a path with `[]` in place of the condition of each list.
pub(crate) fn without_conditions(path: &str) -> String {
    let plain = |name: &str| name.split_once('[').map_or_else(|| name.to_owned(), |(list, _)| format!("{list}[]"));
    path.split('/').map(plain).collect::<Vec<_>>().join("/")
}

/// Returns the scalar at a path as the text of a label, from the innermost value that has one.
pub(crate) fn text_near(ancestors: &[&Value], path: &str) -> Option<String> {
    ancestors.iter().rev().find_map(|value| crate::value::label(at(value, path)?))
}

/// Splits a path behind its first list: the path of the elements of the list, and the path inside each of them. `None` without a list.
pub(crate) fn split_at_list(path: &str) -> Option<(&str, &str)> {
    let (list, inside) = path.split_at_checked(path.find("[]")? + 2)?;
    Some((list, inside.trim_start_matches('/')))
}

/// Calls `visit` with each value at a path, such as `runs[]/times[]`, and with the values around it, from the document to the value itself.
///
/// # Errors
/// Returns the first error of `visit`.
pub(crate) fn for_each<'a, E>(
    path: &str,
    ancestors: &mut Vec<&'a Value>,
    visit: &mut impl FnMut(&[&'a Value]) -> Result<(), E>,
) -> Result<(), E> {
    let Some(value) = ancestors.last().copied() else { return Ok(()) };
    if path.is_empty() {
        return visit(ancestors);
    }
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let list = name.strip_suffix("[]");
    let Some(next) = at(value, list.unwrap_or(name)) else { return Ok(()) };
    let one = list.is_none().then_some(next);
    let elements = list.and_then(|_| next.as_array()).into_iter().flatten();
    for item in one.into_iter().chain(elements) {
        ancestors.push(item);
        let visited = for_each(rest, ancestors, visit);
        ancestors.pop();
        visited?;
    }
    Ok(())
}

/// Returns the path of a member, or of an element if the name is `[]`.
pub(crate) fn join(path: &str, name: &str) -> String {
    match (path.is_empty(), name) {
        (_, "") => path.to_owned(),
        (_, "[]") => format!("{path}[]"),
        (true, _) => name.to_owned(),
        (false, _) => format!("{path}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_of_lists_are_visited_with_what_surrounds_them() {
        let document =
            json!({"model": "m", "runs": [{"name": "a", "times": [1, 2]}, {"name": "b", "times": []}, {"name": "c"}, 7]});
        let mut seen = Vec::new();
        let mut visit = |ancestors: &[&Value]| {
            let near = |path| text_near(ancestors, path).unwrap_or_default();
            seen.push(format!("{} {} {}", ancestors.last().expect("a value"), near("name"), near("model")));
            Ok::<(), ()>(())
        };
        for_each("runs[]/times[]", &mut vec![&document], &mut visit).expect("visited");
        assert_eq!(seen, ["1 a m", "2 a m"]);
        assert_eq!((at(&document, "runs[name=b]/times"), at(&document, "runs[name=z]")), (Some(&json!([])), None));
        assert_eq!(without_conditions("runs[name=b]/times"), "runs[]/times");
        assert_eq!((at(&document, "model"), at(&document, "runs/name")), (Some(&json!("m")), None));
        assert_eq!(split_at_list("runs[]/times[]"), Some(("runs[]", "times[]")));
        assert_eq!((split_at_list("[]"), split_at_list("runs/time")), (Some(("[]", "")), None));
        assert_eq!([join("", "a"), join("a", "[]"), join("a[]", "b"), join("a", "")], ["a", "a[]", "a[]/b", "a"]);
    }
}
