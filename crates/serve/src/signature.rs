//! Requirements for the signature of a request, checked before anything in the request is trusted. Pure.
//!
//! The service verifies the signature itself. It would also accept older and weaker forms: presigned URLs with a lifetime of the
//! signer's choice, signatures of Version 2 without a time, bodies that no signature covers, and headers that were added on the
//! way. A store needs none of them.

use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, Response, StatusCode};

/// Checks that host, body and all of S3's own headers are covered by a Version 4 signature.
pub(crate) fn check_signature<B>(request: &Request<B>) -> Result<(), &'static str> {
    let query = request.uri().query().unwrap_or_default().to_ascii_lowercase();
    if query.split('&').any(|pair| pair.starts_with("x-amz-") || pair.starts_with("signature=")) {
        return Err("requests that are signed by their address are not served");
    }
    let headers = request.headers();
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(authorization), None) = (given.next().and_then(|value| value.to_str().ok()), given.next()) else {
        return Err("credentials are needed: sign the request");
    };
    let Some(fields) = authorization.strip_prefix("AWS4-HMAC-SHA256 ") else {
        return Err("requests are signed with AWS Signature Version 4");
    };
    let signed = fields.split(',').find_map(|field| field.trim().strip_prefix("SignedHeaders=")).unwrap_or_default();
    let is_signed = |name: &str| signed.split(';').any(|signed| signed == name);
    let own = headers.keys().map(hyper::header::HeaderName::as_str).filter(|name| name.starts_with("x-amz-"));
    if !std::iter::once("host").chain(own).all(is_signed) {
        return Err("`host` and all `x-amz-` headers have to be signed");
    }
    if matches!(*request.method(), Method::PUT | Method::POST) {
        let body = headers.get("x-amz-content-sha256").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_digest = body.len() == 64 && body.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_digest && !body.starts_with("STREAMING-AWS4-HMAC-SHA256-PAYLOAD") {
            return Err("what is written has to be signed: `x-amz-content-sha256` is the digest of the body");
        }
    }
    Ok(())
}

/// Returns the response to a request that is not signed as required.
pub(crate) fn forbidden_response(why: &str) -> Response<s3s::Body> {
    let text =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>AccessDenied</Code><Message>{why}</Message></Error>\n");
    let mut response = Response::new(s3s::Body::from(text));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=run/20261122/us-east-1/s3/aws4_request, \
                          SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=00ff";

    fn check_request(method: Method, uri: &str, headers: &[(&str, &str)]) -> Result<(), &'static str> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = uri.parse().expect("an address");
        for (name, value) in headers {
            let name = hyper::header::HeaderName::from_bytes(name.as_bytes()).expect("a name");
            request.headers_mut().append(name, value.parse().expect("a value"));
        }
        check_signature(&request)
    }

    #[test]
    fn a_signed_request_is_let_through() {
        let headers = [("authorization", SIGNED), ("x-amz-content-sha256", DIGEST), ("x-amz-date", "20261122T000000Z")];
        assert_eq!(check_request(Method::PUT, "/assay/runs/r/source", &headers), Ok(()));
        assert_eq!(check_request(Method::GET, "/assay?list-type=2&prefix=runs%2F", &headers), Ok(()));
        let streamed = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
        assert_eq!(
            check_request(Method::PUT, "/assay/x", &[("authorization", SIGNED), ("x-amz-content-sha256", streamed)]),
            Ok(())
        );
        assert_eq!(
            check_request(Method::GET, "/assay/x", &[("authorization", SIGNED), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD")]),
            Ok(())
        );
    }

    #[test]
    fn what_no_signature_covers_is_refused() {
        let whole = ("x-amz-content-sha256", DIGEST);
        let refused = |method, uri, headers: &[(&str, &str)]| check_request(method, uri, headers).expect_err("refused");
        assert_eq!(refused(Method::GET, "/assay/x", &[]), "credentials are needed: sign the request");
        assert_eq!(
            refused(Method::GET, "/a", &[("authorization", SIGNED), ("authorization", SIGNED)]),
            "credentials are needed: sign the request"
        );
        for address in ["/assay/x?X-Amz-Signature=00&X-Amz-Expires=1", "/assay/x?AWSAccessKeyId=read&Signature=00"] {
            assert_eq!(
                refused(Method::GET, address, &[("authorization", SIGNED)]),
                "requests that are signed by their address are not served"
            );
        }
        assert_eq!(
            refused(Method::GET, "/a", &[("authorization", "AWS read:00")]),
            "requests are signed with AWS Signature Version 4"
        );
        let added = [("authorization", SIGNED), whole, ("x-amz-copy-source", "assay/runs/r/source")];
        assert_eq!(refused(Method::PUT, "/a", &added), "`host` and all `x-amz-` headers have to be signed");
        let hostless = SIGNED.replace("host;", "");
        assert_eq!(
            refused(Method::PUT, "/a", &[("authorization", &hostless), whole]),
            "`host` and all `x-amz-` headers have to be signed"
        );
        for body in ["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "00ff"] {
            let why = refused(Method::PUT, "/a", &[("authorization", SIGNED), ("x-amz-content-sha256", body)]);
            assert_eq!(why, "what is written has to be signed: `x-amz-content-sha256` is the digest of the body");
        }
    }
}
