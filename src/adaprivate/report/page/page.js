// What a page does besides its charts: verdicts are chosen, and an epsilon.

const charts = [...document.querySelectorAll("figure.interactive")].map((figure) => new Chart(figure));

/* Only the cells of one verdict; names of rows are shown again where the row above is hidden. */
for (const filter of document.querySelectorAll(".filter")) {
  const table = document.getElementById(filter.dataset.table);
  filter.addEventListener("change", () => {
    const wanted = filter.querySelector("input:checked").value;
    let above = null;
    for (const row of table.tBodies[0].rows) {
      row.hidden = wanted !== "all" && row.dataset.verdict !== wanted;
      if (row.hidden) continue;
      const name = row.cells[0].textContent;
      row.classList.toggle("again", name === above);
      above = name;
    }
  });
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
