//! Reading, deciding and writing, so that a lost response causes no duplicate.

use crate::ForgeError;
use crate::client::{Forge, MAX_REPEATS, pause_before};

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// It did not exist, and was created.
    Created {
        /// Its page.
        url: String,
    },
    /// It existed with another text, and was updated.
    Updated {
        /// Its page.
        url: String,
    },
    /// It existed with the same text: nothing was written.
    Unchanged {
        /// Its page.
        url: String,
    },
    /// It did not exist, and was not wanted.
    Skipped,
}

impl PostOutcome {
    /// Returns the page of the post, if there is one.
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Created { url } | Self::Updated { url } | Self::Unchanged { url } => Some(url),
            Self::Skipped => None,
        }
    }
}

/// The decision after reading the forge. `U` names the thing to update.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision<U> {
    Create,
    Update(U),
    Keep { url: String },
    Skip,
}

/// The kind of a write.
#[derive(Clone, Copy)]
enum WriteKind {
    Creating,
    Updating,
}

impl WriteKind {
    fn outcome(self, url: String) -> PostOutcome {
        match self {
            Self::Creating => PostOutcome::Created { url },
            Self::Updating => PostOutcome::Updated { url },
        }
    }
}

impl Forge {
    /// Reads and writes once. If the response to the write was lost, it is unknown whether it was executed: the forge is read
    /// again before anything is written a second time. Pages are returned fit to be shown.
    pub(crate) fn write_idempotently<U>(
        &self,
        look: impl Fn() -> Result<Decision<U>, ForgeError>,
        create: impl Fn() -> Result<String, ForgeError>,
        update: impl Fn(&U) -> Result<String, ForgeError>,
    ) -> Result<PostOutcome, ForgeError> {
        let (mut lost, mut repeats) = (None, 0);
        loop {
            let (writing, written) = match (look()?, lost) {
                (Decision::Skip, _) => return Ok(PostOutcome::Skipped),
                (Decision::Keep { url }, None) => return Ok(PostOutcome::Unchanged { url: self.sanitise(&url) }),
                (Decision::Keep { url }, Some(writing)) => return Ok(WriteKind::outcome(writing, self.sanitise(&url))),
                (Decision::Create, _) => (WriteKind::Creating, create()),
                (Decision::Update(what), _) => (WriteKind::Updating, update(&what)),
            };
            match written {
                Ok(url) => return Ok(writing.outcome(self.sanitise(&url))),
                Err(error) if error.is_lost() && repeats < MAX_REPEATS => self.pause(pause_before(repeats)),
                Err(error) => return Err(error),
            }
            lost = Some(writing);
            repeats += 1;
        }
    }
}
