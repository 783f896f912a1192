//! The verbs of a noun, each said once: its name, its arguments and what runs it.

/// Declares the enum that clap parses, and `run`, which runs whichever verb was given.
macro_rules! subcommands {
    (
        $(#[$noun:meta])*
        pub enum Command {
            $( $(#[$verb:meta])* $name:ident($args:ty) => $run:path, )+
        }
    ) => {
        $(#[$noun])*
        #[command(defer = true)]
        pub enum Command {
            $( $(#[$verb])* $name($args), )+
        }

        pub(in crate::cli) async fn run(
            command: Command,
            config: &$crate::config::Config,
            output: &mut $crate::cli::Output,
        ) -> Result<(), $crate::cli::Failure> {
            match command {
                $( Command::$name(args) => Box::pin($run(args, config, output)).await, )+
            }
        }
    };
}

pub(super) use subcommands;
