//! A definition of any kind.

use crate::acknowledgement::Acknowledgement;
use crate::define::{DefinitionKind, decode_text, parse_tree_and_kind, read};
use crate::foreign_gate::ForeignGate;
use crate::noise::Noise;
use crate::pipeline::Pipeline;
use crate::problem::{Problem, Problems, Source};
use crate::trust::TrustPolicy;
use crate::workload::Workload;

/// A valid definition.
#[derive(Clone, Debug)]
pub enum Definition {
    /// A pipeline.
    Pipeline(Box<Pipeline>),
    /// A workload.
    Workload(Box<Workload>),
    /// A trust policy.
    TrustPolicy(Box<TrustPolicy>),
    /// An acknowledgement.
    Acknowledgement(Box<Acknowledgement>),
    /// A noise file.
    Noise(Box<Noise>),
    /// The rules by which foreign evidence is judged.
    ForeignGate(Box<ForeignGate>),
}

impl Definition {
    /// Parses a file of any kind; `file` is its name in problems.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        let text = decode_text(file, bytes)?;
        let source = Source::new(file, text);
        let mut problems = Problems::new(&source);
        let Some((node, kind)) = parse_tree_and_kind(&mut problems) else { return Err(problems.finish()) };
        match kind {
            DefinitionKind::Pipeline => read::<Pipeline>(&node, problems).map(|pipeline| Self::Pipeline(Box::new(pipeline))),
            DefinitionKind::Workload => read::<Workload>(&node, problems).map(|workload| Self::Workload(Box::new(workload))),
            DefinitionKind::TrustPolicy => read::<TrustPolicy>(&node, problems).map(|policy| Self::TrustPolicy(Box::new(policy))),
            DefinitionKind::Acknowledgement => {
                read::<Acknowledgement>(&node, problems).map(|accepted| Self::Acknowledgement(Box::new(accepted)))
            }
            DefinitionKind::Noise => read::<Noise>(&node, problems).map(|noise| Self::Noise(Box::new(noise))),
            DefinitionKind::ForeignGate => read::<ForeignGate>(&node, problems).map(|gate| Self::ForeignGate(Box::new(gate))),
        }
    }
}
