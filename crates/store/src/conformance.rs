//! The conformance suite that every backend runs. It panics if a backend does not conform.

use std::io::Read;
use std::sync::Barrier;

use assay_manifest::{Digest, Hasher};

use crate::{CreateOutcome, Error, MAX_POINTER_BYTES, Scratch, Store};

/// The number of threads that race for one name.
const RACERS: usize = 16;
/// The size of the large blob: several upload parts, and not a whole number of them.
const LARGE_BYTES: u64 = 64 * 1024 * 1024 + 12_345;

/// Runs the whole suite. Each call of `open` returns another handle on the same store, which is empty at first.
pub fn check_conformance(open: &dyn Fn() -> Store) {
    check_conformance_with(open, &|digest, bytes| open().put_corrupt(digest, bytes).expect("planted"));
}

/// Runs the suite for a store that does not let its clients put wrong bytes under a blob's name: `plant` does it behind its back.
pub fn check_conformance_with(open: &dyn Fn() -> Store, plant: &dyn Fn(&Digest, &[u8])) {
    blobs_come_back(open);
    absent_and_large_blobs_are_named(open);
    corrupt_blobs_are_found_and_repaired(open, plant);
    large_blobs_stream(open);
    scratch_limits_hold(open);
    concurrent_puts_agree(open);
    pointers_are_created_once(open);
    one_of_many_creators_wins(open);
    listings_are_ordered(open);
    files_of_an_area_are_created_once(open);
    paths_are_checked(open);
    open().check_create_if_absent().expect("create-if-absent is honoured");
    assert!(open().list("probe").expect("listed").is_empty(), "the probe leaves nothing");
}

fn scratch() -> Scratch {
    Scratch::new(1 << 30).expect("a scratch folder")
}

fn blobs_come_back(open: &dyn Fn() -> Store) {
    let (one, other, scratch) = (open(), open(), scratch());
    for bytes in [&b""[..], b"x", &vec![0; 300_000]] {
        let digest = one.put(bytes).expect("put");
        assert_eq!(digest, Digest::compute(bytes));
        assert_eq!(one.put(bytes).expect("put again"), digest);
        assert!(other.contains(&digest).expect("looked for"));
        assert_eq!(other.get(&digest, bytes.len() as u64).expect("exactly its size"), bytes);
        let file = other.materialise(&digest, &scratch).expect("materialised");
        assert_eq!((std::fs::read(&file).expect("readable"), file.size()), (bytes.to_vec(), bytes.len() as u64));
    }
}

fn absent_and_large_blobs_are_named(open: &dyn Fn() -> Store) {
    let (store, scratch) = (open(), scratch());
    let absent = Digest::compute(b"never put");
    assert!(!store.contains(&absent).expect("looked for"));
    assert!(matches!(store.get(&absent, 10), Err(Error::Absent { digest }) if digest == absent));
    assert!(matches!(store.materialise(&absent, &scratch), Err(Error::Absent { digest }) if digest == absent));
    let digest = store.put(b"eleven byte").expect("put");
    assert!(matches!(store.get(&digest, 10), Err(Error::TooLarge { limit: 10, .. })));
}

fn corrupt_blobs_are_found_and_repaired(open: &dyn Fn() -> Store, plant: &dyn Fn(&Digest, &[u8])) {
    let (store, scratch) = (open(), scratch());
    let (truth, lie) = (&b"the true bytes"[..], &b"other bytes"[..]);
    let digest = store.put(truth).expect("put");
    let is_corrupt = |error: &Error| matches!(error, Error::Corrupt { expected, found } if *expected == digest && *found == Digest::compute(lie));
    let by_bytes = || store.put(truth).map(|_| ());
    let by_reader = || store.put_reader(truth, &scratch).map(|_| ());
    for repair in [&by_bytes as &dyn Fn() -> crate::Result<()>, &by_reader] {
        plant(&digest, lie);
        assert!(is_corrupt(&store.get(&digest, 100).expect_err("corrupt")));
        assert!(is_corrupt(&store.check(&digest).expect_err("corrupt")));
        let oversized = store.check_keeping(&digest, 0, 10).expect_err("eleven bytes");
        assert!(matches!(oversized, Error::Oversized { limit: 10, .. }), "{oversized}");
        assert_eq!(oversized.code(), assay_failure::ErrorCode::ArtifactCorrupt);
        assert!(is_corrupt(&store.materialise(&digest, &scratch).expect_err("corrupt")));
        assert_eq!(scratch.used(), 0, "a refused blob leaves no file");
        repair().expect("repaired");
        assert_eq!(store.get(&digest, 100).expect("true again"), truth);
    }
}

/// A source of cheap bytes that do not repeat within a part: a counter, eight bytes at a time.
struct Generator {
    position: u64,
    size: u64,
}

impl Read for Generator {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.size - self.position).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        for (offset, byte) in (self.position..).zip(&mut buffer[..count]) {
            *byte = ((offset / 8).to_le_bytes())[(offset % 8) as usize];
        }
        self.position += count as u64;
        Ok(count)
    }
}

fn large_blobs_stream(open: &dyn Fn() -> Store) {
    let (store, scratch) = (open(), scratch());
    let generator = || Generator { position: 0, size: LARGE_BYTES };
    let mut expected = Hasher::new();
    std::io::copy(&mut generator(), &mut expected).expect("hashed");
    let expected = expected.finish();
    assert_eq!(store.put_reader(generator(), &scratch).expect("put"), (expected, LARGE_BYTES));
    assert_eq!(scratch.used(), 0, "the spool is gone");
    let file = open().materialise(&expected, &scratch).expect("materialised");
    assert_eq!(file.size(), LARGE_BYTES);
    assert_eq!(store.put_file(file.path(), &scratch).expect("put again"), (expected, LARGE_BYTES));
}

fn scratch_limits_hold(open: &dyn Fn() -> Store) {
    let store = open();
    let digest = store.put(&[7; 1000]).expect("put");
    let small = Scratch::new(999).expect("a scratch folder");
    assert!(matches!(store.materialise(&digest, &small), Err(Error::ScratchFull { limit: 999 })));
    assert!(matches!(store.put_reader(&[8; 1000][..], &small), Err(Error::ScratchFull { limit: 999 })));
    assert!(!store.contains(&Digest::compute(&[8; 1000])).expect("looked for"), "nothing half was put");
    assert_eq!(small.used(), 0);
}

fn concurrent_puts_agree(open: &dyn Fn() -> Store) {
    let bytes = vec![3; 500_000];
    race(open, |store, _| store.put(&bytes).expect("put"));
    assert_eq!(open().get(&Digest::compute(&bytes), 500_000).expect("there"), bytes);
}

/// Starts threads at once, each with its own handle, and returns the result of each.
fn race<T: Send>(open: &dyn Fn() -> Store, work: impl Fn(Store, usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(RACERS);
    let stores: Vec<Store> = (0..RACERS).map(|_| open()).collect();
    std::thread::scope(|scope| {
        let start = |(index, store)| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(store, index)
            })
        };
        let racers: Vec<_> = stores.into_iter().enumerate().map(start).collect();
        racers.into_iter().map(|racer| racer.join().expect("no panic")).collect()
    })
}

fn pointers_are_created_once(open: &dyn Fn() -> Store) {
    let (one, other) = (open(), open());
    assert_eq!(one.read("runs/once/plan/a", 10).expect("read"), None);
    assert_eq!(one.create("runs/once/plan/a", b"first").expect("created"), CreateOutcome::New);
    assert_eq!(
        other.create("runs/once/plan/a", b"second").expect("refused"),
        CreateOutcome::Existing { existing: b"first".to_vec() }
    );
    assert_eq!(
        other.create("runs/once/plan/a", b"first").expect("refused"),
        CreateOutcome::Existing { existing: b"first".to_vec() }
    );
    assert_eq!(other.read("runs/once/plan/a", 5).expect("read"), Some(b"first".to_vec()));
    assert!(matches!(other.read("runs/once/plan/a", 4), Err(Error::TooLarge { limit: 4, .. })));
    assert_eq!(one.create("runs/once/plan/empty", b"").expect("created"), CreateOutcome::New);
    assert_eq!(one.read("runs/once/plan/empty", 0).expect("read"), Some(Vec::new()));
    let large = vec![0; usize::try_from(MAX_POINTER_BYTES).expect("fits")];
    assert_eq!(one.create("runs/once/plan/large", &large).expect("as large as may be"), CreateOutcome::New);
    let larger = [&large[..], b"x"].concat();
    assert!(matches!(one.create("runs/once/plan/larger", &larger), Err(Error::TooLarge { .. })));
    assert_eq!(one.read("runs/once/plan/larger", 1).expect("read"), None);
}

fn one_of_many_creators_wins(open: &dyn Fn() -> Store) {
    for round in 0..8 {
        let path = format!("runs/race/plan/{round}");
        let outcomes = race(open, |store, index| store.create(&path, format!("racer {index}").as_bytes()).expect("a result"));
        let winners: Vec<_> = (0..RACERS).filter(|index| outcomes[*index] == CreateOutcome::New).collect();
        assert_eq!(winners.len(), 1, "exactly one wins");
        let winner = format!("racer {}", winners[0]).into_bytes();
        let told = |outcome: &CreateOutcome| matches!(outcome, CreateOutcome::Existing { existing } if *existing == winner);
        assert_eq!(outcomes.iter().filter(|outcome| told(outcome)).count(), RACERS - 1, "all others see the winner");
        assert_eq!(open().read(&path, 100).expect("read"), Some(winner));
    }
}

fn listings_are_ordered(open: &dyn Fn() -> Store) {
    let store = open();
    for path in ["list/plan/b/2", "list/plan/a", "list/plan/b/10", "list/plan/c.d/e", "listed/plan/elsewhere"] {
        store.create(&format!("runs/{path}"), b"").expect("created");
    }
    let listed = |prefix: &str| -> Vec<String> {
        let paths = open().list(&format!("runs/{prefix}")).expect("listed").into_iter();
        paths.map(|path| path.trim_start_matches("runs/").to_owned()).collect()
    };
    assert_eq!(listed("list"), ["list/plan/a", "list/plan/b/10", "list/plan/b/2", "list/plan/c.d/e"]);
    assert_eq!(listed("list/plan/b"), ["list/plan/b/10", "list/plan/b/2"]);
    assert_eq!(listed("list/nothing"), [""; 0]);
}

fn files_of_an_area_are_created_once(open: &dyn Fn() -> Store) {
    let scratch = scratch();
    // The first size is sent in one request, the second in parts.
    for size in [1_000, 20 * 1024 * 1024 + 7] {
        let path = format!("table/{size}.parquet");
        let files: Vec<_> = (0..4_u8)
            .map(|racer| {
                let bytes = vec![racer; size];
                scratch.spool(&mut &bytes[..], "a racer's file").expect("spooled")
            })
            .collect();
        let created: Vec<_> = std::thread::scope(|scope| {
            let create = |(_, file)| {
                let area = open().area("warehouse").expect("an area");
                let path = &path;
                scope.spawn(move || area.create_file(path, file).expect("a result"))
            };
            let racers: Vec<_> = files.iter().map(|(digest, file)| create((digest, file))).collect();
            racers.into_iter().map(|racer| racer.join().expect("no panic")).collect()
        });
        assert_eq!(created.iter().filter(|created| **created).count(), 1, "exactly one wins");
        let area = open().area("warehouse").expect("an area");
        let winner = created.iter().position(|created| *created).expect("a winner");
        assert_eq!(area.digest(&path).expect("hashed"), Some((files[winner].0, size as u64)));
        assert!(!area.create_file(&path, &files[0].1).expect("refused"));
        assert_eq!(area.digest(&path).expect("hashed"), Some((files[winner].0, size as u64)), "what is there stays");
    }
    let area = open().area("warehouse").expect("an area");
    for bytes in [&b"1"[..], b"22"] {
        area.replace("table/_delta_log/_last_checkpoint", bytes).expect("replaced");
        assert_eq!(area.read("table/_delta_log/_last_checkpoint", 2).expect("read").as_deref(), Some(bytes));
    }
}

fn paths_are_checked(open: &dyn Fn() -> Store) {
    let store = open();
    for path in ["", "/a", "a/", "a//b", "../a", "a/../b", "ä", "a b", "blobs/sha256/x", "staging/x"] {
        assert!(matches!(store.create(path, b""), Err(Error::BadPath { .. })), "create {path}");
        assert!(matches!(store.read(path, 1), Err(Error::BadPath { .. })), "read {path}");
        assert!(matches!(store.list(path), Err(Error::BadPath { .. })), "list {path}");
    }
}
