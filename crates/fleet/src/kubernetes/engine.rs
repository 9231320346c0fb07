//! The engine of Kubernetes: writes manifests for `kubectl apply` and the next commands. It never connects to a
//! cluster, so it cannot return the status of jobs.

use model::values::shell::quote_argv;
use model::values::units::Nanos;
use serde_json::Value;

use super::manifest::{DedicatedResources, JobManifest, PodTemplate, RESULTS_DIR, job_selector, to_list, to_yaml};
use super::names::{Image, Selection, Toleration};
use crate::engine::{Engine, FleetJob, Manifest, Reply};
use crate::node_engine::{NodeCopies, NodeJobs};
use crate::{JobName, JobStatus, NodeError, NodeErrorKind, NodeName, NodeSelector, PerNode};

/// Upper bound of the time before the first trial and after the last, such as pulling the image.
const MARGIN_SECONDS: u64 = 600;

/// Label selector of the pods that collect results.
const COLLECTORS: &str = "app.kubernetes.io/name=nearfar-collect";

#[derive(Clone, Debug)]
pub struct Kubernetes {
    pub on: Selection,
    /// Image that contains nearfar; all manifests require one.
    pub image: Option<Image>,
    /// nearfar in the image: a name in PATH there, or a path.
    pub program: String,
    /// Directory of the results on each node; `None` for [`RESULTS_DIR`].
    pub results_dir: Option<String>,
    pub tolerations: Vec<Toleration>,
    /// Requests and limits of the pods; `None` for neither.
    pub resources: Option<DedicatedResources>,
    /// Whether manifests are JSON instead of YAML.
    pub json: bool,
    /// Path of the manifest in the next commands, quoted for a shell.
    pub file: String,
}

impl Engine for Kubernetes {
    fn nodes(&self) -> &[NodeName] {
        match &self.on {
            Selection::Named(nodes) => nodes,
            Selection::All | Selection::Labelled(_) => &[],
        }
    }

    fn submit(&self, job: &FleetJob) -> Result<Reply<NodeJobs<'_>>, NodeError> {
        let image = self.image()?;
        let duration = job.duration.clone().map_err(unsupported)?;
        let manifest = JobManifest {
            pods: self.pods(image),
            order: &job.order,
            program: &self.program,
            whole: self.resources,
            privileged: !job.privileges.is_empty(),
            deadline_seconds: duration.map(deadline_seconds),
        };
        let objects = manifest.objects().map_err(unsupported)?;
        Ok(Reply::Manifest(Manifest { text: self.text(&objects)?, notes: self.job_notes(job, image) }))
    }

    fn status(&self, _: &[JobName]) -> Result<PerNode<Vec<JobStatus>>, NodeError> {
        Err(unsupported("nearfar only writes manifests for kubectl, and does not connect to a cluster").with_hint(
            "'kubectl get jobs,daemonsets,pods -l app.kubernetes.io/name=nearfar -o wide' shows their status",
        ))
    }

    /// Writes a manifest of pods that give access to the results, and the commands that copy them.
    fn collect(&self, jobs: &[JobName]) -> Result<Reply<NodeCopies<'_>>, NodeError> {
        if let Some(job) = jobs.first() {
            return Err(unsupported(format!("'{job}': Kubernetes collects the results of all jobs of a node"))
                .with_hint("omit the name, and import only the results files that you need"));
        }
        let text = self.text(&self.pods(self.image()?).collectors())?;
        Ok(Reply::Manifest(Manifest { text, notes: self.collect_notes() }))
    }
}

impl Kubernetes {
    /// Returns the image, which every manifest requires.
    pub fn image(&self) -> Result<&Image, NodeError> {
        self.image.as_ref().ok_or_else(|| {
            unsupported("--on kubernetes requires --image with nearfar")
                .with_hint("build one from the Containerfile in nearfar's source; see docs/guides/install.md")
        })
    }

    fn pods<'a>(&'a self, image: &'a Image) -> PodTemplate<'a> {
        let results = self.results_dir.as_deref().unwrap_or(RESULTS_DIR);
        PodTemplate { on: &self.on, image, results, tolerations: &self.tolerations }
    }

    fn text(&self, objects: &[Value]) -> Result<String, NodeError> {
        if self.json {
            return Ok(format!("{:#}\n", to_list(objects)));
        }
        to_yaml(objects).map_err(|error| NodeError::new(NodeErrorKind::Engine, error))
    }

    fn job_notes(&self, job: &FleetJob, image: &Image) -> Vec<String> {
        let name = &job.order.job;
        let objects = match &self.on {
            Selection::Named(nodes) => format!("a Job for each of {} nodes", nodes.len()),
            Selection::Labelled(_) => "a DaemonSet on all nodes with these labels".into(),
            Selection::All => "a DaemonSet on all schedulable nodes".into(),
        };
        let mut notes = vec![format!("{name}: {objects}")];
        if !job.privileges.is_empty() {
            let reasons = job.privileges.join(", ");
            notes.push(format!("note: privileged, with access to the processes of the node, because of {reasons}"));
        }
        if self.resources.is_none() {
            notes.push("note: without --cpus and --memory, the pod shares CPUs and memory with other pods".into());
        }
        let label = job_selector(name);
        notes.extend([
            format!("next: kubectl apply -f {}", self.file),
            format!("then: kubectl get pods -l {label} -o wide; kubectl logs -l {label} -c nearfar --prefix"),
            format!("then: {}", quote_argv(&self.collect_command(image))),
        ]);
        notes
    }

    fn collect_notes(&self) -> Vec<String> {
        let file = &self.file;
        let copy = format!("kubectl cp -c results \"${{pod#pod/}}:{RESULTS_DIR}/fleet\" \"from-${{pod#pod/}}\"");
        vec![
            format!("next: kubectl apply -f {file}"),
            format!("then: kubectl wait --for=condition=Ready pod -l {COLLECTORS}"),
            format!("then: for pod in $(kubectl get pod -l {COLLECTORS} -o name); do {copy}; done"),
            "then: for file in from-*/*/*/results.db; do nearfar import \"$file\"; done".into(),
            format!("then: kubectl delete -f {file}"),
        ]
    }

    /// Returns the command that collects the results.
    fn collect_command(&self, image: &Image) -> Vec<String> {
        let on = NodeSelector::Kubernetes(self.on.clone());
        let mut words = ["nearfar", "fleet", "collect"].map(String::from).to_vec();
        words.extend([format!("--on={on}"), format!("--image={}", image.0), "--output=collect.yaml".into()]);
        words.extend(self.results_dir.iter().map(|dir| format!("--results-dir={dir}")));
        words.extend(self.tolerations.iter().map(|toleration| format!("--toleration={toleration}")));
        words
    }
}

/// Returns the time limit of a pod in seconds. Kubernetes accepts at most 31 bits.
fn deadline_seconds(duration: Nanos) -> u32 {
    let seconds = duration.0.div_ceil(1_000_000_000) + MARGIN_SECONDS;
    u32::try_from(seconds).unwrap_or(u32::MAX).min(i32::MAX as u32)
}

fn unsupported(message: impl std::fmt::Display) -> NodeError {
    NodeError::new(NodeErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobSpec;

    fn engine(image: Option<&str>) -> Kubernetes {
        Kubernetes {
            on: Selection::All,
            image: image.map(|image| Image::parse(image).unwrap()),
            program: "nearfar".into(),
            results_dir: None,
            tolerations: vec![],
            resources: None,
            json: true,
            file: "FILE".into(),
        }
    }

    fn job(duration: Result<Option<Nanos>, String>) -> FleetJob {
        let order = JobSpec { job: JobName::of("quick", "1"), experiment: String::new(), words: vec![] };
        FleetJob { order, privileges: vec![], duration }
    }

    #[test]
    fn unsupported_requests_return_errors() {
        let (engine, without_image) = (engine(Some("nearfar")), engine(None));
        let cases = [
            (engine.status(&[]).map(drop), "does not connect to a cluster", Some("'kubectl get jobs,daemonsets,pods")),
            (engine.collect(&[JobName::of("quick", "1")]).map(drop), "'quick-1'", Some("omit the name")),
            (engine.submit(&job(Err("no duration".into()))).map(drop), "no duration", None),
            (without_image.submit(&job(Ok(None))).map(drop), "requires --image", Some("build one")),
            (without_image.collect(&[]).map(drop), "requires --image", Some("build one")),
        ];
        for (result, message, hint) in cases {
            let error = result.unwrap_err();
            assert_eq!(error.kind, NodeErrorKind::Unsupported, "{error}");
            assert!(error.what.contains(message), "{error}");
            assert_eq!(error.hint.is_some(), hint.is_some(), "{error}");
            assert!(error.hint.unwrap_or_default().starts_with(hint.unwrap_or_default()), "{message}");
        }
    }

    #[test]
    fn jobs_and_collectors_are_manifests_with_next_commands() {
        let engine = engine(Some("nearfar"));
        let Ok(Reply::Manifest(submitted)) = engine.submit(&job(Ok(None))) else { panic!("not a manifest") };
        let Ok(Reply::Manifest(collected)) = engine.collect(&[]) else { panic!("not a manifest") };
        assert!(submitted.text.contains("\"ConfigMap\"") && collected.text.contains("nearfar-collect"));
        assert_eq!(
            submitted.notes.last().unwrap(),
            &format!(
                "then: {}",
                quote_argv(&[
                    "nearfar",
                    "fleet",
                    "collect",
                    "--on=kubernetes",
                    "--image=nearfar",
                    "--output=collect.yaml",
                ])
            )
        );
        assert_eq!(collected.notes[0], "next: kubectl apply -f FILE");
    }

    #[test]
    fn deadline_has_a_margin_and_at_most_31_bits() {
        assert_eq!(deadline_seconds(Nanos(3600 * 1_000_000_000 + 1)), 3601 + 600);
        assert_eq!(deadline_seconds(Nanos(u64::MAX)), i32::MAX as u32);
    }
}
