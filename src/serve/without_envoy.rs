//! What stands in for Envoy's rate limit service in a program that was built without it.

use std::net::SocketAddr;

use super::App;
use crate::commands::Error;
use crate::run::Stop;

/// No service.
pub struct Envoy;

impl Envoy {
    /// Refuses a configuration that has the service.
    ///
    /// # Errors
    /// The configuration has `[serve.envoy]`.
    pub fn bind(app: &App) -> Result<Self, Error> {
        match app.environment.config.serve.envoy {
            None => Ok(Self),
            Some(_) => Err(Error::Usage(
                "this program was built without Envoy's rate limit service; build it with `--features envoy`, or \
                remove [serve.envoy]"
                    .to_owned(),
            )),
        }
    }

    pub const fn address(&self) -> Option<SocketAddr> {
        None
    }

    pub async fn serve(self, _stop: Stop) {}
}
