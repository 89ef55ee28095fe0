//! `plimsoll presets`: which workloads there are by name, and what they are.

use crate::arguments::{PresetsArguments, PresetsCommand};
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, flag_fault};
use crate::table::aligned;
use model::fault::Faults;
use model::preset::{self, PRESETS, Preset};

/// Lists the presets, or shows one.
///
/// # Errors
/// When there is none of that name.
pub fn run(arguments: &PresetsArguments) -> Result<ExitStatus, Failure> {
    match &arguments.command {
        None => crate::print(&list()),
        Some(PresetsCommand::Show { name }) => match preset::find(name) {
            Ok(preset) => crate::print(&show(preset)),
            Err(problem) => Err(Faults::from(flag_fault("presets show", name, problem)).into()),
        },
    }
}

fn list() -> String {
    let heading = ["NAME", "WORKLOAD"].map(str::to_owned).to_vec();
    let rows = PRESETS
        .iter()
        .map(|preset| vec![preset.name.to_owned(), preset.summary.to_owned()]);
    let table = aligned(&std::iter::once(heading).chain(rows).collect::<Vec<_>>());
    format!(
        "{table}\nplimsoll presets show NAME prints one as files, and what was published for it; plimsoll run --preset NAME runs it.\n"
    )
}

/// The two files one below the other, each under a comment that tells its name, so that they can be copied.
fn show(preset: &Preset) -> String {
    let published = match preset.published {
        Some(published) => format!(
            "# Published: {}\n# Source: {}\n",
            published.figures, published.source
        ),
        None => String::new(),
    };
    let Preset {
        name,
        summary,
        workload,
        driver,
        ..
    } = preset;
    format!("# {summary}\n{published}\n# {name}.yaml\n{workload}\n# {name}.driver.yaml\n{driver}")
}
