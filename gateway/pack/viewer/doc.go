// Package viewer makes the page that draws a pack of map tiles, and serves the files that the page loads. The page
// makes no request to another origin: the library that draws, MapLibre GL JS, is part of the program.
//
// Invariants:
//
//   - Texts of the pack's author reach the page as text, never as HTML, and are of bounded length.
//   - The policy of the page names the digests of its one script and of its style sheets. A script that somebody
//     stored in this node does not run there.
//   - A file has its digest in its name, so a client may keep it for good. A page of another version of the program
//     loads files of other names.
//
// assets/ is made from script/ and the npm package of the library by `make web`, and a test makes it again. The licence
// of the library, BSD-3-Clause, is one of the assets, and each page links to it.
package viewer
