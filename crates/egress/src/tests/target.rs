//! Each host has one spelling.

use super::*;

fn host(url: &str) -> Result<String, UrlProblem> {
    Target::parse(url).map(|target| target.host().to_owned())
}

#[test]
fn a_host_has_one_spelling() {
    for (url, expected) in [
        ("http://docs.rs/a", "docs.rs"),
        ("HTTP://DOCS.RS:80", "docs.rs"),
        ("https://docs.rs./x", "docs.rs"),
        ("http://LocalHost.:8080/", "localhost"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
        ("http://BÜCHER.example/", "xn--bcher-kva.example"),
        ("http://ｄｏｃｓ．ｒｓ/", "docs.rs"),
        ("http://docs。rs/", "docs.rs"),
        ("http://[::1]/", "[::1]"),
        ("http://[0:0:0:0:0:0:0:1]/", "[::1]"),
        ("http://127.1/", "127.0.0.1"),
        ("http://0x7f.0.0.1/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://017700000001/", "127.0.0.1"),
        ("http://127.0.0.1./", "127.0.0.1"),
        ("http://①②⑦.0.0.1/", "127.0.0.1"),
        ("http://under_score.example/", "under_score.example"),
        ("  http://docs.rs/  ", "docs.rs"),
    ] {
        assert_eq!(host(url).as_deref(), Ok(expected), "{url}");
    }
}

#[test]
fn what_programs_disagree_on_is_refused() {
    for (url, problem) in [
        ("", UrlProblem::Scheme),
        ("docs.rs", UrlProblem::Scheme),
        ("//docs.rs/", UrlProblem::Scheme),
        ("http:docs.rs", UrlProblem::Scheme),
        ("http:/docs.rs", UrlProblem::Scheme),
        ("file:///etc/passwd", UrlProblem::Scheme),
        ("ftp://docs.rs/", UrlProblem::Scheme),
        ("gopher://docs.rs/", UrlProblem::Scheme),
        ("javascript://docs.rs/%0aalert(1)", UrlProblem::Scheme),
        ("view-source:http://docs.rs", UrlProblem::Scheme),
        ("http:///docs.rs", UrlProblem::Host),
        ("http://", UrlProblem::Host),
        ("http://user@docs.rs/", UrlProblem::UserInfo),
        ("http://@docs.rs/", UrlProblem::UserInfo),
        ("http://:@docs.rs/", UrlProblem::UserInfo),
        ("http://user:word@docs.rs/", UrlProblem::UserInfo),
        ("http://docs.rs@127.0.0.1/", UrlProblem::UserInfo),
        ("http://docs.rs%00.evil.example/", UrlProblem::Host),
        ("http://%31%32%37.0.0.1/", UrlProblem::Host),
        ("http://docs.rs\0.evil.example/", UrlProblem::OddCharacter),
        ("http://docs.rs\\@evil.example/", UrlProblem::OddCharacter),
        ("http://docs.\trs/", UrlProblem::OddCharacter),
        ("http://docs.\nrs/", UrlProblem::OddCharacter),
        ("http://docs rs/", UrlProblem::Host),
        ("http://docs..rs/", UrlProblem::Host),
        ("http://docs.rs../", UrlProblem::Host),
        ("http://./", UrlProblem::Host),
        ("http://a*b.example/", UrlProblem::Host),
        ("http://a!b.example/", UrlProblem::Host),
        ("http://1.2.3.4.5/", UrlProblem::Host),
        ("http://256.1.1.1/", UrlProblem::Host),
        ("http://[::1%25lo]/", UrlProblem::Host),
        ("http://[::1/", UrlProblem::Host),
        ("http://docs.rs:0/", UrlProblem::Port),
        ("http://docs.rs:99999/", UrlProblem::Port),
        ("http://docs.rs:x/", UrlProblem::Port),
    ] {
        assert_eq!(host(url), Err(problem), "{url}");
    }
    assert_eq!(host(&format!("http://{}.example/", "a".repeat(64))), Err(UrlProblem::Host));
    assert_eq!(host(&format!("http://{}example/", "a.".repeat(130))), Err(UrlProblem::Host));
    assert_eq!(host(&format!("http://docs.rs/{}", "a".repeat(9000))), Err(UrlProblem::TooLong));
}

#[test]
fn a_path_and_a_query_are_added() {
    let base = Target::parse("https://search.example/api/").unwrap();
    let target = base.with("/search", &[("q", "a b&c=d"), ("format", "json")]);
    assert_eq!(target.as_str(), "https://search.example/api/search?q=a+b%26c%3Dd&format=json");
    assert_eq!(base.with("", &[]).as_str(), "https://search.example/api");
}

mod strings {
    use proptest::prelude::*;

    use super::*;

    fn piece() -> impl Strategy<Value = String> {
        let pieces = [
            "http://",
            "https://",
            "127",
            "0",
            "0x7f",
            "0177",
            ".",
            "1",
            "[",
            "]",
            "::",
            "ffff",
            ":",
            "@",
            "%31",
            "%00",
            "/",
            "\\",
            "?",
            "#",
            "localhost",
            "LOCALHOST",
            "①",
            "。",
            "xn--",
            "10",
            "169.254",
            "192.168",
            "80",
            " ",
            "\t",
            "ſ",
            "K",
            "-",
            "_",
            "2130706433",
            "fe80",
            "fd00",
            "a",
            "docs.rs",
            "\u{ad}",
            "\u{200b}",
        ];
        prop_oneof![
            8 => proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned),
            1 => any::<char>().prop_map(String::from),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// For any text: no panic, and the host that rules match is the one that is reached.
        #[test]
        fn a_target_reads_back_as_itself(pieces in prop::collection::vec(piece(), 1..8)) {
            let text = format!("http://{}", pieces.concat());
            if let Ok(target) = Target::parse(&text) {
                prop_assert!(target.host().bytes().all(|b| b.is_ascii_graphic() && !b.is_ascii_uppercase()));
                prop_assert!(!target.host().ends_with('.') && target.port() != 0);
                let again = Target::parse(target.as_str());
                prop_assert_eq!(again.as_ref(), Ok(&target));
                // A text that the standard parser accepts as an address is an address here too.
                if let Ok(ip) = target.host().trim_matches(['[', ']']).parse::<IpAddr>() {
                    prop_assert_eq!(target.ip(), Some(ip));
                }
            }
        }

        /// No spelling of a non-public address gets as far as a connection.
        #[test]
        fn no_spelling_reaches_what_is_not_public(pieces in prop::collection::vec(piece(), 1..8)) {
            let Ok(target) = Target::parse(&format!("http://{}", pieces.concat())) else { return Ok(()) };
            if target.ip().is_some_and(|ip| not_public(ip).is_none()) {
                return Ok(());
            }
            // All names resolve to this machine.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let done = runtime.block_on(here().send(Request::get(target), &Openings::none()));
            let refused = matches!(
                done,
                Err(EgressError::Refused { .. } | EgressError::Port { .. } | EgressError::Unsendable { .. })
            );
            prop_assert!(refused, "{:?}", done);
        }
    }
}
