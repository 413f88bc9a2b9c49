// The page works without this: it opens the line that a link leads to, and rows on a click.
const all = document.getElementById("all");
const lines = () => [...document.querySelectorAll(".access details")];
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (const details of target?.querySelectorAll("summary") ?? []) details.parentNode.open = true;
  if (target) target.scrollIntoView();
};
all.hidden = false;
all.addEventListener("click", () => {
  const open = lines().some((details) => !details.open);
  for (const details of lines()) details.open = open;
  all.textContent = open ? "Close all" : "Open all";
});
document.addEventListener("click", (event) => {
  const row = event.target.closest("tr.access");
  if (!row || event.target.closest("summary, a") || String(getSelection())) return;
  const details = row.querySelector("details");
  details.open = !details.open;
});
addEventListener("hashchange", reveal);
reveal();
