//! No spelling of a non-public address is reached.

use posse_domain::permission::{Operation, Pattern};

use super::web::{FixedResolver, Server, answer, approve, call, here, redirect};
use super::*;
use crate::webfetch;
use posse_egress::Egress;

/// Hosts that are, or resolve to, non-public addresses.
const HOSTS: &[&str] = &[
    // Loopback in every spelling.
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "127.0.0.2",
    "0177.0.0.1",
    "0177.0.0.01",
    "0x7f.0.0.1",
    "0x7f.1",
    "0x7F.0X0.0x0.0x1",
    "0x7f000001",
    "0x7F000001",
    "2130706433",
    "017700000001",
    "00000000177.0.0.1",
    "127.0x0.0.1",
    "127.000.000.001",
    "127.0.0.0x1",
    "１２７.０.０.１",
    "①②⑦.0.0.1",
    "127。0。0。1",
    "127．0．0．1",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "ｌｏｃａｌｈｏｓｔ",
    "LocalHost.localdomain",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::0001]",
    "[0::1]",
    // This machine.
    "0.0.0.0",
    "0",
    "0x0",
    "00",
    "0.1.2.3",
    "[::]",
    "[0:0:0:0:0:0:0:0]",
    // IPv4 addresses embedded in IPv6.
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:127.0.0.1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:10.0.0.1]",
    "[::ffff:0.0.0.0]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::127.0.0.1]",
    "[2002:7f00:1::]",
    "[2002:7f00:0001::1]",
    "[2002:a9fe:a9fe::]",
    "[2002:c0a8:101::1]",
    "[2001:0:7f00:1::]",
    "[2001:0000:4136:e378:8000:63bf:3fff:fdd2]",
    "[2606:4700::5efe:127.0.0.1]",
    // Metadata services of clouds.
    "169.254.169.254",
    "169.254.169.254.",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "0xa9.0xfe.0xa9.0xfe",
    "169.254.43518",
    "169.16689662",
    "169.254.170.2",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "metadata.google.internal",
    "metadata",
    "instance-data",
    // Private, shared and link-local.
    "10.0.0.1",
    "10.1",
    "0xa.0.0.1",
    "012.0.0.1",
    "167772161",
    "172.16.0.1",
    "172.31.255.254",
    "192.168.0.1",
    "192.168.1",
    "3232235777",
    "0xc0a80101",
    "100.64.0.1",
    "100.127.255.254",
    "169.254.0.1",
    "[fe80::1]",
    "[fc00::1]",
    "[fd12:3456:789a::1]",
    "[fec0::1]",
    "[fe80::a9fe:a9fe]",
    // Reserved and multicast.
    "192.0.0.1",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "198.18.0.1",
    "198.19.255.255",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "0xffffffff",
    "4294967295",
    "192.88.99.1",
    "[ff02::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
    "[2001:10::1]",
    "[2001:20::1]",
    "[5f00::1]",
    "[4000::1]",
    // Tricky names.
    "127.0.0.1.nip.example",
    "a_b.example",
    "evil.example",
    "bücher.example",
];

/// Texts that are not a host, or that programs parse differently.
const NO_HOSTS: &[&str] = &[
    "127.0.0.1%00.docs.rs",
    "docs.rs%00",
    "docs.rs\0",
    "%31%32%37.0.0.1",
    "%6c%6f%63%61%6c%68%6f%73%74",
    "docs.rs@127.0.0.1",
    "user:word@docs.rs",
    "@127.0.0.1",
    "docs.rs\\@127.0.0.1",
    "127.0.0.1\\.docs.rs",
    "docs.rs\t.evil.example",
    "docs.rs\n",
    "[::1%25lo]",
    "[::1%lo]",
    "[fe80::1%25eth0]",
    "1.2.3.4.5",
    "256.0.0.1",
    "127.0.0.1..",
    "localhost..",
    "..",
    "",
    " ",
    "docs..rs",
    "0x7g.0.0.1",
    "127.0.0.08",
    "[::1",
    "::1",
    "[127.0.0.1]",
    "docs.rs:0",
    "docs.rs:65536",
    "docs.rs:80:80",
    "docs.rs;127.0.0.1",
    "docs.rs,127.0.0.1",
    "xn--localhost-.example",
    "a*b.example",
];

/// The failure of a refused URL, which no connection preceded.
fn refused(bench: &Bench, tool: &Tool, url: &str) -> ToolFailure {
    match call(bench, tool, json!({"url": url})) {
        Err(failure) => failure,
        Ok(text) => panic!("{url}: {text}"),
    }
}

#[test]
fn no_spelling_of_what_is_not_public_is_reached() {
    assert!(HOSTS.len() + NO_HOSTS.len() >= 140);
    let bench = Bench::new();
    // Listens on every address of this machine, IPv4 and IPv6.
    let four = Server::on(&bench, "0.0.0.0", |_| answer(200, "text/plain", "secret"));
    let six = Server::on(&bench, "::", |_| answer(200, "text/plain", "secret"));
    let tool = webfetch(here());
    for host in HOSTS {
        for port in [four.port(), six.port()] {
            let failure = refused(&bench, &tool, &format!("http://{host}:{port}/"));
            assert_eq!(failure.code, Code::PermissionDenied, "{host}: {}", failure.text);
            assert!(failure.text.starts_with("Nothing was fetched: `"), "{}", failure.text);
            assert!(failure.text.contains(", and only public addresses are fetched."), "{}", failure.text);
        }
        let failure = refused(&bench, &tool, &format!("https://{host}/"));
        assert_eq!(failure.code, Code::PermissionDenied, "{host}: {}", failure.text);
    }
    for host in NO_HOSTS {
        let failure = refused(&bench, &tool, &format!("http://{host}/"));
        assert_eq!(failure.code, Code::InvalidInput, "{host}: {}", failure.text);
    }
    assert_eq!((four.connections(), six.connections()), (0, 0));
}

#[test]
fn the_resolver_of_the_machine_is_not_trusted_either() {
    let bench = Bench::new();
    let server = Server::new(&bench, |_| answer(200, "text/plain", "secret"));
    let failure = refused(&bench, &tool("webfetch"), &server.url("localhost", "/"));
    assert_eq!(failure.code, Code::PermissionDenied, "{}", failure.text);
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_refusal_says_what_was_found_and_who_can_open_it() {
    let bench = Bench::new();
    let tool = webfetch(Egress::resolving(FixedResolver("10.1.2.3")));
    assert_eq!(
        refused(&bench, &tool, "http://intranet.example/").text,
        "Nothing was fetched: `intranet.example` leads to 10.1.2.3, which is a private address, and only public \
         addresses are fetched. Only a user can open it, with an approval of `webfetch:intranet.example`."
    );
    assert_eq!(
        refused(&bench, &tool, "http://docs.rs:22/").text,
        "Nothing was fetched: web pages are not fetched from port 22 (host `docs.rs`). Only a user can open it, \
         with an approval of `webfetch:docs.rs:22`."
    );
}

#[test]
fn a_person_opens_a_host_and_nothing_else() {
    let mut bench = Bench::new();
    let server = Server::new(&bench, |_| answer(200, "text/plain", "here"));
    let port = server.port();
    let tool = webfetch(here());
    let with_port = format!("webfetch:open.example:{port}");
    let other_port = "webfetch:open.example:1".to_owned();
    for (pattern, host, is_open) in [
        ("webfetch:127.0.0.1", "127.0.0.1", true),
        ("webfetch:127.0.0.1", "127.1", true),
        ("webfetch:127.0.0.1", "0x7f000001", true),
        ("webfetch:127.0.0.*", "127.0.0.1", true),
        ("webfetch:localhost", "localhost", true),
        ("webfetch:localhost", "LOCALHOST.", true),
        ("webfetch:open.example", "open.example", true),
        (&with_port, "open.example", true),
        (&other_port, "open.example", false),
        // Another spelling of the same address is another host.
        ("webfetch:127.0.0.1", "localhost", false),
        ("webfetch:127.0.0.1", "[::ffff:127.0.0.1]", false),
        ("webfetch:localhost", "127.0.0.1", false),
        ("webfetch:open.example", "other.example", false),
        ("webfetch:open.example", "open.example.evil.example", false),
        // A pattern that names nothing opens nothing, and only the whole name opens a host.
        ("webfetch", "127.0.0.1", false),
        ("webfetch:*", "127.0.0.1", false),
        ("webfetch:**", "127.0.0.1", false),
        ("*", "127.0.0.1", false),
        ("webfetch:open.*", "open.example", false),
        ("webfetch:1*", "1.example", false),
        // Approvals of other tools do not apply.
        ("websearch:127.0.0.1", "127.0.0.1", false),
        ("bash:127.0.0.1", "127.0.0.1", false),
    ] {
        approve(&mut bench, &[pattern]);
        let before = server.connections();
        let done = call(&bench, &tool, json!({"url": server.url(host, "/")}));
        assert_eq!(done.is_ok(), is_open, "{pattern} {host}: {done:?}");
        assert_eq!(server.connections() - before, usize::from(is_open), "{pattern} {host}");
    }
    approve(&mut bench, &["webfetch:[::1]"]);
    let six = Server::on(&bench, "::1", |_| answer(200, "text/plain", "six"));
    for host in ["[::1]", "[0:0:0:0:0:0:0:1]"] {
        assert!(call(&bench, &tool, json!({"url": six.url(host, "/")})).is_ok());
    }
}

#[test]
fn a_redirect_needs_an_opening_of_its_own() {
    let mut bench = Bench::new();
    let inner = Server::new(&bench, |_| answer(200, "text/plain", "secret"));
    let port = inner.port();
    let outer = Server::new(&bench, move |request| {
        let to = if request.starts_with("GET /port") { "open.example" } else { "127.0.0.1" };
        redirect(&format!("http://{to}:{port}/"))
    });
    approve(&mut bench, &[&format!("webfetch:open.example:{}", outer.port())]);
    let tool = webfetch(here());
    // The answer names another host, which is not contacted.
    let text = call(&bench, &tool, json!({"url": outer.url("open.example", "/host")})).unwrap();
    assert!(text.contains(&format!("redirects to another host: http://127.0.0.1:{port}/")), "{text}");
    // The same host on another port is checked again.
    let failure = refused(&bench, &tool, &outer.url("open.example", "/port"));
    assert_eq!(failure.code, Code::PermissionDenied);
    assert_eq!((outer.connections(), inner.connections()), (2, 0));
}

#[test]
fn rules_see_the_host_that_is_reached() {
    let specifier = tool("webfetch").specifier;
    let deny: Pattern = "webfetch:evil.example".parse().unwrap();
    for url in [
        "http://evil.example",
        "https://EVIL.example/x",
        "http://evil.example.:8080/",
        "http://ｅｖｉｌ.example/",
        "http://evil。example/",
        "HTTP://Evil.Example?x",
        "  http://evil.example/  ",
        "http://evil.example:80#x",
    ] {
        let host = specifier(&json!({"url": url})).unwrap();
        assert!(deny.matches(&Operation::new("webfetch", Some(&host))), "{url}: {host}");
    }
    assert_eq!(specifier(&json!({"url": "http://0x7f.1/"})).as_deref(), Some("127.0.0.1"));
    assert_eq!(specifier(&json!({"url": "http://[0::1]/"})).as_deref(), Some("[::1]"));
    // A URL without a host is not fetched.
    for url in ["evil.example", "http://evil%2eexample/", "ftp://evil.example", "http://a@evil.example/", ""]
    {
        assert_eq!(specifier(&json!({"url": url})), None, "{url}");
        assert_eq!(refused(&Bench::new(), &tool("webfetch"), url).code, Code::InvalidInput);
    }
}
