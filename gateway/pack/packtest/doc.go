// Package packtest writes packs of map tiles for tests: whole ones with known tiles, and parts from which a test makes
// a broken one. It shares no code with the readers, and so no mistakes.
package packtest
