//! Topologies as text, JSON, output of numactl, and SVG.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use model::values::id_set::{CpuId, NodeId};
use model::values::units::Bytes;
use report::{TextStyle, Theme, map};

use crate::{fixture, machines};

const LOOK: TextStyle = TextStyle { width: 80, ascii: false, colour: false };

#[test]
fn a_desktop_with_its_devices_and_settings() {
    assert_snapshot!(map::text(&machines::ryzen(), Some(&machines::settings()), &LOOK));
}

#[test]
fn the_same_in_ascii() {
    let text = map::text(&machines::ryzen(), Some(&machines::settings()), &TextStyle { ascii: true, ..LOOK });
    assert!(text.is_ascii());
    assert_snapshot!(text);
}

#[test]
fn interrupts_with_their_counts() {
    let counts = |pairs: &[(u32, u64)]| pairs.iter().map(|(cpu, count)| (CpuId(*cpu), *count)).collect();
    let all: Vec<(u32, u64)> = (0..12).map(|cpu| (cpu, 10)).collect();
    let counts = [(41, counts(&[(0, 7)])), (42, counts(&all)), (60, counts(&[(3, 5), (11, 1)]))].into();
    assert_snapshot!(map::interrupts(&machines::ryzen(), Some(&counts), &LOOK));
    let none = map::interrupts(&machines::rk3399(), None, &LOOK);
    assert!(none.contains("no device has interrupts"), "{none}");
}

#[test]
fn two_kinds_of_cores() {
    assert_snapshot!(map::text(&machines::rk3399(), None, &LOOK));
}

#[test]
fn memory_without_cpus_is_marked() {
    assert_snapshot!(map::text(&machines::grace_cxl(), None, &LOOK));
}

#[test]
fn a_machine_of_1152_cpus_fits_a_screen() {
    let text = map::text(&machines::thirty_two_sockets(), None, &LOOK);
    assert!(text.lines().count() <= 50, "{} lines", text.lines().count());
    assert_snapshot!(text);
}

#[test]
fn lines_of_a_map_fit_the_terminal() {
    for topology in [machines::ryzen(), machines::rk3399(), machines::grace_cxl(), machines::thirty_two_sockets()] {
        for width in [60, 80, 120] {
            let text = map::text(&topology, Some(&machines::settings()), &TextStyle { width, ..LOOK });
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width, "{longest} characters on {width} columns:\n{text}");
        }
    }
}

/// The fields that other tools' test data have keep their names and structure.
#[test]
fn the_json_keeps_its_contract() {
    let json = map::json(&machines::grace_cxl(), Some(&machines::settings()), None);
    let shown: serde_json::Map<String, serde_json::Value> = json
        .as_object()
        .unwrap()
        .clone()
        .into_iter()
        .filter(|(key, _)| key != "objects" && key != "core_cpus")
        .collect();
    assert_eq!(json["core_cpus"].as_array().unwrap().len(), 144);
    insta::assert_json_snapshot!(shown);
}

#[test]
fn kinds_devices_and_notes_are_in_the_json() {
    let json = map::json(&machines::rk3399(), None, None);
    insta::assert_json_snapshot!((&json["cpukinds"], &json["notes"], &json["settings"], &json["distances"]));
    insta::assert_json_snapshot!(map::json(&machines::ryzen(), None, None)["devices"][1]);
}

#[test]
fn numactl_output_handles_sparse_nodes_and_nodes_without_cpus() {
    assert_snapshot!(map::numactl(&machines::grace_cxl(), None));
}

#[test]
fn numactl_output_shows_free_memory_if_known() {
    let free = BTreeMap::from([(NodeId(0), Bytes(3 << 30))]);
    assert_snapshot!(map::numactl(&machines::ryzen(), Some(&free)));
}

#[test]
fn numactl_output_marks_unknown_values() {
    let mut topology = machines::grace_cxl();
    topology.nodes[0].bytes = Bytes(0);
    topology.distances.clear();
    let text = map::numactl(&topology, Some(&BTreeMap::new()));
    assert!(text.contains("node 0 size: <not available>\nnode 0 free: <not available>\n"), "{text}");
    assert!(text.ends_with("No distance information available.\n"), "{text}");
}

#[test]
fn a_picture_of_a_placement() {
    let placement = &fixture::placements(4)[1];
    assert_snapshot!(map::svg(&machines::ryzen(), Some(placement), Theme::Auto));
}

/// Every CPU is drawn once, within the bounds of the figure.
#[test]
fn figure_of_a_machine_shows_every_cpu() {
    for topology in [machines::ryzen(), machines::rk3399(), machines::grace_cxl(), machines::thirty_two_sockets()] {
        let svg = map::svg(&topology, None, Theme::Auto);
        let cpus = svg.matches("<rect class=\"pu\"").count();
        assert_eq!(cpus, topology.allowed_cpus.len());
        assert_eq!(svg.matches("<rect class=\"mem\"").count(), topology.nodes.len());
        let (width, height) = size(&svg);
        assert!(width <= 1200.0 && height <= 3000.0, "{width} x {height}");
        for line in svg.lines().filter(|line| line.starts_with("<rect class=\"pu")) {
            let [x, y, w, h] = ["x", "y", "width", "height"].map(|name| attribute(line, name));
            assert!(x >= 0.0 && y >= 0.0 && x + w <= width && y + h <= height, "{line}");
        }
    }
}

fn size(svg: &str) -> (f64, f64) {
    (attribute(svg, "width"), attribute(svg, "height"))
}

fn attribute(text: &str, name: &str) -> f64 {
    let (_, rest) = text.split_once(&format!(" {name}=\"")).unwrap();
    rest.split('"').next().unwrap().parse().unwrap()
}

#[test]
fn chosen_theme_does_not_depend_on_the_reader() {
    let drawn = |theme| map::svg(&machines::ryzen(), None, theme);
    let [auto, light, dark] = [Theme::Auto, Theme::Light, Theme::Dark].map(drawn);
    assert!(auto.contains("prefers-color-scheme:dark"));
    assert!([&light, &dark].iter().all(|picture| !picture.contains("prefers-color-scheme")));
    assert!(light.contains("--ink:#1d2329") && !light.contains("--ink:#e4e8ec"));
    assert!(dark.contains("--ink:#e4e8ec") && !dark.contains("--ink:#1d2329"));
}
