// Package lazyregexp compiles regular expressions when they are first used. A short command uses few of the
// program's expressions, and compiling all of them would take a good part of its time.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. Its first call compiles it, and panics if it is
// not valid. The function is safe for concurrent use.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
