//! `assay keys`: the keys of this machine and the trust root that names them.

use assay_envelope::ScryptCost;
use assay_manifest::Role;
use assay_runner::{Config, LocalKeys, init_keys, rotate_keys};
use assay_stage::{Clock, ErrorCode, Exit, Failure, key_password};

use crate::output;

/// Manage the local keys: one per role, in cosign's format. They separate roles, not users.
#[derive(clap::Args)]
pub(crate) struct Keys {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(clap::Subcommand)]
enum KeysCommand {
    /// Create the missing keys, and a local trust root that names them
    Init {
        /// The scrypt cost of a key: 65536 as in cosign, 131072 against guessing, 32768 for tests
        #[arg(long, value_name = "N", default_value = "65536", value_parser = ["32768", "65536", "131072"])]
        scrypt_n: String,
    },
    /// Replace keys: the old ones verify what they signed until now, and can sign no more
    Rotate {
        /// The roles whose keys are replaced [default: all]
        #[arg(value_name = "ROLE")]
        roles: Vec<String>,
        /// The scrypt cost of a key: 65536 as in cosign, 131072 against guessing, 32768 for tests
        #[arg(long, value_name = "N", default_value = "65536", value_parser = ["32768", "65536", "131072"])]
        scrypt_n: String,
    },
    /// List the keys with their fingerprints
    List,
}

impl Keys {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let config = Config::find()?;
        match self.command {
            KeysCommand::Init { scrypt_n } => init(&config, &scrypt_n)?,
            KeysCommand::Rotate { roles, scrypt_n } => rotate(&config, &roles, &scrypt_n)?,
            KeysCommand::List => list(&config)?,
        }
        Ok(Exit::Done)
    }
}

fn init(config: &Config, scrypt_n: &str) -> Result<(), Failure> {
    let password = password();
    let made = init_keys(config, password.as_encoded_bytes(), cost_of(scrypt_n))?;
    if made.roles.is_empty() {
        output::diagnostic(format!("every key is there already, in {}", config.folder().join("keys").display()));
    }
    list(config)
}

fn password() -> std::ffi::OsString {
    let password = key_password();
    if password.is_empty() {
        output::diagnostic("COSIGN_PASSWORD is not set: the keys are encrypted with an empty password");
    }
    password
}

fn cost_of(scrypt_n: &str) -> ScryptCost {
    match scrypt_n {
        "32768" => ScryptCost::Cheap,
        "131072" => ScryptCost::Strong,
        _ => ScryptCost::Standard,
    }
}

fn rotate(config: &Config, roles: &[String], scrypt_n: &str) -> Result<(), Failure> {
    let known = Role::LOCAL.map(Role::as_str).join(", ");
    let named = |role: &String| {
        Role::LOCAL.into_iter().find(|known| known.as_str() == role).ok_or_else(|| {
            Failure::new(ErrorCode::NoSuchRole, format!("there is no local key for `{role}`")).hint(format!("the roles: {known}"))
        })
    };
    let mut roles = roles.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        roles = Role::LOCAL.to_vec();
    }
    let now = Clock.now();
    for rotated in rotate_keys(config, &roles, password().as_encoded_bytes(), cost_of(scrypt_n), now)? {
        output::line(format!("{:<10} {} until {now}", rotated.role, rotated.old.fingerprint()));
        output::line(format!("{:<10} {} from then on", "", rotated.new.fingerprint()));
    }
    output::line(format!("{:<10} {}", "trust root", config.trust().display()));
    output::diagnostic(
        "other trust policies, in Git or in a cluster, need the same change: name both keys there, each with its window",
    );
    output::diagnostic(
        "a signature's time is asserted by its signer: a copy of an old key can still sign with an old date, unless the policy requires a timestamp",
    );
    Ok(())
}

fn list(config: &Config) -> Result<(), Failure> {
    let missing = LocalKeys::new(config).missing();
    if !missing.is_empty() {
        let roles: Vec<_> = missing.iter().map(|role| role.as_str()).collect();
        return Err(Failure::new(ErrorCode::NoKeys, format!("there is no key for {}", roles.join(", ")))
            .hint("`assay keys init` makes them"));
    }
    for (role, key) in LocalKeys::new(config).public_keys()? {
        output::line(format!("{role:<10} {}  {}", key.fingerprint(), config.public_key(role).display()));
    }
    output::line(format!("{:<10} {}", "trust root", config.trust().display()));
    Ok(())
}
