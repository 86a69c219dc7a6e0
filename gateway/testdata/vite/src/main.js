import "./style.css";
import logo from "./logo.svg?no-inline";

// show draws the view of the path, whose script is fetched when it is first needed.
async function show() {
  const [, view, key] = location.pathname.split("/");
  const main = document.querySelector("main");
  if (view === "notes") {
    const { note } = await import("./note.js");
    main.textContent = await note(key);
    document.title = "Note " + key;
    return;
  }
  const image = new Image();
  image.alt = "logo";
  image.src = logo;
  main.replaceChildren(image);
  await image.decode();
  document.title = "Home";
}

document.querySelector("nav").addEventListener("click", (e) => {
  if (e.target.href) {
    e.preventDefault();
    history.pushState(null, "", e.target.href);
    show();
  }
});
addEventListener("popstate", show);
show();
