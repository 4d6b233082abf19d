//! The operating system's keychain: the Secret Service over D-Bus on Linux, the login keychain on macOS.
//!
//! Every call runs in a thread of its own and is given up after ten seconds, since a bus or a prompt may hang for ever;
//! such a thread is left behind and dies with the process. There is no fallback of any kind.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use keyring_core::api::CredentialStore;
use keyring_core::{Entry, Error};

use super::resolver::DEFAULT_TIMEOUT;
use super::value::SecretValue;
use super::{Reference, SecretError};

/// Reads an entry.
///
/// # Errors
/// See [`SecretError`]: no keychain, locked, no such entry, no text, no answer in time.
pub fn keychain_get(service: &str, account: &str) -> Result<SecretValue, SecretError> {
    let reference = Reference::keychain(service, account)?;
    get(&reference, service, account, DEFAULT_TIMEOUT)
}

/// Writes an entry, replacing what it held.
///
/// # Errors
/// As [`keychain_get`].
pub fn keychain_set(service: &str, account: &str, value: &SecretValue) -> Result<(), SecretError> {
    let reference = Reference::keychain(service, account)?;
    let value = value.clone();
    with_entry(&reference, service, account, DEFAULT_TIMEOUT, move |entry| entry.set_password(value.expose()))
}

/// Removes an entry.
///
/// # Errors
/// As [`keychain_get`]; [`SecretError::NoEntry`] when there is none.
pub fn keychain_delete(service: &str, account: &str) -> Result<(), SecretError> {
    let reference = Reference::keychain(service, account)?;
    with_entry(&reference, service, account, DEFAULT_TIMEOUT, |entry| entry.delete_credential())
}

pub(super) fn get(
    reference: &Reference,
    service: &str,
    account: &str,
    limit: Duration,
) -> Result<SecretValue, SecretError> {
    let bytes = with_entry(reference, service, account, limit, |entry| entry.get_secret())?;
    SecretValue::from_bytes(bytes).map_err(|why| SecretError::not_text(reference, why))
}

/// What came of a call: the store was not there, or it answered.
enum Answer<T> {
    NoStore(String),
    Given(Result<T, Error>),
}

fn with_entry<T: Send + 'static>(
    reference: &Reference,
    service: &str,
    account: &str,
    limit: Duration,
    call: impl FnOnce(&Entry) -> Result<T, Error> + Send + 'static,
) -> Result<T, SecretError> {
    let no_keychain = |cause: String| SecretError::NoKeychain { reference: reference.clone(), cause };
    reachable().map_err(|cause| no_keychain(cause.to_owned()))?;
    let (sender, receiver) = channel();
    let (service, account) = (service.to_owned(), account.to_owned());
    thread::spawn(move || {
        let answer = match store() {
            Err(cause) => Answer::NoStore(cause),
            Ok(store) => Answer::Given(Entry::new_in_store(&store, &service, &account).and_then(|entry| call(&entry))),
        };
        // Nobody listens any more after the limit.
        let _ = sender.send(answer);
    });
    match receiver.recv_timeout(limit) {
        Ok(Answer::Given(result)) => result.map_err(|error| translate(reference, &error)),
        Ok(Answer::NoStore(cause)) => Err(no_keychain(cause)),
        Err(_) => Err(SecretError::TimedOut { reference: reference.clone(), limit }),
    }
}

#[cfg(target_os = "linux")]
fn store() -> Result<Arc<CredentialStore>, String> {
    match zbus_secret_service_keyring_store::Store::new() {
        Ok(store) => Ok(store),
        Err(error) => Err(harmless(&error)),
    }
}

#[cfg(target_os = "macos")]
fn store() -> Result<Arc<CredentialStore>, String> {
    match apple_native_keyring_store::keychain::Store::new() {
        Ok(store) => Ok(store),
        Err(error) => Err(harmless(&error)),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn store() -> Result<Arc<CredentialStore>, String> {
    Err("this system has none that is supported".into())
}

/// Whether there is a session bus at all: said at once and in plain words, where the D-Bus library would speak of a
/// socket that nobody knows.
#[cfg(target_os = "linux")]
fn reachable() -> Result<(), &'static str> {
    use std::path::Path;

    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if set("DBUS_SESSION_BUS_ADDRESS").is_some() {
        return Ok(());
    }
    let folder = match set("XDG_RUNTIME_DIR") {
        Some(folder) => folder.into(),
        None => {
            let uid = crate::files::current_uid().map_err(|_| "the user is not known")?;
            Path::new("/run/user").join(uid.to_string())
        }
    };
    if folder.join("bus").exists() { Ok(()) } else { Err("there is no D-Bus session bus") }
}

#[cfg(not(target_os = "linux"))]
fn reachable() -> Result<(), &'static str> {
    Ok(())
}

/// The library's words for an error, from variants that are certain to hold no value.
fn harmless(error: &Error) -> String {
    match error {
        Error::PlatformFailure(cause) | Error::NoStorageAccess(cause) => cause.to_string(),
        Error::Ambiguous(entries) => format!("{} entries match", entries.len()),
        Error::BadDataFormat(..) | Error::BadEncoding(_) => "the entry is malformed".into(),
        Error::BadStoreFormat(_) => "the keychain is malformed".into(),
        Error::TooLong(what, limit) => format!("the {what} is longer than {limit}"),
        Error::Invalid(what, _) => format!("the {what} is not valid"),
        Error::NotSupportedByStore(_) => "it does not support this".into(),
        Error::NoEntry => "there is no such entry".into(),
        _ => "it failed for an unknown reason".into(),
    }
}

fn translate(reference: &Reference, error: &Error) -> SecretError {
    let (reference, cause) = (reference.clone(), harmless(error));
    match error {
        Error::NoEntry => SecretError::NoEntry { reference, place: "the keychain".into() },
        Error::NoStorageAccess(_) => SecretError::Locked { reference, cause },
        Error::BadEncoding(_) => SecretError::NotUtf8 { reference },
        _ if cause.contains("ServiceUnknown") => SecretError::NoKeychain { reference, cause },
        _ => SecretError::Keychain { reference, cause },
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
