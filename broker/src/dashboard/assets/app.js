// What pages cannot do alone: follow what happens, send forms in place, keys.
"use strict";
(() => {
  const make = (text) => new DOMParser().parseFromString(policy.createHTML(text), "text/html");
  const policy = window.trustedTypes
    ? trustedTypes.createPolicy("tasuki", { createHTML: (text) => text })
    : { createHTML: (text) => text };
  const $ = (query, from = document) => from.querySelector(query);
  const $$ = (query, from = document) => [...from.querySelectorAll(query)];
  const body = document.body;
  const main = () => $("#main");

  // A link that logs in has its token behind the #, which no server or log sees.
  const link = $("form#link");
  if (link && location.hash.length > 1) {
    link.elements.token.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname);
    link.submit();
  }
  if (!body.dataset.events) return;

  // Makes `old` what `next` is, but for what a person is busy with.
  const isKept = (node) =>
    node.nodeType === 1 && (node === document.activeElement || (node.tagName === "FORM" && (node.contains(document.activeElement) || node.dataset.touched)));
  const holds = (node) => isKept(node) || (node.nodeType === 1 && node.querySelector("form[data-touched]"));
  const keyOf = (node) => (node.nodeType === 1 && node.id) || "";
  const morph = (old, next) => {
    if (isKept(old)) return;
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) return holds(old) ? old.before(next) : old.replaceWith(next);
    if (old.nodeType !== 1) {
      if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!next.hasAttribute(name) && !(name === "open" && old.tagName === "DETAILS") && name !== "aria-selected") old.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (name === "open" && old.tagName === "DETAILS") continue;
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    const named = new Map([...old.childNodes].filter(keyOf).map((it) => [keyOf(it), it]));
    let at = old.firstChild;
    for (const child of [...next.childNodes]) {
      const key = keyOf(child);
      if (key && named.has(key)) {
        const own = named.get(key);
        if (own !== at) old.insertBefore(own, at); else at = at.nextSibling;
        morph(own, child);
      } else if (at && !keyOf(at) && !key) {
        const own = at;
        at = at.nextSibling;
        morph(own, child);
      } else old.insertBefore(child, at);
    }
    while (at) { const own = at; at = at.nextSibling; if (!holds(own)) own.remove(); }
  };
  const show = (text) => {
    const next = make(text);
    const fresh = $("#main", next);
    if (!fresh) return;
    document.title = next.title;
    morph(main(), fresh);
    // Forms that were kept may be of an old session.
    const own = $("[name=form]", next);
    if (own) $$("[name=form]").forEach((it) => { if (!it.form.dataset.sent) it.value = own.value; });
    tick();
  };

  // Asks for this page anew.
  let busy = false, again = false, took = 0, asked = 0;
  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    asked = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { "Tasuki-Script": "1" }, redirect: "follow" });
      if (new URL(answer.url).pathname === "/login") ended();
      else if (answer.ok) { $("#ended").hidden = true; show(await answer.text()); took = Math.min(Date.now() - asked, 5e3); }
    } catch { /* The light tells of it. */ }
    busy = false;
    if (again) { again = false; refresh(); }
  };
  // Once a second; slow pages less often.
  let waiting = 0;
  const soon = () => { waiting ||= setTimeout(() => { waiting = 0; busy ? soon() : refresh(); }, Math.max(60, asked + 1e3 - Date.now(), 8 * took)); };

  const light = $("#live");
  const lit = (state, title) => { light.className = "live " + state; light.title = title; };
  // What is typed stays.
  const ended = () => {
    if ($("form[data-touched]")) { lit("off", "Your session ended"); $("#ended").hidden = false; } else location.reload();
  };
  // Only while looked at: browsers have few connections.
  let wasOff = false, events;
  const follow = () => {
    events?.close();
    if (document.hidden) return;
    events = new EventSource(body.dataset.events);
    events.addEventListener("hello", () => { lit("on", "Live"); if (wasOff) soon(); wasOff = false; });
    events.addEventListener("changed", (event) => {
      const kinds = event.data.split(" ");
      if (main().dataset.live.split(" ").some((kind) => kinds.includes(kind))) soon();
    });
    events.onerror = () => {
      lit("off", "The broker does not answer"); wasOff = true;
      if (events.readyState === 2) { refresh(); setTimeout(follow, 3000); }
    };
  };
  follow();
  addEventListener("visibilitychange", () => { follow(); if (!document.hidden && main().dataset.live) soon(); });
  addEventListener("pagehide", () => events?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) { follow(); soon(); } });
  let seconds = 0;
  setInterval(() => {
    seconds += 1;
    const every = Number(main().dataset.every);
    if (every && seconds % every === 0 && !document.hidden) soon();
    tick();
  }, 1000);

  // Times go on by themselves.
  const two = (number) => String(number).padStart(2, "0");
  const long = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000)), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
    if (d) return `${d}d ${two(h % 24)}h`;
    if (h) return `${h}h ${two(m % 60)}m`;
    return m ? `${m}m ${two(s % 60)}s` : `${s}s`;
  };
  const tick = () => {
    for (const it of $$("[data-form=clock]")) {
      const at = +it.dataset.ms, text = new Date(at).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: at % 6e4 ? "2-digit" : undefined });
      if (it.textContent !== text) it.textContent = text;
    }
    for (const it of $$("time[data-ms]:not([data-form=clock])")) {
      const at = Number(it.dataset.ms), now = Date.now();
      const text = { since: long(now - at), until: at > now ? "in " + long(at - now) : "lapsed" }[it.dataset.form] || long(now - at) + " ago";
      if (it.textContent !== text) it.textContent = text;
      if (!it.dataset.local) { it.dataset.local = 1; it.title = new Date(at).toLocaleString(); }
    }
  };
  tick();

  // Forms are sent in place: what was typed stays until it was taken. Some are answered by a page.
  addEventListener("input", (event) => { const form = event.target.closest("form[method=post]"); if (form) form.dataset.touched = 1; });
  addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.method !== "post" || form.id === "link" || $("[data-page]", form)) return;
    event.preventDefault();
    const buttons = $$("button", form), said = $("output", form);
    buttons.forEach((it) => { it.disabled = true; });
    if (said) said.textContent = "";
    try {
      const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "Tasuki-Script": "1" } });
      const text = await answer.text();
      delete form.dataset.sent;
      if (answer.ok && answer.redirected) {
        const to = new URL(answer.url);
        const isOut = to.pathname === "/login";
        if (!isOut) {
          delete form.dataset.touched;
          form.closest("details.act")?.removeAttribute("open");
          if (document.activeElement) document.activeElement.blur();
        }
        if (isOut) ended();
        else if (to.pathname === location.pathname && (!to.search || to.search === location.search)) { if (to.search === location.search) show(text); else await refresh(); }
        else location.assign(to);
      } else if (said) {
        said.textContent = $("#trouble", make(text))?.textContent || "Not done: the broker answered " + answer.status + ".";
      }
    } catch {
      form.dataset.sent = 1;
      if (said) said.textContent = "No answer came. It may or may not be done. Sent again it is done once, unless the broker was restarted.";
    }
    buttons.forEach((it) => { it.disabled = false; });
  });

  // Keys, unless somebody types.
  let began = 0, picked = -1;
  const tabs = Object.fromEntries(body.dataset.keys.split(" ").map((it) => [it[0], it.slice(1)]));
  const base = body.dataset.events.replace(/\/events$/, "/");
  const pick = (by) => {
    const items = $$("main [data-item]");
    if (!items.length) return;
    items[picked]?.removeAttribute("aria-selected");
    picked = Math.min(items.length - 1, Math.max(0, picked + by));
    items[picked].setAttribute("aria-selected", "true");
    items[picked].scrollIntoView({ block: "nearest" });
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input, textarea, select");
    if (event.key === "Escape") {
      if (typing) typing.blur();
      else $$("details.act[open], details.pick[open]").forEach((it) => it.removeAttribute("open"));
      return;
    }
    if (typing) return;
    const items = $$("main [data-item]");
    if (began && tabs[event.key]) location.assign(base + tabs[event.key]);
    else if (event.key === "/") $(".search input").focus();
    else if (event.key === "?") $("#help").showModal();
    else if (event.key === "j") pick(1);
    else if (event.key === "k") pick(-1);
    else if (event.key === "Enter" && items[picked] && event.target === body) $("a, summary", items[picked])?.click();
    else { began = event.key === "g" ? setTimeout(() => { began = 0; }, 1500) : 0; return; }
    began = 0;
    event.preventDefault();
  });
  addEventListener("mouseover", (event) => {
    const tip = $("#tip"), text = event.target.dataset?.tip;
    if (tip && text) tip.textContent = text;
  });
  addEventListener("click", (event) => {
    if (event.target.dataset?.href) location.assign(event.target.dataset.href);
    $$("details.pick[open]").filter((it) => !it.contains(event.target)).forEach((it) => it.removeAttribute("open"));
  });
})();
