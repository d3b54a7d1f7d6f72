//! Files that a user names.

use std::io::Read as _;
use std::path::Path;

/// Reads the bytes of a regular file, and no more of it than shows that it is larger than `limit`: the path may be a pipe or a
/// device, which never ends.
pub fn read_regular_file(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
