//! The command line of plimsoll: arguments, wiring, progress and exit status. Only here is anything printed, read from the
//! environment, or ended.

mod arguments;
mod broker_command;
mod console;
mod embedded;
mod exit_status;
mod failure;
mod interruption;
mod plan;
mod presets_command;
mod progress;
mod rehearsal;
mod reproduce;
mod result_folder;
mod run_command;
mod table;
mod topics_command;
mod utc;

use arguments::{Command, CommandLine};
use clap::{CommandFactory, Parser};
use console::Console;
use exit_status::ExitStatus;
use failure::Failure;
use std::panic::{catch_unwind, set_hook};
use std::process::ExitCode;

fn main() -> ExitCode {
    set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let what = payload
            .downcast_ref::<&str>()
            .copied()
            .or(payload.downcast_ref::<String>().map(String::as_str));
        let what = what.unwrap_or("no reason given");
        let place = panic
            .location()
            .map(|place| format!(" at {}:{}", place.file(), place.line()))
            .unwrap_or_default();
        let version = arguments::VERSION;
        Console::new(false).error(&format!(
            "this is a bug in plimsoll {version}, please report it: {what}{place}"
        ));
    }));
    // What a panic leaves behind is dropped on the way here, so that embedded brokers end.
    let status = catch_unwind(act).unwrap_or(ExitStatus::Failed);
    ExitCode::from(status.code())
}

fn act() -> ExitStatus {
    let command_line = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => return tell_usage(&error),
    };
    let outcome = match &command_line.command {
        Command::Run(arguments) => {
            let typed: Vec<String> = std::env::args_os()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            run_command::run(arguments, reproduce::without_secrets(&typed))
        }
        Command::Broker(arguments) => broker_command::run(arguments),
        Command::Topics(arguments) => topics_command::run(&arguments.command),
        Command::Presets(arguments) => presets_command::run(arguments),
        Command::Completion { shell } => completion(*shell),
    };
    outcome.unwrap_or_else(|failure| {
        let console = Console::new(false);
        failure.messages.iter().for_each(|message| console.error(message));
        failure.status
    })
}

/// What the parser has to say: help and version, which were asked for, or what is wrong with the command line.
fn tell_usage(error: &clap::Error) -> ExitStatus {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return console::print(&text).map_or(ExitStatus::Failed, |()| ExitStatus::Done);
    }
    let console = Console::new(false);
    match text.strip_prefix("error: ") {
        Some(told) => console.error(told.trim_end()),
        None => console.usage(&text),
    }
    ExitStatus::Usage
}

fn completion(shell: clap_complete::Shell) -> Result<ExitStatus, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "plimsoll", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Prints the outcome of a command, which has then done what was asked.
fn print(text: &str) -> Result<ExitStatus, Failure> {
    match console::print(text) {
        Ok(()) => Ok(ExitStatus::Done),
        Err(error) => Err(Failure::failed(format!(
            "the output cannot be written: {}",
            failure::system_error(&error)
        ))),
    }
}
