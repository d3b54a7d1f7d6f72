//! Buckets of services that speak S3: Amazon's own, or the one that an endpoint names.
//!
//! Everything but the bucket's location comes from the environment, under the names that other S3 tools use: credentials
//! (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`), workload identity (`AWS_WEB_IDENTITY_TOKEN_FILE` and
//! `AWS_ROLE_ARN`, `AWS_CONTAINER_CREDENTIALS_*`, the machine's own), `AWS_REGION`, `AWS_ENDPOINT_URL`.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut, S3CopyIfNotExists};
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use crate::uri::{self, Bucket};
use crate::{Error, Result};

/// The timeout of one request, including the bytes of its response: a blob of 10 GB at 17 MB/s.
const REQUEST_TIME: Duration = Duration::from_mins(10);
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The time that a service may be unreachable, or respond that it is busy, before a request fails.
pub(crate) const RETRY_TIME: Duration = Duration::from_mins(3);
/// The number of retries of the very first request. A person who mistyped an address waits for them: about a second and a half.
const FIRST_RETRIES: usize = 4;
/// More retries than fit into [`RETRY_TIME`].
const PERSISTENT_RETRIES: usize = 10_000;

/// The variables that name a source of credentials other than a key and its secret. Each of them shows an intention.
const CREDENTIALS: [&str; 4] = [
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
];

/// The retry policy of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// A few retries: it is not known yet whether the service responds at all.
    Brief,
    /// Retries for [`RETRY_TIME`]: the service has responded before, so a failure is taken for temporary.
    Persistent,
    /// No retries: the caller retries itself, because it has to know that it did.
    Disabled,
}

/// Returns the objects of a bucket, below its prefix. No request is sent.
pub(crate) fn objects(bucket: &Bucket, retries: RetryPolicy) -> Result<Arc<dyn ObjectStore>> {
    // The first provider that is installed stays. Without it, two linked providers make every connection panic.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let built = builder(bucket, retries)?.build();
    let objects = built.map_err(|source| Error::Bucket { uri: bucket.to_string(), source: Box::new(source) })?;
    Ok(if bucket.prefix.is_empty() { Arc::new(objects) } else { Arc::new(PrefixStore::new(objects, bucket.prefix.as_str())) })
}

fn builder(bucket: &Bucket, retries: RetryPolicy) -> Result<AmazonS3Builder> {
    let mut builder = AmazonS3Builder::from_env();
    if let Some(endpoint) = &bucket.endpoint {
        // An endpoint given with the bucket is meant for this bucket, so it overrides the environment.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    if let Some(region) = &bucket.region {
        builder = builder.with_region(region);
    }
    let endpoint =
        [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint].iter().find_map(|key| builder.get_config_value(key));
    let is_given = |name: &str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let has_key = is_given("AWS_ACCESS_KEY_ID") && is_given("AWS_SECRET_ACCESS_KEY");
    let has_credentials = has_key || CREDENTIALS.iter().any(|name| is_given(name));
    if is_given("AWS_ACCESS_KEY_ID") && !has_key {
        return Err(Error::NoCredentials { uri: bucket.to_string() });
    }
    // Only on Amazon's machines is there another source of credentials; elsewhere the attempt ends in a wait and an obscure
    // error.
    if endpoint.is_some() && !has_credentials {
        return Err(Error::NoCredentials { uri: bucket.to_string() });
    }
    if endpoint.as_deref().is_some_and(|endpoint| !uri::is_endpoint(endpoint)) {
        // The endpoint is not quoted, because the fault may be a password in it.
        let problem = "the endpoint of the environment (AWS_ENDPOINT_URL) is none: expected `http://host:port` or `https://host`, without credentials";
        return Err(Error::BadUri { uri: bucket.to_string(), problem });
    }
    let plain_http = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let max_retries = match retries {
        RetryPolicy::Brief => FIRST_RETRIES,
        RetryPolicy::Persistent => PERSISTENT_RETRIES,
        RetryPolicy::Disabled => 0,
    };
    let retry_config = RetryConfig { max_retries, retry_timeout: RETRY_TIME, ..RetryConfig::default() };
    let client = ClientOptions::new().with_allow_http(plain_http).with_timeout(REQUEST_TIME).with_connect_timeout(CONNECT_TIME);
    Ok(builder
        .with_bucket_name(&bucket.name)
        .with_client_options(client)
        .with_retry(retry_config)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_copy_if_not_exists(S3CopyIfNotExists::Multipart))
}
