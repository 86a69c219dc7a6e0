// Package packtest writes packs of map tiles for tests: whole ones with known tiles, and the parts of
// which a test makes a broken one. It shares no code with the readers, so that it cannot share their
// mistakes.
package packtest
