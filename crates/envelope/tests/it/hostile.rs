//! Hostile bytes: every input gets a result, and none causes a panic.

use std::sync::LazyLock;

use assay_envelope::{Bundle, ExpectedManifest, PublicKey, SecretKey, SignedManifest, Statement, Trust, verify};
use assay_manifest::Role;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::*;

static KEY: LazyLock<Key> = LazyLock::new(Key::new);
static SIGNED: LazyLock<SignedManifest> = LazyLock::new(|| signed_collection(&KEY, "run-1"));
static TRUST: LazyLock<Trust> = LazyLock::new(|| policy_trusting("collector", &KEY, &[Role::Collect]));

/// Good bytes with some of them overwritten, removed or doubled.
fn damaged(good: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let damage = (any::<Index>(), any::<u8>(), 0_u8..3);
    prop::collection::vec(damage, 1..4).prop_map(move |damages| {
        let mut bytes = good.clone();
        for (at, byte, how) in damages {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len() - 1))),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Bundle::parse(&bytes);
        let _ = Statement::parse(&bytes);
        let _ = PublicKey::from_spki_der(&bytes);
        let _ = SecretKey::from_pkcs8_der(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        let _ = PublicKey::from_pem(&text);
        let _ = SecretKey::decrypt(&text, &bytes);
        prop_assert!(verify(&bytes, &bytes, &TRUST, &ExpectedManifest::default()).is_err());
        prop_assert!(!KEY.public.verifies(&bytes, &bytes));
    }

    #[test]
    fn a_damaged_bundle_verifies_only_if_it_says_the_same(bytes in damaged(SIGNED.bundle.clone())) {
        let verdict = verify(&SIGNED.manifest, &bytes, &TRUST, &ExpectedManifest::default());
        if verdict.is_ok() {
            prop_assert_eq!(Bundle::parse(&bytes).expect("it verified"), Bundle::parse(&SIGNED.bundle).expect("it verified"));
        }
    }

    #[test]
    fn a_damaged_statement_is_read_or_refused(bytes in damaged(payload(&SIGNED.bundle))) {
        if let Ok(statement) = Statement::parse(&bytes) {
            prop_assert!(statement.subjects.len() <= assay_envelope::MAX_SUBJECTS);
        }
        let forged = KEY.forge(&bytes).to_string();
        let _ = verify(&SIGNED.manifest, forged.as_bytes(), &TRUST, &ExpectedManifest::default());
    }

    #[test]
    fn a_damaged_manifest_never_verifies(bytes in damaged(SIGNED.manifest.clone())) {
        prop_assume!(bytes != SIGNED.manifest);
        let refusal = verify(&bytes, &SIGNED.bundle, &TRUST, &ExpectedManifest::default()).expect_err("other bytes");
        prop_assert_eq!(refusal.code().as_str(), "subject_digest_mismatch");
    }

    #[test]
    fn a_damaged_key_is_another_key_or_refused(der in damaged(KEY.public.to_spki_der())) {
        if let Ok(key) = PublicKey::from_spki_der(&der) {
            prop_assert_eq!(key.to_spki_der(), der, "a key has one DER form");
        }
    }

    #[test]
    fn the_encoding_tells_type_and_payload_apart(a in ".{0,8}", b in ".{0,8}", c in ".{0,8}", d in ".{0,8}") {
        let same = (&a, &b) == (&c, &d);
        prop_assert_eq!(assay_envelope::pae(&a, b.as_bytes()) == assay_envelope::pae(&c, d.as_bytes()), same);
    }
}

proptest! {
    // Each case costs a scrypt, so there are few.
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn a_damaged_key_file_never_gives_another_key(bytes in damaged(
        SecretKey::generate().expect("a key").encrypt(b"", assay_envelope::ScryptCost::Cheap).expect("encrypted").into_bytes()
    )) {
        let _ = SecretKey::decrypt(&String::from_utf8_lossy(&bytes), b"");
    }
}
