//! `assay install-programs`: copies programs that lie beside this one into a folder, for a container of an image that does not hold them.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use assay_stage::{ErrorCode, Exit, Failure};

use crate::commands::run::binaries;

/// The mode of an installed program: all users may read and execute it, because the container's user is not known.
const MODE: u32 = 0o555;

/// Install programs into a folder.
#[derive(clap::Args)]
pub(crate) struct InstallPrograms {
    /// The destination folder
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// The names of the programs
    #[arg(value_name = "PROGRAM", required = true)]
    programs: Vec<String>,
}

impl InstallPrograms {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let from = binaries()?;
        for program in &self.programs {
            if !program.starts_with("assay") || program.contains('/') {
                return Err(Failure::new(ErrorCode::Program, format!("`{program}` is no program of Assay's")));
            }
            install_program(&from.join(program), &self.to, program).map_err(|error| {
                Failure::new(ErrorCode::InstallPrograms, format!("cannot install `{program}` in `{}`", self.to.display()))
                    .because(&error)
            })?;
        }
        Ok(Exit::Done)
    }
}

/// Installs a program atomically under its own name: a repeated call removes the partial file of an earlier try.
fn install_program(program: &Path, to: &Path, name: &str) -> io::Result<()> {
    let (part, installed) = (to.join(format!(".{name}")), to.join(name));
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::copy(program, &part)?;
    fs::set_permissions(&part, Permissions::from_mode(MODE))?;
    fs::rename(&part, &installed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_installed_whole_and_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        fs::write(&program, "one").expect("written");
        let to = folder.path().join("to");
        fs::create_dir(&to).expect("made");
        for text in ["one", "two"] {
            fs::write(&program, text).expect("written");
            install_program(&program, &to, "assay-execute").expect("installed");
            let installed = to.join("assay-execute");
            assert_eq!(fs::read_to_string(&installed).expect("read"), text);
            assert_eq!(fs::metadata(&installed).expect("there").permissions().mode() & 0o777, MODE);
        }
        assert_eq!(fs::read_dir(&to).expect("a folder").count(), 1);
    }
}
