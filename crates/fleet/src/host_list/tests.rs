//! Lists and files of hosts, valid and invalid, and texts that would expand to more hosts than fit into memory.

use proptest::prelude::*;

use super::*;

fn names(list: &HostList) -> String {
    list.nodes().iter().map(NodeName::as_str).collect::<Vec<_>>().join(" ")
}

#[test]
fn lists_expand_to_distinct_hosts_in_their_order() {
    let list = HostList::parse("z,alice@n[2-3],a,[::1]").unwrap();
    assert_eq!(names(&list), "z alice@n2 alice@n3 a [::1]");
    assert_eq!(list.to_string(), "z,alice@n[2-3],a,[::1]");
    for (text, expected) in [
        ("", "invalid node name ''"),
        ("a,,b", "invalid node name ''"),
        ("a[1-2],", "invalid node name ''"),
        ("-o[1-2]", "invalid node name '-o1'"),
        ("a;b[1-2]", "invalid node name 'a;b1'"),
        ("n[1-3],n2", "node n2 is named twice"),
        ("n[1-3,2]", "node n2 is named twice"),
        ("n[1-2", "invalid host list 'n[1-2'"),
        ("a,@hosts", "invalid host '@hosts': @FILE cannot be combined"),
    ] {
        let error = HostList::parse(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn huge_lists_are_refused_without_expanding_them() {
    let many: Vec<String> = (0..=NODES_MAX).map(|number| format!("n{number}")).collect();
    assert_eq!(HostList::parse("n[0-899],m[1-100]").unwrap().nodes().len(), NODES_MAX);
    for (text, entry) in [
        ("n[1-1001]", "n[1-1001]"),
        ("n[0-899],m[1-101]", "m[1-101]"),
        ("n[1-4000000000]", "n[1-4000000000]"),
        ("n[0-18446744073709551615]", "n[0-18446744073709551615]"),
        ("a,n[1-4000000000]m[1-4000000000]o[1-4000000000]", "n[1-4000000000]m[1-4000000000]o[1-4000000000]"),
        (&many.join(","), "n1000"),
    ] {
        let error = HostList::parse(text).unwrap_err();
        assert_eq!(error, format!("too many nodes at '{entry}': the maximum for one coordinator is 1000"));
    }
}

#[test]
fn host_files_have_a_list_in_each_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hosts").display().to_string();
    let read = |text: &[u8]| {
        std::fs::write(&path, text).unwrap();
        HostList::parse(&format!("@{path}"))
    };
    let list = read(b"# rack 1\nnode-[1-2]\r\n\n  alice@c,d # the new ones\n#e\n").unwrap();
    assert_eq!(names(&list), "node-1 node-2 alice@c d");
    assert_eq!(list.to_string(), format!("@{path}"));
    let too_large = vec![b'\n'; FILE_BYTES_MAX as usize + 1];
    for (text, expected) in [
        (&b"a\n\nb c\n"[..], format!("{path}:3: invalid node name 'b c'")),
        (b"a\nn[1-2\n", format!("{path}:2: invalid host list 'n[1-2'")),
        (b"n[1-3]\n# x\nn2\n", format!("{path}:3: node n2 is named twice")),
        (b"n[1-900]\nm[1-101]\n", format!("{path}:2: too many nodes at 'm[1-101]'")),
        (b"@other\n", format!("{path}:1: invalid host '@other'")),
        (b"# nothing\n\n", format!("host file '{path}' contains no host")),
        (b"\xff\n", format!("cannot read host file '{path}': ")),
        (&too_large, format!("cannot read host file '{path}': it is larger than 1 MiB")),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(&expected), "{error}");
    }
    let error = HostList::parse("@/no/such\nfile").unwrap_err();
    assert!(error.starts_with(r"cannot read host file '/no/such\nfile': No such file"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any text is rejected or gives distinct valid names, as does the list of these names.
    #[test]
    fn any_text_is_rejected_or_gives_distinct_valid_names(
        text in "((a|b|n\\[[0-3]-[2-5]\\]),?){1,3}[-,\\[\\]:@/.0-9]{0,2}") {
        if let Ok(list) = HostList::parse(&text).map_err(|error| assert!(!error.is_empty())) {
            let distinct: BTreeSet<_> = list.nodes().iter().collect();
            prop_assert!(!distinct.is_empty() && distinct.len() == list.nodes().len());
            prop_assert!(distinct.len() <= NODES_MAX);
            prop_assert!(list.nodes().iter().all(|node| NodeName::parse(node.as_str()).is_ok()));
            let again = HostList::parse(&names(&list).replace(' ', ","));
            prop_assert_eq!(again.map(|again| again.nodes), Ok(list.nodes));
        }
    }
}
