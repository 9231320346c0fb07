//! Judges on which memory nodes the files that a command maps are. A memory policy does not move pages that are already in
//! the page cache: they stay where an earlier trial put them.

use super::JudgedCommand;
use crate::values::id_set::NodeSet;
use crate::values::placement::FilePolicy;
use crate::values::trial::{FILE_BYTES_MIN, FILE_PAGES_MIN, FileKind, FilePages, REMOTE_SHARE_MIN};
use crate::values::units::Bytes;

/// Most of its pages are not where the placement requires its memory.
const ELSEWHERE_INVALID_MIN: f64 = 0.5;

/// Returns the reasons why files did not have the placement of the trial's label, or most of the pages that the command
/// maps were not on the promised nodes.
pub(super) fn violations(command: &JudgedCommand<'_>) -> Vec<String> {
    let elsewhere = reasons(command, Elsewhere::is_violation);
    let unplaced = command.files.and_then(|_| unplaced(command));
    unplaced.into_iter().chain(uncopied(command)).chain(elsewhere).collect()
}

/// Returns the reason why a part of the program text was not in the copies that the placement requires.
fn uncopied(command: &JudgedCommand<'_>) -> Option<String> {
    let evidence = command.evidence;
    let copy = evidence.text_copy.as_ref()?;
    if let Some(why) = evidence.unavailable.get("pages").filter(|_| evidence.files.is_empty()) {
        return Some(command.reason(format!("its program text was not observed: {why}")));
    }
    let text: Vec<&FilePages> = evidence.files.iter().filter(|file| file.is_text()).collect();
    let all: u64 = text.iter().flat_map(|file| file.pages.values()).sum();
    let elsewhere: u64 = text.iter().map(|file| file.pages_outside(&copy.nodes)).sum();
    let largest = text.iter().max_by_key(|file| file.pages_outside(&copy.nodes))?;
    (elsewhere as f64 > all as f64 * REMOTE_SHARE_MIN).then(|| {
        command.reason(format!(
            "{elsewhere} of {all} pages of its program and libraries were outside nodes {}, whose memory has the copies \
             (most of them: {})",
            copy.nodes, largest.path
        ))
    })
}

/// Returns the reason why files that the command used were not placed before it started.
fn unplaced(command: &JudgedCommand<'_>) -> Option<String> {
    let evidence = command.evidence;
    if let Some(why) = evidence.unavailable.get("pages").filter(|_| evidence.files.is_empty()) {
        return Some(command.reason(format!("its files were not observed: {why}")));
    }
    let start = evidence.page_cache.clone().unwrap_or_default();
    let is_placed = |file: &&FilePages| start.equalised.contains(&file.path);
    let others: Vec<&FilePages> =
        evidence.files.iter().filter(|file| file.is_placeable() && !is_placed(file)).collect();
    let first = others.first()?;
    let why = start.not_equalised.get(&first.path).map_or("no earlier trial of the run used it", String::as_str);
    let more = if others.len() > 1 { format!(", and {} other files", others.len() - 1) } else { String::new() };
    Some(command.reason(format!("cached pages of {} were not placed: {why}{more}", first.path)))
}

/// Returns the reasons why a part of the pages that the command maps was on other nodes than the promised ones, or why
/// the placement of its files has no effect.
pub(super) fn disturbances(command: &JudgedCommand<'_>) -> Vec<String> {
    let elsewhere = reasons(command, |it| it.share > REMOTE_SHARE_MIN && !it.is_violation());
    command.files.and_then(|_| without_files(command)).into_iter().chain(elsewhere).collect()
}

/// Returns the reason why the command has no files to place.
fn without_files(command: &JudgedCommand<'_>) -> Option<String> {
    let evidence = command.evidence;
    let has_none = evidence.page_cache.is_none() && !evidence.files.iter().any(FilePages::is_placeable);
    has_none.then(|| {
        let size = Bytes(FILE_BYTES_MIN);
        command.reason(format!("no file of at least {size} was seen in use, so none was placed"))
    })
}

fn reasons(command: &JudgedCommand<'_>, is_reason: impl Fn(&Elsewhere) -> bool) -> Vec<String> {
    let kinds = [FileKind::Data, FileKind::Program, FileKind::Library];
    let found = kinds.into_iter().filter_map(|kind| Elsewhere::find(command, kind));
    found.filter(is_reason).map(|it| it.reason).collect()
}

/// Pages of files of a kind on other nodes than the promised ones.
struct Elsewhere {
    kind: FileKind,
    /// Fraction of all pages that the command maps.
    share: f64,
    reason: String,
}

/// Returns the nodes on which the pages of files of a kind must be; `None` if there is no promise.
fn promised_nodes<'a>(command: &JudgedCommand<'a>, kind: FileKind) -> Option<&'a NodeSet> {
    match command.files {
        // `uncopied` judges program text that is copied.
        _ if kind != FileKind::Data && command.evidence.text_copy.is_some() => None,
        Some(FilePolicy::Local | FilePolicy::Interleave(_) | FilePolicy::Node(_)) if kind != FileKind::Library => {
            command.evidence.page_cache.as_ref().map(|start| &start.nodes)
        }
        _ => command.memory.promised_nodes(),
    }
}

impl Elsewhere {
    /// Whether the trial does not have the placement of its label. The program and its libraries are where the first
    /// trial found them, for all placements of a command: without its trials on other nodes there would be none.
    fn is_violation(&self) -> bool {
        self.kind == FileKind::Data && self.share > ELSEWHERE_INVALID_MIN
    }

    fn find(command: &JudgedCommand<'_>, kind: FileKind) -> Option<Self> {
        let (promised, evidence) = (promised_nodes(command, kind)?, command.evidence);
        // A built-in kernel works on its arrays, whose pages are judged, and uses a small part of the program.
        if !evidence.thread_bindings.is_empty() {
            return None;
        }
        let strays = |file: &FilePages| file.pages_outside(promised);
        let files: Vec<&FilePages> =
            evidence.files.iter().filter(|file| file.kind == kind && !file.is_shared && strays(file) > 0).collect();
        let elsewhere: u64 = files.iter().map(|file| strays(file)).sum();
        let largest = files.iter().max_by_key(|file| strays(file)).filter(|_| elsewhere >= FILE_PAGES_MIN)?;
        let nodes: NodeSet = files
            .iter()
            .flat_map(|file| file.pages.iter())
            .filter(|(node, pages)| !promised.contains(**node) && **pages > 0)
            .map(|(node, _)| *node)
            .collect();
        let all = evidence.mapped_pages();
        let share = elsewhere as f64 / all.max(elsewhere) as f64;
        let owner = match kind {
            FileKind::Data => "files",
            FileKind::Program => "its program",
            FileKind::Library => "its libraries",
        };
        let kept = evidence.page_cache.as_ref().and_then(|start| start.not_equalised.get(&largest.path));
        let text = format!(
            "{:.0} % of the pages that it mapped were pages of {owner} in the page cache on nodes {nodes}, requested \
             {promised} (most of them: {}{})",
            share * 100.0,
            largest.path,
            kept.map(|why| format!("; {why}")).unwrap_or_default()
        );
        Some(Self { kind, share, reason: command.reason(text) })
    }
}
