//! Reasons why results of another tool cannot be imported.

/// A reason why results of another tool cannot be imported. No reason quotes a value that may be a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultsError {
    /// No file is of a known format.
    #[error("no file is of a format whose results can be imported")]
    Unknown,
    /// Files of two tools.
    #[error("`{first}` is of {one}, and `{second}` of {other}: import the results of each tool by themselves")]
    Mixed {
        /// A file.
        first: String,
        /// Its tool.
        one: &'static str,
        /// A file of another tool.
        second: String,
        /// That tool.
        other: &'static str,
    },
    /// Files of two versions, or of two tools that write one format.
    #[error("the files state two {what}, `{first}` and `{second}`: import each by itself")]
    Versions {
        /// The kind of what differs, in the plural.
        what: &'static str,
        /// The value of a file.
        first: String,
        /// The value of another file.
        second: String,
    },
    /// A file is cut off or damaged after its beginning.
    #[error("`{file}` is damaged in document {document}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// The number of the document in it, from 1.
        document: u64,
        /// The problem, without any of the file's text.
        what: String,
    },
    /// An object has a key twice, so it is not known which value is meant.
    #[error("`{file}` has the key `{key}` twice in one object of document {document}")]
    DuplicateKey {
        /// The file.
        file: String,
        /// The number of the document in it, from 1.
        document: u64,
        /// The key, as it may be shown.
        key: String,
    },
    /// A number is NaN, infinite, or no number.
    #[error("`{field}` in `{file}` is no finite number")]
    NoNumber {
        /// The file.
        file: String,
        /// The field.
        field: String,
    },
    /// A time, count or size is below zero.
    #[error("`{field}` in `{file}` is below zero")]
    Negative {
        /// The file.
        file: String,
        /// The field.
        field: String,
    },
    /// The unit of a field is none of the known ones, or is absent.
    #[error("the unit of `{field}` in `{file}` is not known")]
    UnknownUnit {
        /// The file.
        file: String,
        /// The field.
        field: String,
    },
    /// Two numbers of the same metric and statistic under the same circumstances.
    #[error("the files state `{metric}` ({statistic}) twice for the same load")]
    Twice {
        /// The metric.
        metric: String,
        /// The statistic.
        statistic: String,
    },
    /// A recognised file has no number that is read.
    #[error("the files of {0} state no number that is read")]
    NoRows(&'static str),
    /// All numbers of the recognised files were left out.
    #[error("the files of {tool} state no number that is read: {why}")]
    OnlyLeftOut {
        /// The tool.
        tool: &'static str,
        /// The reason for which they were left out.
        why: &'static str,
    },
    /// Two lists whose elements belong together are not of one length, or hold no numbers.
    #[error("`{file}` has not one number in `{second}`, of at least 1, for each in `{first}`")]
    Uneven {
        /// The file.
        file: String,
        /// A list.
        first: &'static str,
        /// The list by which it is divided.
        second: &'static str,
    },
    /// A value looks like a credential.
    #[error("`{field}` in `{file}` looks like a credential")]
    Credential {
        /// The file.
        file: String,
        /// The field.
        field: String,
    },
    /// More than a limit allows.
    #[error("more than {0}")]
    TooLarge(String),
}

impl ResultsError {
    /// Returns what to do, if it is something else than to name a file that the tool wrote.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Damaged { .. } => {
                Some("the file is cut off, or was changed by hand: copy it again from where the tool wrote it")
            }
            Self::DuplicateKey { .. } => Some("the tool writes each key once: keep the one that is meant"),
            Self::NoNumber { .. } => Some(
                "it is NaN, infinite, a text, or stated twice, as in two outputs that were put together: give each run a file of its own, or remove the \
                 field",
            ),
            Self::Negative { .. } => {
                Some("a time, count or size cannot be below zero: correct it at its source, or remove the field")
            }
            Self::UnknownUnit { .. } => {
                Some("`docs/reference/foreign.md` has the units of each field: correct it, or remove the field")
            }
            Self::Twice { .. } => Some("remove one of the two, or import the files one by one"),
            Self::Uneven { .. } => {
                Some("both lists have an element for each request: the file was changed after the tool wrote it")
            }
            Self::Mixed { .. } | Self::Versions { .. } | Self::TooLarge(_) => {
                Some("name the files of one run, or a folder of these alone")
            }
            Self::Unknown | Self::NoRows(_) | Self::OnlyLeftOut { .. } | Self::Credential { .. } => None,
        }
    }
}
