package name

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Kind says what a value is.
type Kind uint8

// The kinds of values.
const (
	Withdrawn Kind = iota // empty: the name has no value any more
	Address               // b3:<hex>[/path]: an object, or what is at a path of a directory
	Alias                 // <label>.<zone key>: another name
	Text                  // anything else
)

// String returns the kind in lower case, as JSON shows it.
func (k Kind) String() string {
	switch k {
	case Withdrawn:
		return "withdrawn"
	case Address:
		return "address"
	case Alias:
		return "alias"
	case Text:
		return "text"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText returns the form of [Kind.String], so that JSON shows it.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Value is the value that a name stands for. Values are comparable. The zero Value is empty: it
// withdraws the name.
type Value struct {
	s    string
	kind Kind
	root b3.Root // for Address
	name Name    // for Alias
}

// ParseValue parses a value of at most MaxValue bytes of UTF-8. A text that begins like an
// address, or ends with the key of a zone, must be a valid address or name in its one form, so
// that a misspelled one is not published as text. The error is bad_request.
func ParseValue(s string) (Value, error) {
	v, err := parseValue(s)
	if err != nil {
		return Value{}, status.Errorf(status.BadRequest, "%q cannot be the value of a name: %w", clip(s), err)
	}
	return v, nil
}

func parseValue(s string) (Value, error) {
	switch {
	case len(s) > MaxValue:
		return Value{}, fmt.Errorf("it has %d bytes, more than %d", len(s), MaxValue)
	case !utf8.ValidString(s):
		return Value{}, errors.New("it is not UTF-8")
	case s == "":
		return Value{}, nil
	case len(s) >= 3 && strings.EqualFold(s[:3], "b3:"):
		address, path, hasPath := strings.Cut(s, "/")
		root, err := b3.Parse(address)
		if err != nil {
			return Value{}, err
		}
		if hasPath {
			if err := checkPath(path); err != nil {
				return Value{}, err
			}
		}
		return Value{s: s, kind: Address, root: root}, nil
	}
	if dot := strings.LastIndexByte(s, '.'); dot >= 0 {
		if _, err := parseZone(s[dot+1:]); err == nil {
			n, err := Parse(s)
			if err != nil {
				return Value{}, err
			}
			if n.String() != s {
				return Value{}, fmt.Errorf("write the name as %s", n)
			}
			return Value{s: s, kind: Alias, name: n}, nil
		}
	}
	return Value{s: s, kind: Text}, nil
}

// checkPath returns an error unless each part of path can be a name in a directory.
func checkPath(path string) error {
	switch {
	case !norm.NFC.IsNormalString(path):
		return errors.New("its path is not in Unicode normal form C")
	case strings.IndexByte(path, 0) >= 0:
		return errors.New("its path has a NUL")
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("its path has the part %q", part)
		}
	}
	return nil
}

// String returns the value as it is signed.
func (v Value) String() string { return v.s }

// Kind returns what the value is.
func (v Value) Kind() Kind { return v.kind }

// Address returns the root and the path, which may be empty, of a value of kind Address.
func (v Value) Address() (root b3.Root, path string, ok bool) {
	if v.kind != Address {
		return b3.Root{}, "", false
	}
	_, path, _ = strings.Cut(v.s, "/")
	return v.root, path, true
}

// Alias returns the name of a value of kind Alias.
func (v Value) Alias() (Name, bool) { return v.name, v.kind == Alias }

// MarshalText returns the value, so that JSON shows it.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.s), nil }

// UnmarshalText parses as [ParseValue] does. An error leaves v as it was.
func (v *Value) UnmarshalText(text []byte) error {
	parsed, err := ParseValue(string(text))
	if err == nil {
		*v = parsed
	}
	return err
}
