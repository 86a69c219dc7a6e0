//go:build !untraced

package node

import "allium/resolver/trace"

// newTrace returns the ring of lookups that `allium why` reads.
func newTrace(d trace.Deps) *trace.Ring { return trace.New(d) }
