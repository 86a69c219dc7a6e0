package tile

import (
	"io"

	"allium/protocols/status"
)

// MaxNesting is the most levels of arrays and objects in the JSON of a pack. Writers need some 8.
const MaxNesting = 32

// nesting reads JSON. It counts the arrays and objects that are open.
type nesting struct {
	r        io.Reader
	depth    int
	inString bool
	escaped  bool  // the next byte of the string has no meaning
	err      error // a value was too deep
}

// LimitNesting returns a reader of the JSON text in r that returns body_cap instead of a value deeper
// than MaxNesting. It costs less than to decode the text, and does not check it.
func LimitNesting(r io.Reader) io.Reader { return &nesting{r: r} }

// Read reads from the reader within.
func (n *nesting) Read(p []byte) (int, error) {
	if n.err != nil {
		return 0, n.err
	}
	k, err := n.r.Read(p)
	for i, b := range p[:k] {
		if n.next(b); n.depth > MaxNesting {
			n.err = status.Errorf(status.BodyCap, "its values are nested more than %d deep", MaxNesting)
			return i, n.err
		}
	}
	return k, err
}

// next takes one byte of the text.
func (n *nesting) next(b byte) {
	switch {
	case n.escaped:
		n.escaped = false
	case n.inString:
		n.escaped, n.inString = b == '\\', b != '"'
	case b == '"':
		n.inString = true
	case b == '{' || b == '[':
		n.depth++
	case b == '}' || b == ']':
		n.depth--
	}
}
