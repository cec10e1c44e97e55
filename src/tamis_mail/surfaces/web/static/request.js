// Requests to the server, with the CSRF token of the page.

const token = document.querySelector('meta[name="csrf-token"]')?.content ?? "";

/** Return the JSON or text of a response; throw an Error for an error status. */
async function readAnswer(response) {
  const isJson = (response.headers.get("content-type") ?? "").startsWith("application/json");
  const value = isJson ? await response.json() : await response.text();
  if (!response.ok) {
    throw new Error(isJson ? value.error : `error ${response.status}`);
  }
  return value;
}

/** Get JSON from an address. */
export async function get(address, options = {}) {
  return readAnswer(await fetch(address, { ...options, headers: { accept: "application/json" } }));
}

/** Post a value as JSON, and return the JSON of the answer. */
export async function post(address, value, options = {}) {
  return readAnswer(
    await fetch(address, {
      ...options,
      method: "POST",
      headers: { "content-type": "application/json", "x-csrf-token": token },
      body: JSON.stringify(value),
    }),
  );
}

/** Send a file as the body of a request; `progress` is called with the fraction that was sent. */
export function upload(address, file, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address);
    request.setRequestHeader("x-csrf-token", token);
    request.setRequestHeader("content-type", "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onload = () => {
      if (request.status < 300) {
        resolve(request.response);
      } else {
        reject(new Error(request.response?.error ?? `error ${request.status}`));
      }
    };
    request.onerror = () => reject(new Error("the server does not answer"));
    request.send(file);
  });
}

/** Show a sentence where notices are shown; it is read aloud by a screen reader. */
export function notify(sentence, isFault = false) {
  const box = element("div", { class: isFault ? "notice fault" : "notice" }, element("p", {}, sentence));
  document.getElementById("notices").replaceChildren(box);
}

/** Make an element with attributes and children; strings are inserted as text, never as markup. */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Make an element of SVG in the same way. */
export function makeSvg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(key, value === true ? "" : value);
    }
  }
  made.append(...children);
  return made;
}
