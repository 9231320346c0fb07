//! Whether the data segments that a port receives are proportional to its requests. Must not depend on how they are counted.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::hint::Hinted;
use crate::stats::statistics::median;
use crate::stats::switchback::ArmId;

/// Fewer segments are not judged.
const SEGMENTS_MIN: u64 = 20;
/// Largest share of segments that may be lost because connections close.
const LOST_MAX: f64 = 0.2;
/// Periods of each placement from which their sizes are compared.
const PERIODS_MIN: usize = 10;
/// Largest ratio of the bytes per segment of two placements. The requests are the same, so a larger ratio means that more
/// of them arrive in one segment while the service is slow. A fixed number per segment does not change the ratio of rates.
const SIZE_RATIO_MAX: f64 = 1.2;

/// Data that a port has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpTraffic {
    /// Number of segments with data.
    pub segments: u64,
    pub bytes: u64,
    /// Segments of connections that began since the previous reading. About as many are lost: those that arrive between the
    /// last reading of a connection and its close.
    pub of_new: u64,
}

/// Traffic whose segments are not proportional to its requests.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TcpUnsuitable {
    #[error(
        "connections to port {port} are too short: {percent:.0} % of the requests were on connections that had just begun, so about as many are not counted"
    )]
    ShortConnections { port: u16, percent: f64 },
    #[error(
        "requests to port {port} share packets: {low:.0} bytes arrive per packet under one placement and {high:.0} under another"
    )]
    SharedSegments { port: u16, low: f64, high: f64 },
}

impl Hinted for TcpUnsuitable {
    fn hint(&self) -> Option<String> {
        Some("use a counter of the service: prom:URL#NAME, log:FILE or 'command:CMD#REGEX'".into())
    }
}

impl TcpTraffic {
    /// Returns the traffic since an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            segments: self.segments.saturating_sub(before.segments),
            bytes: self.bytes.saturating_sub(before.bytes),
            of_new: self.of_new.saturating_sub(before.of_new),
        }
    }

    /// Checks that most requests are on connections that are read more than once.
    ///
    /// # Errors
    /// If too many requests are lost.
    pub fn check_connections(&self, port: u16) -> Result<(), TcpUnsuitable> {
        let share = self.of_new as f64 / self.segments.max(1) as f64;
        if self.segments >= SEGMENTS_MIN && share > LOST_MAX {
            return Err(TcpUnsuitable::ShortConnections { port, percent: 100.0 * share });
        }
        Ok(())
    }
}

/// Checks that the sizes of segments do not depend on the placement, given the traffic of each period.
///
/// # Errors
/// If they do.
pub fn check_sizes(port: u16, periods: &BTreeMap<ArmId, Vec<TcpTraffic>>) -> Result<(), TcpUnsuitable> {
    let size = |traffic: &TcpTraffic| {
        (traffic.segments >= SEGMENTS_MIN).then(|| traffic.bytes as f64 / traffic.segments as f64)
    };
    let sizes = periods.values().map(|periods| periods.iter().filter_map(size).collect::<Vec<f64>>());
    // The median, because a few large requests change the mean.
    let medians: Vec<f64> =
        sizes.filter(|sizes| sizes.len() >= PERIODS_MIN).filter_map(|sizes| median(&sizes)).collect();
    let low = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let high = medians.iter().copied().fold(0.0, f64::max);
    if high > SIZE_RATIO_MAX * low { Err(TcpUnsuitable::SharedSegments { port, low, high }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(segments: u64, bytes: u64, of_new: u64) -> TcpTraffic {
        TcpTraffic { segments, bytes, of_new }
    }

    #[test]
    fn short_connections_are_refused() {
        for (segments, of_new, is_suitable) in
            [(0, 0, true), (19, 19, true), (20, 20, false), (1000, 200, true), (1000, 201, false), (1000, 0, true)]
        {
            let checked = traffic(segments, 0, of_new).check_connections(80);
            assert_eq!(checked.is_ok(), is_suitable, "{segments} {of_new}");
        }
        let error = traffic(50, 0, 49).check_connections(80).expect_err("it is refused");
        assert!(error.to_string().contains("port 80 are too short: 98 %") && error.hint().is_some(), "{error}");
    }

    #[test]
    fn sizes_that_depend_on_the_placement_are_refused() {
        let periods = |sizes: [u64; 2], count: usize| {
            let of = |size: u64| vec![traffic(100, 100 * size, 0); count];
            BTreeMap::from([(ArmId(0), of(sizes[0])), (ArmId(1), of(sizes[1]))])
        };
        assert_eq!(check_sizes(80, &periods([40, 48], 10)), Ok(()));
        assert_eq!(check_sizes(80, &periods([40, 80], 9)), Ok(()), "too few periods");
        let error = TcpUnsuitable::SharedSegments { port: 80, low: 40.0, high: 80.0 };
        assert_eq!(check_sizes(80, &periods([80, 40], 10)), Err(error));
        let mut bursts = periods([40, 40], 20);
        bursts.get_mut(&ArmId(1)).unwrap()[..9].fill(traffic(100, 4_000_000, 0));
        bursts.insert(ArmId(2), vec![traffic(19, 19_000, 0); 20]);
        assert_eq!(check_sizes(80, &bursts), Ok(()), "few large requests, and an idle placement");
        assert_eq!(check_sizes(80, &BTreeMap::new()), Ok(()));
    }

    #[test]
    fn traffic_is_that_since_a_moment() {
        assert_eq!(traffic(9, 90, 3).since(&traffic(4, 40, 1)), traffic(5, 50, 2));
    }
}
