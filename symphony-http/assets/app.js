// Keeps a page up to date. Everything it shows is HTML that the server has made; what it adds are
// the times that pass, the search, and the buttons.
"use strict";

const main = document.getElementById("main");
const say = document.getElementById("say");

// ---- times ----

function span(seconds) {
  const two = (n) => String(n).padStart(2, "0");
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

// The time of day here, and the day where it is another one; the exact time stays in the tooltip.
function local(at, now) {
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const isToday = at.toDateString() === now.toDateString();
  return isToday ? time : `${at.toLocaleDateString()} ${time}`;
}

function tick() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[datetime]")) {
    time.textContent = local(new Date(time.dateTime), new Date(now));
  }
  for (const time of document.querySelectorAll("time[data-since]")) {
    time.textContent = span(Math.max(0, Math.floor((now - Date.parse(time.dataset.since)) / 1000)));
  }
  for (const time of document.querySelectorAll("time[data-until]")) {
    const left = Math.ceil((Date.parse(time.dataset.until) - now) / 1000);
    time.textContent = left > 0 ? span(left) : "now";
  }
}

// ---- pieces ----

// What the server last sent for an element, by the element's id: what is the same stays untouched,
// and keeps its focus and its selection.
const sent = new Map();

function children(parent) {
  return [...parent.children].filter((child) => child.id);
}

// Makes the rows of `parent` those of `wanted`, by their ids.
function morph(parent, wanted) {
  const old = new Map(children(parent).map((child) => [child.id, child]));
  let place = parent.firstElementChild;
  for (const child of children(wanted)) {
    const html = child.outerHTML;
    const known = old.get(child.id);
    old.delete(child.id);
    if (known && sent.get(child.id) === html) {
      if (known !== place) parent.insertBefore(known, place);
      else place = place.nextElementSibling;
      continue;
    }
    sent.set(child.id, html);
    if (known) {
      if (known === place) place = place.nextElementSibling;
      const focused = known.contains(document.activeElement);
      const at = focused ? [...known.querySelectorAll("a, button")].indexOf(document.activeElement) : -1;
      known.replaceWith(child);
      enable(child);
      if (at >= 0) child.querySelectorAll("a, button")[at]?.focus();
    } else {
      if (sent.started) child.classList.add("fresh");
      parent.insertBefore(child, place);
      enable(child);
    }
  }
  for (const [id, child] of old) {
    sent.delete(id);
    child.remove();
  }
}

function show(target, html) {
  const wanted = document.createElement("template");
  wanted.innerHTML = html;
  const oldBody = target.querySelector("tbody");
  const newBody = wanted.content.querySelector("tbody");
  const keyed = (root) => root.children.length > 0 && [...root.children].every((child) => child.id);
  if (oldBody && newBody) {
    morph(oldBody, newBody);
    around(target, oldBody, wanted.content, newBody);
  } else if (!oldBody && !newBody && keyed(target) && keyed(wanted.content)) {
    morph(target, wanted.content);
  } else {
    target.replaceChildren(wanted.content);
    enable(target);
  }
}

// Makes what stands before and behind the table of `target` that of `wanted`.
function around(target, oldBody, wanted, newBody) {
  const outside = (root, body) => [...root.children].filter((child) => !child.contains(body));
  const [before, after] = [outside(target, oldBody), outside(wanted, newBody)];
  const same = before.length === after.length && before.every((child, at) => child.outerHTML === after[at].outerHTML);
  if (same) return;
  for (const child of before) child.remove();
  const table = target.firstElementChild;
  const place = [...wanted.children].findIndex((child) => child.contains(newBody));
  [...wanted.children].forEach((child, at) => {
    if (at < place) table.before(child);
    else if (at > place) target.append(child);
  });
}

function enable(root) {
  const all = [root, ...root.querySelectorAll("*")].filter((element) => element.nodeType === 1);
  for (const element of all) if (element.hasAttribute("data-needs-script")) element.hidden = false;
}

function paused() {
  const isPaused = document.querySelector("#cards[data-paused]") !== null;
  for (const button of document.querySelectorAll("[data-unless-paused]")) button.hidden = isPaused;
  for (const button of document.querySelectorAll("[data-if-paused]")) button.hidden = !isPaused;
}

// ---- search ----

const search = document.getElementById("search");

function filter() {
  const wanted = (search?.value ?? "").trim().toLowerCase();
  for (const row of document.querySelectorAll("[data-find]")) {
    row.toggleAttribute("data-hidden", wanted !== "" && !row.dataset.find.toLowerCase().includes(wanted));
  }
}

search?.addEventListener("input", filter);

// ---- buttons and keys ----

let told;
function tell(text) {
  say.textContent = text;
  clearTimeout(told);
  told = setTimeout(() => { say.textContent = ""; }, 5000);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-post]");
  if (!button || (button.dataset.ask && !confirm(button.dataset.ask))) return;
  button.disabled = true;
  try {
    const answer = await fetch(button.dataset.post, { method: "POST" });
    const body = await answer.json();
    tell(answer.ok ? `${body.operations.join(" and ").replaceAll("_", " ")}: done` : body.error.message);
  } catch {
    tell("The service does not answer.");
  } finally {
    button.disabled = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, textarea");
  if (event.key === "/" && !typing) {
    search?.focus();
    event.preventDefault();
  } else if (event.key === "Escape" && event.target === search) {
    search.value = "";
    filter();
    main.focus();
  } else if (event.key === "r" && !typing) {
    document.querySelector('[data-post="/api/v1/refresh"]')?.click();
  }
});

// ---- live ----

const link = document.getElementById("link");

function linked(isUp) {
  if (!link) return;
  link.textContent = isUp ? "live" : "no connection";
  link.className = isUp ? "chip on" : "chip off";
}

let heard = null;

// A browser has few connections to one server: a hidden page closes its own.
function listen(url) {
  if (document.hidden || (heard && heard.readyState !== EventSource.CLOSED)) return;
  const events = new EventSource(url);
  heard = events;
  events.addEventListener("open", () => linked(true));
  events.addEventListener("error", () => {
    linked(false);
    if (events.readyState === EventSource.CLOSED) setTimeout(() => listen(url), 2000);
  });
  events.addEventListener("piece", (event) => {
    const { name, html } = JSON.parse(event.data);
    const target = document.querySelector(`[data-piece="${name}"]`);
    if (!target) return;
    show(target, html);
    paused();
    filter();
    tick();
  });
}

// Any other page is read again and again. Times that pass are no change.
async function refresh() {
  try {
    const answer = await fetch(location.href);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    for (const time of fresh?.querySelectorAll("time[data-since], time[data-until]") ?? []) time.textContent = "";
    const key = document.activeElement?.dataset?.post;
    if (fresh && fresh.innerHTML !== refresh.last) {
      refresh.last = fresh.innerHTML;
      main.replaceChildren(...fresh.childNodes);
      enable(main);
      if (key) main.querySelector(`[data-post="${CSS.escape(key)}"]`)?.focus();
    }
    paused();
    // What was sent off, the server has looked for.
    if (search && search.value !== search.defaultValue) filter();
    tick();
  } catch {
    tell("The service does not answer.");
  }
  setTimeout(refresh, 2000);
}

enable(document.body);
paused();
tick();
setInterval(tick, 1000);
setTimeout(() => { sent.started = true; }, 2000);
if (main.dataset.live) {
  listen(main.dataset.live);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) heard?.close();
    else listen(main.dataset.live);
  });
} else if (!main.hasAttribute("data-still")) setTimeout(refresh, 2000);
