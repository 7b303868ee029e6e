//! Which texts are secrets, by their value, shape or name, and which stay.

use super::*;

fn marked(secret: &str) -> String {
    String::from_utf8(mark(secret.as_bytes())).expect("text")
}

fn clean(text: &str) -> Option<(String, Vec<&'static str>)> {
    let secrets = Secrets::new(["canary-value-1".to_owned(), "short".to_owned(), "with\"quote\"".to_owned()]);
    let cleaned = secrets.clean(text.as_bytes())?;
    Some((String::from_utf8(cleaned.bytes).expect("text"), cleaned.found))
}

#[test]
fn a_given_value_is_found_also_as_json_has_it() {
    assert_eq!(
        clean("a canary-value-1, b").expect("found"),
        ("a [secret******], b".to_owned(), vec!["a key of yours"])
    );
    assert_eq!(clean(r#"{"k":"with\"quote\""}"#).expect("found").0, r#"{"k":"[secret*****]"}"#);
    assert_eq!(clean("a short one"), None, "too short to be a key");
}

#[test]
fn keys_are_known_by_their_shape() {
    let tail = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
    for key in [
        format!("sk-ant-{tail}"),
        format!("sk-proj-{tail}"),
        format!("ghp_{tail}"),
        format!("github_pat_{tail}"),
        format!("AIza{tail}"),
        format!("hf_{tail}"),
        format!("glpat-{tail}"),
        format!("xoxa-{tail}"),
        format!("xoxb-12345678901-{tail}"),
        format!("xoxp-{tail}"),
        format!("xoxr-{tail}"),
        format!("xoxs-{tail}"),
        format!("npm_{tail}"),
        format!("sk_live_{tail}"),
        format!("rk_live_{tail}"),
        "AKIA0123456789ABCDEF".to_owned(),
        format!("-----BEGIN RSA PRIVATE KEY-----\\n{tail}\\n-----END RSA PRIVATE KEY-----"),
        format!("-----BEGIN PRIVATE KEY-----\n{tail}\n-----END PRIVATE KEY-----"),
    ] {
        let text = format!("key = \"{key}\";");
        assert_eq!(clean(&text).expect(&key).0, format!("key = \"{}\";", marked(&key)), "{key}");
    }
    let key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    let text = clean(&format!("aws_secret_access_key = {key}")).expect("aws").0;
    assert_eq!(text, format!("aws_secret_access_key = {}", marked(key)));
}

#[test]
fn what_only_looks_a_little_like_one_stays() {
    for text in [
        "task-0123456789012345678901234567890",
        "sk-short",
        "AKIAIO",
        "npm_config_registry_of_the_whole_project_and_more",
        "hf_hub_download_of_all_the_files_of_a_model",
        "xoxo-0123456789012345",
        "sk_live_mode",
        "-----BEGIN CERTIFICATE-----",
        "skill: sk-",
        "the aws_secret_access_key is not here",
    ] {
        assert_eq!(clean(text), None, "{text}");
    }
}

#[test]
fn a_private_key_that_is_cut_off_goes_to_the_end() {
    let text = "x -----BEGIN PRIVATE KEY-----\nabc";
    let expected = "x [secret left out***********\n**]";
    assert_eq!(clean(text).expect("found").0, expected);
    assert_eq!(text.len(), expected.len(), "as long as it was");
}

#[test]
fn names_of_variables_that_hold_secrets_are_known() {
    for name in [
        "GITHUB_PAT",
        "NPM_AUTH",
        "SENTRY_DSN",
        "PGPASSWORD",
        "MYSQL_PWD",
        "REDIS_PASS",
        "AWS_CREDENTIALS",
        "SLACK_WEBHOOK_URL",
        "AZURE_STORAGE_CONNECTION_STRING",
        "OPENAI_API_KEY",
        "MY_TOKEN",
        "TOKENS",
        "DB_PASSWD",
        "client-secret",
        "SESSION_COOKIE",
        "AUTH_JWT",
        "GPG_PASSPHRASE",
        "DEPLOY_KEYS",
        "DISCORD_WEBHOOK",
        "FOO_SECRET_2",
        "service.password",
        "PGPASSWORD_OLD",
        "SMTP_PW",
        "apiKey",
        "dbPass",
        "_authToken",
        "APIKey",
    ] {
        assert!(names_a_secret(name), "{name}");
    }
    for name in [
        "PATH",
        "PWD",
        "OLDPWD",
        "HOME",
        "SSH_AUTH_SOCK",
        "AUTHOR",
        "PASSENGER",
        "KEYBOARD_LAYOUT",
        "TOKEN_FILE",
        "PASSWORD_STORE_DIR",
        "AUTH_TYPE",
        "COMPASS",
        "DSN_HOST",
        "PATTERN",
        "TOKEN_LIMIT",
        "WEBHOOK_ENDPOINT",
        "API_KEY_HEADER",
        "PASS",
        "maxTokens",
        "tokenFile",
        "",
    ] {
        assert!(!names_a_secret(name), "{name}");
    }
}

#[test]
fn secrets_are_known_by_what_stands_before_them() {
    for (before, secret, after) in [
        ("postgres://me:", "hunter2", "@db.example/x"),
        ("redis://:", "s3cr3t-pw", "@localhost:6379"),
        ("git clone https://me:", "p@ss:w0rd", "@git.example/r.git"),
        ("https://", "A1b2C3d4E5f6G7h8I9j0K1", "@github.example/r"),
        ("amqp://u:", "x1y2", "@h, and more"),
        ("GITHUB_PAT=", "abc123def456", "\n"),
        ("export NPM_AUTH='", "abc 123 def", "'"),
        ("SENTRY_DSN=", "https://abc123@o1.ingest.example/2", "\n"),
        ("PGPASSWORD=", "hunter22", " psql"),
        ("  PGPASSWORD: ", "hunter22", "\n"),
        ("{\"DB_PASS\": \"", "hunter22", "\"}"),
        ("SLACK_WEBHOOK_URL=", "https://hooks.example/T0/B0/x9", "\n"),
        ("authorization: Bearer ", "abc123def456", "\n"),
        ("-H 'Authorization: Basic ", "bWU6aHVudGVyMg==", "'"),
        ("\"Authorization\": \"token ", "abc123def456", "\""),
        ("X-Api-Key: ", "abc123def456", "\r\n"),
        ("Cookie: session=", "abc123def456; theme=dark", "\r\n"),
        ("Set-Cookie: sid=", "abc123def456; Path=/", "\n"),
        ("machine h login me password ", "hunter2", "\n"),
        ("Server=h;User Id=me;Password=", "hunter2", ";Encrypt=true"),
        ("AccountName=x;AccountKey=", "abcDEF123+/==", ";EndpointSuffix=y"),
        ("host=h user=me password=", "hunter2", " dbname=x"),
        ("jwt ", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w", " end"),
        ("", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK-----", "\n"),
        ("", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----", "\n"),
        ("https://", "hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXX", " x"),
        ("key ", "whsec_A1b2C3d4E5f6G7h8I9j0K1l2", ""),
        ("key ", "sk_test_A1b2C3d4E5f6G7h8", ""),
        ("key ", "pypi-A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0u1", ""),
        ("key ", "xapp-1-A012345-678-A1b2C3d4", ""),
    ] {
        let text = format!("{before}{secret}{after}");
        let cleaned = clean(&text).unwrap_or_else(|| panic!("{text}: nothing is found")).0;
        assert_eq!(cleaned, format!("{before}{}{after}", marked(secret)), "{text}");
        assert_eq!(cleaned.len(), text.len(), "as long as it was");
    }
}

#[test]
fn what_stands_where_a_secret_would_stays_if_it_is_none() {
    for text in [
        "https://example.org/a:b@c",
        "https://me@example.org/x",
        "postgres://user:password@localhost/x",
        "postgres://$USER:$PASS@host/x",
        "https://<user>:<password>@host",
        "http://[::1]:8080/",
        "ssh://git@github.com/x/y",
        "mail me@example.org: now",
        "time 12:30@noon",
        "GITHUB_PAT=$OTHER",
        "API_TOKEN=<your token>",
        "API_TOKEN={{ token }}",
        "API_KEY=changeme",
        "let TOKEN: &str = read();",
        "const TOKEN = process.env.TOKEN",
        "MY_SECRET=Secret::new(x1)",
        "MAX_TOKENS=128000x",
        "TOKEN_FILE=/run/x1y2z3",
        "PWD=/home/me/x1y2",
        "KEYBOARD_LAYOUT=us2-intl",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "authorization: bearer authentication",
        "the authorization of 12345678",
        "cookie: a small cake",
        "cookies = [1, 2]",
        "x-api-key: ",
        "the password is hunter2",
        "password=hunter2",
        "Password=; Server=h",
        "eyJhbGciOiJIUzI1NiJ9 alone",
        "a.eyJ.b",
        "-----BEGIN PUBLIC KEY-----\nabc",
        "hooks.slack.com/services/",
        "whsec_short",
    ] {
        assert_eq!(clean(text), None, "{text}");
    }
}

#[test]
fn secrets_are_known_by_names_as_files_and_code_write_them() {
    for (before, secret, after) in [
        ("npm_token: ", "abc123def456", "\n"),
        ("{\"apiKey\": \"", "abc123def456", "\"}"),
        ("{\"apiKey\":\"", "abc123def456", "\"}"),
        ("{apiKey:'", "abc123def456", "'}"),
        ("client_secret = '", "abc123def456", "'"),
        ("client-secret: ", "abc123def456", "\n"),
        ("passwd: ", "Tr0ub4dor&3", "\n"),
        ("pass: ", "hunter2222", "\n"),
        ("  pw = ", "hunter2222", "\n"),
        ("<password>", "hunter22", "</password>"),
        ("<db:clientSecret>", "hunter22", "</db:clientSecret>"),
        ("SMTP_PW=", "hunter22", "\n"),
        ("API_KEY = \"", "abc123def456", "\""),
        ("spring.datasource.password=", "hunter222", "\n"),
        ("dbPassword := \"", "hunter222", "\""),
        ("'secret_key' => '", "abc123def456", "',"),
        ("let token: &str = \"", "abc123def456", "\";"),
        ("token: str = '", "abc123def456", "'"),
        ("accessToken: string = `", "abc123def456", "`"),
        ("//npm.example/:_authToken=", "abc123def456", "\n"),
        ("_auth=", "bWU6aHVudGVyMg==", "\n"),
        ("SERVICE_CREDENTIALS={\"private_key\":\"", "abc123def456", "\"}"),
        ("{\"text\":\"{\\\"apiKey\\\": \\\"", "abc123def456", "\\\"}\"}"),
        ("{\"text\":\"one\\npass: ", "hunter2222", "\\ntwo\"}"),
        ("{\"text\":\"one\\n", "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8", "\\ntwo\"}"),
        ("https://x.example/?access_token=", "abc123def456", "&page=2"),
        ("https://x.example/?page=2&api_key=", "abc123def456", "#top"),
        ("jdbc:mysql://h/db?user=x&password=", "hunter2", "&ssl=true"),
        ("jdbc:postgresql://h/db?password=", "hunter2", "\n"),
    ] {
        let text = format!("{before}{secret}{after}");
        let cleaned = clean(&text).unwrap_or_else(|| panic!("{text}: nothing is found")).0;
        assert_eq!(cleaned, format!("{before}{}{after}", marked(secret)), "{text}");
    }
}

#[test]
fn secrets_are_known_by_the_flags_of_commands() {
    for (before, secret, after) in [
        ("login --password ", "hunter2", " -v"),
        ("login --password=", "hunter2", ""),
        ("login --token=", "abc123def456", " x"),
        ("login --api-key '", "abc123def456", "'"),
        ("[\"--client-secret\", \"", "abc123def456", "\"]"),
        ("curl -u admin:", "hunter2", " https://x.example"),
        ("curl -sS --user 'admin:", "hunter 2", "' https://x.example"),
        ("curl -uadmin:", "hunter2", " https://x.example"),
        ("curl -s \\\n  -u admin:", "hunter2", " \\\n  https://x.example"),
        ("mysql -u root -p", "hunter2", " db"),
        ("mysqldump -p'", "hunter2", "' db"),
        ("sshpass -p ", "hunter2", " ssh h"),
        ("redis-cli -a ", "hunter2", " ping"),
        ("docker login -u me -p ", "hunter2", " r.example"),
    ] {
        let text = format!("{before}{secret}{after}");
        let cleaned = clean(&text).unwrap_or_else(|| panic!("{text}: nothing is found")).0;
        assert_eq!(cleaned, format!("{before}{}{after}", marked(secret)), "{text}");
    }
}

#[test]
fn code_and_words_after_the_name_of_a_secret_stay() {
    for text in [
        "password: str",
        "token: &str",
        "pass: bool",
        "apiKey: process.env.X",
        "apiKey: process.env.API_KEY_V2,",
        "max_tokens: 1000",
        "maxTokens: 100000000,",
        "tokens: 123456789",
        "input_tokens = 123456789",
        "token: 123456789",
        "token: Uint8Array;",
        "secret: BigUint64Array",
        "password: SecretString,",
        "token: Option<String>",
        "secret = secret_v2_of_this",
        "token = next_token(x1)",
        "if token == \"abc123def456\" {",
        "token != 'abc123def456'",
        "Token::abc123def456",
        "password: \"Must have at least 8 characters\"",
        "\"password\": \"PasswordField\"",
        "passwordLabel: \"password-label-2\"",
        "token_url: https://x.example/oauth2/token",
        "secret_name: prod-secret-12",
        "token_type: bearer-v2-x",
        "token_id: 12ab34cd56",
        "key: abc123def456",
        "cache_key: v1-linux-abc123",
        "primary_key = 'user_id_123'",
        "public_key: abc123def456",
        "password_file: /run/secrets/db1",
        "secret: /run/secrets/db1",
        "private_key: ./keys/id_ed25519",
        "password: ${DB_PASSWORD_1}",
        "password: {{ vault.db1_password }}",
        "password: <your password 1>",
        "password: ENC[AES256_GCM,data:x]",
        "compass: north-by-12deg",
        "bypass: rule-1234-abc",
        "author: someone12345",
        "<password>",
        "<password></password>",
        "<password>secret</password>",
        "<token>Token is 12345678 long</token>",
        "https://x.example/?page_token=&x=12345678",
        "https://x.example/?page=12345678",
        "--password",
        "--password $PASSWORD_1",
        "--password --verbose-level-2",
        "--password-file /run/x1",
        "--max-tokens 100000",
        "--token-limit 100000",
        "--secret id=npm_2,src=.npmrc",
        "--pass-through=abc12345",
        "docker run -u 1000:1000 x",
        "docker run --user 1000:1000 x",
        "curl -u admin x",
        "curl -u $USER:$PASS x",
        "sort -u a1:b2",
        "mkdir -p mysql/data1",
        "mysql -p db1",
        "find mysql -print",
        "ssh -p 22222 h",
        "docker run -p 8080:8080 x",
    ] {
        assert_eq!(clean(text), None, "{text}");
    }
}

#[test]
fn passwords_of_urls_are_found_to_be_looked_for_elsewhere() {
    assert_eq!(url_passwords("postgres://me:hunter2@h,redis://:p2@i"), ["hunter2", "p2"]);
    assert_eq!(url_passwords("https://example.org"), [""; 0]);
}

#[test]
fn a_long_text_of_beginnings_is_cleaned_in_one_pass() {
    // Each position starts a rule; none is followed further than its limit.
    for piece in [
        "://",
        "AUTH_",
        "cookie: ",
        "authorization: bearer ",
        "password=",
        "-----BEGIN ",
        "eyJa",
        "PASS=\"",
        "token: ",
        "<password>",
        "--token ",
        "curl -u ",
        "\\\n",
    ] {
        assert!(
            clean(&piece.repeat(5_000)).is_none_or(|(text, _)| text.len() == piece.len() * 5_000),
            "{piece}"
        );
    }
}
