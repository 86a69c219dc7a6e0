import "./note.css";

// note returns the text of a note, which a worker makes of its JSON.
export async function note(key) {
  const notes = await (await fetch(import.meta.env.BASE_URL + "notes.json")).json();
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  const text = await new Promise((done) => {
    worker.onmessage = (e) => done(e.data);
    worker.postMessage(notes[key]);
  });
  worker.terminate();
  return text;
}
