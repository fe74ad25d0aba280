// A lesson: a preset with two sentences, a question and its answer, in large type beside the networks.
import { $, $$, make, still } from "./dom.js";

export const listLessons = (lessons, current) => {
  const list = $("#lessons ol");
  for (const lesson of lessons)
    list.append(make("li", {}, make("a", { href: `/lesson/${lesson.name}`, textContent: lesson.title, ...(lesson.name === current ? { ariaCurrent: "page" } : {}) })));
  document.addEventListener("click", (event) => { if (!$("#lessons").contains(event.target)) $("#lessons").open = false; });
  $("#lessons").addEventListener("keydown", (event) => { if (event.key === "Escape") { $("#lessons").open = false; $("#lessons summary").focus(); } });
};

export const nameOf = (path) => (path.startsWith("/lesson/") ? decodeURIComponent(path.slice(8)) : null);

export const showLesson = (lessons, name, play) => {
  const index = lessons.findIndex((lesson) => lesson.name === name), lesson = lessons[index], place = $("#lesson");
  if (!lesson) return null;
  document.body.classList.add("in-lesson");
  document.title = `${lesson.title} · Gradlab`;
  place.hidden = false;
  $(".eyebrow", place).textContent = `Lesson ${index + 1} of ${lessons.length}`;
  $("h1", place).textContent = lesson.title;
  $(".text", place).replaceChildren(...lesson.text.map((words) => make("p", { textContent: words })));
  $(".question", place).textContent = lesson.question;
  $(".reply", place).textContent = lesson.answer;
  $("#lesson-play").addEventListener("click", play);
  const button = $("#lesson-answer");
  button.addEventListener("click", () => {
    const reply = $(".reply", place);
    reply.hidden = !reply.hidden;
    button.setAttribute("aria-expanded", String(!reply.hidden));
    button.textContent = reply.hidden ? "Show the answer" : "Hide the answer";
    $$(`[data-look="${lesson.look}"]`).forEach((panel) => panel.classList.toggle("look", !reply.hidden));
    if (lesson.look === "audit") $("#audit").classList.toggle("look", !reply.hidden);
    if (!reply.hidden) $(".look")?.scrollIntoView({ block: "nearest", behavior: still.matches ? "auto" : "smooth" });
  });
  const open = make("button", { type: "button", id: "with-settings", textContent: "Show settings", ariaExpanded: "false" });
  open.addEventListener("click", () => {
    const shown = document.body.classList.toggle("with-settings");
    open.textContent = shown ? "Hide settings" : "Show settings";
    open.setAttribute("aria-expanded", String(shown));
  });
  $(".asked", place).append(open);
  for (const [rel, other] of [["prev", lessons[index - 1]], ["next", lessons[index + 1]]]) {
    const link = $(`a[rel="${rel}"]`, place);
    if (!other) continue;
    Object.assign(link, { hidden: false, href: `/lesson/${other.name}`, textContent: rel === "prev" ? `‹ ${other.title}` : `${other.title} ›` });
  }
  return lesson;
};
