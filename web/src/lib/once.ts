// Commands of the page: a key, so that none takes effect twice.

/** A key for a request that is sent again after a lost connection. */
export function idempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
