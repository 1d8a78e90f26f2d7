import { mount } from "svelte";
import App from "./App.svelte";
import "./page.css";
import { openSource } from "./data/open";
import { readFragment } from "./state/fragment";
import { Session } from "./state/session.svelte";

const root = document.getElementById("explorer")!;

async function start(): Promise<void> {
  const { token } = readFragment(location.hash);
  const source = await openSource(token);
  const session = new Session(source, source.live ? token : null);
  root.replaceChildren();
  mount(App, { target: root, props: { session } });
}

start().catch((failure: unknown) => {
  const note = document.createElement("p");
  note.className = "refused";
  note.setAttribute("role", "alert");
  note.textContent = failure instanceof Error ? failure.message : String(failure);
  const again = document.createElement("button");
  again.textContent = "Try again";
  again.onclick = () => location.reload();
  note.append(document.createElement("br"), again);
  root.replaceChildren(note);
});
