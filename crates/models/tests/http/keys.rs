//! The key is in its header and nowhere else.

use posse_testkit::mock::{Answer, FaultMoment, FaultType, Refusal, WireFormat};

use crate::support::{KEY, cases};

#[tokio::test]
async fn the_key_is_sent_in_the_header_of_its_format_alone() {
    for case in cases(&Answer::text("in")) {
        case.reply().await;
        let logged = case.mock.requests().remove(0);
        let wanted = if case.wire_format == WireFormat::Messages { "x-api-key" } else { "authorization" };
        let carrying: Vec<&str> = logged
            .headers
            .iter()
            .filter(|(_, value)| value.contains(KEY))
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(carrying, [wanted], "{:?}", case.wire_format);
        assert!(!String::from_utf8_lossy(&logged.body).contains(KEY));
        assert!(!logged.path.contains(KEY));
    }
}

#[tokio::test]
async fn a_key_that_is_echoed_is_never_told() {
    let long = format!("{} {KEY}", "x".repeat(560));
    let table: Vec<(&str, Answer)> = vec![
        ("a refusal", Answer::refuse(401, format!("Incorrect API key provided: {KEY}."))),
        ("a bad request", Answer::refuse(400, format!("unknown header x-api-key: {KEY}"))),
        ("a long refusal", Answer::refuse(500, long)),
        ("a limit", Answer::refuse(429, format!("the limit of {KEY} is reached"))),
        ("a page", Answer::raw(502, "text/html", format!("<html>Authorization: Bearer {KEY}</html>"))),
        ("plain text", Answer::raw(400, "text/plain", format!("Authorization: Bearer {KEY}"))),
        ("a redirect", Answer::redirect(&format!("https://elsewhere.example/?key={KEY}"))),
        ("another format", Answer::raw(200, "text/plain", format!("You said {KEY}"))),
        (
            "JSON that is none",
            Answer::raw(400, "application/json", format!("{{\"error\": {{\"key\": \"{KEY}\"")),
        ),
        (
            "an error in the stream",
            Answer::text("well")
                .fault(FaultMoment::Event(2), FaultType::Error(Refusal::new(500, format!("no {KEY}")))),
        ),
        (
            "a malformed event",
            Answer::text("well")
                .fault(FaultMoment::Event(2), FaultType::Insert(format!("data: {{{KEY}\n\n").into_bytes())),
        ),
    ];
    for (what, answer) in table {
        for case in cases(&answer) {
            let failure = case.failure().await;
            let told = format!("{failure:?}\n{failure:#?}\n{}", failure.error.message);
            assert!(!told.contains(KEY), "{:?}, {what}: {told}", case.wire_format);
            assert!(!told.contains(&KEY[..12]), "{:?}, {what}: part of the key: {told}", case.wire_format);
        }
    }
}
