// What the pages need in the browser: values put in place, the theme, and orders sent to the REST API.
"use strict";
const foretide = (() => {
  const root = document.documentElement;

  // Make `now` like `wanted`, changing only what differs: what people have selected or focused stays.
  function morph(now, wanted) {
    if (now.nodeType !== wanted.nodeType || now.nodeName !== wanted.nodeName) return now.replaceWith(wanted);
    if (now.nodeType === Node.TEXT_NODE) {
      if (now.data !== wanted.data) now.data = wanted.data;
      return;
    }
    if (now.nodeType !== Node.ELEMENT_NODE) return;
    if (now.dataset.key !== wanted.dataset.key) return now.replaceWith(wanted);
    for (const { name } of [...now.attributes]) if (!wanted.hasAttribute(name) && name !== "open") now.removeAttribute(name);
    for (const { name, value } of wanted.attributes) if (now.getAttribute(name) !== value) now.setAttribute(name, value);
    children(now, wanted);
  }
  function children(now, wanted) {
    const old = [...now.childNodes], fresh = [...wanted.childNodes];
    fresh.forEach((node, place) => (place < old.length ? morph(old[place], node) : now.append(node)));
    old.slice(fresh.length).forEach((node) => node.remove());
  }
  // Do something with an element; when it is not in the page yet, as soon as it is.
  function when(selector, action, tries = 200) {
    const place = document.querySelector(selector);
    if (place) action(place);
    else if (tries > 0) setTimeout(() => when(selector, action, tries - 1), 50);
  }
  const newest = new Map();
  function put(id, html) {
    newest.set(id, html);
    when(`#${id}`, (place) => {
      const made = document.createElement("template");
      made.innerHTML = newest.get(id);
      children(place, made.content);
    });
  }

  function theme(name) {
    root.dataset.theme = name;
    try { localStorage.setItem("foretide-theme", name); } catch (error) { /* private windows have no storage */ }
  }
  function begin() {
    let kept = null;
    try { kept = localStorage.getItem("foretide-theme"); } catch (error) { /* as above */ }
    root.dataset.theme = kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }
  // Where the menu is a row that is wider than the window, show the entry of this page.
  const showCurrent = () => when(".menu [aria-current]", (entry) => {
    const menu = entry.closest(".menu");
    menu.scrollLeft = entry.offsetLeft - (menu.clientWidth - entry.offsetWidth) / 2;
  });
  const toggleTheme = () => theme(root.dataset.theme === "dark" ? "light" : "dark");

  // ---- orders

  function orderOf(form) {
    const order = { action: form.dataset.action };
    for (const field of form.elements) {
      const text = field.name ? field.value.trim() : "";
      if (!text) continue;
      const kind = field.dataset.kind;
      if (kind === "number") order[field.name] = Number(text);
      else if (kind === "number-or-none") order[field.name] = text === "none" ? "none" : Number(text);
      else if (kind === "rows") order[field.name] = text === "none" ? null : Number(text);
      else if (kind === "ratio") order[field.name] = text.split(":").map(Number);
      else if (kind === "pool") order.pools = { ...order.pools, [field.name]: Number(text) };
      else order[field.name] = text;
    }
    return order;
  }
  function say(words, good) {
    const place = document.getElementById("answer");
    place.className = `note ${good ? "ok" : "error"}`;
    place.textContent = words;
    place.hidden = false;
    place.scrollIntoView({ block: "nearest" });
  }
  async function send(pipeline, order) {
    const token = document.getElementById("token").value.trim();
    try {
      const answer = await fetch(`/api/v1/pipelines/${encodeURIComponent(pipeline)}/actions`, {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
        body: JSON.stringify(order),
      });
      const found = await answer.json();
      if (answer.ok && token) sessionStorage.setItem("foretide-token", token);
      say(answer.ok ? `Done: ${found.said}` : `Refused: ${found.message}`, answer.ok);
    } catch (error) {
      say(`Not sent: the dashboard does not answer (${error.message})`, false);
    }
  }
  function confirmOrder(pipeline, order, words) {
    const dialog = document.getElementById("confirm");
    dialog.querySelector("[data-words]").textContent = words;
    dialog.querySelector("code").textContent = JSON.stringify(order);
    dialog.onclose = () => { if (dialog.returnValue === "yes") send(pipeline, order); };
    dialog.returnValue = "";
    dialog.showModal();
  }
  function submitted(event) {
    const form = event.target.closest("form.order");
    if (!form) return;
    event.preventDefault();
    confirmOrder(form.dataset.pipeline, orderOf(form), form.dataset.words);
  }
  function clicked(event) {
    const button = event.target.closest("button[data-order]");
    if (button) confirmOrder(button.dataset.pipeline, JSON.parse(button.dataset.order), button.dataset.words);
    if (event.target.closest("[data-theme-button]")) toggleTheme();
  }
  const keptToken = () => when("#token", (field) => {
    if (!field.value) field.value = sessionStorage.getItem("foretide-token") || "";
  });
  document.addEventListener("submit", submitted);
  document.addEventListener("click", clicked);
  begin();
  return { put, keptToken, showCurrent };
})();
