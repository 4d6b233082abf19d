//! Which names of variables look like those of secrets.
//!
//! The rule errs on the side of secrecy, but not on names that say they hold something about a secret, such as its file,
//! its lifetime or the place where one gets it: those values stand in ports, paths and numbers, where a reference cannot.

/// Texts that make a name look like a secret's, wherever they stand in it.
const ANYWHERE: [&str; 12] = [
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "TOKEN",
    "API_KEY",
    "APIKEY",
    "PRIVATE_KEY",
    "PRIVATEKEY",
    "CREDENTIAL",
    "ACCESS_KEY",
    "ACCESSKEY",
];

/// Words that do so as the last word of a longer name.
const LAST_WORD: [&str; 4] = ["KEY", "PASS", "PWD", "PW"];

/// Last words that say the value is about a secret, but none.
const ABOUT: [&str; 31] = [
    "FILE",
    "FILES",
    "PATH",
    "DIR",
    "DIRECTORY",
    "URL",
    "URI",
    "ENDPOINT",
    "HOST",
    "PORT",
    "NAME",
    "TTL",
    "EXPIRY",
    "EXPIRES",
    "EXPIRATION",
    "LIFETIME",
    "TIMEOUT",
    "DURATION",
    "MINUTES",
    "SECONDS",
    "HOURS",
    "DAYS",
    "LENGTH",
    "ENABLED",
    "DISABLED",
    "HEADER",
    "ALGORITHM",
    "TYPE",
    "ISSUER",
    "AUDIENCE",
    "ROUNDS",
];

/// Beginnings of a `…_KEY` that is none of a lock.
const OTHER_KEYS: [&str; 10] =
    ["PUBLIC", "PUBLISHABLE", "PRIMARY", "FOREIGN", "SORT", "PARTITION", "CACHE", "SITE", "ROUTING", "SHARD"];

/// Whether a variable's name looks like that of a secret: `DB_PASSWORD`, `stripeApiKey`, `APP_KEY`, but not
/// `POSTGRES_PASSWORD_FILE`, `TOKEN_TTL`, `VAPID_PUBLIC_KEY` or `MAX_TOKENS`.
pub fn looks_secret(name: &str) -> bool {
    let name = snake(name);
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let Some((last, before)) = words.split_last() else {
        return false;
    };
    if ABOUT.contains(last) || name.contains("TOKENIZ") {
        return false;
    }
    // A number of tokens, for a language model.
    if *last == "TOKENS"
        && before.iter().any(|word| ["MAX", "MIN", "NUM", "LIMIT", "COMPLETION", "CONTEXT"].contains(word))
    {
        return false;
    }
    if *last == "KEY" && before.last().is_some_and(|word| OTHER_KEYS.contains(word)) {
        return false;
    }
    ANYWHERE.iter().any(|text| name.contains(text)) || (!before.is_empty() && LAST_WORD.contains(last))
}

/// `stripeApiKey`, `stripe-api-key` and `STRIPE.API_KEY` as `STRIPE_API_KEY`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut lower_before = false;
    for c in name.chars() {
        if c.is_uppercase() && lower_before {
            out.push('_');
        }
        lower_before = c.is_lowercase();
        match c {
            '-' | '.' | '[' | ']' => out.push('_'),
            c => out.extend(c.to_uppercase()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_from_what_is_about_them() {
        for name in [
            "PASSWORD",
            "DB_PASSWORD",
            "POSTGRES_PASSWORD",
            "MYSQL_ROOT_PASSWORD",
            "db_password",
            "JWT_SECRET",
            "SECRET_KEY_BASE",
            "GITHUB_TOKEN",
            "STRIPE_API_KEY",
            "OPENAI_APIKEY",
            "AWS_SECRET_ACCESS_KEY",
            "APP_KEY",
            "DB_PASS",
            "MYSQL_PWD",
            "stripeApiKey",
            "PRIVATE_KEY",
            "GOOGLE_CREDENTIALS",
            "ENCRYPTION_KEY",
            "SMTP_PW",
            "AWS_ACCESS_KEY_ID",
            "VAULT_TOKENS",
        ] {
            assert!(looks_secret(name), "{name}");
        }
        for name in [
            "",
            "PWD",
            "OLDPWD",
            "KEY",
            "PASS",
            "POSTGRES_PASSWORD_FILE",
            "TOKEN_TTL",
            "TOKEN_URL",
            "VAPID_PUBLIC_KEY",
            "MAX_TOKENS",
            "LOG_LEVEL",
            "POSTGRES_USER",
            "KEYCLOAK_HOST",
            "MONKEY",
            "COMPASS",
            "PASSWORD_MIN_LENGTH",
            "TOKENIZERS_PARALLELISM",
            "CACHE_KEY",
            "SSH_KEY_PATH",
            "DATABASE_URL",
        ] {
            assert!(!looks_secret(name), "{name}");
        }
    }
}
