// How results of a search are ranked: titles and headings first, and pages before the changelog.
const LATER = { changelog: 100, benchmarks: 20, design: 20, contributing: 10 }; // points less

var Scorer = {
  score: ([page, , , , score]) => score - (LATER[page] ?? 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
