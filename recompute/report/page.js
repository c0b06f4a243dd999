"use strict";
(() => {
  const rows = [...document.querySelectorAll("#rows tbody")];
  const tools = document.querySelector(".tools");
  const texts = new Map();

  // What many traces share is on the page once; an opened trace shows a copy of it in its place.
  const copy = (link) => {
    const node = document.querySelector(link.getAttribute("href")).cloneNode(true);
    node.removeAttribute("id");
    return node;
  };
  const fill = (inside) => {
    for (let more; (more = inside.querySelector("a.more")); ) more.replaceWith(copy(more));
    for (const query of inside.querySelectorAll("p.query")) {
      const literals = [...query.querySelectorAll("code")];
      const whole = copy(query.querySelector("a"));
      whole.querySelectorAll("b").forEach((blank, at) => blank.replaceWith(literals[at].textContent));
      query.replaceWith(whole);
    }
  };
  document.addEventListener("toggle", (event) => {
    if (event.target.open && !event.target.closest("#shared")) fill(event.target);
  }, true);

  const text = (row) => {
    if (!texts.has(row)) texts.set(row, (row.rows[0].textContent + row.querySelector("td[colspan]").firstElementChild?.textContent).toLowerCase());
    return texts.get(row);
  };
  const show = () => {
    const failing = tools.elements.which.value === "failing";
    const words = tools.elements.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = (!failing || row.classList.contains("fails")) && words.every((word) => text(row).includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    tools.elements.shown.value = `${shown} of ${rows.length} rows`;
    document.querySelector("#no-rows").hidden = shown > 0;
  };
  const open = () => {
    const row = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!row || !row.matches("#rows tbody")) return;
    if (row.hidden) { tools.reset(); show(); }
    const trace = row.querySelector("details");
    if (trace) trace.open = true;
    row.scrollIntoView();
  };
  if (tools) {
    tools.hidden = false;
    tools.addEventListener("input", show);
    tools.addEventListener("submit", (event) => event.preventDefault());
    show();
  }
  window.addEventListener("hashchange", open);
  open();
})();
