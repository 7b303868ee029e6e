//! `cargo xtask licences`: checks that every dependency may be used and that none is known to be bad.
//!
//! `deny.toml` is the only policy. cargo-deny reads it where it is installed. The check here reads the same lists and
//! always runs, because a fresh machine has no cargo-deny and the advisory database is not always reachable. Therefore
//! `deny.toml` itself lists known-bad versions that matter to the project.

mod spdx;

use semver::{Version, VersionReq};
use serde_json::Value;

use crate::command::{cargo, cargo_has, metadata, root, run as run_command};
use crate::{Failure, Outcome};

/// The only allowed source of dependencies, as cargo spells it in the lock file.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Tools that build or test the page and are not in it, by the beginning of their names, with their licences: one writes
/// its style sheet, the other looks for what excludes users in its stories.
const PAGE_TOOLS: &[(&str, &str)] = &[("lightningcss", "MPL-2.0"), ("axe-core", "MPL-2.0")];

/// Fails if anything is not allowed by the policy, and lists all of it.
pub(crate) fn run(_: &[String]) -> Outcome {
    let path = root().join("deny.toml");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::new(format!("cannot read deny.toml: {error}")))?;
    let policy = Policy::parse(&text)?;
    let mut packages = packages(&metadata(&[])?)?;
    packages.extend(self::packages(&metadata(&["--manifest-path", crate::fuzz::MANIFEST])?)?);
    let page = packages_of_the_page()?;
    let of_the_page = page.iter().filter(|package| !is_allowed_tool(package));
    let breaches: Vec<String> =
        packages.iter().chain(of_the_page).flat_map(|package| policy.breaches(package)).collect();
    if !breaches.is_empty() {
        return Err(Failure::new(format!(
            "{} breaches of deny.toml\n{}",
            breaches.len(),
            breaches.join("\n")
        )));
    }
    let count = packages.len() + page.len();
    println!("{count} packages: licences, sources and versions are within deny.toml");
    if cargo_has(&["deny", "--version"]) {
        return run_command(&mut cargo(&["deny", "check", "licenses", "bans", "sources"]));
    }
    Ok(())
}

/// One package of the whole dependency graph, on any platform.
struct Package {
    name: String,
    version: Version,
    licence: Option<String>,
    source: Option<String>,
}

fn packages(metadata: &Value) -> Result<Vec<Package>, Failure> {
    let unreadable = || Failure::new("cargo metadata lists a package that cannot be read");
    let list = metadata["packages"].as_array().ok_or_else(unreadable)?;
    list.iter()
        .map(|package| {
            let text = |key: &str| package[key].as_str().map(str::to_owned);
            Ok(Package {
                name: text("name").ok_or_else(unreadable)?,
                version: text("version").and_then(|version| version.parse().ok()).ok_or_else(unreadable)?,
                licence: text("license"),
                source: text("source"),
            })
        })
        .collect()
}

/// The packages that build the page. Those that are in the bundle are named in its `licences.txt`, with their texts.
fn packages_of_the_page() -> Result<Vec<Package>, Failure> {
    let path = root().join("web/package-lock.json");
    let failed = |error: String| Failure::new(format!("web/package-lock.json: {error}"));
    let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    let lock: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let list = lock["packages"].as_object().ok_or_else(|| failed("it has no packages".to_owned()))?;
    // The one without a name is the page itself.
    let named =
        list.iter().filter_map(|(place, package)| Some((place.rsplit_once("node_modules/")?.1, package)));
    named
        .map(|(name, package)| {
            let version = package["version"].as_str().and_then(|version| version.parse().ok());
            Ok(Package {
                name: name.to_owned(),
                version: version.ok_or_else(|| failed(format!("{name} has no version")))?,
                licence: package["license"].as_str().map(str::to_owned),
                source: None,
            })
        })
        .collect()
}

/// Whether a package that builds or tests the page may have a licence that no dependency of the program may have: it is not part
/// of what it builds.
fn is_allowed_tool(package: &Package) -> bool {
    let licence = package.licence.as_deref().unwrap_or_default();
    PAGE_TOOLS.iter().any(|(name, allowed)| package.name.starts_with(name) && licence == *allowed)
}

/// The part of `deny.toml` that can be checked without cargo-deny.
struct Policy {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
    bans: Vec<Ban>,
}

/// Licences accepted for one package only.
struct Exception {
    spec: Spec,
    allow: Vec<String>,
}

/// A package that must not be used, and why.
struct Ban {
    spec: Spec,
    reason: String,
}

impl Policy {
    fn parse(text: &str) -> Result<Self, Failure> {
        let file: Value =
            toml::from_str(text).map_err(|error| Failure::new(format!("deny.toml: {error}")))?;
        let allow = strings(&file["licenses"]["allow"], "licenses.allow")?;
        let exceptions = tables(&file["licenses"]["exceptions"], "licenses.exceptions")?
            .iter()
            .map(|table| {
                let allow = strings(&table["allow"], "licenses.exceptions.allow")?;
                Ok(Exception {
                    spec: Spec::parse(string(&table["crate"], "licenses.exceptions.crate")?)?,
                    allow,
                })
            })
            .collect::<Result<_, Failure>>()?;
        let bans = tables(&file["bans"]["deny"], "bans.deny")?
            .iter()
            .map(|table| {
                let reason = string(&table["reason"], "bans.deny.reason")?.to_owned();
                Ok(Ban { spec: Spec::parse(string(&table["crate"], "bans.deny.crate")?)?, reason })
            })
            .collect::<Result<_, Failure>>()?;
        Ok(Self { allow, exceptions, bans })
    }

    fn breaches(&self, package: &Package) -> Vec<String> {
        let label = format!("{} {}", package.name, package.version);
        let mut found = Vec::new();
        match package.licence.as_deref().map(|licence| (licence, self.accepts(package, licence))) {
            None => found.push(format!("  {label}: its manifest names no licence")),
            Some((licence, Ok(false))) => found.push(format!("  {label}: `{licence}` is not allowed")),
            Some((licence, Err(error))) => found.push(format!("  {label}: cannot read `{licence}`: {error}")),
            Some((_, Ok(true))) => {}
        }
        if let Some(source) = package.source.as_deref().filter(|source| *source != REGISTRY) {
            found.push(format!("  {label}: comes from `{source}`; only the public registry is used"));
        }
        for ban in self.bans.iter().filter(|ban| ban.spec.matches(package)) {
            found.push(format!("  {label}: banned: {}", ban.reason));
        }
        found
    }

    fn accepts(&self, package: &Package, expression: &str) -> Result<bool, String> {
        let for_it: Vec<&String> = self
            .exceptions
            .iter()
            .filter(|exception| exception.spec.matches(package))
            .flat_map(|exception| &exception.allow)
            .collect();
        let accepted =
            |licence: &str| self.allow.iter().chain(for_it.iter().copied()).any(|known| known == licence);
        spdx::satisfied(expression, &accepted)
    }
}

/// cargo-deny's way to name packages: `name`, `name:<1.4` or `name@1.4.0`.
struct Spec {
    name: String,
    versions: VersionReq,
}

impl Spec {
    fn parse(text: &str) -> Result<Self, Failure> {
        let (name, versions) = match (text.split_once(':'), text.split_once('@')) {
            (Some((name, versions)), _) => (name, versions.to_owned()),
            (None, Some((name, version))) => (name, format!("={version}")),
            (None, None) => (text, "*".to_owned()),
        };
        let versions = versions
            .parse()
            .map_err(|error| Failure::new(format!("deny.toml: `{text}` names no versions: {error}")))?;
        Ok(Self { name: name.to_owned(), versions })
    }

    fn matches(&self, package: &Package) -> bool {
        self.name == package.name && self.versions.matches(&package.version)
    }
}

fn string<'a>(value: &'a Value, key: &str) -> Result<&'a str, Failure> {
    value.as_str().ok_or_else(|| Failure::new(format!("deny.toml: `{key}` must be a text")))
}

fn strings(value: &Value, key: &str) -> Result<Vec<String>, Failure> {
    let list = value.as_array().ok_or_else(|| Failure::new(format!("deny.toml: `{key}` must be a list")))?;
    list.iter().map(|item| string(item, key).map(str::to_owned)).collect()
}

/// A list of tables; an absent one is empty.
fn tables<'a>(value: &'a Value, key: &str) -> Result<&'a [Value], Failure> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(list) => Ok(list),
        _ => Err(Failure::new(format!("deny.toml: `{key}` must be a list of tables"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POLICY: &str = r#"
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        exceptions = [{ crate = "odd", allow = ["MPL-2.0"] }]
        [bans]
        deny = [{ crate = "rmcp:<1.4", reason = "vulnerable" }, { crate = "exact@2.0.0", reason = "broken" }]
    "#;

    fn breaches_of(name: &str, version: &str, licence: Option<&str>, source: Option<&str>) -> Vec<String> {
        let package = json!({"name": name, "version": version, "license": licence, "source": source});
        let packages = packages(&json!({ "packages": [package] })).unwrap();
        Policy::parse(POLICY).unwrap().breaches(&packages[0])
    }

    #[test]
    fn an_allowed_licence_from_the_registry_passes() {
        assert!(breaches_of("serde", "1.0.0", Some("MIT OR GPL-3.0-only"), Some(REGISTRY)).is_empty());
        assert!(breaches_of("own", "0.1.0", Some("MIT"), None).is_empty(), "a path dependency has no source");
    }

    #[test]
    fn a_licence_outside_the_list_or_missing_is_a_breach() {
        assert_eq!(
            breaches_of("a", "1.0.0", Some("GPL-3.0-only"), None),
            ["  a 1.0.0: `GPL-3.0-only` is not allowed"]
        );
        assert_eq!(breaches_of("a", "1.0.0", None, None), ["  a 1.0.0: its manifest names no licence"]);
        assert!(breaches_of("a", "1.0.0", Some("MIT OR"), None)[0].contains("cannot read"));
    }

    #[test]
    fn an_exception_is_for_its_package_only() {
        assert!(breaches_of("odd", "1.0.0", Some("MPL-2.0"), None).is_empty());
        assert_eq!(breaches_of("even", "1.0.0", Some("MPL-2.0"), None).len(), 1);
    }

    #[test]
    fn a_tool_that_builds_the_page_may_have_its_own_licence_and_no_other() {
        let tool = |name: &str, licence: &str| Package {
            name: name.to_owned(),
            version: Version::new(1, 0, 0),
            licence: Some(licence.to_owned()),
            source: None,
        };
        assert!(is_allowed_tool(&tool("lightningcss-linux-x64-gnu", "MPL-2.0")));
        assert!(is_allowed_tool(&tool("axe-core", "MPL-2.0")));
        assert!(!is_allowed_tool(&tool("lightningcss", "GPL-3.0-only")));
        assert!(!is_allowed_tool(&tool("svelte", "MPL-2.0")));
        assert!(packages_of_the_page().expect("the packages").iter().any(|package| package.name == "svelte"));
    }

    #[test]
    fn a_banned_version_is_a_breach_with_its_reason_and_a_later_one_is_not() {
        assert_eq!(breaches_of("rmcp", "1.3.9", Some("MIT"), None), ["  rmcp 1.3.9: banned: vulnerable"]);
        assert!(breaches_of("rmcp", "1.4.0", Some("MIT"), None).is_empty());
        assert_eq!(breaches_of("exact", "2.0.0", Some("MIT"), None).len(), 1);
        assert!(breaches_of("exact", "2.0.1", Some("MIT"), None).is_empty());
    }

    #[test]
    fn another_source_is_a_breach() {
        let found = breaches_of("a", "1.0.0", Some("MIT"), Some("git+https://example.org/a"));
        assert!(found[0].contains("only the public registry"), "{found:?}");
    }

    #[test]
    fn a_policy_that_cannot_be_read_names_the_key() {
        let failure = |text: &str| Policy::parse(text).err().unwrap().to_string();
        assert!(failure("[licenses]\n").contains("`licenses.allow`"));
        assert!(failure("[licenses]\nallow = [1]\n").contains("`licenses.allow`"));
        let ban = "[licenses]\nallow = []\n[bans]\ndeny = [{ crate = \"a\" }]\n";
        assert!(failure(ban).contains("`bans.deny.reason`"));
        let bad_versions =
            "[licenses]\nallow = []\n[bans]\ndeny = [{ crate = \"a:later\", reason = \"r\" }]\n";
        assert!(failure(bad_versions).contains("`a:later`"));
    }

    #[test]
    fn the_projects_own_policy_bans_the_versions_it_must_not_run_on() {
        let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
        let policy = Policy::parse(&text).unwrap();
        let banned = |name: &str, version: &str| {
            let package = json!({"name": name, "version": version, "license": "MIT"});
            !policy.breaches(&packages(&json!({ "packages": [package] })).unwrap()[0]).is_empty()
        };
        assert!(banned("libsqlite3-sys", "0.36.0") && !banned("libsqlite3-sys", "0.39.1"));
        assert!(banned("rmcp", "1.3.0") && !banned("rmcp", "3.8.0"));
        assert!(policy.allow.iter().all(|licence| !licence.contains("GPL")));
    }
}
