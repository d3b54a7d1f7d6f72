//! Looking, deciding and writing, in such a way that a lost answer doubles nothing.

use crate::ForgeError;
use crate::client::{Forge, MAX_REPEATS, pause_before};

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It was not there, and is now.
    Created {
        /// Its page.
        url: String,
    },
    /// It was there with another text.
    Updated {
        /// Its page.
        url: String,
    },
    /// It was there and said the same: nothing was written.
    Unchanged {
        /// Its page.
        url: String,
    },
    /// It was not there, and is not wanted as long as it is not.
    Skipped,
}

impl Posted {
    /// The page of what was posted, where there is one.
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Created { url } | Self::Updated { url } | Self::Unchanged { url } => Some(url),
            Self::Skipped => None,
        }
    }
}

/// What a look at the forge comes to. `U` says what is to be updated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision<U> {
    Create,
    Update(U),
    Keep { url: String },
    Skip,
}

/// Whether a thing is made or changed.
#[derive(Clone, Copy)]
enum Writing {
    Creating,
    Updating,
}

impl Writing {
    fn done(self, url: String) -> Posted {
        match self {
            Self::Creating => Posted::Created { url },
            Self::Updating => Posted::Updated { url },
        }
    }
}

impl Forge {
    /// Looks and writes once. Where the answer to the writing was lost, nobody knows whether it was done: it is looked at again
    /// before anything is written a second time. Pages are given as they can be shown.
    pub(crate) fn settle<U>(
        &self,
        look: impl Fn() -> Result<Decision<U>, ForgeError>,
        create: impl Fn() -> Result<String, ForgeError>,
        update: impl Fn(&U) -> Result<String, ForgeError>,
    ) -> Result<Posted, ForgeError> {
        let (mut lost, mut repeats) = (None, 0);
        loop {
            let (writing, written) = match (look()?, lost) {
                (Decision::Skip, _) => return Ok(Posted::Skipped),
                (Decision::Keep { url }, None) => return Ok(Posted::Unchanged { url: self.shown(&url) }),
                (Decision::Keep { url }, Some(writing)) => return Ok(Writing::done(writing, self.shown(&url))),
                (Decision::Create, _) => (Writing::Creating, create()),
                (Decision::Update(what), _) => (Writing::Updating, update(&what)),
            };
            match written {
                Ok(url) => return Ok(writing.done(self.shown(&url))),
                Err(error) if error.is_lost() && repeats < MAX_REPEATS => self.pause(pause_before(repeats)),
                Err(error) => return Err(error),
            }
            lost = Some(writing);
            repeats += 1;
        }
    }
}
