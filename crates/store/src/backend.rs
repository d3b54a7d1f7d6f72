//! The client of a storage backend: the runtime that executes the requests, and objects that get their names only when they are
//! complete.

use std::fs::File;
use std::future::Future;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path as FilePath;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::{Duration, Instant, UNIX_EPOCH};

use assay_manifest::{Digest, Hasher};
use futures::StreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Error as ObjectError, GetOptions, GetRange, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode,
    PutOptions, PutPayload,
};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::bucket::{self, RetryPolicy};
use crate::error::Cause;
use crate::folder::{self, Folder};
use crate::objects::Object;
use crate::scratch::{Scratch, ScratchFile, read_chunks};
use crate::uri::{self, Bucket, Location};
use crate::{Error, Result, layout};

/// The number of threads that may wait for local disks at once; more would only queue in the kernel.
const MAX_BLOCKING_THREADS: usize = 8;
/// The size of one part of a large upload. Object stores want at least 5 MiB and at most 10,000 parts: 78 GiB in all.
const PART_BYTES: usize = 8 * 1024 * 1024;

/// The time that a service may send nothing in the middle of an object, or list nothing after its retries.
const STALL_TIME: Duration = Duration::from_mins(1);

/// The time for which the very first request is sent again if its response is cut.
const FIRST_RETRY_TIME: Duration = Duration::from_secs(3);

/// The first and the longest pause before a request is sent again.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// The expected state of a store before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// The store may not exist yet.
    Create,
    /// The store must exist.
    Existing,
    /// The store existed a moment ago: the parent process has used it.
    Reopen,
}

/// The effect of a write on an existing object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// Creates the object; fails if it exists.
    Create,
    /// Replaces any existing object.
    Overwrite,
}

/// The durability of a write when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The bytes are on disk; the name may follow later.
    Bytes,
    /// The bytes and the name are on disk.
    BytesAndName,
}

/// One store, as its backend sees it.
#[derive(Debug)]
pub(crate) struct Backend {
    objects: Arc<dyn ObjectStore>,
    /// The same objects for creating, which must not be sent twice unnoticed: the client of a remote store makes no retries of
    /// its own.
    without_retries: Arc<dyn ObjectStore>,
    folder: Option<Folder>,
    /// The time for which requests are sent again whose responses are cut.
    retry_time: Duration,
    /// True for a service outside this machine, whose guarantees have to be tested.
    remote: bool,
    uri: String,
}

impl Backend {
    pub(crate) fn open(uri: &str, opening: OpenMode) -> Result<Self> {
        match uri::parse(uri)? {
            Location::Memory => Ok(Self::local(Arc::new(InMemory::new()), None, "memory:".to_owned())),
            Location::Folder(folder) => Self::open_folder(&folder, opening),
            Location::Bucket(bucket) => Self::open_bucket(&bucket, opening),
        }
    }

    /// Returns a backend on this machine.
    fn local(objects: Arc<dyn ObjectStore>, folder: Option<Folder>, uri: String) -> Self {
        Self { without_retries: Arc::clone(&objects), objects, folder, retry_time: Duration::ZERO, remote: false, uri }
    }

    fn open_bucket(bucket: &Bucket, opening: OpenMode) -> Result<Self> {
        let uri = bucket.to_string();
        let open = |retries| bucket::objects(bucket, retries);
        let first = if opening == OpenMode::Reopen { RetryPolicy::Persistent } else { RetryPolicy::Brief };
        let opened = Self {
            objects: open(first)?,
            without_retries: open(RetryPolicy::Disabled)?,
            folder: None,
            retry_time: if first == RetryPolicy::Persistent { bucket::RETRY_TIME } else { FIRST_RETRY_TIME },
            remote: true,
            uri: uri.clone(),
        };
        match opened.list(&layout::BLOBS.into(), 0) {
            Ok(found) if found.is_empty() && opening == OpenMode::Reopen => Err(Error::Vanished { uri }),
            Ok(found) if found.is_empty() && opening == OpenMode::Existing => Err(Error::NoStore { uri }),
            Ok(_) if first == RetryPolicy::Persistent => Ok(opened),
            Ok(_) => Ok(Self { objects: open(RetryPolicy::Persistent)?, retry_time: bucket::RETRY_TIME, ..opened }),
            Err(Error::Backend { source, .. }) => Err(Error::Bucket { uri, source }),
            Err(error) => Err(error),
        }
    }

    fn open_folder(folder: &FilePath, opening: OpenMode) -> Result<Self> {
        let failed = |source: std::io::Error| match source.kind() {
            ErrorKind::PermissionDenied => folder::denied_error(folder, folder),
            _ => Error::Folder { path: folder.to_owned(), source },
        };
        if let Some(file) = file_on_path(folder).filter(|_| opening != OpenMode::Reopen) {
            return Err(Error::NotFolder { path: file.to_owned(), uri: folder.display().to_string() });
        }
        if opening == OpenMode::Create {
            std::fs::create_dir_all(folder).map_err(failed)?;
        } else if !folder.join(layout::BLOBS).is_dir() {
            let uri = folder.display().to_string();
            // A store that was there has left the folder around it.
            let was_there = opening == OpenMode::Reopen && folder.parent().is_some_and(FilePath::is_dir);
            return Err(if was_there { Error::Vanished { uri } } else { Error::NoStore { uri } });
        }
        let root = folder.canonicalize().map_err(failed)?;
        if !root.is_dir() {
            return Err(failed(std::io::ErrorKind::NotADirectory.into()));
        }
        // The local backend panics on a race under a root that is not UTF-8.
        if root.to_str().is_none() {
            return Err(Error::BadUri { uri: root.display().to_string(), problem: "the folder's real path is not UTF-8" });
        }
        folder::check_links(&root)?;
        let uri = uri::folder_uri(&root);
        let objects = LocalFileSystem::new_with_prefix(&root).map_err(|source| failed(std::io::Error::other(source)))?;
        let folder = Folder::open(root).map_err(failed)?;
        if opening == OpenMode::Create {
            folder.check_writable()?;
        }
        Ok(Self::local(Arc::new(objects), Some(folder), uri))
    }

    /// Returns true if this store's guarantees have not been tested yet: a service is tested each time, because it may have been
    /// replaced; a folder only when it is new.
    pub(crate) fn is_untested(&self) -> bool {
        self.remote || self.folder.as_ref().is_some_and(|folder| !folder.root().join(layout::BLOBS).exists())
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    pub(crate) fn folder(&self) -> Option<&FilePath> {
        self.folder.as_ref().map(Folder::root)
    }

    /// Returns the error of a failed action on an object. In a folder, a right that is missing names the owner.
    fn backend_error(&self, action: &'static str, path: &Path) -> impl Fn(Cause) -> Error {
        let (path, uri, root) = (path.to_string(), self.uri.clone(), self.folder().map(FilePath::to_owned));
        move |source| match &root {
            Some(root) if folder::is_denied(&*source) => folder::denied_error(&root.join(&path), root),
            _ => Error::Backend { action, path: path.clone(), uri: uri.clone(), source },
        }
    }

    /// Fails if the folder of the store is not the one that was opened: nothing may be created in its place, and an object that
    /// is missing in it is no missing object of the store.
    pub(crate) fn check_folder(&self) -> Result<()> {
        match &self.folder {
            Some(folder) if !folder.is_there() => Err(Error::Vanished { uri: folder.root().display().to_string() }),
            _ => Ok(()),
        }
    }

    /// Fails if the folder of the store is not the one that was opened, or if an object would be written through a link in it.
    fn check_place(&self, path: &Path) -> Result<()> {
        self.check_folder()?;
        let Some(folder) = &self.folder else { return Ok(()) };
        folder.check_parents(layout::staging_path(0).as_ref())?;
        folder.check_parents(path.as_ref())
    }

    /// Returns true if a request has to be sent again: its response was cut, or never came. The client library retries only what
    /// fails before a response begins; what it has retried for long enough is not waited for again.
    fn is_cut(&self, error: &ObjectError) -> bool {
        let is_retried = |error: &ObjectError| error.to_string().contains("Error performing");
        self.remote && is_transient(error) && (self.retry_time == bucket::RETRY_TIME || !is_retried(error))
    }

    /// Sends a request, again if its response is cut: the client library retries only what fails before a response.
    fn send<T: Send, F: Future<Output = object_store::Result<T>> + Send>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<object_store::Result<T>> {
        let mut retries = Retries::new(self.retry_time);
        loop {
            match Self::wait(request())? {
                Err(error) if self.is_cut(&error) && retries.pause() => {}
                done => return Ok(done),
            }
        }
    }

    /// Writes a whole object. Returns false if it should be created and already exists.
    pub(crate) fn put(&self, path: &Path, bytes: &[u8], mode: WriteMode, sync: Durability) -> Result<bool> {
        match &self.folder {
            None => self.put_object(path, bytes, mode),
            Some(folder) => {
                self.check_place(path)?;
                self.put_in_folder(folder, path, bytes, mode, sync)
            }
        }
    }

    /// Writes an object to a folder that was checked before.
    fn put_in_folder(&self, folder: &Folder, path: &Path, bytes: &[u8], mode: WriteMode, sync: Durability) -> Result<bool> {
        let staged = self.staging()?;
        let named = self.put_object(&staged, bytes, WriteMode::Create);
        let named = named.and_then(|_| self.name_staged(folder, &staged, path, mode, sync));
        self.check_stayed(folder, &staged, path, mode, named)
    }

    /// Creates an object of a folder without the check before it, as if the folder was moved right after that.
    #[cfg(test)]
    pub(crate) fn write_unchecked(&self, path: &Path, bytes: &[u8]) -> Result<bool> {
        let folder = self.folder.as_ref().expect("a folder");
        self.put_in_folder(folder, path, bytes, WriteMode::Create, Durability::BytesAndName)
    }

    /// Uploads a scratch file under `path`, a part at a time, replacing any existing object.
    pub(crate) fn put_scratch(&self, path: &Path, file: &ScratchFile) -> Result<()> {
        match &self.folder {
            None if file.size() <= PART_BYTES as u64 => {
                self.put_object(path, &read_whole(file)?, WriteMode::Overwrite).map(|_| ())
            }
            None => self.upload(path, file),
            Some(folder) => {
                self.check_place(path)?;
                let staged = self.staging()?;
                let (mode, sync) = (WriteMode::Overwrite, Durability::Bytes);
                let named = self.upload(&staged, file).and_then(|()| self.name_staged(folder, &staged, path, mode, sync));
                self.check_stayed(folder, &staged, path, mode, named).map(|_| ())
            }
        }
    }

    /// Uploads a scratch file under `path`, a part at a time. Returns false if an object already exists there, which then stays.
    pub(crate) fn create_scratch(&self, path: &Path, file: &ScratchFile) -> Result<bool> {
        if self.folder.is_none() && file.size() <= PART_BYTES as u64 {
            return self.put_object(path, &read_whole(file)?, WriteMode::Create);
        }
        self.check_place(path)?;
        let staged = self.staging()?;
        let uploaded = self.upload(&staged, file);
        if let Some(folder) = &self.folder {
            let (mode, sync) = (WriteMode::Create, Durability::BytesAndName);
            let named = uploaded.and_then(|()| self.name_staged(folder, &staged, path, mode, sync));
            return self.check_stayed(folder, &staged, path, mode, named);
        }
        uploaded?;
        // Backends without folders complete an upload under the name it began with, so the final name is given afterwards here
        // too.
        let named =
            self.create_settled(path, || file.digest(), || Self::wait(self.without_retries.copy_if_not_exists(&staged, path)));
        let _ = self.send(|| self.objects.delete(&staged));
        named
    }

    /// Returns what became of a write, if the folder of the store is still there. Else the write may have made folders where the store was: what
    /// it made is removed, and the folder that was opened lacks the object.
    fn check_stayed(&self, folder: &Folder, staged: &Path, path: &Path, mode: WriteMode, named: Result<bool>) -> Result<bool> {
        let vanished = match self.check_folder() {
            Ok(()) => return named,
            Err(vanished) => vanished,
        };
        folder.remove_litter(staged.as_ref());
        if mode == WriteMode::Create && matches!(named, Ok(true)) {
            folder.remove_litter(path.as_ref());
        }
        Err(vanished)
    }

    /// Returns a new path for an object of the store's own.
    pub(crate) fn staging(&self) -> Result<Path> {
        let random =
            getrandom::u64().map_err(|source| self.backend_error("name", &layout::staging_path(0))(source.to_string().into()))?;
        Ok(layout::staging_path(random))
    }

    /// Gives a staged object its final name once its bytes are on disk. `object_store` itself never asks for that.
    fn name_staged(&self, folder: &Folder, staged: &Path, path: &Path, mode: WriteMode, sync: Durability) -> Result<bool> {
        let io_failed = |source: std::io::Error| self.backend_error("write", path)(Box::new(source));
        let named = File::open(folder.root().join(staged.as_ref()))
            .and_then(|file| folder.share_file(&file).and_then(|()| file.sync_data()))
            .and_then(|()| folder.create_parent(path.as_ref()))
            .map_err(io_failed)
            .and_then(|()| self.give_name(staged, path, mode));
        if !matches!(named, Ok(true)) || mode == WriteMode::Create {
            // After a hard link or a lost race, the staged name is only litter.
            let _ = Self::wait(self.objects.delete(staged));
        }
        if matches!(named, Ok(true)) && sync == Durability::BytesAndName {
            folder.sync_name(path.as_ref()).map_err(io_failed)?;
        }
        named
    }

    fn give_name(&self, staged: &Path, path: &Path, mode: WriteMode) -> Result<bool> {
        let named = match mode {
            WriteMode::Create => Self::wait(self.objects.copy_if_not_exists(staged, path))?,
            WriteMode::Overwrite => Self::wait(self.objects.rename(staged, path))?,
        };
        self.was_created(named, path)
    }

    /// Creates an object. Reports that it already exists only if it can be read and has other bytes.
    ///
    /// A request may arrive although its response is lost. So if a create is sent again and an object exists, its bytes are
    /// compared with those that were sent. And while another client's write is under way, which cannot be read yet and may still
    /// fail, a service refuses the create: S3 responds with 409 and expects a retry.
    fn create_settled(
        &self,
        path: &Path,
        own: impl Fn() -> Result<Digest>,
        create: impl Fn() -> Result<object_store::Result<()>>,
    ) -> Result<bool> {
        let (mut retries, mut is_unsure) = (Retries::new(bucket::RETRY_TIME), false);
        loop {
            let refused = match create()? {
                Ok(()) => return Ok(true),
                Err(refused) => refused,
            };
            match &refused {
                ObjectError::AlreadyExists { .. } if !self.remote => return Ok(false),
                ObjectError::AlreadyExists { .. } => {
                    if let Some((there, _)) = self.digest(path)? {
                        return Ok(is_unsure && there == own()?);
                    }
                }
                error if self.remote && is_transient(error) => is_unsure |= !precedes_creation(error),
                _ => return Err(self.backend_error("write", path)(Box::new(refused))),
            }
            if !retries.pause() {
                return Err(self.backend_error("write", path)(Box::new(refused)));
            }
        }
    }

    /// Returns the digest and size in bytes of an object, hashed in place; `None` if there is no such object.
    pub(crate) fn digest(&self, path: &Path) -> Result<Option<(Digest, u64)>> {
        let (mut hasher, mut size) = (Hasher::new(), 0);
        let there = self.read(path, |chunk| {
            hasher.update(chunk);
            size += chunk.len() as u64;
            Ok(())
        })?;
        Ok(there.then(|| (hasher.finish(), size)))
    }

    /// Copies an object into a private scratch file while hashing it; `None` if there is no such object.
    pub(crate) fn materialise(&self, path: &Path, scratch: &Scratch) -> Result<Option<(Digest, ScratchFile)>> {
        let mut writer = scratch.writer()?;
        let there = self.read(path, |chunk| writer.append(chunk))?;
        Ok(there.then(|| writer.finish()))
    }

    fn was_created<T>(&self, result: object_store::Result<T>, path: &Path) -> Result<bool> {
        match result {
            Ok(_) => Ok(true),
            Err(ObjectError::AlreadyExists { .. }) => Ok(false),
            Err(source) => Err(self.backend_error("write", path)(Box::new(source))),
        }
    }

    fn put_object(&self, path: &Path, bytes: &[u8], mode: WriteMode) -> Result<bool> {
        let payload = PutPayload::from(bytes.to_vec());
        let put = |objects: &Arc<dyn ObjectStore>, mode: PutMode| {
            let options = PutOptions { mode, ..PutOptions::default() };
            Ok(Self::wait(objects.put_opts(path, payload.clone(), options))?.map(|_| ()))
        };
        match mode {
            WriteMode::Create => {
                self.create_settled(path, || Ok(Digest::compute(bytes)), || put(&self.without_retries, PutMode::Create))
            }
            WriteMode::Overwrite => self.was_created(put(&self.objects, PutMode::Overwrite)?, path),
        }
    }

    fn upload(&self, path: &Path, file: &ScratchFile) -> Result<()> {
        let mut retries = Retries::new(self.retry_time);
        loop {
            match self.upload_once(path, file)? {
                Ok(()) => return Ok(()),
                // The completion may have arrived although its response was cut. An upload is completed once, so another one is
                // needed if it has not.
                Err(cut) if self.is_cut(&cut) => {
                    if self.digest(path)?.is_some_and(|(there, _)| file.digest().is_ok_and(|own| own == there)) {
                        return Ok(());
                    }
                    if !retries.pause() {
                        return Err(self.backend_error("write", path)(Box::new(cut)));
                    }
                }
                Err(source) => return Err(self.backend_error("write", path)(Box::new(source))),
            }
        }
    }

    /// Uploads a file. The inner error is that of its completion.
    fn upload_once(&self, path: &Path, file: &ScratchFile) -> Result<object_store::Result<()>> {
        let failed = self.backend_error("write", path);
        let mut upload = self.send(|| self.objects.put_multipart(path))?.map_err(|source| failed(Box::new(source)))?;
        let sent = self.send_parts(&mut *upload, path, file);
        let done = sent.and_then(|()| match Self::wait(upload.complete())? {
            Ok(_) => Ok(Ok(())),
            // If the response to a completion was lost, the retry finds no such upload any more.
            Err(ObjectError::NotFound { .. }) if self.info(path)?.is_some_and(|there| there.size == file.size()) => Ok(Ok(())),
            Err(source) => Ok(Err(source)),
        });
        if !matches!(done, Ok(Ok(()))) {
            // The first failure is the one to report; parts that cannot be removed are left for the backend to expire.
            let _ = Self::wait(upload.abort());
        }
        done
    }

    fn send_parts(&self, upload: &mut dyn MultipartUpload, path: &Path, file: &ScratchFile) -> Result<()> {
        let failed = self.backend_error("write", path);
        let mut source = file.open()?;
        loop {
            let mut part = Vec::new();
            let unreadable = |source| Error::Scratch { path: file.path().to_owned(), source };
            source.by_ref().take(PART_BYTES as u64).read_to_end(&mut part).map_err(unreadable)?;
            if part.is_empty() {
                return Ok(());
            }
            Self::wait(upload.put_part(part.into()))?.map_err(|source| failed(Box::new(source)))?;
        }
    }

    /// Feeds an object's bytes to `sink`, a chunk at a time. Returns false if there is no such object.
    pub(crate) fn read(&self, path: &Path, sink: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        self.read_range(path, None, sink)
    }

    /// Feeds a range of an object's bytes, or all of them, to `sink`. Returns false if there is no such object.
    pub(crate) fn read_range(
        &self,
        path: &Path,
        range: Option<Range<u64>>,
        sink: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let failed = self.backend_error("read", path);
        if let Some(folder) = &self.folder {
            // The backend would hand each read to another thread, and its stream never ends on a file that was cut short.
            let Some((mut file, size)) = self.open_plain(folder.root(), path)? else {
                return self.check_folder().map(|()| false);
            };
            if let Some(range) = range.as_ref().filter(|range| range.start >= size) {
                return Err(failed(format!("there is no byte {}: it has {size} bytes", range.start).into()));
            }
            let Range { start, end } = range.unwrap_or(0..size);
            file.seek(SeekFrom::Start(start)).map_err(|source| failed(Box::new(source)))?;
            let length = end.min(size).saturating_sub(start);
            read_chunks(&mut file.take(length), length, sink, |source| failed(Box::new(source)))?;
            return Ok(true);
        }
        self.read_remote(path, range, sink)
    }

    /// Reads an object of a service. If a response is cut, the rest is requested: of the same object, by its entity tag. A service
    /// that sends some bytes is there, so the time for retries begins anew with each of them.
    fn read_remote(&self, path: &Path, range: Option<Range<u64>>, mut sink: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let failed = self.backend_error("read", path);
        let mut retries = Retries::new(self.retry_time);
        let (mut next, mut end) = range.map_or((0, None), |range| (range.start, Some(range.end)));
        let (mut is_begun, mut e_tag) = (false, None);
        loop {
            let range = end.map(|end| GetRange::Bounded(next..end));
            let options = GetOptions { range, if_match: e_tag.clone(), ..GetOptions::default() };
            let cut: Cause = match Self::wait(self.objects.get_opts(path, options))? {
                Ok(found) => {
                    (is_begun, e_tag, end) = (true, found.meta.e_tag.clone(), Some(found.range.end));
                    let mut chunks = found.into_stream();
                    loop {
                        match Self::wait(async { tokio::time::timeout(STALL_TIME, chunks.next()).await })? {
                            Ok(Some(Ok(chunk))) => {
                                next += chunk.len() as u64;
                                sink(&chunk)?;
                                retries = Retries::new(self.retry_time);
                            }
                            Ok(None) => return Ok(true),
                            Ok(Some(Err(error))) if self.is_cut(&error) => break Box::new(error),
                            Ok(Some(Err(error))) => return Err(failed(Box::new(error))),
                            Err(_) => break format!("no byte came for {} seconds", STALL_TIME.as_secs()).into(),
                        }
                    }
                }
                Err(ref error) if !is_begun && is_absent(error) => return Ok(false),
                Err(error) if self.is_cut(&error) => Box::new(error),
                Err(error) => return Err(failed(Box::new(error))),
            };
            if is_begun && Some(next) == end {
                return Ok(true);
            }
            if !retries.pause() {
                return Err(failed(cut));
            }
        }
    }

    /// Opens an object in a folder, with its size in bytes; `None` if there is none. It must be a plain file: a pipe would never
    /// end, and a link leads out of the store.
    fn open_plain(&self, folder: &FilePath, path: &Path) -> Result<Option<(File, u64)>> {
        let file = folder.join(path.as_ref());
        let failed = |source| self.backend_error("read", path)(Box::new(source));
        match std::fs::symlink_metadata(&file) {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(Error::NotPlain { path: path.to_string(), uri: self.uri.clone() }),
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        match File::open(&file).and_then(|file| file.metadata().map(|found| (file, found.len()))) {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns an object's size and time; `None` if there is no such object.
    pub(crate) fn info(&self, path: &Path) -> Result<Option<Object>> {
        if let Some(folder) = &self.folder {
            return match std::fs::metadata(folder.root().join(path.as_ref())) {
                Ok(found) if found.is_file() => Ok(Some(object_from_file(path.as_ref(), &found))),
                Ok(_) => Ok(None),
                Err(error) if error.kind() == ErrorKind::NotFound => self.check_folder().map(|()| None),
                Err(source) => Err(self.backend_error("look for", path)(Box::new(source))),
            };
        }
        match self.send(|| self.objects.head(path))? {
            Ok(found) => Ok(Some(object_from_meta(found))),
            Err(ObjectError::NotFound { .. }) => Ok(None),
            Err(source) => Err(self.backend_error("look for", path)(Box::new(source))),
        }
    }

    /// Returns the paths under `prefix`, unordered, at most one more than `limit`.
    pub(crate) fn list(&self, prefix: &Path, limit: usize) -> Result<Vec<String>> {
        if let Some(folder) = &self.folder {
            let mut paths = Vec::new();
            let failed = |source| self.backend_error("list", prefix)(Box::new(source));
            let mut add = |path: String, _: &std::fs::DirEntry| {
                paths.push(path);
                paths.len() <= limit
            };
            walk(folder.root(), prefix.as_ref(), None, Links::Followed, 0, &mut add).map_err(failed)?;
            if paths.is_empty() {
                self.check_folder()?;
            }
            return Ok(paths);
        }
        let listed = self.list_after(prefix, None, limit)?;
        Ok(listed.into_iter().map(|object| object.path).collect())
    }

    /// Returns the objects under `prefix` whose paths sort after `after`, unordered, at most one more than `limit`.
    pub(crate) fn list_after(&self, prefix: &Path, after: Option<&Path>, limit: usize) -> Result<Vec<Object>> {
        if let Some(folder) = &self.folder {
            let mut objects = Vec::new();
            let failed = |source| self.backend_error("list", prefix)(Box::new(source));
            let mut add = |path: String, entry: &std::fs::DirEntry| {
                // A file that has gone meanwhile is not there.
                if let Ok(found) = std::fs::metadata(entry.path()) {
                    objects.push(object_from_file(&path, &found));
                }
                objects.len() <= limit
            };
            walk(folder.root(), prefix.as_ref(), after.map(AsRef::as_ref), Links::Followed, 0, &mut add).map_err(failed)?;
            if objects.is_empty() {
                self.check_folder()?;
            }
            return Ok(objects);
        }
        let most = limit.saturating_add(1);
        let mut retries = Retries::new(self.retry_time);
        let mut objects: Vec<Object> = Vec::new();
        loop {
            // A listing that was cut goes on behind its last object: services list in the order of paths.
            let last = objects.last().map(|object| Path::from(object.path.as_str()));
            let listing = match last.as_ref().or(after) {
                None => self.objects.list(Some(prefix)),
                Some(after) => self.objects.list_with_offset(Some(prefix), after),
            };
            let mut found = listing.take(most - objects.len());
            let cut = loop {
                // Pages may be empty without end, and each may take all of its retries.
                let time = self.retry_time + STALL_TIME;
                match Self::wait(async { tokio::time::timeout(time, found.next()).await })? {
                    Ok(Some(Ok(object))) => {
                        objects.push(object_from_meta(object));
                        retries = Retries::new(self.retry_time);
                    }
                    Ok(Some(Err(error))) => break Some(error),
                    Ok(None) => break None,
                    Err(_) => {
                        let why = format!("nothing was listed for {} seconds, and the listing goes on", time.as_secs());
                        return Err(self.backend_error("list", prefix)(why.into()));
                    }
                }
            };
            match cut {
                Some(error) if self.is_cut(&error) && retries.pause() => {}
                Some(error) => return Err(self.backend_error("list", prefix)(Box::new(error))),
                None if objects.is_empty() => return self.check_folder().map(|()| objects),
                None => return Ok(objects),
            }
        }
    }

    /// Returns the names of the folders directly under `prefix`, unordered. In a folder, an empty one is listed too, and so is a link,
    /// whatever it leads to: what should be there is not to be overlooked.
    pub(crate) fn list_folders(&self, prefix: &Path) -> Result<Vec<String>> {
        let failed = self.backend_error("list", prefix);
        if let Some(folder) = &self.folder {
            let entries = match std::fs::read_dir(folder.root().join(prefix.as_ref())) {
                Ok(entries) => entries,
                Err(error) if is_gone(&error) => return self.check_folder().map(|()| Vec::new()),
                Err(error) => return Err(failed(Box::new(error))),
            };
            let is_listed = |entry: &std::fs::DirEntry| entry.file_type().map(|kind| kind.is_dir() || kind.is_symlink());
            let mut names = Vec::new();
            for entry in entries {
                let entry = entry.map_err(|error| failed(Box::new(error)))?;
                if is_listed(&entry).map_err(|error| failed(Box::new(error)))? {
                    names.extend(entry.file_name().into_string().ok());
                }
            }
            return Ok(names);
        }
        let listed = Self::wait(self.objects.list_with_delimiter(Some(prefix)))?.map_err(|source| failed(Box::new(source)))?;
        Ok(listed.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect())
    }

    /// Feeds every object under `prefix` to `sink`, unordered. In a folder, links are left out, because callers remove objects that are
    /// listed here.
    pub(crate) fn for_each(&self, prefix: Option<&Path>, mut sink: impl FnMut(Object)) -> Result<()> {
        if let Some(folder) = &self.folder {
            let mut add = |path: String, entry: &std::fs::DirEntry| {
                if let Ok(found) = std::fs::metadata(entry.path()) {
                    sink(object_from_file(&path, &found));
                }
                true
            };
            let root = Path::default();
            let failed = |source| self.backend_error("list", &root)(Box::new(source));
            return walk(folder.root(), prefix.map_or("", AsRef::as_ref), None, Links::LeftOut, 0, &mut add)
                .map_err(failed)
                .map(drop);
        }
        let mut found = self.objects.list(prefix);
        while let Some(object) = Self::wait(found.next())? {
            let at = prefix.cloned().unwrap_or_default();
            sink(object_from_meta(object.map_err(|source| self.backend_error("list", &at)(Box::new(source)))?));
        }
        Ok(())
    }

    /// Sets the time of an object to now, so that a removal of long unused objects leaves it. Returns false if that is
    /// not possible: then the object has to be written again. Nothing is removed from stores outside this machine, so their
    /// objects need no new time.
    pub(crate) fn renew(&self, path: &Path) -> bool {
        let Some(folder) = &self.folder else { return true };
        File::open(folder.root().join(path.as_ref())).and_then(|file| file.set_modified(std::time::SystemTime::now())).is_ok()
    }

    /// Removes an object of the store's own. In a folder, it may be gone already, and no link is followed.
    pub(crate) fn remove(&self, path: &Path) -> Result<()> {
        if let Some(folder) = &self.folder {
            folder.check_parents(path.as_ref())?;
            return folder.remove(path.as_ref()).map_err(|source| self.backend_error("remove", path)(Box::new(source)));
        }
        self.send(|| self.objects.delete(path))?.map_err(|source| self.backend_error("remove", path)(Box::new(source)))
    }

    /// Waits for the backend. Inside another runtime, which must not be blocked, a separate thread waits.
    fn wait<F: Future<Output: Send> + Send>(future: F) -> Result<F::Output> {
        let runtime = runtime()?;
        if Handle::try_current().is_err() {
            return Ok(runtime.block_on(future));
        }
        let waited = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, || runtime.block_on(future));
            thread.map(std::thread::ScopedJoinHandle::join)
        });
        Ok(waited.map_err(Error::Runtime)?.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

fn object_from_meta(found: ObjectMeta) -> Object {
    Object { path: found.location.to_string(), size: found.size, modified_unix_ms: found.last_modified.timestamp_millis() }
}

fn object_from_file(path: &str, found: &std::fs::Metadata) -> Object {
    let since_epoch = found.modified().ok().and_then(|modified| modified.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let modified_unix_ms = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    Object { path: path.to_owned(), size: found.len(), modified_unix_ms }
}

/// The deepest folder of a store that is listed: a link to a folder above itself would never end.
const MAX_DEPTH: usize = 64;

/// The treatment of symbolic links in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    /// The target of a link is listed as if it were in the folder.
    Followed,
    /// Links are left out.
    LeftOut,
}

/// The mark in the names of files that the local backend has not completed.
const UNFINISHED: char = '#';

/// Feeds the files under a folder of the store whose paths sort after `after` to `sink`, with their paths in the store, unordered.
/// Ends early, with false, if `sink` returns false. The names alone are read: the local backend would ask for the size and time of
/// every file, also of those that are left out.
fn walk(
    root: &FilePath,
    folder: &str,
    after: Option<&str>,
    links: Links,
    depth: usize,
    sink: &mut dyn FnMut(String, &std::fs::DirEntry) -> bool,
) -> std::io::Result<bool> {
    let entries = match std::fs::read_dir(root.join(folder)) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(true),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_symlink() && links == Links::LeftOut => continue,
            Ok(kind) => kind,
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        // A link that leads nowhere is listed as a file, and fails when it is read.
        if kind.is_dir() || kind.is_symlink() && entry.path().is_dir() {
            // Every path below sorts before `path0`, because `0` is the character after `/`.
            let is_later = after.is_none_or(|after| format!("{path}0").as_str() > after);
            if is_later && depth < MAX_DEPTH && !walk(root, &path, after, links, depth + 1, sink)? {
                return Ok(false);
            }
        } else if after.is_none_or(|after| path.as_str() > after) && !path.contains(UNFINISHED) && !sink(path, &entry) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if a folder does not exist, or no longer.
fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The pauses between the attempts at one request, each twice as long as the one before.
struct Retries {
    began: Instant,
    limit: Duration,
    next: Duration,
}

impl Retries {
    fn new(limit: Duration) -> Self {
        Self { began: Instant::now(), limit, next: FIRST_PAUSE }
    }

    /// Sleeps until the next attempt. Returns false at once if the time for attempts is over.
    fn pause(&mut self) -> bool {
        if self.began.elapsed() > self.limit {
            return false;
        }
        std::thread::sleep(self.next);
        self.next = LAST_PAUSE.min(self.next * 2);
        true
    }
}

/// Returns true if there is no such object. A bucket that is gone is another matter: it had objects before.
fn is_absent(error: &ObjectError) -> bool {
    matches!(error, ObjectError::NotFound { source, .. } if !source.to_string().contains("NoSuchBucket"))
}

/// Returns true if a retry may succeed: there was no response, or the service has trouble of its own.
fn is_transient(error: &ObjectError) -> bool {
    let ObjectError::Generic { source, .. } = error else { return false };
    // The library does not expose the status.
    let text = source.to_string();
    let is_client_error = text.contains("non-2xx status code: 4");
    !is_client_error || text.contains("status code: 408") || text.contains("status code: 429")
}

/// Returns true if a copy failed before its last step, which alone creates the object.
fn precedes_creation(error: &ObjectError) -> bool {
    error.to_string().contains("create multipart response body")
}

/// Returns the bytes of a file of at most one part.
fn read_whole(file: &ScratchFile) -> Result<Vec<u8>> {
    let unreadable = |source| Error::Scratch { path: file.path().to_owned(), source };
    let mut bytes = Vec::with_capacity(PART_BYTES.min(usize::try_from(file.size()).unwrap_or(PART_BYTES)));
    file.open()?.take(PART_BYTES as u64).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Returns the part of a path that is there and no folder, so that nothing can be below it.
fn file_on_path(path: &FilePath) -> Option<&FilePath> {
    path.ancestors().find(|part| part.exists()).filter(|part| !part.is_dir())
}

/// Fails if the system does not give so many threads at once.
fn check_threads(count: usize) -> std::io::Result<()> {
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write();
    let spawn = |_| {
        let gate = Arc::clone(&gate);
        std::thread::Builder::new().spawn(move || drop(gate.read()))
    };
    let threads: Vec<_> = (0..count).map(spawn).collect();
    drop(closed);
    threads.into_iter().try_for_each(|thread| thread.map(|thread| drop(thread.join())))
}

/// Returns the runtime that executes the requests of every store of this process. It is never stopped: nothing has to be finished
/// when a process ends.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().max_blocking_threads(MAX_BLOCKING_THREADS).thread_name("assay-store");
    // The library panics if it cannot start its threads, or open the sockets by which it learns of signals.
    check_threads(MAX_BLOCKING_THREADS + 1).map_err(Error::Runtime)?;
    drop([UnixStream::pair().map_err(Error::Runtime)?, UnixStream::pair().map_err(Error::Runtime)?]);
    let built = builder.build().map_err(Error::Runtime)?;
    if let Err(surplus) = RUNTIME.set(built) {
        surplus.shutdown_background();
    }
    RUNTIME.get().ok_or_else(|| Error::Runtime(std::io::ErrorKind::NotFound.into()))
}
