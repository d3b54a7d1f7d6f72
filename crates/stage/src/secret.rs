//! Secrets that a definition names and never holds.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;

use assay_manifest::EnvVar;

/// The largest secret that is read from a file, as large as one environment variable may be on Linux.
const MAX_SECRET_BYTES: u64 = 128 << 10;

/// The text of a file without the line end that editors add.
pub fn read_secret(path: &str) -> std::io::Result<OsString> {
    let mut text = String::new();
    let read = File::open(path)?.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_SECRET_BYTES {
        return Err(std::io::Error::other(format!("it is larger than the limit of {MAX_SECRET_BYTES} bytes")));
    }
    Ok(text.trim_end_matches('\n').into())
}

/// Why a variable or header has no value.
#[derive(Debug)]
pub enum Absent {
    /// This variable of the environment is not set.
    Env(String),
    /// This file cannot be read.
    File(String, std::io::Error),
    /// Its definition names neither a value nor a place for one.
    Undefined,
}

/// The value of a variable or header: what stands in its definition, or what is found where the definition says.
pub fn value_of(variable: &EnvVar) -> Result<OsString, Absent> {
    match (&variable.value, &variable.from_env, &variable.from_file) {
        (Some(value), _, _) => Ok(value.into()),
        (None, Some(name), _) => std::env::var_os(name).ok_or_else(|| Absent::Env(name.clone())),
        (None, None, Some(path)) => read_secret(path).map_err(|error| Absent::File(path.clone(), error)),
        (None, None, None) => Err(Absent::Undefined),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> std::io::Result<OsString> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        read_secret(file.path().to_str().expect("UTF-8"))
    }

    #[test]
    fn a_secret_is_what_stands_in_the_file_without_the_line_end() {
        assert_eq!(read(b"token").expect("read"), "token");
        assert_eq!(read(b" to ken \n\n").expect("read"), " to ken ");
        assert_eq!(read(b"").expect("read"), "");
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        assert!(read(b"\xff").is_err(), "no text");
        let limit = usize::try_from(MAX_SECRET_BYTES).expect("it fits");
        assert!(read(&vec![b'x'; limit]).is_ok());
        assert!(read(&vec![b'x'; limit + 1]).is_err());
        assert!(read_secret("/nonexistent/token").is_err());
    }
}
