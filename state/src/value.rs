//! How Rust values stand in columns: time, paths, names, random ids.
//!
//! Time is nanoseconds since the epoch in a 64-bit integer (good until 2262),
//! so that nothing is rounded; order comes from the row ids, which only grow. A
//! path is text where it is UTF-8 and the raw bytes where it is not.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Type, ValueRef};
use sha2::{Digest, Sha256};

/// A point in time as a column.
pub(crate) struct Time(pub(crate) Timestamp);

impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let nanoseconds = self.0.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into());
        Ok(ToSqlOutput::from(i64::try_from(nanoseconds).unwrap_or(i64::MAX)))
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let nanoseconds = value.as_i64()?;
        Timestamp::from_nanosecond(nanoseconds.into()).map(Self).map_err(|_| FromSqlError::OutOfRange(nanoseconds))
    }
}

pub(crate) fn now() -> Time {
    Time(Timestamp::now())
}

/// A path as a column.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn of(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

impl ToSql for Folder {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0.to_str() {
            Some(text) => ToSqlOutput::from(text),
            None => ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_os_str().as_encoded_bytes())),
        })
    }
}

impl FromSql for Folder {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Text(_) => value.as_str().map(|text| Self(text.into())),
            ValueRef::Blob(bytes) => Ok(Self(from_bytes(bytes))),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

#[cfg(unix)]
fn from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
fn from_bytes(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// A column whose text parses into `T`.
pub(crate) fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text: String = row.get(column)?;
    text.parse().map_err(|error: T::Err| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Random bytes of the operating system's.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}
