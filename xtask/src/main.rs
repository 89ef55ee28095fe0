//! The project's chores, as `cargo x …`: `check`, `test`, `fuzz`, `bench`, `status`, and `kafka`, which runs real Apache Kafka here.
//!
//! What is needed of the machine (a JDK, Maven, kcat) is installed from Debian's packages where it is missing; everything
//! that a chore makes stands under Cargo's target directory.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "chores report to the person who runs them"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "chores wait for processes, and read JAVA_HOME, CARGO and the like"
)]

mod accounts;
mod bench;
mod check;
mod debian;
mod draw;
mod failures;
mod fuzz;
mod kafka;
mod process;
mod soak;
mod status;
mod suites;
mod test;
mod tier;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use workspace::Workspace;

/// The project's chores.
#[derive(Parser)]
#[command(name = "cargo x", bin_name = "cargo x", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Formatting, clippy with warnings as errors, the house rules, and cargo-deny where it is installed
    Check(check::Arguments),
    /// All tests: the workspace's, then those against real Kafka and its tools, and kcat; or a tier that takes longer
    Test(test::Arguments),
    /// Every decoder of both sides, fed with damaged input
    Fuzz(fuzz::Arguments),
    /// Rates and CPU: with embedded brokers, and beside Kafka's own tools and librdkafka's on real Kafka
    Bench(bench::Arguments),
    /// Which tier was run last, on which commit, and how it ended
    Status,
    /// Real Apache Kafka on loopback, from Maven Central
    #[command(subcommand)]
    Kafka(kafka::Command),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = Workspace::locate().and_then(|workspace| match arguments.chore {
        Chore::Check(arguments) => check::run(&workspace, &arguments),
        Chore::Test(arguments) => test::run(&workspace, &arguments),
        Chore::Fuzz(arguments) => fuzz::run(&workspace, &arguments),
        Chore::Bench(arguments) => bench::run(&workspace, &arguments),
        Chore::Status => status::print(&workspace),
        Chore::Kafka(command) => kafka::run(&workspace, command),
    });
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cargo x: {error:#}");
            ExitCode::FAILURE
        }
    }
}
