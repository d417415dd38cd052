//! Variables of the environment that stand for flags: an empty one means the same as none.

use std::env;

use clap::Command;
use clap::builder::Resettable;

/// The command without the variables that are set to nothing.
pub(super) fn without_empty(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let empty = arg.get_env().and_then(env::var_os).is_some_and(|value| value.is_empty());
        if empty { arg.env(Resettable::Reset) } else { arg }
    });
    command.mut_subcommands(without_empty)
}
