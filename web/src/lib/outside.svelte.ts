// The address that a link of a text leads to, while the user is asked whether to open it.

let address = $state<string>();

export const outside = {
  get address(): string | undefined {
    return address;
  },
  ask(href: string): void {
    address = href;
  },
  forget(): void {
    address = undefined;
  },
};

/** Whether a browser may open an address in a new tab; any other one is only shown. */
export function isOpenable(href: string): boolean {
  try {
    return ['http:', 'https:', 'mailto:'].includes(new URL(href).protocol);
  } catch {
    return false;
  }
}
