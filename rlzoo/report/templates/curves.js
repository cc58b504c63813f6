for (const plot of document.querySelectorAll(".plot")) {
  const series = JSON.parse(plot.dataset.series);
  const [first, last] = [Number(plot.dataset.first), Number(plot.dataset.last)];
  const [cursor, reading] = [plot.querySelector(".cursor"), plot.querySelector(".reading")];
  const hide = (hidden) => { cursor.hidden = reading.hidden = hidden; };
  const line = (it) => {
    const [row, dot, name, value] = ["p", "i", "span", "span"].map((tag) => document.createElement(tag));
    dot.style.background = it.color;
    name.append(dot, it.name);
    value.append(it.text);
    row.append(name, value);
    return row;
  };
  const show = (event) => {
    const area = plot.querySelector("[id$='-plot']").getBoundingClientRect(), box = plot.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - area.left) / area.width));
    const step = Math.round(first + share * (last - first)), left = area.left - box.left;
    const values = series.map(({name, color, values, heldOut}) => {
      const [value, other] = [values[step - 1], heldOut[step]];
      const shown = [value === undefined ? "" : value.toPrecision(3), other === undefined ? "" : `held out ${other}`];
      return {name, color, order: value ?? other ?? -Infinity, text: shown.filter(Boolean).join(", ")};
    });
    const title = document.createElement("b");
    title.append(`step ${step}`);
    const lines = values.filter((it) => it.text).sort((a, b) => b.order - a.order).map(line);
    reading.replaceChildren(title, ...lines);
    hide(false);
    cursor.style.left = `${left + (step - first) / (last - first) * area.width}px`;
    cursor.style.top = `${area.top - box.top}px`;
    cursor.style.height = `${area.height}px`;
    reading.style.top = `${area.top - box.top}px`;
    reading.style.left = share < 0.5 ? "auto" : `${left}px`;
    reading.style.right = share < 0.5 ? `${box.right - area.right}px` : "auto";
  };
  plot.addEventListener("pointermove", show);
  plot.addEventListener("pointerdown", show);
  plot.addEventListener("pointerleave", () => hide(true));
}
