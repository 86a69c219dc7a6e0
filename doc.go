// Package allium is the root of the module: it holds no code, only the test
// that guards the shape of the tree (arch_test.go, docs/contributing/architecture.md).
//
// A newcomer starts at cmd/allium for the command line, node for how a process
// is put together, and protocols/oap/SPEC.md for what peers say to each other.
package allium
