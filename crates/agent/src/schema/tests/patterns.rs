//! Patterns mean what ECMA-262 says, and those that take more than linear time are refused.

use super::*;

#[test]
fn a_pattern_means_what_ecma_262_says() {
    for (pattern, good, bad) in [
        ("es", vec!["expression", "es"], vec!["", "e s"]),
        ("^a$", vec!["a"], vec!["a\n", "ba"]),
        (r"^\d+$", vec!["09"], vec!["٣", ""]),
        (r"^\w$", vec!["a", "_"], vec!["é", "-"]),
        (r"^\W$", vec!["é", " "], vec!["a"]),
        (r"^\s$", vec![" ", "\u{a0}", "\u{feff}", "\u{2029}"], vec!["a", "\u{180e}"]),
        (r"^\S$", vec!["a"], vec!["\u{a0}"]),
        (r"^.$", vec!["a", "🐎"], vec!["\n", "\r", "\u{2028}"]),
        (r"^[\w.-]+$", vec!["a.b-c"], vec!["a b"]),
        (r"^[\w-z]+$", vec!["a-z"], vec![" "]),
        (r"^[^\d\s]+$", vec!["ab"], vec!["a1", " "]),
        (r"^[a&&b]$", vec!["&", "a", "b"], vec!["c"]),
        (r"^[[a]$", vec!["[", "a"], vec!["]"]),
        (r"^[\]\b-]$", vec!["]", "\u{8}", "-"], vec!["b"]),
        (r"^[]$", vec![], vec!["", "a"]),
        (r"^[^]$", vec!["a", "\n"], vec![""]),
        (r"^a\/b\-\_\@$", vec!["a/b-_@"], vec![]),
        (r"^\cA\x41\u0042\u{43}\0\t$", vec!["\u{1}ABC\0\t"], vec![]),
        (r"^\uD83D\uDC0E$", vec!["🐎"], vec![]),
        (r"^🐎{2}$", vec!["🐎🐎"], vec!["🐎"]),
        (r"^\p{Lu}\P{Lu}$", vec!["Éa"], vec!["aÉ"]),
        (r"^\p{Script=Greek}+$", vec!["αβ"], vec!["a"]),
        (r"\bcat\b", vec!["a cat!", "écaté"], vec!["cats"]),
        (r"a\Bb", vec!["ab"], vec!["a b"]),
        (r"^(?:a|b){2,3}(?<rest>c)?$", vec!["ab", "abac"], vec!["a"]),
        (r"^a{2,}}]#~$", vec!["aa}]#~"], vec![]),
        ("", vec!["", "a"], vec![]),
    ] {
        let schema = json!({"pattern": pattern});
        for text in good {
            assert!(is_valid(&schema, &json!(text)), "{pattern} matches {text:?}");
        }
        for text in bad {
            assert!(!is_valid(&schema, &json!(text)), "{pattern} does not match {text:?}");
        }
    }
}

#[test]
fn a_pattern_that_cannot_be_used_says_why() {
    let look_around = "look-around such as `(?=…)` cannot be matched in linear time";
    let reference = "back-references such as `\\1` cannot be matched in linear time";
    let large = "it has more than 65536 bytes once it is compiled";
    for (pattern, problem) in [
        ("^(a+)+(?=b)$", look_around),
        ("(?!a)", look_around),
        ("(?<=a)b", look_around),
        ("(?<!a)b", look_around),
        (r"(a)\1", reference),
        (r"(?<n>a)\k<n>", reference),
        (r"(\w{1000}){1000}", large),
        (&"a".repeat(100_000), "all patterns up to here have more than 65536 bytes"),
        (r"\Z", r"`\Z` is not an escape of ECMA-262"),
        (r"a\", "it ends with a backslash"),
        ("[a", "a class is not closed by `]`"),
        ("[z-a]", "the range `z-a` is out of order"),
        ("a{,2}", r"a brace that is not part of a count such as `{2}` must be written `\{`"),
        ("(?P<n>a)", "`(?P` does not begin a group of ECMA-262"),
        ("(?i)a", "`(?i` does not begin a group of ECMA-262"),
        (r"\p{Nothing}", "Unicode property not found"),
        (r"\pL", r"`\p` needs the name of a Unicode property in braces"),
        (r"\uD83D", "half of a surrogate pair is not a character"),
        (r"\u12", "an escape needs 4 hexadecimal digits"),
        ("*a", "repetition operator missing expression"),
        (&"(".repeat(200), "unclosed group"),
    ] {
        let Err(SchemaProblem::Invalid(found)) = Schema::compile(&json!({"pattern": pattern})) else {
            panic!("{pattern:.80} is refused");
        };
        assert!(found.ends_with(problem), "{pattern:.80}: {found:.300}");
    }
    let nested = format!("{}a{}", "(".repeat(100), ")".repeat(100));
    assert!(Schema::compile(&json!({"pattern": nested})).is_err(), "groups in groups");
}
