"use strict";
// The page is whole without this: what is here finds functions, shows a frame of the flame graph
// as wide as the picture, and sorts tables.
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const whole = document.querySelector(".whole");
  const told = document.querySelector(".told");
  const search = document.querySelector(".find input");
  const EDGE = 1e-3;

  // Where frames lie in percent, as they were drawn.
  const places = new Map();
  for (const frame of all(".f")) {
    places.set(frame, {
      begin: parseFloat(frame.getAttribute("x")),
      width: parseFloat(frame.getAttribute("width")),
      row: parseFloat(frame.getAttribute("y")),
    });
  }
  const title = (frame) => frame.querySelector("title").textContent;
  const isShown = (element) => element.getClientRects().length > 0;

  // Names only where there is room for some letters.
  const fit = (flame) => {
    const across = flame.clientWidth;
    if (!across) return;
    for (const frame of all(".f:not(.out)", flame)) {
      const pixels = (parseFloat(frame.getAttribute("width")) / 100) * across;
      frame.classList.toggle("thin", pixels < 28);
    }
  };
  const fitAll = () => all(".flame").forEach(fit);

  // Shows `chosen` as wide as the graph, with what it calls below and its callers above.
  const zoom = (flame, chosen) => {
    const target = chosen ? places.get(chosen) : { begin: 0, width: 100, row: 0 };
    const end = target.begin + target.width;
    for (const frame of all(".f", flame)) {
      const place = places.get(frame);
      const isCaller = place.row < target.row &&
        place.begin <= target.begin + EDGE && place.begin + place.width >= end - EDGE;
      const isInside = place.row >= target.row &&
        place.begin >= target.begin - EDGE && place.begin + place.width <= end + EDGE;
      const begin = isCaller ? 0 : ((place.begin - target.begin) / target.width) * 100;
      const width = isCaller ? 100 : (place.width / target.width) * 100;
      frame.setAttribute("x", `${begin}%`);
      frame.setAttribute("width", `${width}%`);
      frame.classList.toggle("passed", isCaller);
      frame.classList.toggle("out", !isCaller && !isInside);
    }
    flame.zoomed = target.row > 0;
    flame.chosen = chosen;
    fit(flame);
    whole.hidden = !all(".flame").some((each) => each.zoomed && isShown(each));
  };

  const tell = (frame) => {
    told.textContent = frame ? title(frame).split("\n").join(" · ") : "";
  };

  // The frame that an arrow key leads to: the caller, the widest callee, the neighbours in a row.
  const next = (flame, key) => {
    const frames = all(".f", flame);
    const top = frames.find((frame) => places.get(frame).row === 0);
    const chosen = flame.chosen || top;
    const from = places.get(chosen);
    const rows = [...new Set(frames.map((frame) => places.get(frame).row))].sort((a, b) => a - b);
    const step = { ArrowUp: -1, ArrowDown: 1 }[key] || 0;
    const row = rows[rows.indexOf(from.row) + step];
    const inRow = frames.filter((frame) => places.get(frame).row === row);
    const begins = (frame) => places.get(frame).begin;
    const ends = (frame) => begins(frame) + places.get(frame).width;
    inRow.sort((a, b) => begins(a) - begins(b));
    if (key === "ArrowUp") {
      return inRow.find((frame) => begins(frame) <= from.begin + EDGE && ends(frame) >=
        from.begin + from.width - EDGE);
    }
    if (key === "ArrowDown") {
      const inside = inRow.filter((frame) => begins(frame) >= from.begin - EDGE &&
        ends(frame) <= from.begin + from.width + EDGE);
      return inside.sort((a, b) => places.get(b).width - places.get(a).width)[0];
    }
    return inRow[inRow.indexOf(chosen) + (key === "ArrowLeft" ? -1 : 1)];
  };

  for (const flame of all(".flame")) {
    flame.addEventListener("click", (event) => {
      const frame = event.target.closest(".f");
      if (frame) zoom(flame, frame);
      tell(frame);
    });
    flame.addEventListener("mouseover", (event) => tell(event.target.closest(".f")));
    flame.addEventListener("mouseleave", () => find());
    flame.addEventListener("keydown", (event) => {
      if (event.key === "Escape") zoom(flame, null);
      if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
      const frame = next(flame, event.key);
      if (frame) {
        zoom(flame, frame);
        tell(frame);
      }
    });
  }
  whole.addEventListener("click", () => all(".flame").forEach((flame) => zoom(flame, null)));

  // Marks what is searched for, and says how much of the whole it is: of frames that lie below
  // each other only the uppermost counts.
  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    for (const flame of all(".flame")) {
      flame.classList.toggle("seeking", wanted !== "");
      const found = all(".f", flame).filter((frame) => {
        const is = wanted !== "" && title(frame).split("\n")[0].toLowerCase().includes(wanted);
        frame.classList.toggle("found", is);
        return is;
      });
      if (!isShown(flame)) continue;
      let covered = 0;
      let reached = -1;
      const order = found.map((frame) => places.get(frame));
      order.sort((a, b) => a.begin - b.begin || a.row - b.row);
      for (const place of order) {
        const begin = Math.max(place.begin, reached);
        const end = place.begin + place.width;
        if (end > begin) covered += end - begin;
        reached = Math.max(reached, end);
      }
      const frames = found.length === 1 ? "frame" : "frames";
      told.textContent = wanted && `${found.length} ${frames}, ${covered.toFixed(1)} % of all bytes`;
    }
    for (const row of all("#top tbody tr")) {
      const name = row.cells[0].textContent.toLowerCase();
      row.hidden = wanted !== "" && !name.includes(wanted) && !row.closest(".shares");
    }
  };
  search.addEventListener("input", find);

  // A click on a head, or Enter, sorts by it, numbers from the largest and names from the first on;
  // a second one the other way around.
  for (const head of all("thead th[scope]")) {
    head.tabIndex = 0;
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter") head.click();
    });
    head.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const column = head.cellIndex;
      const body = head.closest("table").tBodies[0];
      const isNumber = "value" in body.rows[0].cells[column].dataset;
      const down = isNumber ? before !== "descending" : before === "ascending";
      const value = (row) => {
        const cell = row.cells[column];
        return isNumber ? Number(cell.dataset.value) : cell.textContent.trim();
      };
      const order = (a, b) => (isNumber ? b - a : b.localeCompare(a));
      const rows = [...body.rows].sort((a, b) => order(value(a), value(b)) * (down ? 1 : -1));
      all("th", head.parentNode).forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows);
    });
  }

  for (const choice of all("input[name=view]")) {
    choice.addEventListener("change", () => {
      fitAll();
      find();
      whole.hidden = !all(".flame").some((each) => each.zoomed && isShown(each));
    });
  }
  window.addEventListener("resize", fitAll);
  fitAll();
})();
