//! Digests of what processes and scripts really execute: programs, libraries, interpreters and files.
//!
//! Files are read before a measurement begins, or after it has ended: never while one runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use assay_manifest::{CpuList, Digest, Executable, ExecutableRole, Hasher};

use crate::{Root, own_processes};

/// The largest file that is hashed.
const MAX_FILE_BYTES: u64 = 64 << 30;

/// The most executables of a target.
const MAX_EXECUTABLES: usize = 4096;

/// The most files of a folder that is declared as an artifact.
const MAX_FOLDER_FILES: usize = 20_000;

/// The most bytes that are read of a process's list of arguments or maps.
const MAX_LIST_BYTES: u64 = 4 << 20;

/// The longest first line of a script that the kernel reads (`BINPRM_BUF_SIZE`).
const MAX_SHEBANG_BYTES: u64 = 256;

/// The longest chain of interpreters; the kernel allows as many.
const MAX_INTERPRETERS: usize = 5;

/// Prefixes of mappings that are no files.
const NO_FILES: [&str; 4] = ["/memfd:", "/dev/", "/SYSV", "anon_inode:"];

/// The metadata by which a file is recognized: a change of its bytes changes one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileIdentity {
    fn from_metadata(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// The digests of files, each computed once.
#[derive(Debug, Default)]
pub struct FileDigests(BTreeMap<FileIdentity, Digest>);

impl FileDigests {
    /// Returns the digest of a file's bytes, or why there is none.
    fn digest(&mut self, path: &Path) -> Result<Digest, String> {
        // A device or a pipe is not opened, because opening it may block.
        if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        let file = File::open(path).map_err(|error| error.to_string())?;
        let identity = FileIdentity::from_metadata(&file.metadata().map_err(|error| error.to_string())?);
        if let Some(known) = self.0.get(&identity) {
            return Ok(*known);
        }
        if identity.size > MAX_FILE_BYTES {
            return Err(format!("it has more than {} GiB", MAX_FILE_BYTES >> 30));
        }
        let digest = digest_of(&file).map_err(|error| error.to_string())?;
        if file.metadata().map(|meta| FileIdentity::from_metadata(&meta)).ok() != Some(identity) {
            return Err("it changed while it was read".to_owned());
        }
        self.0.insert(identity, digest);
        Ok(digest)
    }

    fn executable(&mut self, role: ExecutableRole, shown: &str, path: &Path) -> Executable {
        executable(role, shown, self.digest(path))
    }
}

fn digest_of(mut file: &File) -> std::io::Result<Digest> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

fn executable(role: ExecutableRole, path: &str, digest: Result<Digest, String>) -> Executable {
    let (digest, unpinned) = match digest {
        Ok(digest) => (Some(digest), None),
        Err(why) => (None, Some(why)),
    };
    Executable { role, path: path.to_owned(), digest, unpinned }
}

/// The facts of a process tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTreeFacts {
    /// The executables of the processes, each file once, in order.
    pub executables: Vec<Executable>,
    /// The CPUs that any of their threads may use; absent if no process was found or one could not be read.
    pub allowed_cpus: Option<CpuList>,
}

/// Reads the executables and the allowed CPUs of the processes below `supervisor`, without itself.
pub fn observe_processes(supervisor: u32, hashes: &mut FileDigests) -> ProcessTreeFacts {
    let pids = own_processes::descendants(supervisor);
    let mut executables = BTreeSet::new();
    for pid in &pids {
        executables.extend(process_executables(*pid, hashes));
    }
    let too_many = executables.len() > MAX_EXECUTABLES;
    let mut executables: Vec<_> = executables.into_iter().take(MAX_EXECUTABLES).collect();
    if too_many {
        let why = format!("there are more than {MAX_EXECUTABLES}");
        executables.push(executable(ExecutableRole::Library, "further files", Err(why)));
    }
    ProcessTreeFacts { executables, allowed_cpus: allowed_cpus(&pids) }
}

/// Returns the CPUs that any thread of this process may use.
pub fn own_allowed_cpus() -> Option<CpuList> {
    allowed_cpus(&[std::process::id()])
}

/// Returns the CPUs that any thread of a process may use; `None` if it has ended.
pub fn allowed_cpus_of(pid: u32) -> Option<CpuList> {
    allowed_cpus(&[pid])
}

/// Returns all CPUs of the cores that these CPUs belong to: threads of one core share its units and caches.
pub fn core_cpus(root: &Root, cpus: &CpuList) -> CpuList {
    let siblings = |cpu: u32| {
        root.word(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")).ok()?.parse::<CpuList>().ok()
    };
    cpus.numbers().filter_map(siblings).fold(cpus.clone(), |all, of_core| all.joined_with(&of_core))
}

fn allowed_cpus(pids: &[u32]) -> Option<CpuList> {
    let mut all: Option<CpuList> = None;
    for pid in pids {
        // A process or thread that has ended meanwhile uses no CPU.
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else { continue };
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            let list: CpuList = list.parse().ok()?;
            all = Some(all.map_or_else(|| list.clone(), |all| all.joined_with(&list)));
        }
    }
    all
}

/// Returns the program of a process, the files that it maps as code, and the files that its arguments name.
fn process_executables(pid: u32, hashes: &mut FileDigests) -> Vec<Executable> {
    let link = PathBuf::from(format!("/proc/{pid}/exe"));
    // A process that has ended, or a kernel thread, has no program.
    let Ok(program) = std::fs::read_link(&link) else { return Vec::new() };
    let shown = program.display().to_string();
    let shown = shown.strip_suffix(" (deleted)").unwrap_or(&shown).to_owned();
    // The link leads to the running file, even if the path now holds another one.
    let mut found = vec![hashes.executable(ExecutableRole::Program, &shown, &link)];
    let maps = read_limited(&format!("/proc/{pid}/maps"));
    found.extend(libraries(&maps).into_iter().filter(|map| map.path != shown).map(|map| mapped_executable(pid, &map, hashes)));
    let arguments = read_limited(&format!("/proc/{pid}/cmdline"));
    let folder = PathBuf::from(format!("/proc/{pid}/cwd"));
    for argument in arguments.split('\0').skip(1) {
        found.extend(argument_file(&folder, argument).map(|path| hashes.executable(ExecutableRole::Argument, argument, &path)));
    }
    found
}

/// Returns the regular file that an argument names, as a whole or after its `=`.
fn argument_file(folder: &Path, argument: &str) -> Option<PathBuf> {
    let behind = argument.split_once('=').map(|(_, value)| value);
    let named = [Some(argument), behind].into_iter().flatten().filter(|name| !name.is_empty());
    let mut paths = named.map(|name| folder.join(name));
    paths.find(|path| path.is_file())
}

/// A file that is mapped as code.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mapping {
    path: String,
    inode: u64,
    /// Its range of addresses, in the kernel's notation.
    range: String,
    deleted: bool,
}

/// Returns the executable mappings of files in `/proc/<pid>/maps`, each file once.
fn libraries(maps: &str) -> Vec<Mapping> {
    let mut seen = BTreeSet::new();
    let map = |line: &str| {
        let mut rest = line;
        let mut next = || {
            let (field, left) = rest.split_once(' ')?;
            rest = left.trim_start();
            Some(field)
        };
        let (range, flags, _, _, inode) = (next()?, next()?, next()?, next()?, next()?);
        let (path, deleted) = rest.strip_suffix(" (deleted)").map_or((rest, false), |path| (path, true));
        let is_file = path.starts_with('/') && !NO_FILES.iter().any(|prefix| path.starts_with(prefix));
        let inode = inode.parse().ok().filter(|inode| *inode != 0)?;
        (is_file && flags.contains('x')).then(|| Mapping { path: path.to_owned(), inode, range: range.to_owned(), deleted })
    };
    maps.lines().filter_map(map).filter(|map| seen.insert((map.path.clone(), map.inode))).collect()
}

/// Computes the digest of a mapped file: through the kernel's own link if that is allowed, else by its path, if the path still
/// names the same file.
fn mapped_executable(pid: u32, map: &Mapping, hashes: &mut FileDigests) -> Executable {
    let path = Path::new(&map.path);
    let through_link = hashes.digest(Path::new(&format!("/proc/{pid}/map_files/{}", map.range)));
    let digest = through_link.or_else(|_| {
        let inode = std::fs::metadata(path).map(|meta| meta.ino()).map_err(|error| error.to_string())?;
        if map.deleted || inode != map.inode {
            return Err("it was replaced after it had been mapped".to_owned());
        }
        hashes.digest(path)
    });
    executable(ExecutableRole::Library, &map.path, digest)
}

/// Returns the text of a file of `/proc`, cut at the limit.
fn read_limited(path: &str) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_LIST_BYTES).read_to_end(&mut bytes));
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Returns what a script or program executes, as far as that is known before it runs: the file itself, called `shown`, the
/// interpreters of `#!` lines, looked up in `search` as a shell would, and executable files that the values of its variables
/// name.
pub fn script_executables<'a>(
    script: &Path,
    shown: &str,
    search: &str,
    values: impl IntoIterator<Item = &'a str>,
    hashes: &mut FileDigests,
) -> Vec<Executable> {
    let mut found = vec![hashes.executable(ExecutableRole::Program, shown, script)];
    let mut next = interpreters(script, search);
    for _ in 0..MAX_INTERPRETERS {
        let mut deeper = Vec::new();
        for path in std::mem::take(&mut next) {
            match path {
                Ok(path) => {
                    found.push(hashes.executable(ExecutableRole::Interpreter, &path.display().to_string(), &path));
                    deeper.extend(interpreters(&path, search));
                }
                Err(name) => found.push(executable(ExecutableRole::Interpreter, &name, Err("it is not in PATH".to_owned()))),
            }
        }
        next = deeper;
    }
    for value in values {
        let path = Path::new(value);
        if path.is_absolute() && is_program(path) {
            found.push(hashes.executable(ExecutableRole::Argument, value, path));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the interpreters that the first line of a script names: the program itself, and the one that `env` has to run. An
/// error is a name that is not in PATH.
fn interpreters(script: &Path, search: &str) -> Vec<Result<PathBuf, String>> {
    let mut line = Vec::new();
    let Ok(file) = File::open(script) else { return Vec::new() };
    if BufReader::new(file.take(MAX_SHEBANG_BYTES)).read_until(b'\n', &mut line).is_err() || !line.starts_with(b"#!") {
        return Vec::new();
    }
    let line = String::from_utf8_lossy(line.get(2..).unwrap_or_default()).into_owned();
    let mut words = line.split_whitespace();
    let Some(program) = words.next().map(PathBuf::from) else { return Vec::new() };
    let is_env = program.file_name().is_some_and(|name| name == "env");
    let mut found = vec![Ok(program)];
    let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
    if let Some(name) = named.filter(|_| is_env) {
        found.push(find_in_path(name, search).ok_or_else(|| name.to_owned()));
    }
    found
}

/// Returns the program of a name, as a shell finds it in the folders of `search`; a name with a `/` is a path already.
pub fn find_in_path(name: &str, search: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    search.split(':').map(|folder| Path::new(folder).join(name)).find(|path| is_program(path))
}

/// Returns true if the path is an executable file.
pub fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Computes the digest of a file or folder that a pipeline declares.
pub fn hash_artifact(path: &str, hashes: &mut FileDigests) -> Executable {
    let digest = if Path::new(path).is_dir() { folder_digest(Path::new(path), hashes) } else { hashes.digest(Path::new(path)) };
    executable(ExecutableRole::Artifact, path, digest)
}

/// Computes the digest over the names and digests of a folder's files. A link is refused: its target may change without the
/// folder.
fn folder_digest(folder: &Path, hashes: &mut FileDigests) -> Result<Digest, String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).map_err(|error| error.to_string())? {
            let entry = entry.map_err(|error| error.to_string())?;
            let kind = entry.file_type().map_err(|error| error.to_string())?;
            match (kind.is_dir(), kind.is_file()) {
                (true, _) => folders.push(entry.path()),
                (_, true) => files.push(entry.path()),
                _ => return Err(format!("`{}` is neither a file nor a folder", entry.path().display())),
            }
            if files.len() > MAX_FOLDER_FILES || folders.len() > MAX_FOLDER_FILES {
                return Err(format!("it has more than {MAX_FOLDER_FILES} files or folders"));
            }
        }
    }
    files.sort();
    let mut hasher = Hasher::new();
    for path in files {
        let digest = hashes.digest(&path).map_err(|why| format!("`{}`: {why}", path.display()))?;
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        writeln!(hasher, "{}  {name}", digest.hex()).map_err(|error| error.to_string())?;
    }
    Ok(hasher.finish())
}

/// Returns the first executable whose bytes differ from the recorded ones. Arguments are left out, because an argument may be a
/// file that the program writes.
pub fn find_changed<'a>(recorded: &'a [Executable], script: &Path, hashes: &mut FileDigests) -> Option<&'a Executable> {
    let is_other = |executable: &&Executable| {
        let path = if executable.role == ExecutableRole::Program { script } else { Path::new(&executable.path) };
        let now = match executable.role {
            ExecutableRole::Argument => return false,
            ExecutableRole::Artifact => hash_artifact(&executable.path, hashes).digest,
            _ => hashes.digest(path).ok(),
        };
        executable.digest.is_some() && executable.digest != now
    };
    recorded.iter().find(is_other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tree::Tree;

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::write(path, text).expect("written");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
    }

    /// Returns role, last part of the path, and digest or reason of each.
    fn shown(found: &[Executable]) -> Vec<String> {
        let line = |executable: &Executable| {
            let name = executable.path.rsplit('/').next().unwrap_or_default();
            let digest =
                executable.digest.map_or_else(|| executable.unpinned.clone().unwrap_or_default(), |digest| digest.short());
            format!("{} {name} {digest}", executable.role)
        };
        found.iter().map(line).collect()
    }

    fn short(text: &str) -> String {
        Digest::compute(text.as_bytes()).short()
    }

    #[test]
    fn a_script_s_interpreters_are_found() {
        let tree = Tree::new(&[]);
        let folder = tree.path();
        let search = format!("/nonexistent:{}", folder.display());
        write(&folder.join("shell"), "the shell", 0o755);
        write(&folder.join("data"), "no program", 0o644);
        let script = folder.join("run.sh");
        let of = |text: &str, values: &[&str]| {
            write(&script, text, 0o755);
            shown(&script_executables(&script, "script", &search, values.iter().copied(), &mut FileDigests::default()))
        };
        let direct = format!("#!{}/shell -e\n", folder.display());
        assert_eq!(
            of(&direct, &[]),
            [format!("program script {}", short(&direct)), format!("interpreter shell {}", short("the shell"))]
        );
        let by_env = "#!/usr/bin/env -S LANG=C shell -e\n";
        let found = of(by_env, &[]);
        assert!(found.contains(&format!("interpreter shell {}", short("the shell"))), "{found:?}");
        assert!(found.iter().any(|line| line.starts_with("interpreter env ")), "{found:?}");
        assert!(of("#!/usr/bin/env no-such-shell\n", &[]).contains(&"interpreter no-such-shell it is not in PATH".to_owned()));
        assert_eq!(of("ELF", &[]), [format!("program script {}", short("ELF"))]);
        let program = folder.join("shell").display().to_string();
        let data = folder.join("data").display().to_string();
        assert_eq!(
            of("ELF", &[&program, &data, "shell", ""]),
            [format!("program script {}", short("ELF")), format!("argument shell {}", short("the shell"))],
            "an executable file is named, and data is not"
        );
        let itself = format!("#!{}\n", script.display());
        assert_eq!(of(&itself, &[]).len(), 2, "a circle ends");
    }

    #[test]
    fn a_file_that_changed_is_named() {
        let tree = Tree::new(&[]);
        let (script, shell) = (tree.path().join("run.sh"), tree.path().join("shell"));
        write(&shell, "one", 0o755);
        write(&script, &format!("#!{}\n", shell.display()), 0o755);
        let mut hashes = FileDigests::default();
        let found = script_executables(&script, "script", "", [], &mut hashes);
        assert_eq!(find_changed(&found, &script, &mut hashes), None);
        write(&shell, "two", 0o755);
        assert_eq!(find_changed(&found, &script, &mut hashes).map(|found| found.role), Some(ExecutableRole::Interpreter));
        std::fs::remove_file(&shell).expect("removed");
        assert!(find_changed(&found, &script, &mut hashes).is_some(), "nor may it vanish");
    }

    #[test]
    fn a_folder_has_the_digest_of_its_files() {
        let tree = Tree::new(&[("a/one", "1"), ("a/deep/two", "2"), ("b/one", "1"), ("b/deep/two", "2"), ("c/one", "1")]);
        let of = |name: &str| hash_artifact(&tree.path().join(name).display().to_string(), &mut FileDigests::default());
        let lines = format!("{}  deep/two\n{}  one\n", Digest::compute(b"2").hex(), Digest::compute(b"1").hex());
        assert_eq!(of("a").digest, Some(Digest::compute(lines.as_bytes())));
        assert_eq!(of("a").digest, of("b").digest);
        assert_ne!(of("a").digest, of("c").digest);
        assert_eq!(of("a/one").digest, Some(Digest::compute(b"1")));
        assert!(of("none").unpinned.is_some());
        std::os::unix::fs::symlink("one", tree.path().join("c/link")).expect("a link");
        assert!(of("c").unpinned.is_some_and(|why| why.contains("neither a file nor a folder")));
    }

    #[test]
    fn the_maps_of_a_process_are_read() {
        let maps = "\
55d0-55d1 r-xp 00001000 fe:00 100 /usr/bin/server
55d1-55d2 rw-p 00002000 fe:00 100 /usr/bin/server
7f00-7f01 r-xp 00000000 fe:00 200 /usr/lib/lib with space.so (deleted)
7f02-7f03 r-xp 00000000 fe:00 201 /usr/lib/libc.so.6
7f03-7f04 r-xp 00003000 fe:00 201 /usr/lib/libc.so.6
7f04-7f05 r--p 00000000 fe:00 202 /usr/lib/locale
7f05-7f06 r-xp 00000000 00:01 203 /memfd:jit (deleted)
7fff-8000 r-xp 00000000 00:00 0 [vdso]
8000-8001 rwxp 00000000 00:00 0 \n";
        let found: Vec<_> =
            libraries(maps).into_iter().map(|map| format!("{} {} {}", map.path, map.inode, map.deleted)).collect();
        assert_eq!(found, ["/usr/bin/server 100 false", "/usr/lib/lib with space.so 200 true", "/usr/lib/libc.so.6 201 false"]);
    }

    #[test]
    fn a_running_process_is_read() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("it starts");
        let program = std::fs::read_link(format!("/proc/{}/exe", child.id())).expect("a program");
        let observed = observe_processes(std::process::id(), &mut FileDigests::default());
        let of = process_executables(child.id(), &mut FileDigests::default());
        let allowed = allowed_cpus(&[child.id()]);
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(of.iter().any(|found| found.role == ExecutableRole::Program && found.digest.is_some()), "{of:?}");
        let path = program.display().to_string();
        assert!(observed.executables.iter().any(|found| found.path == path && found.digest.is_some()), "{observed:?}");
        assert!(allowed.is_some() && own_allowed_cpus().is_some());
        assert_eq!(process_executables(child.id(), &mut FileDigests::default()), [], "nothing is left of one that has ended");
    }

    #[test]
    fn the_cpus_of_a_core_belong_together() {
        let tree = Tree::new(&[
            ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n"),
            ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,5\n"),
        ]);
        let of = |cpus: &str| core_cpus(&tree.root(), &cpus.parse().expect("a list")).to_string();
        assert_eq!([of("0"), of("0-1"), of("7")], ["0,4", "0-1,4-5", "7"], "a CPU of which nothing is known stands for itself");
    }

    #[test]
    fn an_argument_that_is_a_file_is_hashed() {
        let tree = Tree::new(&[("config.yaml", "x"), ("folder/x", "y")]);
        let found = |argument: &str| argument_file(tree.path(), argument).is_some();
        assert!(found("config.yaml") && found("--config=config.yaml"));
        assert!(!found("folder") && !found("none") && !found("") && !found("--x=") && !found("--config=/dev/null"));
    }

    proptest! {
        #[test]
        fn odd_maps_never_make_it_panic(text in "[0-9a-f rwxp:/-]{0,60}\n") {
            let _ = libraries(&text);
        }
    }
}
