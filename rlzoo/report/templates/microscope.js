"use strict";
const numbers = JSON.parse(document.getElementById("numbers").textContent);
const panel = document.getElementById("panel");
const lists = [...document.querySelectorAll(".tokens[role=listbox]")];
let chosen = null;

function add(parent, tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  parent.append(element);
  return element;
}
function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001 || size >= 1e5) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}
const signed = (value) => (value > 0 ? "+" : "") + short(value);
const times = (value, view) => signed(Number((value / view.unit).toPrecision(2))) + " \u00d7";
const both = (value, view) => (value === 0 ? "0" : `${signed(value)} = ${times(value, view)}`);

function place(response, t) {
  const [p, h] = [response.p[t], response.h[t]];
  const choices = Number(Math.exp(h).toPrecision(2));
  return `The model gave it the probability ${short(p)}, at a place with an entropy of ${short(h)} nats: as undecided as between ${choices} equal choices.`;
}
function reasons(response, seen, view, t) {
  if (seen.out.length) return [`This response is left out by ${seen.out.join(" and ")}: it has no gradient.`];
  const right = response.right ? "right" : "wrong";
  const gradient = seen.gradient[t];
  const said = [];
  if (seen.response === 0) said.push("The response did just as well as the rest of its group, so there is nothing to learn from it.");
  else said.push(`The response is ${right} and did ${seen.response > 0 ? "better" : "worse"} than its group: advantage ${signed(seen.response)}.`);
  for (const [name, weights] of Object.entries(seen.weights)) {
    if (seen.adds.includes(name)) {
      if (weights[t] !== 0) said.push(`${name} adds ${signed(weights[t])} to that.`);
    } else if (weights[t] !== 1) said.push(`${name} weighs that by ${short(weights[t])}.`);
  }
  const masks = Object.keys(seen.masked).filter((name) => seen.masked[name].includes(t));
  for (const name of masks) {
    said.push(`The token is masked by ${name}. Without ${name} its gradient would be ${times(seen.without[name][t], view)} the average.`);
  }
  if (seen.clipped.includes(t)) {
    said.push(`The ratio is outside the bounds of the clip, which ${gradient === 0 ? "set the gradient to 0" : "change the gradient"}.`);
  }
  if (seen.pass && !masks.length) said.push(`It is updated in pass ${seen.pass[t]}.`);
  if (gradient !== 0 && !masks.length) {
    said.push(`The update makes it ${gradient > 0 ? "more" : "less"} probable: its gradient is ${times(gradient, view)} the average.`);
  }
  return said;
}
function figures(list, response, seen, view, t) {
  const rows = [["reward", short(seen.reward)], ["advantage of the response", signed(seen.response)]];
  for (const [name, weights] of Object.entries(seen.weights)) {
    rows.push([seen.adds.includes(name) ? `added by ${name}` : `weight, ${name}`, short(weights[t])]);
  }
  if (seen.advantage[t] !== seen.response) rows.push(["advantage of the token", signed(seen.advantage[t])]);
  rows.push(["importance ratio", short(seen.ratio[t])]);
  const masks = Object.keys(seen.masked).filter((name) => seen.masked[name].includes(t));
  rows.push(["masked by", masks.join(", ") || "nothing"], ["gradient on log p", both(seen.gradient[t], view)], ["gradient on the logit", both(seen.logit[t], view)]);
  if (seen.penalty) rows.push(["gradient on log p from penalties", signed(seen.penalty[t])]);
  for (const [name, value] of rows) {
    add(list, "dt", name);
    add(list, "dd", value);
  }
}
function gauge(parent, share) {
  add(add(parent, "div", undefined, "gauge"), "i").style.width = `${100 * Math.min(1, share)}%`;
}
function turn(response, t) {
  if (!response.turn || response.turns < 2 || !response.turn[t]) return;
  add(panel, "p", `Turn ${response.turn[t]} of ${response.turns} began in state ${response.state[t]} and earned ${short(response.earned[t])}.`);
}
function overhear(response, t) {
  add(panel, "p", "The environment wrote it: the model reads it, and it is no part of an advantage, a mask, a ratio or a length.");
  if (response.p[t] !== null) add(panel, "p", place(response, t).replace("gave it", "would have given it"));
  response.views.forEach((seen, i) => {
    const view = numbers.views[i];
    if (numbers.views.length > 1) add(panel, "h4", view.name);
    add(panel, "p", seen.gradient[t] === 0 ? "It has no gradient." : "The policy learns to predict it.");
    const list = add(panel, "dl");
    for (const [name, value] of [["gradient on log p", seen.gradient[t]], ["gradient on the logit", seen.logit[t]]]) {
      add(list, "dt", name);
      add(list, "dd", both(value, view));
    }
  });
}
function explain(response, t) {
  turn(response, t);
  add(panel, "p", place(response, t));
  gauge(panel, response.p[t]);
  response.views.forEach((seen, i) => {
    const view = numbers.views[i];
    if (numbers.views.length > 1) add(panel, "h4", view.name);
    for (const sentence of reasons(response, seen, view, t)) add(panel, "p", sentence);
    figures(add(panel, "dl"), response, seen, view, t);
  });
}
function show(token, open) {
  const response = numbers.responses[token.parentElement.dataset.response];
  const t = [...token.parentElement.children].indexOf(token);
  if (chosen) {
    chosen.classList.remove("on");
    chosen.removeAttribute("aria-selected");
    chosen.removeAttribute("id");
    chosen.parentElement.removeAttribute("aria-activedescendant");
  }
  chosen = token;
  token.classList.add("on");
  token.id = "chosen";
  token.setAttribute("aria-selected", "true");
  token.parentElement.setAttribute("aria-activedescendant", "chosen");
  panel.replaceChildren();
  const heading = add(panel, "h3");
  add(heading, "code", response.text[t]);
  add(heading, "span", `token ${t + 1} of ${response.length}`, "soft");
  const close = add(heading, "button", "\u00d7");
  close.type = "button";
  close.setAttribute("aria-label", "Close");
  close.addEventListener("click", () => panel.classList.remove("open"));
  if (response.heard.includes(t)) overhear(response, t);
  else explain(response, t);
  if (!open) return;
  panel.classList.add("open");
  token.scrollIntoView({ block: "nearest" }); // not behind the panel
}
for (const list of lists) {
  list.addEventListener("click", (event) => {
    const token = event.target.closest("i");
    if (token) show(token, true);
  });
  list.addEventListener("keydown", (event) => {
    const tokens = [...list.children];
    const here = chosen && chosen.parentElement === list ? tokens.indexOf(chosen) : -1;
    const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tokens.length - 1, Enter: Math.max(0, here), " ": Math.max(0, here) }[event.key];
    if (event.key === "Escape") panel.classList.remove("open");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const other = lists[lists.indexOf(list) + (event.key === "ArrowDown" ? 1 : -1)];
      if (!other) return;
      event.preventDefault();
      other.focus();
      show(other.children[Math.min(Math.max(0, here), other.children.length - 1)], true);
    }
    if (next === undefined) return;
    event.preventDefault();
    show(tokens[Math.min(Math.max(0, next), tokens.length - 1)], true);
  });
}
function telling() {
  // The token to begin with: a masked one, or else the one with the largest gradient on its logit.
  let [best, most] = [lists[0].children[0], -1];
  for (const list of lists) {
    const response = numbers.responses[list.dataset.response];
    const seen = response.views[0];
    [...list.children].forEach((token, t) => {
      if (token.classList.contains("heard")) return;
      const gradients = [seen.gradient, ...Object.values(seen.without)].map((column) => Math.abs(column[t]) * (1 - response.p[t]));
      const size = Math.max(...gradients) + (token.classList.contains("as") ? 1e6 : 0);
      if (size > most) [best, most] = [token, size];
    });
  }
  return best;
}
if (lists.length) show(telling(), false);
