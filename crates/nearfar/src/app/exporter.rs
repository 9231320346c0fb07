//! Reads a series of a Prometheus exporter. Must not depend on what it means.

use std::time::Duration;

use model::values::live_metric::{SeriesSelector, SeriesSum};
use ureq::Agent;

/// Largest response. Exporters of large systems send some MiB.
const RESPONSE_MAX: u64 = 64 << 20;

/// An exporter with an open connection.
#[derive(Debug)]
pub struct Exporter {
    agent: Agent,
    url: String,
    series: SeriesSelector,
}

impl Exporter {
    pub fn new(url: &str, series: &SeriesSelector) -> Self {
        // A proxy of the environment is meant for other machines.
        let config = Agent::config_builder().proxy(None).build();
        Self { agent: config.into(), url: url.into(), series: series.clone() }
    }

    /// Returns the sum of the series.
    ///
    /// # Errors
    /// If the exporter does not send all of its text in time, or if no series matches.
    pub fn read(&self, limit: Duration) -> Result<SeriesSum, String> {
        let failed = |error: ureq::Error| format!("{}: {error}", self.url);
        let request = self.agent.get(&self.url).config().timeout_global(Some(limit)).build();
        let mut response = request.call().map_err(failed)?;
        let text =
            response.body_mut().with_config().limit(RESPONSE_MAX).lossy_utf8(true).read_to_string().map_err(failed)?;
        self.series.sum(&text).ok_or_else(|| format!("{} has no series {}", self.url, self.series))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Starts a server that sends a text after the head of each request, and returns its URL. Without a text it never answers.
    pub fn exporter(text: Option<&'static str>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/metrics", listener.local_addr().expect("an address"));
        let answer = move |stream: &mut TcpStream, text: &str| {
            let mut head = [0; 4096];
            let read = stream.read(&mut head)?;
            assert!(head[..read].starts_with(b"GET /metrics HTTP/1.1"));
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len())
        };
        std::thread::spawn(move || {
            let mut waiting = Vec::new();
            for mut stream in listener.incoming().flatten() {
                match text {
                    Some(text) => answer(&mut stream, text).expect("the client reads"),
                    None => waiting.push(stream),
                }
            }
        });
        url
    }

    fn read(url: &str, series: &str, limit: Duration) -> Result<f64, String> {
        Exporter::new(url, &SeriesSelector::parse(series).expect("it is valid")).read(limit).map(|found| found.sum)
    }

    #[test]
    fn series_of_an_exporter_are_read() {
        let (url, limit) = (exporter(Some("a{b=\"1\"} 3\na{b=\"2\"} 4\n")), Duration::from_secs(60));
        assert_eq!(read(&url, "a", limit), Ok(7.0));
        assert_eq!(read(&url, "a{b=\"2\"}", limit), Ok(4.0));
        assert_eq!(read(&url, "a{b=\"3\"}", limit), Err(format!("{url} has no series a{{b=\"3\"}}")));
    }

    #[test]
    fn exporter_that_does_not_answer_is_an_error() {
        let error = read(&exporter(None), "a", Duration::from_millis(200)).expect_err("it never answers");
        assert!(error.contains("timeout"), "{error}");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        assert!(read(&format!("http://127.0.0.1:{port}/"), "a", Duration::from_secs(60)).is_err());
    }
}
