//! An axis: the mapping from values to its length, and its ticks. Must not depend on pixels.

use model::values::workload::Better;

/// Ratio of the largest to the smallest value from which an axis is logarithmic.
const LOGARITHMIC_FROM: f64 = 30.0;

/// From its lowest to its highest value.
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) logarithmic: bool,
}

impl Axis {
    /// Covers all values, and the ends of intervals as far as the values stay readable. `None` without values.
    pub(crate) fn over(values: &[f64], ends: &[f64]) -> Option<Self> {
        let finite = values.iter().copied().filter(|value| value.is_finite());
        let (least, most) =
            finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if !least.is_finite() {
            return None;
        }
        // The interval of two very different trials may span many powers of ten and would hide all other differences.
        let beyond = (most - least).max(most.abs() * 0.1);
        let near =
            ends.iter().map(|end| end.clamp(if least > 0.0 { least / 3.0 } else { least - beyond }, most + beyond));
        let (low, high) = near.fold((least, most), |(low, high), end| (low.min(end), high.max(end)));
        let logarithmic = low > 0.0 && high / low > LOGARITHMIC_FROM;
        let margin = if high > low { (high - low) * 0.04 } else { high.abs().max(1.0) * 0.05 };
        let (low, high) = if logarithmic { (low / 1.15, high * 1.15) } else { (low - margin, high + margin) };
        Some(Self { low, high, logarithmic })
    }

    /// The position of a value, from 0 to 1. Values outside the range are at the ends.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Positions and labels of the ticks: multiples of 1, 2 or 5 times a power of ten.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        let ticks = if self.logarithmic { self.logarithmic_ticks() } else { self.linear_ticks() };
        ticks.into_iter().map(|(tick, step)| (tick, tick_text(tick, step))).collect()
    }

    /// About six ticks, each with the distance to the next.
    fn linear_ticks(&self) -> Vec<(f64, f64)> {
        let rough = (self.high - self.low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil();
        let ticks = (0..10).map(|index| (first + f64::from(index)) * step);
        ticks.take_while(|tick| *tick <= self.high).map(|tick| (tick, step)).collect()
    }

    /// Leading digits 1, 2 and 5; only 1 if there would be too many ticks.
    fn logarithmic_ticks(&self) -> Vec<(f64, f64)> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let factors: &[f64] = if last - first > 4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        // The exponent step, such that there are at most ten ticks.
        let stride = ((last - first) / 10 + 1) as usize;
        let powers = (first..=last).step_by(stride).map(|power| 10f64.powi(power));
        let ticks = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
        ticks.filter(|tick| (self.low..=self.high).contains(tick)).map(|tick| (tick, tick)).collect()
    }
}

/// The label without digits that all ticks share: `18500`, `0.25`, `24.5M`.
fn tick_text(tick: f64, step: f64) -> String {
    let (divisor, suffix) = match tick.abs() {
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        _ => (1.0, ""),
    };
    let decimals = (-(step / divisor).log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{:.decimals$}", tick / divisor);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text.as_str() };
    format!("{text}{suffix}")
}

/// The better direction, as axis label.
pub(crate) fn direction_label(better: Better) -> &'static str {
    match better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_within_the_axis() {
        let axis = |low, high, logarithmic| Axis { low, high, logarithmic };
        let written = |axis: &Axis| -> Vec<String> { axis.ticks().into_iter().map(|(_, text)| text).collect() };
        assert_eq!(written(&axis(14_700.0, 22_900.0, false)), ["16000", "18000", "20000", "22000"]);
        assert_eq!(written(&axis(0.11, 0.37, false)), ["0.15", "0.2", "0.25", "0.3", "0.35"]);
        assert_eq!(written(&axis(-1.0, 1.0, false)), ["-1", "-0.5", "0", "0.5", "1"]);
        assert_eq!(written(&axis(24.1e6, 25.2e6, false)), ["24.2M", "24.4M", "24.6M", "24.8M", "25M", "25.2M"]);
        assert_eq!(written(&axis(1.5, 60.0, true)), ["2", "5", "10", "20", "50"]);
    }
}
