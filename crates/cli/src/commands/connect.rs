//! `galatea connect`: statements and the prompt of galatea, run by a server.

use std::io;
use std::path::Path;

use galatea_server::{Client, Credentials};

use crate::arguments::{ConnectArguments, LoginArguments, SessionArguments};
use crate::errors::CliError;
use crate::remote::Remote;

pub(crate) async fn run(session: &SessionArguments, arguments: &ConnectArguments) -> Result<(), CliError> {
    let credentials = credentials(&arguments.login)?;
    let client = Client::connect(&arguments.server, arguments.ca.as_deref(), &credentials).await?;
    let mut shell = super::shell(session, &arguments.query).await?;
    shell.remote = Some(Remote::new(client, &arguments.server));
    super::prompt_or_all(&mut shell, &arguments.query).await
}

/// The credentials in files.
pub(super) fn credentials(login: &LoginArguments) -> Result<Credentials, CliError> {
    Ok(match (&login.user, &login.password_file, &login.token_file) {
        (Some(user), Some(path), _) => Credentials::Password {
            user: user.clone(),
            password: first_line(path)?,
        },
        (_, _, Some(path)) => Credentials::Token(first_line(path)?),
        _ => Credentials::None,
    })
}

/// The first line of a file; `-` is standard input.
fn first_line(path: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    let read = match path == Path::new("-") {
        true => io::stdin().read_line(&mut text).map(|_| text),
        false => std::fs::read_to_string(path),
    };
    let text = read.map_err(|cause| CliError::File {
        path: path.to_path_buf(),
        cause,
    })?;
    Ok(text.lines().next().unwrap_or_default().to_string())
}
