//! The model machines of the tests; see captures/README.md.

use model::values::topology::Topology;

/// All of them: name and text.
pub const MODELS: [(&str, &str); 7] = [
    ("ryzen5-2600", include_str!("../captures/ryzen5-2600.json")),
    ("xeon-e5-2640-x2", include_str!("../captures/xeon-e5-2640-x2.json")),
    ("xeon-e5-2640-x2-roundrobin", include_str!("../captures/xeon-e5-2640-x2-roundrobin.json")),
    ("rk3399", include_str!("../captures/rk3399.json")),
    ("rpi5-numafake8", include_str!("../captures/rpi5-numafake8.json")),
    ("grace-cxl", include_str!("../captures/grace-cxl.json")),
    ("grace-cxl-nohmat", include_str!("../captures/grace-cxl-nohmat.json")),
];

pub fn model(name: &str) -> Topology {
    let (_, text) = MODELS.iter().find(|(model, _)| *model == name).expect("it is in the list");
    serde_json::from_str(text).expect("captures are JSON of the present shape")
}
