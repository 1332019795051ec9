// Views of the latent explorer: images, bars and tokens, each of which may be pressed.
// Each element has a property `data`, and sends the event "change" with the number of the pressed item.
"use strict";

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

class ViewOfItems extends HTMLElement {
  set data(value) {
    const key = JSON.stringify(value);
    if (key === this.key) return;
    this.key = key;
    const focused = [...this.children].indexOf(document.activeElement);
    this.replaceChildren(...value.items.map((item, index) => this.wrap(value, item, index)));
    if (focused >= 0) this.children[focused]?.focus(); // a press rebuilds the items
  }

  wrap(value, item, index) {
    const element = make(value.pressable ? "button" : "div", this.itemClass);
    if (value.pressable) {
      element.type = "button";
      element.setAttribute("aria-pressed", String(item.chosen));
      element.addEventListener("click", () => this.dispatchEvent(new CustomEvent("change", { detail: item.number })));
    }
    if (item.chosen) element.classList.add("chosen");
    this.fill(element, item, value, index);
    return element;
  }
}

class ImageTiles extends ViewOfItems {
  itemClass = "image-tile";

  fill(element, item, value) {
    const image = make("img");
    image.src = item.source;
    image.alt = item.alt;
    const scale = Math.max(1, Math.round(value.size / item.height));
    image.width = item.width * scale;
    image.height = item.height * scale;
    element.append(image);
    for (const line of item.caption) element.append(make("span", "", line));
    if (item.mark) element.append(make("span", "mark", item.mark));
  }
}

class ProbabilityBars extends ViewOfItems {
  itemClass = "probability-bar";

  fill(element, item) {
    const track = make("span", "track");
    const bar = make("span", "bar");
    bar.style.width = `${100 * item.value}%`;
    track.append(bar);
    element.append(make("span", "name", item.name), track, make("span", "value", item.value.toFixed(3)));
  }
}

class TokenRow extends ViewOfItems {
  itemClass = "token";

  fill(element, item) {
    element.style.setProperty("--share", `${Math.round(100 * item.value)}%`);
    element.append(make("span", "name", item.name), make("span", "value", item.value.toFixed(2)));
  }
}

customElements.define("image-tiles", ImageTiles);
customElements.define("probability-bars", ProbabilityBars);
customElements.define("token-row", TokenRow);
