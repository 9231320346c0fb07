
// Updates a page during a run: on an event from the server, fetches the page again and replaces its parts. Keeps what the
// reader has expanded, sorted, filtered, selected and focused. Without this script, the page must be reloaded manually.
"use strict";
(() => {
  const { begin, make } = window.nearfar;
  const place = document.querySelector(".live");
  if (!place || !window.EventSource) return;
  const standing = place.querySelector(".standing");
  // Announced by screen readers: the end and interruptions, not each trial.
  const message = make("span", { role: "status", class: "told" });
  const pause = make("button", { type: "button", "aria-pressed": "false" }, "Pause updates");
  place.append(" ", pause, " ", message);
  let paused = false;
  let stale = false;
  let fetching = false;
  let ended = false;
  const mayChange = () => ended || !paused;

  const nameOf = (fold, index) => `${fold.closest("section")?.id ?? ""} ${index} ${fold.querySelector("summary")?.textContent.replace(/\d+/g, "")}`;
  const folds = (root) => [...root.querySelectorAll("details")].map((fold, index) => [nameOf(fold, index), fold]);

  const renew = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    if (!page.querySelector("main")) return;
    const open = new Set(folds(document).filter(([, fold]) => fold.open).map(([name]) => name));
    const checked = new Set([...document.querySelectorAll("main input:checked")].map((input) => input.value));
    const by = document.querySelector("main input[name=by]")?.value;
    const focused = document.activeElement?.dataset?.focus;
    const caret = document.activeElement?.selectionStart;
    const down = window.scrollY;
    for (const part of ["header", ".contents", "main", "footer"]) {
      const [old, fresh] = [document.querySelector(part), page.querySelector(part)];
      // Replacing the contents would reset their scroll position, so equal contents stay.
      const stays = part === ".contents" && old?.textContent === fresh?.textContent;
      if (old && fresh && !stays) old.replaceWith(document.adoptNode(fresh));
    }
    document.title = page.title;
    standing.textContent = page.querySelector(".live .standing")?.textContent ?? standing.textContent;
    for (const [name, fold] of folds(document)) fold.open = open.has(name);
    for (const input of document.querySelectorAll("main input[type=checkbox]")) input.checked = checked.has(input.value);
    if (by !== undefined) document.querySelector("main input[name=by]").value = by;
    begin();
    const again = focused && [...document.querySelectorAll("[data-focus]")].find((element) => element.dataset.focus === focused);
    if (again) {
      again.focus({ preventScroll: true });
      if (typeof caret === "number") again.setSelectionRange(caret, caret);
    }
    window.scrollTo(0, down);
  };

  const follow = async () => {
    if (fetching) { stale = true; return; }
    fetching = true;
    try {
      do {
        stale = false;
        const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
        const text = await answer.text();
        // The reader may have paused since the request.
        if (!mayChange()) { stale = true; return; }
        if (answer.ok) renew(text);
      } while (stale && mayChange());
    } catch {
      stale = true; // The event stream reopens when the server is available again.
    } finally {
      fetching = false;
    }
  };

  const source = new EventSource(place.dataset.events);
  source.addEventListener("change", (event) => {
    const news = JSON.parse(event.data);
    standing.textContent = news.standing;
    ended = news.ended;
    if (mayChange()) follow();
    else stale = true;
    if (news.ended) {
      source.close();
      pause.remove();
      message.textContent = "The run has ended.";
    }
  });
  source.addEventListener("open", () => { if (message.textContent !== "") message.textContent = "Connected again."; });
  source.addEventListener("error", () => {
    // 204: no further events.
    if (source.readyState === EventSource.CLOSED) pause.remove();
    else message.textContent = "The server does not answer; trying again.";
  });
  window.addEventListener("pagehide", () => source.close());
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume updates" : "Pause updates";
    if (!paused && stale) follow();
  });
})();
