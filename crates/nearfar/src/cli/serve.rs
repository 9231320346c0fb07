//! Arguments of `nearfar serve`.

use clap::Args;

use super::TextOrJson;

/// `nearfar serve`
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Port; 0 selects any free port [default: 6327, or the next free port]
    #[arg(short, long, value_name = "N", conflicts_with = "listen")]
    pub port: Option<u16>,
    /// Listen on this address instead of 127.0.0.1; clients need the token, and traffic is not encrypted
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub listen: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}
