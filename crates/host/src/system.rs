//! The system around the processors: its name, kernel, virtualization, memory and clock.

use crate::cpu::CpuInfo;
use crate::root::clip;
use crate::{Root, program};

/// The firmware's record of the machine's maker, which for a virtual machine is its hypervisor.
const DMI: &str = "/sys/class/dmi/id";

/// Returns `PRETTY_NAME` of os-release(5).
pub(crate) fn operating_system(root: &Root) -> Result<String, String> {
    let text = root.text("/etc/os-release").or_else(|why| root.text("/usr/lib/os-release").map_err(|_| why))?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(unquoted);
    value("PRETTY_NAME")
        .or_else(|| value("NAME"))
        .filter(|name| !name.is_empty())
        .ok_or_else(|| "`/etc/os-release` has no name".to_owned())
}

fn unquoted(value: &str) -> String {
    clip(value.trim().trim_matches(['"', '\'']))
}

/// Returns the kernel's release and version.
pub(crate) fn kernel(root: &Root) -> Result<String, String> {
    let release = root.word("/proc/sys/kernel/osrelease")?;
    Ok(match root.word("/proc/sys/kernel/version") {
        Ok(version) => format!("{release} {version}"),
        Err(_) => release,
    })
}

/// Returns the container and the hypervisor that are detected, or `none seen`.
pub(crate) fn virtualization(root: &Root, cpu: &CpuInfo) -> Result<String, String> {
    let seen: Vec<_> = [container(root), hypervisor(root, cpu)].into_iter().flatten().collect();
    // Only x86 shows in its flags that there is no hypervisor; elsewhere a missing flag proves nothing.
    match seen.is_empty() {
        false => Ok(seen.join("; ")),
        true if cpu.signature().is_ok_and(|signature| !signature.starts_with("0x")) => Ok("none seen".to_owned()),
        true => Err(format!("neither a container nor `{DMI}` nor `/sys/hypervisor/type` says")),
    }
}

fn container(root: &Root) -> Option<String> {
    let groups = root.text("/proc/self/cgroup").unwrap_or_default();
    let kind = if root.exists("/.dockerenv") || groups.contains("/docker") {
        "docker"
    } else if root.exists("/run/.containerenv") {
        "podman"
    } else if groups.contains("kubepods") || root.exists("/var/run/secrets/kubernetes.io") {
        "kubernetes"
    } else {
        return None;
    };
    Some(format!("container: {kind}"))
}

fn hypervisor(root: &Root, cpu: &CpuInfo) -> Option<String> {
    if let Ok(kind) = root.word("/sys/hypervisor/type") {
        return Some(format!("hypervisor: {}", clip(&kind)));
    }
    let vendor = root.word(&format!("{DMI}/sys_vendor")).ok();
    let product = root.word(&format!("{DMI}/product_name")).ok();
    let firmware = [vendor, product].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let virtual_words =
        ["QEMU", "KVM", "VMware", "VirtualBox", "Xen", "Amazon EC2", "Google Compute Engine", "Virtual Machine", "OpenStack"];
    // A bare-metal instance names its cloud as well, so on x86 the processor's own flag decides.
    let names_one = virtual_words.iter().any(|word| firmware.contains(word)) && !firmware.contains("metal");
    match (cpu.under_hypervisor(), firmware.is_empty()) {
        (true, true) => Some("hypervisor: seen by the processor's flag, not named".to_owned()),
        (true, false) => Some(format!("hypervisor: {}", clip(&firmware))),
        (false, _) if names_one => Some(format!("hypervisor: {}", clip(&firmware))),
        (false, _) => None,
    }
}

/// Returns a field of `/proc/meminfo`, in bytes.
pub(crate) fn memory_field(text: &str, field: &str) -> Result<u64, String> {
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.and_then(|kib| kib.checked_mul(1024)).ok_or_else(|| format!("`/proc/meminfo` has no `{field}` in kB"))
}

/// Returns the chosen one of `always [madvise] never`.
pub(crate) fn huge_pages(root: &Root) -> Result<String, String> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = root.word(path)?;
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.map(str::to_owned).ok_or_else(|| format!("`{path}` marks no mode: `{}`", clip(&text)))
}

/// Returns true if the kernel reports that its clock is synchronised.
///
/// The kernel reports it only through adjtimex(2), which `timedatectl` passes on as `NTPSynchronized`.
pub(crate) fn clock_synchronised(root: &Root) -> Result<bool, String> {
    synchronised_word(&program::program_output(root, "timedatectl", &["show", "--property=NTPSynchronized", "--value"])?)
}

fn synchronised_word(said: &str) -> Result<bool, String> {
    match said.trim() {
        "yes" => Ok(true),
        "no" => Ok(false),
        other => Err(format!("`timedatectl` says `{}`", clip(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn text(result: Result<String, String>) -> String {
        result.unwrap_or_else(|why| format!("unknown: {why}"))
    }

    #[test]
    fn the_system_is_named() {
        let tree = Tree::new(&[
            ("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ]);
        insta::assert_snapshot!(text(operating_system(&tree.root())), @"Debian GNU/Linux 12 (bookworm)");
        insta::assert_snapshot!(text(kernel(&tree.root())), @"6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1");
        insta::assert_snapshot!(text(huge_pages(&tree.root())), @"madvise");
    }

    #[test]
    fn what_the_system_does_not_say_is_unknown() {
        let tree = Tree::new(&[("etc/os-release", "ID=x\n"), ("sys/kernel/mm/transparent_hugepage/enabled", "never\n")]);
        insta::assert_snapshot!(text(operating_system(&tree.root())), @"unknown: `/etc/os-release` has no name");
        insta::assert_snapshot!(text(huge_pages(&tree.root())), @"unknown: `/sys/kernel/mm/transparent_hugepage/enabled` marks no mode: `never`");
    }

    #[test]
    fn containers_and_hypervisors_are_seen() {
        let bare = CpuInfo::parse("cpu family : 6\nmodel : 1\nstepping : 1\nflags : fpu\n");
        let guest = CpuInfo::parse("cpu family : 6\nmodel : 1\nstepping : 1\nflags : fpu hypervisor\n");
        let arm = CpuInfo::parse("CPU implementer : 0x41\nCPU part : 0xd4f\nCPU variant : 0x0\nCPU revision : 0\n");
        let check = |files: &[(&str, &str)], cpu: &CpuInfo| text(virtualization(&Tree::new(files).root(), cpu));
        insta::assert_snapshot!(check(&[], &bare), @"none seen");
        insta::assert_snapshot!(check(&[("sys/class/dmi/id/sys_vendor", "Dell Inc.\n")], &bare), @"none seen");
        insta::assert_snapshot!(check(&[], &guest), @"hypervisor: seen by the processor's flag, not named");
        insta::assert_snapshot!(
            check(&[("sys/class/dmi/id/sys_vendor", "QEMU\n"), (".dockerenv", "")], &guest),
            @"container: docker; hypervisor: QEMU"
        );
        insta::assert_snapshot!(check(&[("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"), ("sys/class/dmi/id/product_name", "c7g.metal\n")], &arm), @"unknown: neither a container nor `/sys/class/dmi/id` nor `/sys/hypervisor/type` says");
        insta::assert_snapshot!(check(&[("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"), ("sys/class/dmi/id/product_name", "c7g.large\n")], &arm), @"hypervisor: Amazon EC2 c7g.large");
        insta::assert_snapshot!(check(&[("proc/self/cgroup", "0::/kubepods.slice/pod1\n")], &arm), @"container: kubernetes");
    }

    #[test]
    fn memory_is_in_bytes() {
        let meminfo = "MemTotal:       24602412 kB\nMemFree:  x kB\nSwapTotal:             0 kB\nHugePages_Total:       0\n";
        assert_eq!(memory_field(meminfo, "MemTotal"), Ok(24_602_412 * 1024));
        assert_eq!(memory_field(meminfo, "SwapTotal"), Ok(0));
        for odd in ["MemFree", "HugePages_Total", "MemAvailable", "Mem"] {
            assert!(memory_field(meminfo, odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn the_clock_s_word_is_read() {
        assert_eq!((synchronised_word("yes\n"), synchronised_word("no\n")), (Ok(true), Ok(false)));
        insta::assert_snapshot!(synchronised_word("").expect_err("odd"), @"`timedatectl` says ``");
    }
}
