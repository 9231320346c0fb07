//! Flags of `nearfar serve`.

use clap::Args;

use super::TextOrJson;

/// `nearfar serve`
#[derive(Args, Debug)]
#[command(after_help = "Example: nearfar serve\n\
                        Example, from another machine: ssh -L 6327:localhost:6327 MACHINE nearfar serve")]
pub struct ServeArgs {
    /// The port; 0 takes any that is free [default: 6327, or the next free one after it]
    #[arg(short, long, value_name = "N", conflicts_with = "listen")]
    pub port: Option<u16>,
    /// Listen on this address instead of 127.0.0.1, as in --listen 192.168.1.7:6327: others can then reach it who have the
    /// token, and who listens on the way can read it, because nothing is encrypted
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub listen: Option<String>,
    /// How to say where it is
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}
