//! Ownership patterns of writers: literal paths or `dir/**`. Two patterns overlap if one is a prefix of the other.

/// Checks that `pattern` is a valid ownership pattern.
pub fn check(pattern: &str) -> Result<(), &'static str> {
    let path = pattern.strip_suffix("/**").unwrap_or(pattern);
    if pattern == "**" {
        return Ok(());
    }
    if path.is_empty() || path.starts_with('/') {
        return Err("must be a path relative to the workspace");
    }
    if path.contains(['*', '?', '[', '\0']) {
        return Err("must be a literal path or `dir/**`");
    }
    if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return Err("must not contain empty, `.` or `..` parts");
    }
    Ok(())
}

/// Whether `outer` covers every path of `inner`. An empty `outer` owns everything.
pub fn within(inner: &[String], outer: &[String]) -> bool {
    outer.is_empty() || (!inner.is_empty() && inner.iter().all(|i| outer.iter().any(|o| holds(o, i))))
}

/// Whether an ownership pattern covers another pattern or a plain path.
pub fn holds(pattern: &str, path: &str) -> bool {
    if pattern == "**" {
        return true;
    }
    match pattern.strip_suffix("/**") {
        None => pattern == path,
        Some(dir) => {
            let inner = path.strip_suffix("/**").unwrap_or(path);
            // `dir/**` covers all paths beneath dir and the pattern `dir/**` itself, but not a file named dir.
            inner.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
                || (inner == dir && path.ends_with("/**"))
        }
    }
}

/// Whether two sets of owned paths overlap. An empty set owns everything.
pub fn overlap(a: &[String], b: &[String]) -> bool {
    a.is_empty() || b.is_empty() || a.iter().any(|x| b.iter().any(|y| holds(x, y) || holds(y, x)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> Vec<String> {
        paths.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn overlap_is_the_prefix_relation() {
        let table = [
            (&["src/**"][..], &["src/a.rs"][..], true),
            (&["src/**"], &["src2/a.rs"], false),
            (&["src/a/**"], &["src/**"], true),
            (&["src/a/**"], &["src/b/**"], false),
            (&["README.md"], &["README.md"], true),
            (&["src/**"], &["src"], false),
            (&[], &["src/**"], true),
            (&["**"], &["x"], true),
        ];
        for (a, b, expected) in table {
            assert_eq!(overlap(&set(a), &set(b)), expected, "{a:?} {b:?}");
            assert_eq!(overlap(&set(b), &set(a)), expected, "{b:?} {a:?}");
        }
    }

    #[test]
    fn a_child_owns_only_within_its_parent() {
        assert!(within(&set(&["src/a/**"]), &set(&["src/**"])));
        assert!(!within(&set(&["docs/**"]), &set(&["src/**"])));
        assert!(!within(&[], &set(&["src/**"])), "owning all is wider than owning src");
        assert!(within(&set(&["docs/**"]), &[]));
    }

    #[test]
    fn only_literal_paths_and_directories_can_be_owned() {
        for bad in ["", "/etc", "a/../b", "a//b", "*.rs", "src/*/x", "./a", "a/"] {
            assert!(check(bad).is_err(), "{bad}");
        }
        for good in ["a", "src/**", "**", "src/a b.rs"] {
            assert!(check(good).is_ok(), "{good}");
        }
    }
}
