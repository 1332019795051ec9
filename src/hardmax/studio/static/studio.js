// Theme and clipboard, for all pages.
"use strict";

const THEME = "hardmax-studio-theme";

function switchTheme() {
  const dark = !document.body.classList.contains("body--dark");
  setDark(dark);
  localStorage.setItem(THEME, dark ? "dark" : "light");
}

// Without a choice, the page follows the system. NiceGUI has mounted the page by this event.
document.addEventListener("DOMContentLoaded", () => {
  const theme = localStorage.getItem(THEME);
  if (theme) setDark(theme === "dark");
  const main = document.querySelector("main");
  if (main) main.id = "main";
});

function say(text) {
  Quasar.Notify.create({ message: text, position: "bottom", timeout: 1500 });
}

// navigator.clipboard exists only at secure addresses: https, or this machine.
async function copyText(text) {
  if (!navigator.clipboard) return false;
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

async function copyCode(id) {
  await new Promise((resolve) => setTimeout(resolve, 150)); // until the dialog shows the code
  const element = document.getElementById(id);
  if (!element) return;
  if (await copyText(element.textContent)) return say("Copied");
  getSelection().selectAllChildren(element);
  say("Selected: press Ctrl+C");
}

async function copyAddress() {
  say((await copyText(location.href)) ? "Link copied" : "Copy the link from the address bar");
}
