//! `dikast-bindgen INPUT.wasm DIRECTORY`: the bindings of a module, for pages and workers.

use std::env::args_os;
use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let mut args = args_os().skip(1);
    let (Some(input), Some(directory), None) = (args.next(), args.next(), args.next()) else {
        eprintln!("usage: dikast-bindgen INPUT.wasm DIRECTORY");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    let written = bindgen
        .input_path(&input)
        .typescript(true)
        .omit_default_module_path(false)
        .web(true)
        .and_then(|bindgen| bindgen.generate(&directory));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dikast-bindgen: {}: {error:#}", input.display());
            ExitCode::FAILURE
        }
    }
}
