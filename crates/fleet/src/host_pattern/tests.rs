//! Expands patterns of both kinds: listed ones, and random ones that are also expanded by nested loops.

use proptest::prelude::*;

use super::*;

fn names(text: &str) -> Vec<String> {
    HostPattern::parse(text).unwrap().names().collect()
}

/// The expected lists are the output of `scontrol show hostnames` (Slurm 22.05), or of pdsh if Slurm rejects the text.
#[test]
fn patterns_expand_as_in_slurm_and_pdsh() {
    for (text, expected) in [
        ("a", "a"),
        ("node-[1-3,7]", "node-1 node-2 node-3 node-7"),
        ("node-[08-11]", "node-08 node-09 node-10 node-11"),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("n[98-101]", "n98 n99 n100 n101"),
        ("n[001-2]", "n001 n002"),
        ("n[0-1]", "n0 n1"),
        ("n[00-1,5]", "n00 n01 n5"),
        ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
        ("r[1-2]n[5]-ib", "r1n5-ib r2n5-ib"),
        ("[1-2].example.org", "1.example.org 2.example.org"),
        ("[1-2][3-4]", "13 14 23 24"),
        ("root@[fe80::1]", "root@[fe80::1]"),
        ("[fe80::1][1-2]", "[fe80::1]1 [fe80::1]2"),
        ("n[18446744073709551615]", "n18446744073709551615"),
    ] {
        assert_eq!(names(text).join(" "), expected, "{text}");
    }
}

#[test]
fn commas_inside_brackets_do_not_split_a_list() {
    for (list, expected) in [
        ("a,b[1-2],c", vec!["a", "b[1-2]", "c"]),
        ("a[1,3],b[2,4]x[5,6],", vec!["a[1,3]", "b[2,4]x[5,6]", ""]),
        ("a[1,b,c", vec!["a[1,b,c"]),
        ("", vec![""]),
    ] {
        assert_eq!(entries(list).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn invalid_patterns_return_errors_with_the_reason() {
    for (text, reason) in [
        ("n[1-2", "a [ is not closed"),
        ("n1]", "a ] is not opened"),
        ("n]1[2]", "a ] is not opened"),
        ("n[1-2]]", "a ] is not opened"),
        ("n[[1-2]]", "'[1-2' is not a number or a range"),
        ("n[]", "'' is not a number or a range"),
        ("n[1,,2]", "'' is not a number or a range"),
        ("n[1-]", "'1-' is not a number or a range"),
        ("n[1-2-3]", "'1-2-3' is not a number or a range"),
        ("n[a-b]", "'a-b' is not a number or a range"),
        ("n[+1]", "'+1' is not a number or a range"),
        ("n[0-10/2]", "'0-10/2' is not a number or a range"),
        ("n[3-1]", "the range '3-1' ends before it begins"),
        ("n[1-010]", "the numbers of '1-010' have different lengths"),
        ("n[01-002]", "the numbers of '01-002' have different lengths"),
        ("n[18446744073709551616]", "'18446744073709551616' is too large"),
        ("n[000000000000000000001-2]", "'000000000000000000001-2' is too large"),
        ("n[\n]", r"'\n' is not a number or a range"),
    ] {
        let expected = format!("invalid host list '{}': {reason}; use numbers and ranges", text.escape_debug());
        let error = HostPattern::parse(text).unwrap_err();
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn counts_do_not_overflow() {
    for (text, expected) in [
        ("n[1-4000000000]", 4_000_000_000),
        ("n[1-4000000000]m[1-4000000000]", 16_000_000_000_000_000_000),
        ("n[0-18446744073709551615]", u64::MAX),
        ("n[0-18446744073709551615,0-18446744073709551615]", u64::MAX),
        ("n[1-4000000000]m[1-4000000000]o[1-4000000000]", u64::MAX),
    ] {
        assert_eq!(HostPattern::parse(text).unwrap().count(), expected, "{text}");
    }
}

/// The text of a bracket, and its numbers.
fn numbers() -> impl Strategy<Value = (String, Vec<String>)> {
    let range = (0..120_u64, 0..15_u64, 1..5_usize).prop_map(|(first, more, width)| {
        let padded = |number: u64| format!("{number:0width$}");
        let text = if more == 0 { padded(first) } else { format!("{}-{}", padded(first), padded(first + more)) };
        (text, (first..=first + more).map(padded).collect::<Vec<_>>())
    });
    proptest::collection::vec(range, 1..4).prop_map(|ranges| {
        let (texts, numbers): (Vec<_>, Vec<_>) = ranges.into_iter().unzip();
        (format!("[{}]", texts.join(",")), numbers.concat())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_patterns_expand_as_nested_loops(
        parts in proptest::collection::vec(("[a-z.@-]{0,4}", numbers()), 0..3), end in "[a-z0-9]{0,3}"
    ) {
        let (mut text, mut expected) = (String::new(), vec![String::new()]);
        for (literal, (bracket, numbers)) in parts {
            text.push_str(&(literal.clone() + &bracket));
            let extended = |name: &String| numbers.iter().map(|number| format!("{name}{literal}{number}")).collect::<Vec<_>>();
            expected = expected.iter().flat_map(extended).collect();
        }
        text.push_str(&end);
        expected.iter_mut().for_each(|name| name.push_str(&end));
        prop_assert_eq!(HostPattern::parse(&text).map(|pattern| pattern.count()), Ok(expected.len() as u64));
        prop_assert_eq!(names(&text), expected);
    }
}
