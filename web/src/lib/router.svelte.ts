// Where the page is: the part of the address after `#`, such as `#/runs/k3f9ab2c/agents/2.1?at=17`.

/** A place in the page. */
export interface Place {
  /** Its parts, decoded. */
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
}

function read(hash: string): Place {
  const text = hash.replace(/^#\/?/, '');
  const [path = '', query = ''] = text.split('?', 2);
  const parts = path.split('/').filter((part) => part !== '');
  return { parts: parts.map(decoded), query: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

let place = $state.raw(read(location.hash));
addEventListener('hashchange', () => {
  place = read(location.hash);
});

export const router = {
  get place(): Place {
    return place;
  },
};

type QueryOf = Record<string, string | number | undefined>;

/** The address of a place, for links. */
export function to(parts: readonly string[], query: QueryOf = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') given.set(name, String(value));
  }
  const text = given.toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`;
}

export function go(parts: readonly string[], query: QueryOf = {}): void {
  location.hash = to(parts, query);
}

/** Changes the query of the present place without a new entry in the history of the browser. */
export function amend(change: QueryOf): void {
  const query: QueryOf = { ...Object.fromEntries(place.query), ...change };
  history.replaceState(null, '', to(place.parts, query));
  place = read(location.hash);
}
