"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const make = (name, text) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  /* Theme: automatic, light, dark; remembered where the browser allows it. */
  const themes = ["automatic", "light", "dark"];
  const button = document.getElementById("theme");
  const remembered = () => {
    try { return localStorage.getItem("bayesjudge-theme"); } catch { return null; }
  };
  const useTheme = (name) => {
    if (name === "automatic") delete root.dataset.theme; else root.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
    button.dataset.now = name;
    try { localStorage.setItem("bayesjudge-theme", name); } catch { /* not remembered */ }
  };
  const known = remembered();
  useTheme(themes.includes(known) ? known : "automatic");
  button.hidden = false;
  button.addEventListener("click", () => {
    useTheme(themes[(themes.indexOf(button.dataset.now) + 1) % themes.length]);
  });

  /* Sorting: by the numbers in a cell, first to last; by text where there are none. */
  const numbersIn = (text) => (text.match(/-?(?:\d[\d,]*\.?\d*(?:e[-+]?\d+)?|∞)/g) || [])
    .map((part) => (part.endsWith("∞") ? (part[0] === "-" ? -Infinity : Infinity)
      : Number(part.replaceAll(",", ""))));
  const byNumbers = (a, b) => {
    for (let i = 0; i < Math.max(a.length, b.length); i += 1) {
      if (a[i] === undefined || b[i] === undefined) return a.length - b.length;
      if (a[i] !== b[i]) return a[i] - b[i];
    }
    return 0;
  };
  const collator = new Intl.Collator(undefined, { numeric: true });
  const sortable = (table) => {
    const headers = [...table.tHead.rows[0].cells];
    const original = [...table.tBodies[0].rows];
    headers.forEach((header, column) => {
      const press = make("button");
      press.type = "button";
      press.append(...header.childNodes);
      header.append(press);
      press.addEventListener("click", () => {
        const was = header.getAttribute("aria-sort");
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        const now = { ascending: "descending", descending: null }[was];
        const way = was === null ? "ascending" : now;
        table.classList.toggle("sorted", way !== null);
        if (way === null) { table.tBodies[0].append(...original); return; }
        header.setAttribute("aria-sort", way);
        const numeric = header.classList.contains("n");
        const keyed = original.map((row, at) => {
          const text = row.cells[column].textContent;
          return { row, at, key: numeric ? numbersIn(text) : text };
        });
        const empty = (one) => numeric && one.key.length === 0;
        const turn = way === "ascending" ? 1 : -1;
        keyed.sort((a, b) => {
          if (empty(a) || empty(b)) return empty(a) - empty(b) || a.at - b.at;
          const order = numeric ? byNumbers(a.key, b.key) : collator.compare(a.key, b.key);
          return turn * order || a.at - b.at;
        });
        table.tBodies[0].append(...keyed.map((one) => one.row));
      });
    });
  };
  document.querySelectorAll("table.sortable").forEach(sortable);

  /* Filtering the leaderboard. */
  const board = document.getElementById("leaderboard-table");
  if (board) {
    const words = document.getElementById("filter");
    const only = document.getElementById("only-best");
    const shown = document.getElementById("shown");
    const rows = [...board.tBodies[0].rows];
    const apply = () => {
      const wanted = words.value.trim().toLowerCase();
      let count = 0;
      rows.forEach((row) => {
        const fits = row.dataset.key.toLowerCase().includes(wanted)
          && (!only.checked || row.classList.contains("marked"));
        row.hidden = !fits;
        count += fits;
      });
      shown.textContent = count === rows.length ? "" : `${count} of ${rows.length} shown`;
    };
    words.addEventListener("input", apply);
    only.addEventListener("change", apply);
    document.querySelector(".controls").hidden = false;
  }

  /* Matrices: a cell is read out under the pointer, or with the arrow keys. */
  const said = (value, kind) => {
    if (value === null) return "none";
    return kind === "signed" && value > 0 ? `+${value}` : String(value);
  };
  document.querySelectorAll("svg[data-matrix]").forEach((svg) => {
    const found = data.matrices[svg.dataset.matrix];
    const columns = found.columns || found.rows;
    const [left, top, w, h] = ["left", "top", "w", "h"].map((name) => Number(svg.dataset[name]));
    const readout = document.getElementById(`${svg.dataset.matrix}-readout`);
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    cursor.setAttribute("class", "cursor");
    cursor.setAttribute("width", w);
    cursor.setAttribute("height", h);
    let at = [0, 0];
    const show = (row, column) => {
      at = [row, column];
      cursor.setAttribute("x", left + w * column);
      cursor.setAttribute("y", top + h * row);
      if (!cursor.isConnected) svg.append(cursor);
      const parts = [["", found.rows[row]], [`, ${found.column} `, columns[column]]];
      readout.replaceChildren();
      parts.forEach(([before, label]) => {
        const name = make("bdi", label);
        name.dir = "auto";
        readout.append(before, name);
      });
      cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
      readout.append(`: ${found.unit} ${said(found.values[row][column], found.kind)}`);
    };
    const box = svg.closest(".scroll");
    svg.addEventListener("pointermove", (event) => {
      const shape = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / shape.width;
      const column = Math.floor(((event.clientX - shape.left) * scale - left) / w);
      const row = Math.floor(((event.clientY - shape.top) * scale - top) / h);
      if (row >= 0 && column >= 0 && row < found.rows.length && column < columns.length) {
        show(row, column);
      }
    });
    box.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const move = step[event.key];
      if (!move) return;
      event.preventDefault();
      const first = !cursor.isConnected;
      const clip = (value, size) => Math.min(Math.max(value, 0), size - 1);
      show(clip(at[0] + (first ? 0 : move[0]), found.rows.length),
        clip(at[1] + (first ? 0 : move[1]), columns.length));
    });
    readout.setAttribute("aria-live", "polite");
  });

  /* Large matrices become tables when someone asks for them. */
  document.querySelectorAll("details[data-table]").forEach((details) => {
    details.addEventListener("toggle", () => {
      if (!details.open || details.dataset.done) return;
      details.dataset.done = "yes";
      const found = data.matrices[details.dataset.table];
      const columns = found.columns || found.rows;
      const table = make("table");
      const head = table.createTHead().insertRow();
      [found.row, ...columns].forEach((name) => {
        const cell = make("th");
        const label = make("bdi", name);
        cell.scope = "col";
        label.dir = "auto";
        cell.append(label);
        head.append(cell);
      });
      const body = table.createTBody();
      found.rows.forEach((name, row) => {
        const line = body.insertRow();
        const cell = make("th");
        const label = make("bdi", name);
        cell.scope = "row";
        label.dir = "auto";
        cell.append(label);
        line.append(cell);
        found.values[row].forEach((value) => {
          const number = line.insertCell();
          number.className = "n";
          number.textContent = value === null ? "–" : value;
        });
      });
      const box = make("div");
      box.className = "scroll";
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", `${found.unit}, as a table`);
      box.append(table);
      details.append(box);
    });
  });

  root.dataset.ready = "yes";
})();
