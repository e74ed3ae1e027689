/* SPDX-License-Identifier: MIT */
/* races.js: nodes that use the same memory with no order between them, where the record was looked through for them (docs/reference/races.md). */
const RACE = {certain: 0, first: 1, second: 2, text: 3};
const racesOf = i => (data.races ? data.races.list.filter(race => race[RACE.first] === i || race[RACE.second] === i) : []);

function raceItem(race) {
  const kind = make("strong", {class: race[RACE.certain] ? "critical" : "", text: race[RACE.certain] ? "certain" : "possible"});
  return make("li", {}, kind, " ", nodeButton(race[RACE.first]), " ", nodeButton(race[RACE.second]), make("br"), race[RACE.text]);
}

function startRaces() {
  const {races} = data, section = byId("races");
  section.hidden = !races;
  if (!races) return;
  const told = `${formatCount(races.certain)} certain, ${formatCount(races.possible)} possible`, more = races.certain + races.possible - races.list.length;
  byId("races-note").textContent = races.certain + races.possible === 0 ? "None: wherever two nodes use the same memory and one of them writes it, a path leads from one to the other."
    : `${told}: nodes use the same memory with no order between them, so that a replay may run them in either order, or at once.`;
  byId("races-list").replaceChildren(...races.list.map(raceItem));
  if (more > 0) byId("races-list").append(make("li", {class: "note", text: `and ${plural(more, "more", "more")}`}));
}
