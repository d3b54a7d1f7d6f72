//! The store as a bucket: the operations of S3 that a store supports.
//!
//! A write is authorized by identity and key before its body is read, and a blob's bytes are checked against its digest before
//! they get its name. Parts of an upload are objects of the store's staging, so an upload survives a restart of the server.
//! Incomplete objects are visible to their writer alone: each identity has a `staging` of its own, which no other identity can
//! name or list.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, SystemTime};

use assay_manifest::Digest;
use assay_store::{Error, Object, ObjectPath, Objects, Scratch, ScratchFile};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CommonPrefix, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CompletedPart, CopyPartResult, CopySource, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
    ETag, ETagCondition, GetBucketLocationInput, GetBucketLocationOutput, GetObjectInput, GetObjectOutput, HeadBucketInput,
    HeadBucketOutput, HeadObjectInput, HeadObjectOutput, ListObjectsV2Input, ListObjectsV2Output, PutObjectInput,
    PutObjectOutput, Timestamp, UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use crate::identity::{Identity, Refusal, WriteMode};
use crate::spool::{run_blocking, spool, stream};

/// The most keys in one response of a listing, if the client gives no limit.
const PAGE: usize = 10_000;
/// The most parts of an upload, as in S3.
const MAX_PARTS: i32 = 10_000;
/// The folder of uploads' parts below the store's staging. No identity has this name.
const UPLOADS: &str = "uploads";
/// The prefix of incomplete objects. No listing contains them.
const STAGING: &str = "staging/";

/// A store under the name of a bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) objects: Objects,
    pub(crate) scratch: Scratch,
}

impl Bucket {
    fn check_name(&self, name: &str) -> S3Result<()> {
        if name == self.name {
            return Ok(());
        }
        Err(S3Error::with_message(S3ErrorCode::NoSuchBucket, format!("this server has one bucket, `{}`", self.name)))
    }

    fn place(&self, bucket: &str, key: &str) -> S3Result<ObjectPath> {
        self.check_name(bucket)?;
        ObjectPath::parse(key).map_err(|error| {
            S3Error::with_message(S3ErrorCode::InvalidArgument, format!("{error}; a store lies at the root of its bucket"))
        })
    }

    /// Returns the place of an object that is to be read.
    fn readable_place(&self, who: Identity, bucket: &str, key: &str) -> S3Result<ObjectPath> {
        self.place(bucket, key).map(|place| scope_staging(who, place))
    }

    async fn find_object(&self, place: &ObjectPath) -> S3Result<Object> {
        let (objects, asked) = (self.objects.clone(), place.clone());
        let found = run_blocking(move || objects.info(&asked)).await.map_err(to_s3_error)?;
        found.ok_or_else(|| s3_error!(NoSuchKey, "there is no such object"))
    }

    /// Stores a spooled file under its name.
    async fn write(&self, place: ObjectPath, write: WriteMode, file: (Digest, ScratchFile)) -> S3Result<()> {
        let (digest, file) = file;
        if matches!(&place, ObjectPath::Blob(named) if *named != digest) {
            return Err(S3Error::with_message(
                S3ErrorCode::BadDigest,
                format!("a blob has the name of its bytes, and these are {digest}"),
            ));
        }
        let objects = self.objects.clone();
        let written = run_blocking(move || match write {
            WriteMode::Create => objects.create(&place, &file),
            WriteMode::Replace => objects.replace(&place, &file).map(|()| true),
        });
        if written.await.map_err(to_s3_error)? { Ok(()) } else { Err(s3_error!(PreconditionFailed, "it is there already")) }
    }

    /// Returns the client's upload of an object that it may write. The object's name is kept with the parts.
    async fn find_upload(&self, who: Identity, bucket: &str, key: &str, id: &str) -> S3Result<Upload> {
        let place = self.place(bucket, key)?;
        check_may_write(who, WriteMode::Create, &place)?;
        let unknown = || s3_error!(NoSuchUpload, "there is no such upload of this object");
        let plain = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let upload = plain.then(|| Upload::new(who, id)).ok_or_else(unknown)?;
        let about = upload.file("about");
        let (objects, scratch) = (self.objects.clone(), self.scratch.clone());
        let (about, _) =
            run_blocking(move || objects.materialise(&about, &scratch)).await.map_err(to_s3_error)?.ok_or_else(unknown)?;
        if about == Digest::compute(place.to_string().as_bytes()) { Ok(upload) } else { Err(unknown()) }
    }

    async fn store_part(&self, upload: &Upload, number: i32, file: (Digest, ScratchFile)) -> S3Result<ETag> {
        if !(1..=MAX_PARTS).contains(&number) {
            return Err(s3_error!(InvalidArgument, "parts are numbered from 1 to 10,000"));
        }
        let (digest, file) = file;
        let (objects, place) = (self.objects.clone(), upload.part(number));
        // A part that is sent again replaces the earlier one.
        run_blocking(move || objects.replace(&place, &file)).await.map_err(to_s3_error)?;
        Ok(ETag::Strong(digest.hex()))
    }

    /// Joins the parts of an upload into one file; each is checked against the digest that was given for it.
    async fn join_parts(&self, upload: Upload, parts: Vec<(i32, String)>) -> S3Result<(Digest, ScratchFile)> {
        let (objects, scratch) = (self.objects.clone(), self.scratch.clone());
        run_blocking(move || {
            let invalid = || s3_error!(InvalidPart, "a part is not there, or is another one");
            let mut files = Vec::new();
            for (number, tag) in parts {
                let part = objects.materialise(&upload.part(number), &scratch).map_err(to_s3_error)?;
                let (digest, file) = part.ok_or_else(invalid)?;
                if digest.hex() != tag {
                    return Err(invalid());
                }
                files.push(file);
            }
            let mut bytes = JoinedFiles { files: files.into_iter(), current: None };
            Objects::spool(&mut bytes, "the parts of the upload", &scratch).map_err(to_s3_error)
        })
        .await
    }

    async fn delete_parts(&self, upload: Upload) -> S3Result<()> {
        let objects = self.objects.clone();
        run_blocking(move || {
            let parts = objects.list(&format!("{STAGING}{}/", upload.0), None)?;
            parts.iter().filter_map(|part| part.path.strip_prefix(STAGING)).try_for_each(|part| objects.remove_staged(part))
        })
        .await
        .map_err(to_s3_error)
    }
}

/// A multipart upload, by its folder in the store's staging.
#[derive(Clone, Debug)]
struct Upload(String);

impl Upload {
    fn new(who: Identity, id: &str) -> Self {
        Self(format!("{UPLOADS}/{who}/{id}"))
    }

    fn file(&self, name: &str) -> ObjectPath {
        ObjectPath::Staging(format!("{}/{name}", self.0))
    }

    fn part(&self, number: i32) -> ObjectPath {
        self.file(&format!("{number:05}"))
    }
}

/// A reader of several files in sequence. One is open at a time, and its scratch space is freed once it was read.
struct JoinedFiles {
    files: std::vec::IntoIter<ScratchFile>,
    current: Option<(File, ScratchFile)>,
}

impl Read for JoinedFiles {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if let Some((open, _)) = &mut self.current {
                let count = open.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
            }
            let Some(file) = self.files.next() else { return Ok(0) };
            self.current = Some((file.open().map_err(std::io::Error::other)?, file));
        }
    }
}

/// Puts a staged object into the folder of its identity.
fn scope_staging(who: Identity, place: ObjectPath) -> ObjectPath {
    match place {
        ObjectPath::Staging(name) => ObjectPath::Staging(format!("{who}/{name}")),
        place => place,
    }
}

/// Returns the identity of the client. The service has authenticated it.
fn client_identity<T>(request: &S3Request<T>) -> S3Result<Identity> {
    let key = request.credentials.as_ref().map(|credentials| credentials.access_key.as_str());
    key.and_then(|key| key.parse().ok()).ok_or_else(|| s3_error!(AccessDenied, "credentials are needed"))
}

fn access_denied(who: Identity, place: &ObjectPath, refusal: &Refusal) -> S3Error {
    tracing::info!(%who, %place, %refusal, "refused");
    S3Error::with_message(S3ErrorCode::AccessDenied, format!("`{who}` may not write `{place}`: {refusal}"))
}

fn to_s3_error(error: Error) -> S3Error {
    let code = match &error {
        Error::Read { .. } => S3ErrorCode::IncompleteBody,
        Error::BadPath { .. } => S3ErrorCode::InvalidArgument,
        // The client retries, and other uploads may be done by then.
        Error::ScratchFull { .. } => S3ErrorCode::SlowDown,
        _ => S3ErrorCode::InternalError,
    };
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(&error) {
        text = format!("{text}: {source}");
    }
    tracing::warn!(error = text, "a request failed");
    // Errors of the server's own folder are not shown to clients, because they contain its paths.
    let is_own = code == S3ErrorCode::InternalError;
    S3Error::with_message(code, if is_own { "the store failed; the server's log says why".to_owned() } else { text })
}

fn write_mode(if_none_match: Option<&ETagCondition>) -> WriteMode {
    if if_none_match.is_some_and(ETagCondition::is_any) { WriteMode::Create } else { WriteMode::Replace }
}

fn check_may_write(who: Identity, write: WriteMode, place: &ObjectPath) -> S3Result<()> {
    who.may_write(write, place).map_err(|refusal| access_denied(who, place, &refusal))
}

fn modified(object: &Object) -> Timestamp {
    let since = Duration::from_millis(u64::try_from(object.modified_unix_ms).unwrap_or(0));
    Timestamp::from(SystemTime::UNIX_EPOCH + since)
}

/// Returns the ETag of an object: a blob's digest, otherwise its size and time.
fn tag(place: &ObjectPath, object: &Object) -> ETag {
    ETag::Strong(match place {
        ObjectPath::Blob(digest) => digest.hex(),
        _ => format!("{:x}-{:x}", object.modified_unix_ms, object.size),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "it is how every operation ends")]
fn respond<T>(output: T) -> S3Result<S3Response<T>> {
    Ok(S3Response::new(output))
}

#[async_trait::async_trait]
impl S3 for Bucket {
    async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
        self.check_name(&request.input.bucket)?;
        respond(HeadBucketOutput::default())
    }

    async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        self.check_name(&request.input.bucket)?;
        respond(GetBucketLocationOutput::default())
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let place = self.readable_place(client_identity(&request)?, &request.input.bucket, &request.input.key)?;
        let object = self.find_object(&place).await?;
        respond(HeadObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(to_i64(object.size)),
            e_tag: Some(tag(&place, &object)),
            last_modified: Some(modified(&object)),
            ..HeadObjectOutput::default()
        })
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let who = client_identity(&request)?;
        let input = request.input;
        let place = self.readable_place(who, &input.bucket, &input.key)?;
        let object = self.find_object(&place).await?;
        let range = match &input.range {
            None => 0..object.size,
            Some(_) if object.size == 0 => return Err(s3_error!(InvalidRange, "the object is empty")),
            Some(range) => range.check(object.size)?,
        };
        let content_range = input.range.map(|_| format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), object.size));
        respond(GetObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(to_i64(range.end.saturating_sub(range.start))),
            content_range,
            e_tag: Some(tag(&place, &object)),
            last_modified: Some(modified(&object)),
            body: Some(stream(&self.objects, place, range)),
            ..GetObjectOutput::default()
        })
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let who = client_identity(&request)?;
        let input = request.input;
        let place = self.place(&input.bucket, &input.key)?;
        let write = write_mode(input.if_none_match.as_ref());
        check_may_write(who, write, &place)?;
        let file = spool(input.body, &self.scratch).await.map_err(to_s3_error)?;
        let e_tag = Some(ETag::Strong(file.0.hex()));
        self.write(scope_staging(who, place), write, file).await?;
        respond(PutObjectOutput { e_tag, ..PutObjectOutput::default() })
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        let who = client_identity(&request)?;
        self.remove(who, &request.input.bucket, &request.input.key).await?;
        respond(DeleteObjectOutput::default())
    }

    async fn delete_objects(&self, request: S3Request<DeleteObjectsInput>) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let who = client_identity(&request)?;
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        for object in &request.input.delete.objects {
            match self.remove(who, &request.input.bucket, &object.key).await {
                Ok(()) => deleted.push(DeletedObject { key: Some(object.key.clone()), ..DeletedObject::default() }),
                Err(error) => errors.push(s3s::dto::Error {
                    code: Some(error.code().as_str().to_owned()),
                    key: Some(object.key.clone()),
                    message: error.message().map(str::to_owned),
                    ..s3s::dto::Error::default()
                }),
            }
        }
        respond(DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), ..DeleteObjectsOutput::default() })
    }

    async fn list_objects_v2(&self, request: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        self.check_name(&input.bucket)?;
        let prefix = input.prefix.clone().unwrap_or_default();
        // A page begins after the last key of the page before, which is all that a continuation token holds.
        let after = input.continuation_token.clone().max(input.start_after.clone());
        let (objects, asked) = (self.objects.clone(), prefix.clone());
        let mut listed = run_blocking(move || objects.list(&asked, after.as_deref())).await.map_err(to_s3_error)?;
        listed.retain(|object| !object.path.starts_with(STAGING));
        let most = input.max_keys.map_or(PAGE, |keys| usize::try_from(keys).unwrap_or(0).min(PAGE));
        let page = Page::new(&listed, &prefix, input.delimiter.as_deref(), input.continuation_token.as_deref(), most);
        respond(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: input.prefix,
            delimiter: input.delimiter,
            start_after: input.start_after,
            continuation_token: input.continuation_token,
            max_keys: i32::try_from(most).ok(),
            key_count: i32::try_from(page.contents.len() + page.folders.len()).ok(),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next,
            contents: Some(page.contents.into_iter().map(entry).collect()),
            common_prefixes: Some(page.folders.into_iter().map(|prefix| CommonPrefix { prefix: Some(prefix) }).collect()),
            ..ListObjectsV2Output::default()
        })
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let who = client_identity(&request)?;
        let input = request.input;
        let place = self.place(&input.bucket, &input.key)?;
        // The right to replace an existing object is checked at completion.
        check_may_write(who, WriteMode::Create, &place)?;
        let random = [getrandom::u64(), getrandom::u64()].map(|number| number.map(|number| format!("{number:016x}")));
        let [Ok(first), Ok(second)] = random else { return Err(s3_error!(InternalError, "the system has no random bytes")) };
        let id = first + &second;
        let about = place.to_string();
        let (objects, scratch, at) = (self.objects.clone(), self.scratch.clone(), Upload::new(who, &id).file("about"));
        run_blocking(move || {
            let (_, file) = Objects::spool(&mut about.as_bytes(), "a path", &scratch)?;
            objects.create(&at, &file)
        })
        .await
        .map_err(to_s3_error)?;
        respond(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            ..CreateMultipartUploadOutput::default()
        })
    }

    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        let who = client_identity(&request)?;
        let input = request.input;
        let upload = self.find_upload(who, &input.bucket, &input.key, &input.upload_id).await?;
        let file = spool(input.body, &self.scratch).await.map_err(to_s3_error)?;
        let e_tag = Some(self.store_part(&upload, input.part_number, file).await?);
        respond(UploadPartOutput { e_tag, ..UploadPartOutput::default() })
    }

    async fn upload_part_copy(&self, request: S3Request<UploadPartCopyInput>) -> S3Result<S3Response<UploadPartCopyOutput>> {
        let who = client_identity(&request)?;
        let input = request.input;
        let upload = self.find_upload(who, &input.bucket, &input.key, &input.upload_id).await?;
        let (CopySource::Bucket { bucket, key, .. }, None) = (&input.copy_source, &input.copy_source_range) else {
            return Err(s3_error!(NotImplemented, "only whole objects of this bucket are copied"));
        };
        let source = self.readable_place(who, bucket, key)?;
        let (objects, scratch) = (self.objects.clone(), self.scratch.clone());
        let file = run_blocking(move || objects.materialise(&source, &scratch)).await.map_err(to_s3_error)?;
        let file = file.ok_or_else(|| s3_error!(NoSuchKey, "there is no such object to copy"))?;
        let e_tag = Some(self.store_part(&upload, input.part_number, file).await?);
        let result =
            CopyPartResult { e_tag, last_modified: Some(Timestamp::from(SystemTime::now())), ..CopyPartResult::default() };
        respond(UploadPartCopyOutput { copy_part_result: Some(result), ..UploadPartCopyOutput::default() })
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let who = client_identity(&request)?;
        let input = request.input;
        let place = self.place(&input.bucket, &input.key)?;
        let write = write_mode(input.if_none_match.as_ref());
        // A staged object is not visible yet, so it replaces nothing.
        let write = if matches!(place, ObjectPath::Staging(_)) { WriteMode::Create } else { write };
        check_may_write(who, write, &place)?;
        let upload = self.find_upload(who, &input.bucket, &input.key, &input.upload_id).await?;
        let parts = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        let file = self.join_parts(upload.clone(), ordered_parts(parts)?).await?;
        let e_tag = Some(ETag::Strong(file.0.hex()));
        let written = self.write(scope_staging(who, place), write, file).await;
        // The parts are removed even if the write lost a race. If they cannot be removed they are garbage, and the object is
        // complete.
        if let Err(error) = self.delete_parts(upload).await {
            tracing::warn!(%error, "the parts of an upload stay");
        }
        written?;
        respond(CompleteMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag,
            ..CompleteMultipartUploadOutput::default()
        })
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let who = client_identity(&request)?;
        let input = request.input;
        let upload = self.find_upload(who, &input.bucket, &input.key, &input.upload_id).await?;
        self.delete_parts(upload).await?;
        respond(AbortMultipartUploadOutput::default())
    }
}

impl Bucket {
    async fn remove(&self, who: Identity, bucket: &str, key: &str) -> S3Result<()> {
        let place = self.place(bucket, key)?;
        who.may_remove(&place).map_err(|refusal| access_denied(who, &place, &refusal))?;
        let ObjectPath::Staging(staged) = scope_staging(who, place) else { return Ok(()) };
        let objects = self.objects.clone();
        run_blocking(move || objects.remove_staged(&staged)).await.map_err(to_s3_error)
    }
}

fn to_i64(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn entry(object: &Object) -> s3s::dto::Object {
    s3s::dto::Object {
        e_tag: ObjectPath::parse(&object.path).ok().map(|place| tag(&place, object)),
        key: Some(object.path.clone()),
        last_modified: Some(modified(object)),
        size: Some(to_i64(object.size)),
        ..s3s::dto::Object::default()
    }
}

/// Returns the numbers and tags of parts. The client gives them in the order of joining.
fn ordered_parts(parts: Vec<CompletedPart>) -> S3Result<Vec<(i32, String)>> {
    let invalid = || s3_error!(InvalidPartOrder, "parts have rising numbers, and each has a tag");
    let mut named = Vec::<(i32, String)>::new();
    for part in parts {
        let (number, tag) = part.part_number.zip(part.e_tag).ok_or_else(invalid)?;
        if named.last().is_some_and(|(last, _)| *last >= number) {
            return Err(invalid());
        }
        named.push((number, tag.into_value()));
    }
    if named.is_empty() { Err(s3_error!(MalformedXML, "an upload has at least one part")) } else { Ok(named) }
}

/// One page of a listing.
#[derive(Debug, PartialEq, Eq)]
struct Page<'a> {
    contents: Vec<&'a Object>,
    folders: BTreeSet<String>,
    next: Option<String>,
}

impl<'a> Page<'a> {
    /// Returns the first entries of a sorted listing: keys, and folders if a delimiter is given. `token` is the end of the page
    /// before.
    fn new(listed: &'a [Object], prefix: &str, delimiter: Option<&str>, token: Option<&str>, most: usize) -> Self {
        let mut page = Self { contents: Vec::new(), folders: BTreeSet::new(), next: None };
        let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty());
        let mut last = None;
        for object in listed {
            let below = object.path.get(prefix.len()..).unwrap_or_default();
            let folder = delimiter.and_then(|delimiter| {
                let end = below.find(delimiter)? + delimiter.len();
                below.get(..end).map(|part| format!("{prefix}{part}"))
            });
            // If a folder's first keys were on the page before, the folder was on that page.
            if folder.as_deref().is_some_and(|folder| token.is_some_and(|token| token.starts_with(folder))) {
                continue;
            }
            let is_new = folder.as_ref().is_none_or(|folder| !page.folders.contains(folder));
            if is_new && page.contents.len() + page.folders.len() >= most {
                page.next = last;
                return page;
            }
            match folder {
                Some(folder) => drop(page.folders.insert(folder)),
                None => page.contents.push(object),
            }
            last = Some(object.path.clone());
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(paths: &[&str]) -> Vec<Object> {
        paths.iter().map(|path| Object { path: (*path).to_owned(), size: 1, modified_unix_ms: 0 }).collect()
    }

    /// Returns all pages of a listing, each as its keys and its folders.
    fn pages(all: &[Object], prefix: &str, delimiter: Option<&str>, most: usize) -> Vec<(Vec<String>, Vec<String>)> {
        let (mut pages, mut token) = (Vec::new(), None::<String>);
        loop {
            let after = |object: &&Object| token.as_ref().is_none_or(|token| object.path > *token);
            let left: Vec<_> = all.iter().filter(|object| object.path.starts_with(prefix)).filter(after).cloned().collect();
            let page = Page::new(&left, prefix, delimiter, token.as_deref(), most);
            let keys = page.contents.iter().map(|object| object.path.clone()).collect();
            pages.push((keys, page.folders.into_iter().collect()));
            match page.next {
                Some(next) => token = Some(next),
                None => return pages,
            }
        }
    }

    #[test]
    fn folders_are_told_once_over_all_pages() {
        let all = listed(&["runs/a/1", "runs/a/2", "runs/b", "runs/c/1", "runs/c/2"]);
        let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(pages(&all, "runs/", Some("/"), 9), [(text(&["runs/b"]), text(&["runs/a/", "runs/c/"]))]);
        let single = pages(&all, "runs/", Some("/"), 1);
        assert_eq!(single, [(text(&[]), text(&["runs/a/"])), (text(&["runs/b"]), text(&[])), (text(&[]), text(&["runs/c/"]))]);
        assert_eq!(pages(&all, "runs/a", None, 1), [(text(&["runs/a/1"]), text(&[])), (text(&["runs/a/2"]), text(&[]))]);
        assert_eq!(pages(&[], "", Some("/"), 1), [(text(&[]), text(&[]))]);
    }

    #[test]
    fn parts_come_in_their_order() {
        let part = |number, tag: Option<&str>| CompletedPart {
            part_number: number,
            e_tag: tag.map(|tag| ETag::Strong(tag.to_owned())),
            ..CompletedPart::default()
        };
        let named = ordered_parts(vec![part(Some(1), Some("a")), part(Some(3), Some("b"))]).expect("in order");
        assert_eq!(named, [(1, "a".to_owned()), (3, "b".to_owned())]);
        for wrong in [
            vec![],
            vec![part(Some(2), Some("a")), part(Some(1), Some("b"))],
            vec![part(Some(1), Some("a")), part(Some(1), Some("b"))],
            vec![part(None, Some("a"))],
            vec![part(Some(1), None)],
        ] {
            assert!(ordered_parts(wrong).is_err());
        }
    }

    proptest! {
        /// For every page size, a listing contains each key once, or the folder that holds it.
        #[test]
        fn pages_lose_nothing(
            paths in prop::collection::btree_set("[ab](/[ab]){0,3}", 0..30),
            delimiter in prop::sample::select(vec![None, Some("/")]),
            most in 1_usize..5,
        ) {
            let all = listed(&paths.iter().map(String::as_str).collect::<Vec<_>>());
            let whole = pages(&all, "", delimiter, 1000).all();
            let parts = pages(&all, "", delimiter, most);
            prop_assert!(parts.iter().all(|(keys, folders)| keys.len() + folders.len() <= most));
            prop_assert_eq!(parts.all(), whole);
        }
    }

    /// The concatenation of pages.
    trait Pages {
        fn all(&self) -> (Vec<String>, Vec<String>);
    }

    impl Pages for Vec<(Vec<String>, Vec<String>)> {
        fn all(&self) -> (Vec<String>, Vec<String>) {
            let keys = self.iter().flat_map(|(keys, _)| keys.clone()).collect();
            (keys, self.iter().flat_map(|(_, folders)| folders.clone()).collect())
        }
    }
}
