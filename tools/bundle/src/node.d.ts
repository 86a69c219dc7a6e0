declare module "node:fs" {
  export function readFileSync(path: string, encoding: "utf8"): string;
}
declare const process: { argv: string[]; exitCode?: number };
declare function atob(text: string): string;
declare class TextDecoder {
  constructor(label: string, options: { fatal: boolean });
  decode(p: Uint8Array): string;
}
declare const console: { log(text: string): void };
