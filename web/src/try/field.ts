// One input in the form.

import { h, name, put } from "../dom";
import { checkbox, choice, labelled } from "./control";
import { modesOf, type Said } from "./modes";
import { spelled, type TensorSpec } from "./signature";
import { dimension, type Tensor } from "./values";

export interface Field {
  element: HTMLElement;
  spec: TensorSpec;
  /** The tensor, or undefined where an optional input is not sent. */
  value(): Tensor | undefined;
}

/** fieldOf makes the part of the form for an input. */
export function fieldOf(spec: TensorSpec, batched: boolean): Field {
  const modes = modesOf(spec, batched);
  const select = choice(modes.map((m) => m.label));
  const panel = h("div", { class: "try-panel" });
  const show = (): void => put(panel, modes[select.selectedIndex]!.panel);
  select.addEventListener("change", show);
  show();
  const dims = spec.dims.map((d, i) => {
    if (d >= 0) return undefined;
    const input = h("input", { inputmode: "numeric", size: 6, autocomplete: "off", placeholder: "any" });
    return { input, element: labelled(batched && i === 0 ? "Batch" : `Dimension ${i + 1}`, input) };
  });
  const send = checkbox("Send this input, which is optional");
  const rest = h(
    "div",
    {},
    h("div", { class: "try-row" }, labelled("Give it as", select), ...dims.map((d) => d?.element)),
    dims.some(Boolean) ? h("p", { class: "try-note" }, "Dimensions left empty follow from the elements.") : null,
    panel,
  );
  if (spec.optional) {
    rest.hidden = true;
    send.box.addEventListener("change", () => (rest.hidden = !send.box.checked));
  }
  const said = (): Said => dims.map((d) => (d ? dimension(d.input.value) : undefined));
  return {
    element: h(
      "fieldset",
      { class: "try-input" },
      h("legend", {}, name(spec.name), ` ${spec.datatype} ${spelled(spec.dims)}`),
      spec.optional ? send.element : null,
      rest,
    ),
    spec,
    value: () => {
      if (spec.optional && !send.box.checked) return undefined;
      try {
        return modes[select.selectedIndex]!.value(said());
      } catch (e) {
        throw new Error(`${spec.name}: ${(e as Error).message}`);
      }
    },
  };
}
