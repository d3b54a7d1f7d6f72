//! Versions of the software of this machine that a result depends on.

use assay_manifest::{Fact, Software};

use crate::root::clip;
use crate::{Root, program, system};

/// Returns the kernel, the C library and the C compiler; and the GPU driver if its tool is installed.
pub fn software(root: &Root) -> Vec<Software> {
    let said = |how: &str, output: Result<String, String>, pick: fn(&str) -> Option<String>| {
        let version = output.and_then(|text| pick(&text).ok_or_else(|| format!("`{how}` says `{}`", clip(text.trim()))));
        version.map_or_else(Fact::unknown, |version| Fact::observed(version, how))
    };
    let driver = program::program_output(root, "nvidia-smi", &["--query-gpu=driver_version", "--format=csv,noheader"]);
    let kernel = system::kernel(root).map_or_else(Fact::unknown, |kernel| Fact::observed(kernel, "/proc/sys/kernel"));
    let named = |name: &str, version| Software { name: name.to_owned(), version };
    vec![
        named("kernel", kernel),
        named(
            "libc",
            said("getconf GNU_LIBC_VERSION", program::program_output(root, "getconf", &["GNU_LIBC_VERSION"]), first_line),
        ),
        named("cc", said("cc --version", program::program_output(root, "cc", &["--version"]), first_line)),
        named("nvidia-driver", said("nvidia-smi --query-gpu=driver_version", driver, version_line)),
    ]
}

fn first_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(clip)
}

/// Returns the line that holds a version, of digits and dots; the tool repeats it for each GPU, and prints an explanation if
/// there is none.
fn version_line(text: &str) -> Option<String> {
    first_line(text).filter(|line| line.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn versions_are_lines() {
        assert_eq!(first_line("\ncc (Debian 12.2.0-14) 12.2.0\nCopyright").as_deref(), Some("cc (Debian 12.2.0-14) 12.2.0"));
        assert_eq!(first_line(" \n"), None);
        assert_eq!(version_line("570.86.15\n570.86.15\n").as_deref(), Some("570.86.15"));
        assert_eq!(version_line("No devices were found\n"), None);
    }

    #[test]
    fn every_piece_is_listed_even_where_unknown() {
        let list = software(&Tree::new(&[("proc/sys/kernel/osrelease", "6.1.0\n")]).root());
        let shown: Vec<_> =
            list.iter().map(|one| format!("{}: {:?} ({})", one.name, one.version.value, one.version.how)).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        kernel: Some("6.1.0") (/proc/sys/kernel)
        libc: None (`getconf` is not asked about another machine's files)
        cc: None (`cc` is not asked about another machine's files)
        nvidia-driver: None (`nvidia-smi` is not asked about another machine's files)
        "#);
    }

    #[test]
    fn this_machine_has_a_kernel() {
        assert!(software(&Root::host())[0].version.value.is_some());
    }
}
