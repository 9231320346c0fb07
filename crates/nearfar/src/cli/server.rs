//! Arguments of commands that measure or run a server with its load, and of those that read a number from an output.

use clap::Args;

/// A server and its load.
#[derive(Args, Debug)]
pub struct ServerArgs {
    /// Start this server first, and run CMD as its load
    #[arg(long, value_name = "CMD")]
    pub server: Option<String>,
    /// Treat CMD as the server, and run this load
    #[arg(long, alias = "with", value_name = "CMD", conflicts_with = "server")]
    pub load: Option<String>,
    /// Server readiness: started, port:N, file:PATH, line:REGEX or 'command:CMD' [default: started]
    #[arg(long, value_name = "CONDITION")]
    pub ready: Option<String>,
    /// Time limit of the server until it is ready [default: 30s, or the budget of time if shorter]
    #[arg(long, value_name = "DURATION")]
    pub ready_timeout: Option<String>,
    /// Time for the server to end before it is killed [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub stop_timeout: Option<String>,
}

impl ServerArgs {
    pub fn has_server(&self) -> bool {
        self.server.is_some() || self.load.is_some()
    }
}

/// A number in the output of the measured command.
#[derive(Args, Debug)]
pub struct MetricArgs {
    /// Optimise the number captured in the output of the measured command
    #[arg(long, value_name = "REGEX", conflicts_with = "metric_json")]
    pub metric: Option<String>,
    /// Optimise the number at this JSON pointer in the output
    #[arg(long, value_name = "POINTER")]
    pub metric_json: Option<String>,
    /// Maximise the metric instead of minimising it
    #[arg(long)]
    pub higher_is_better: bool,
    /// Name of the metric in the output of nearfar, such as tps
    #[arg(long, value_name = "NAME")]
    pub metric_name: Option<String>,
    /// Unit of the metric in the output of nearfar, such as 1/s
    #[arg(long, value_name = "UNIT")]
    pub metric_unit: Option<String>,
}

impl MetricArgs {
    pub fn has_metric(&self) -> bool {
        self.metric.is_some() || self.metric_json.is_some()
    }
}
