// Sizes that the hasher and the page share.

/** GROUP is the size of a chunk group in bytes. */
export const GROUP = 65536;
