(() => {
  // How the browser tool looks at a page. It runs in a world of its own, where the page cannot replace functions. But elements of the page can
  // hide properties behind their names (`<img name="title">` hides `document.title`), so properties are read through the prototypes.
  const getter = (type, name) => {
    const { get } = Object.getOwnPropertyDescriptor(type.prototype, name);
    return (object) => get.call(object);
  };
  const method = (type, name) => (object, ...given) => type.prototype[name].apply(object, given);
  const [title, body, root, readyState, active] = ['title', 'body', 'documentElement', 'readyState', 'activeElement'].map((name) => getter(Document, name));
  const [innerText, isEditable] = ['innerText', 'isContentEditable'].map((name) => getter(HTMLElement, name));
  const [textContent, id, localName] = [getter(Node, 'textContent'), getter(Element, 'id'), getter(Element, 'localName')];
  const [select, selectAll, elementAt] = ['querySelector', 'querySelectorAll', 'elementFromPoint'].map((name) => method(Document, name));
  const [box, boxes, scroll, closest] = ['getBoundingClientRect', 'getClientRects', 'scrollIntoView', 'closest'].map((name) => method(Element, name));
  const [contains, focus] = [method(Node, 'contains'), method(HTMLElement, 'focus')];

  const one = (selector) => {
    let element;
    try {
      element = select(document, selector);
    } catch {
      throw { fault: `${selector} is not a CSS selector` };
    }
    if (!element) throw { fault: `no element matches ${selector}` };
    return element;
  };
  const isVisible = (element) => {
    const { width, height } = box(element);
    return width > 0 && height > 0 && getComputedStyle(element).visibility === 'visible';
  };
  const textOf = (element) => {
    if (!element) return '';
    return (element instanceof HTMLElement ? innerText(element) : textContent(element)) ?? '';
  };
  const label = (element) => {
    const words = textOf(element).trim().replace(/\s+/g, ' ');
    return `${localName(element)}${id(element) ? `#${id(element)}` : ''}${words ? ` "${words.slice(0, 80)}"` : ''}`.slice(0, 200);
  };
  const takesText = (element) => {
    if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) {
      const { prototype } = element instanceof HTMLInputElement ? HTMLInputElement : HTMLTextAreaElement;
      return !['disabled', 'readOnly'].some((name) => Object.getOwnPropertyDescriptor(prototype, name).get.call(element));
    }
    return element instanceof HTMLElement && isEditable(element);
  };

  const actions = {
    ready: () => readyState(document) === 'complete',
    place: () => ({ url: location.href.slice(0, 4096), title: title(document).slice(0, 1000).toWellFormed() }),
    text: (selector, most) => {
      const text = textOf(selector === null ? body(document) ?? root(document) : one(selector));
      return { text: text.slice(0, most).toWellFormed(), length: text.length };
    },
    sees: (selector, text) => {
      const elements = selector === null ? [body(document)] : [...selectAll(document, selector)].filter(isVisible);
      return elements.some((element) => text === null || textOf(element).includes(text));
    },
    find: (selector) => {
      const element = one(selector);
      scroll(element, { block: 'center', inline: 'center', behavior: 'instant' });
      if (!isVisible(element)) throw { fault: `${selector} is not visible` };
      const part = [...boxes(element)].find(({ width, height }) => width > 0 && height > 0);
      const [x, y] = [part.x + part.width / 2, part.y + part.height / 2];
      const top = elementAt(document, x, y);
      if (!top) throw { fault: `${selector} is outside of the visible page` };
      const isHit = contains(element, top) || contains(top, element) || closest(top, 'label')?.control === element;
      if (!isHit) throw { fault: `${selector} is covered by ${label(top)}` };
      return { x, y, label: label(element).toWellFormed() };
    },
    focus: (selector) => {
      const element = one(selector);
      scroll(element, { block: 'center', behavior: 'instant' });
      if (!takesText(element)) throw { fault: `${selector} takes no text: it is ${label(element)}` };
      focus(element);
      if (active(document) !== element) throw { fault: `${selector} takes no text: it cannot have the focus` };
      return true;
    },
  };
  return (action, ...given) => {
    try {
      return { found: actions[action](...given) };
    } catch (thrown) {
      if (thrown && thrown.fault) return thrown;
      throw thrown;
    }
  };
})()
