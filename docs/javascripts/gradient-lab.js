// The gradient lab of the documentation: a small version of the page of `hardmax studio`, computed in the browser.
// The figures are those of hardmax/studio/static/gradient_widgets.js. Estimators as in hardmax.estimators; a test compares
// their means and standard deviations with hm.diagnose.
"use strict";

{
  const DRAWS = 1000;
  const SHOWN = 500;
  const SCORES = [0.5, 0, 1, -1, 0.2, -0.4];
  const WORTHS = [1, 0.5, -1, 2, 0, 1.5];
  const TARGET = 1;
  const COLOURS = ["#3b82c4", "#d97b29", "#3a9d6e", "#c2527e"];

  // Uniform numbers from a seed (mulberry32): the same page shows the same clouds.
  function makeUniform(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 4294967296;
    };
  }

  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  const indexOfLargest = (values) => values.indexOf(Math.max(...values));
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));

  function softmax(scores) {
    const most = Math.max(...scores);
    const weights = scores.map((score) => Math.exp(score - most));
    const sum = weights.reduce((a, b) => a + b);
    return weights.map((weight) => weight / sum);
  }

  // One categorical variable; f is curved between the categories, and worth[k] at category k.
  function makeCategorical(scores, worth) {
    const top = Math.max(...worth);
    const roots = worth.map((value) => Math.sqrt(top - value));
    const f = (z) => top - dot(z, roots) ** 2;
    const oneHot = (index) => scores.map((_, i) => Number(i === index));
    return {
      scores, f,
      slope: (z) => roots.map((root) => -2 * dot(z, roots) * root),
      members: scores.map((_, i) => oneHot(i)),
      labels: scores.map((_, i) => String(i + 1)),
      mean: softmax,
      probability: (z) => softmax(scores)[z.indexOf(1)],
      noise: (uniform) => scores.map(() => -Math.log(-Math.log(uniform()))),
      argmax: (perturbed) => oneHot(indexOfLargest(perturbed)),
      values: () => worth,
      relax: (perturbed, tau) => softmax(perturbed.map((score) => score / tau)),
      pull: (soft, slope, tau) => soft.map((y, i) => (y * (slope[i] - dot(soft, slope))) / tau),
    };
  }

  // Independent bits; f is minus the squared error of the sum of worths.
  function makeBits(scores, worth) {
    const f = (z) => -((dot(z, worth) - TARGET) ** 2);
    const flip = (z, i) => z.map((bit, j) => (i === j ? 1 - bit : bit));
    const count = scores.length;
    return {
      scores, f,
      slope: (z) => worth.map((value) => -2 * (dot(z, worth) - TARGET) * value),
      members: [...Array(2 ** count).keys()].map((code) => scores.map((_, i) => (code >> (count - 1 - i)) & 1)),
      labels: [...Array(2 ** count).keys()].map((code) => code.toString(2).padStart(count, "0")),
      mean: (values) => values.map(sigmoid),
      probability: (z) => z.reduce((product, bit, i) => product * sigmoid((2 * bit - 1) * scores[i]), 1),
      noise: (uniform) => scores.map(() => { const u = uniform(); return Math.log(u / (1 - u)); }),
      argmax: (perturbed) => perturbed.map((score) => Number(score > 0)),
      // f with bit i set, minus f without it: the others stay as they are.
      values: (z) => z.map((bit, i) => (1 - 2 * bit) * (f(flip(z, i)) - f(z))),
      relax: (perturbed, tau) => perturbed.map((score) => sigmoid(score / tau)),
      pull: (soft, slope, tau) => soft.map((y, i) => (slope[i] * y * (1 - y)) / tau),
    };
  }

  function computeExact(problem) {
    const mean = problem.mean(problem.scores);
    const value = problem.members.reduce((sum, z) => sum + problem.probability(z) * problem.f(z), 0);
    return mean.map((p, i) => problem.members.reduce((sum, z) => sum + problem.probability(z) * (problem.f(z) - value) * (z[i] - p), 0));
  }

  const addScaled = (a, b, scale) => a.map((value, i) => value + scale * b[i]);

  // Each returns one estimate of the gradient from several samples; `parameter` is epsilon or tau.
  const ESTIMATORS = {
    direct(problem, parameter, samples, uniform) {
      return averageOver(samples, () => {
        const perturbed = addScaled(problem.scores, problem.noise(uniform), 1);
        const z = problem.argmax(perturbed);
        const raised = problem.argmax(addScaled(perturbed, problem.values(z), parameter));
        return raised.map((bit, i) => (bit - z[i]) / parameter);
      });
    },
    "gumbel-softmax"(problem, parameter, samples, uniform) {
      return averageOver(samples, () => {
        const soft = problem.relax(addScaled(problem.scores, problem.noise(uniform), 1), parameter);
        return problem.pull(soft, problem.slope(soft), parameter);
      });
    },
    "straight-through"(problem, parameter, samples, uniform) {
      const soft = problem.mean(problem.scores.map((score) => score / parameter));
      return averageOver(samples, () => {
        const z = problem.argmax(addScaled(problem.scores, problem.noise(uniform), 1));
        return problem.pull(soft, problem.slope(z), parameter);
      });
    },
    reinforce(problem, parameter, samples, uniform) {
      const drawn = Array.from({ length: Math.max(samples, 2) }, () => problem.argmax(addScaled(problem.scores, problem.noise(uniform), 1)));
      const values = drawn.map(problem.f);
      const mean = values.reduce((a, b) => a + b) / values.length;
      const expected = problem.mean(problem.scores);
      return expected.map((p, i) => drawn.reduce((sum, z, s) => sum + (values[s] - mean) * (z[i] - p), 0) / (drawn.length - 1));
    },
  };

  function averageOver(count, compute) {
    let total = null;
    for (let i = 0; i < count; i++) {
      const one = compute();
      total = total === null ? one : addScaled(total, one, 1);
    }
    return total.map((value) => value / count);
  }

  // Bias and standard deviation relative to the exact gradient, as hm.diagnose defines them.
  function measure(problem, exact, name, parameter, samples, seed) {
    const uniform = makeUniform(seed);
    const estimates = Array.from({ length: DRAWS }, () => ESTIMATORS[name](problem, parameter, samples, uniform));
    const mean = exact.map((_, i) => estimates.reduce((sum, one) => sum + one[i], 0) / DRAWS);
    const variance = exact.map((_, i) => estimates.reduce((sum, one) => sum + (one[i] - mean[i]) ** 2, 0) / (DRAWS - 1));
    const square = dot(exact, exact);
    const noise = variance.reduce((a, b) => a + b) / DRAWS / square;
    const bias = mean.reduce((sum, value, i) => sum + (value - exact[i]) ** 2, 0) / square - noise;
    return {
      estimates, mean, deviation: variance.map(Math.sqrt),
      bias: Math.sqrt(Math.max(bias, 0)), isBiased: bias > 4 * Math.SQRT2 * noise,
      spread: Math.sqrt(variance.reduce((a, b) => a + b) / square),
    };
  }

  function countEqual(estimates) {
    const counts = new Map();
    for (const one of estimates.slice(0, SHOWN)) {
      const key = `${one[0].toFixed(4)},${one[1].toFixed(4)}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    return [...counts].map(([key, count]) => [...key.split(",").map(Number), count]);
  }

  const format = (value) => (value < 0.005 ? "0" : value.toPrecision(2));

  function build(root) {
    const find = (name) => root.querySelector(`[data-lab=${name}]`);
    const state = { scores: SCORES.slice(0, 5), worth: WORTHS.slice(0, 5), seed: 1, parameters: {} };
    const cards = Object.keys(ESTIMATORS).map((name, i) => {
      const card = find("cards").appendChild(document.createElement("div"));
      card.className = "hm-card";
      const title = card.appendChild(document.createElement("label"));
      const text = title.appendChild(document.createElement("span"));
      if (name !== "reinforce") {
        const slider = title.appendChild(Object.assign(document.createElement("input"), { type: "range", min: -2, max: 1, step: 0.05 }));
        slider.value = name === "gumbel-softmax" ? -0.3 : 0;
        slider.addEventListener("input", update);
        state.parameters[name] = () => Number((10 ** Number(slider.value)).toPrecision(2));
      }
      const cloud = card.appendChild(document.createElement("estimate-cloud"));
      const numbers = card.appendChild(document.createElement("div"));
      return { name, text, cloud, numbers, colour: COLOURS[i] };
    });

    function update() {
      const isBits = find("space").value === "bits";
      const samples = Number(find("samples").value);
      const problem = (isBits ? makeBits : makeCategorical)(state.scores, state.worth);
      const exact = computeExact(problem);
      const length = Math.sqrt(dot(exact, exact));
      const probabilities = problem.members.map(problem.probability);
      const values = problem.members.map(problem.f);
      find("outcomes").data = { labels: problem.labels, probabilities, values, rest: 0, mean: dot(probabilities, values) };
      const measured = length < 1e-9 ? [] : cards.map((card) => measure(problem, exact, card.name, state.parameters[card.name]?.() ?? 1, samples, state.seed));
      find("components").data = {
        labels: state.scores.map((_, i) => String(i + 1)), exact,
        estimators: measured.map((one, i) => ({ name: cards[i].name, colour: cards[i].colour, mark: i, mean: one.mean, deviation: one.deviation })),
      };
      const spreads = measured.map((one) => Math.max(one.deviation[0], one.deviation[1])).sort((a, b) => a - b);
      const range = Math.max(2.5 * (spreads[2] ?? 0), 0.3 * length, 1e-3);
      cards.forEach((card, i) => {
        const parameter = state.parameters[card.name]?.();
        card.text.textContent = parameter === undefined ? card.name : `${card.name}, ${card.name === "direct" ? "epsilon" : "tau"} = ${parameter}`;
        if (!measured[i]) return (card.numbers.textContent = "The exact gradient is zero.");
        const one = measured[i];
        card.cloud.data = {
          points: countEqual(one.estimates), exact: exact.slice(0, 2), mean: one.mean.slice(0, 2), range,
          labels: ["component 1", "component 2"], colour: card.colour,
        };
        card.numbers.textContent = `bias ${one.isBiased ? format(one.bias) : "not seen"} · std ${format(one.spread)}`;
        Object.assign(card.numbers.dataset, { name: card.name, bias: one.bias, deviation: one.spread });
      });
    }

    function showBars() {
      const count = find("space").value === "bits" ? 4 : 5;
      [state.scores, state.worth] = [SCORES.slice(0, count), WORTHS.slice(0, count)];
      const labels = state.scores.map((_, i) => String(i + 1));
      find("scores").data = { name: "Score", labels, values: state.scores, least: -4, most: 4, step: 0.1, colour: COLOURS[0] };
      find("worths").data = { name: "Worth", labels, values: state.worth, least: -3, most: 3, step: 0.1, colour: COLOURS[2] };
      update();
    }

    find("scores").addEventListener("change", (event) => { state.scores = event.detail.values; update(); });
    find("worths").addEventListener("change", (event) => { state.worth = event.detail.values; update(); });
    find("space").addEventListener("change", showBars);
    find("samples").addEventListener("change", update);
    find("noise").addEventListener("click", () => { state.seed += 1; update(); });
    showBars();
  }

  for (const root of document.querySelectorAll(".hm-lab")) build(root);
}
