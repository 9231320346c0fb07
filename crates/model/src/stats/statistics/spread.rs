//! How far values scatter, by their differences from each other.

use super::summary::sorted;

/// 1 over the quantile of the differences of normal values that is taken: makes the estimate that of their standard deviation.
const NORMAL_SCALE: f64 = 2.2219;
/// By how much few values estimate too much, from two on (Croux and Rousseeuw, in Computational Statistics 1, 1992).
const FEW: [f64; 8] = [0.399, 0.994, 0.512, 0.844, 0.611, 0.857, 0.669, 0.872];

/// How far values scatter, as a standard deviation in their unit, whatever up to half of them do: Qn of Rousseeuw and Croux
/// (Journal of the American Statistical Association 88, 1993), a quarter of the way up all differences. Of normal values it needs
/// four fifths as many as a standard deviation proper would to be as sure, where [`super::mad_noise`] needs almost three times as many.
///
/// `None` with fewer than 2 values or one that is not finite.
pub fn qn_scale(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values).filter(|sorted| sorted.len() >= 2)?;
    let count = sorted.len();
    let mut differences: Vec<f64> = Vec::with_capacity(count * (count - 1) / 2);
    for (at, value) in sorted.iter().enumerate() {
        differences.extend(sorted[..at].iter().map(|smaller| value - smaller));
    }
    let half = count / 2 + 1;
    let (_, quarter, _) = differences.select_nth_unstable_by(half * (half - 1) / 2 - 1, f64::total_cmp);
    let n = count as f64;
    let few = FEW.get(count - 2).copied().unwrap_or(if count % 2 == 1 { n / (n + 1.4) } else { n / (n + 3.8) });
    Some(*quarter * NORMAL_SCALE * few).filter(|spread| spread.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the differences in order, the one that is taken, and the constants.
    #[test]
    fn it_is_the_difference_at_the_quarter() {
        let check = |values: &[f64], expected: f64| {
            let spread = qn_scale(values).unwrap();
            assert!((spread - expected).abs() < 1e-9, "{values:?}: {spread}");
        };
        check(&[5.0, 2.0], 3.0 * 2.2219 * 0.399);
        // 1, 2, 3, 3, 5, 6, of which the third.
        check(&[1.0, 2.0, 4.0, 7.0], 3.0 * 2.2219 * 0.512);
        // Ten values at distance 1: nine 1, eight 2, seven 3; the fifteenth is 2.
        check(&(0..10).map(f64::from).collect::<Vec<_>>(), 2.0 * 2.2219 * (10.0 / 13.8));
        check(&[4.0; 9], 0.0);
    }

    #[test]
    fn what_a_minority_does_moves_it_little() {
        let usual: Vec<f64> = (0..21).map(|at| f64::from(at * at % 21)).collect();
        let mut wild = usual.clone();
        wild[..6].iter_mut().for_each(|value| *value += 1e9);
        let (before, after) = (qn_scale(&usual).unwrap(), qn_scale(&wild).unwrap());
        assert!(after < 3.0 * before, "{before} {after}");
    }

    #[test]
    fn odd_values_have_none() {
        assert_eq!(qn_scale(&[]), None);
        assert_eq!(qn_scale(&[1.0]), None);
        assert_eq!(qn_scale(&[1.0, f64::NAN]), None);
        assert_eq!(qn_scale(&[-f64::MAX, f64::MAX]), None);
    }
}
