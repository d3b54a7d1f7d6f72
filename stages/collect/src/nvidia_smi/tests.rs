use std::os::unix::fs::PermissionsExt as _;

use assay_manifest::{Count, Series};
use assay_telemetry::{LineFormat, each_reading};

use super::*;

/// A scripted program in a folder, and the file that its readings are kept in.
struct Scripted {
    folder: tempfile::TempDir,
}

impl Scripted {
    /// Creates a program with these lines of a shell script. `values` prints a line of values of a GPU, as long as the query.
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("nvidia-smi");
        let head = "#!/bin/sh\nquery=${1#--query-gpu=}\nvalues() { shown=\"2026/11/20 12:00:00.123, $1, GPU-$1\"\n\
                    for field in $(echo \"$query\" | tr , ' '); do case $field in timestamp|index|uuid) ;; *) shown=\"$shown, 7\";; esac; done\n\
                    echo \"$shown\"; }\n";
        std::fs::write(&path, format!("{head}{script}\n")).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
        Self { folder }
    }

    fn reader(&self, max_lines: u64) -> GpuReader {
        let (watch, source) = (Clock.start(), Source::nvidia_smi(&"gpus".parse().expect("a name")));
        GpuReader {
            file: ReadingFile::create(&source, READING, &self.folder.path().join("readings"), watch).expect("a file"),
            watch,
            program: self.folder.path().join("nvidia-smi").display().to_string(),
            spawner: Spawner::start().expect("a thread"),
            stopped: Cancel::new().expect("a token"),
            max_lines,
            has_values: false,
        }
    }

    /// Reads the program to its end.
    fn read(&self) -> (End, RecordedSource) {
        self.read_with(&Query::default(), MAX_LINES)
    }

    fn read_with(&self, query: &Query, max_lines: u64) -> (End, RecordedSource) {
        let mut reader = self.reader(max_lines);
        let end = reader.read(query, &Messages::channel().0).expect("written");
        (end, reader.file.finish().expect("written"))
    }
}

/// Returns the lines of a recording: the GPUs of a reading, or the reason why there is none.
fn lines(recorded: &RecordedSource) -> Vec<String> {
    let artifact = serde_json::json!({
        "name": "g", "digest": assay_manifest::Digest::compute(b""), "size": "0", "media_type": "application/jsonl+zstd",
    });
    let artifact = serde_json::from_value(artifact).expect("an artifact");
    let series = Series { source: "nvidia-smi/gpus".to_owned(), samples: Count(recorded.samples), artifact };
    let mut found = Vec::new();
    each_reading(&series, LineFormat::Scrapes, File::open(&recorded.path).expect("there"), |line: ScrapeLine| {
        let gpus = |body: String| {
            let uuids = body.lines().skip(1).filter_map(|line| line.split(", ").nth(2));
            uuids.collect::<Vec<_>>().join(" ")
        };
        found.push(line.body.map(gpus).or(line.error).unwrap_or_default());
        Ok::<_, assay_telemetry::Error>(())
    })
    .expect("readable");
    found
}

#[test]
fn a_reading_has_a_line_of_each_gpu() {
    let program = Scripted::new("values 0; values 1; values 0; values 1; values 0; exit 3");
    let (end, recorded) = program.read();
    assert_eq!(lines(&recorded), ["GPU-0 GPU-1", "GPU-0 GPU-1", "GPU-0"]);
    assert_eq!(end, End::Over("it ended with exit code 3".to_owned()));
    assert_eq!(recorded.gaps, []);
}

#[test]
fn the_reason_of_a_program_that_ends_is_kept() {
    let program = Scripted::new("echo 'No devices were found'; exit 6");
    let (end, recorded) = program.read();
    assert_eq!(lines(&recorded), ["it printed `No devices were found`"]);
    assert_eq!(end, End::Over("it ended with exit code 6 and printed `No devices were found`".to_owned()));
    assert_eq!(recorded.gaps[0].reason, "a reading failed: it printed `No devices were found`");
}

#[test]
fn a_field_that_the_driver_does_not_know_is_left_out() {
    let refuse = "case $query in *clocks_event_reasons*) echo 'Field \"clocks_event_reasons.gpu_idle\" is not a valid field to query.'; exit 2;;\n\
                  *temperature.memory*) echo 'Field \"temperature.memory\" is not a valid field to query.'; exit 2;; esac\n";
    let program = Scripted::new(&format!("{refuse}values 0"));
    let (end, recorded) = program.read();
    assert_eq!(end, End::Refused("clocks_event_reasons.gpu_idle".to_owned()));
    assert_eq!(lines(&recorded), [""; 0]);
    let older = Query::default().without("clocks_event_reasons.gpu_idle").expect("an older spelling");
    assert_eq!(program.read_with(&older, MAX_LINES).0, End::Refused("temperature.memory".to_owned()));
    let fewer = older.without("temperature.memory").expect("the others");
    assert_eq!(lines(&program.read_with(&fewer, MAX_LINES).1), ["GPU-0"]);
}

#[test]
fn endless_output_is_read_up_to_a_limit() {
    let lines_end = End::Over("it printed more than 8 lines within a second".to_owned());
    // The budget of this reader is never renewed, however slow the machine is: its first line begins the only interval.
    let mut budget = LineBudget::new(8);
    assert!((0..8).all(|_| budget.take(5).is_none()));
    assert_eq!(budget.take(5).map(End::Over), Some(lines_end));
    assert_eq!(budget.take(2_000_000_000), None, "the next second has a budget of its own");
    let program = Scripted::new("yes 'no values'");
    let (end, recorded) = program.read();
    assert_eq!(end, End::Over("it printed more than 100 lines that are no values".to_owned()));
    assert_eq!(lines(&recorded).len(), 100);
    let program = Scripted::new("exec cat /dev/zero");
    let (end, _) = program.read();
    assert_eq!(end, End::Over("it printed a line that is too long".to_owned()));
}

#[test]
fn a_program_that_hangs_is_ended_with_the_recorder() {
    let scripted = Scripted::new("values 0; exec sleep 1000");
    let mut reader = scripted.reader(MAX_LINES);
    let stopped = reader.stopped.clone();
    let printed = reader.start(&Query::default()).expect("it starts");
    let query = Query::default();
    let mut reading = OpenReading::new(&query);
    // The line is there before the recorder ends.
    let first = printed.recv().expect("a line");
    let Printed::Line(at, line) = first else { panic!("a line") };
    let line = String::from_utf8(line).expect("text");
    reading.add(at, query.gpu_of(line.trim()).expect("a GPU"), line.trim());
    stopped.cancel("the recorder ends");
    let end = reader.read_lines(&query, &printed, &mut reading, &Messages::channel().0).expect("written");
    assert_eq!(end, End::Stopped);
    reader.keep(&mut reading).expect("written");
    assert_eq!(lines(&reader.file.finish().expect("written")), ["GPU-0"]);
}

#[test]
fn a_program_that_is_absent_is_named() {
    let scripted = Scripted::new("");
    let mut reader = GpuReader { program: "no-such-program-anywhere".to_owned(), ..scripted.reader(MAX_LINES) };
    let end = reader.read(&Query::default(), &Messages::channel().0).expect("written");
    assert_eq!(end, End::Over("there is no program `no-such-program-anywhere` in PATH".to_owned()));
}
