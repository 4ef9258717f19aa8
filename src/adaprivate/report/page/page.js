// What a page does besides its charts: tables are searched and ordered, and an epsilon is chosen.

const charts = [...document.querySelectorAll("figure.interactive")].map((figure) => new Chart(figure));

/* A table whose lines are chosen by verdict and by text, and ordered by a column: up, down, as it was. */
for (const table of document.querySelectorAll("table.sortable")) {
  const lines = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
  const choice = document.querySelector(`.filter[data-table="${table.id}"]`);
  const text = make("input", {type: "search", "aria-controls": table.id});
  const told = make("output");
  const order = make("select", {}, make("option", {value: ""}, "as printed"));
  heads.forEach((head, i) => {
    for (const [way, words] of [["ascending", "up"], ["descending", "down"]])
      order.append(make("option", {value: `${i} ${way}`}, `${head.textContent}, ${words}`));
  });
  const value = (line, i) => line.cells[i].dataset.value ?? line.cells[i].textContent;
  const compare = (one, other) =>
    one !== "" && other !== "" && !isNaN(one) && !isNaN(other) ? one - other : one.localeCompare(other, undefined, {numeric: true});
  const arrange = () => {
    const [column, way] = order.value.split(" ");
    for (const head of heads) head.removeAttribute("aria-sort");
    const found = [...lines];
    if (way) {
      heads[column].setAttribute("aria-sort", way);
      const sign = way === "ascending" ? 1 : -1;
      found.sort((a, b) => {
        const [one, other] = [value(a, column), value(b, column)];
        return (one === "") - (other === "") || sign * compare(one, other);  // what is empty comes last, either way
      });
    }
    table.tBodies[0].append(...found);
    choose();
  };
  const choose = () => {
    const verdict = choice?.querySelector("input:checked").value ?? "all", words = text.value.toLowerCase().split(/\s+/);
    let above = null, count = 0;
    for (const line of table.tBodies[0].rows) {
      const said = [...line.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
      line.hidden = (verdict !== "all" && line.dataset.verdict !== verdict) || !words.every((word) => said.includes(word));
      if (line.hidden) continue;
      count += 1;
      const name = line.cells[0].textContent;  // said once for lines that follow one another
      if (table.classList.contains("grouped")) line.classList.toggle("again", name === above && !order.value);
      above = name;
    }
    told.textContent = count < lines.length ? `${count} of ${lines.length} lines` : "";
  };
  heads.forEach((head, i) => {
    const button = make("button", {type: "button", title: "Order by this"}, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const ways = ["", `${i} ascending`, `${i} descending`];
      order.value = ways[(ways.indexOf(order.value) + 1) % 3];
      arrange();
    });
  });
  order.addEventListener("change", arrange);
  choice?.addEventListener("change", choose);
  text.addEventListener("input", choose);
  const seek = make("div", {class: "seek"}, make("label", {}, "Find", text), make("label", {class: "order"}, "Order", order), told);
  (table.closest(".scroll") ?? table).before(seek);
}

/* Numbers and sentences of every epsilon are in the page; the chosen one's are shown. */
const choice = document.getElementById("epsilon");
if (choice) {
  const choose = (epsilon) => {
    for (const part of document.querySelectorAll("[data-epsilon]")) part.hidden = part.dataset.epsilon !== epsilon;
    for (const chart of charts) chart.mark(Number(epsilon));
  };
  choice.addEventListener("change", () => choose(choice.querySelector("input:checked").value));
  choose(choice.querySelector("input:checked").value);
}

/* The same runs on another scale. */
const scale = document.getElementById("scale");
if (scale) {
  const other = JSON.parse(document.getElementById("scales").textContent);
  scale.addEventListener("change", () => charts[0].show(other[scale.querySelector("input:checked").value]));
}
