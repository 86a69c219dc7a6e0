package capability

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	macaroon "gopkg.in/macaroon.v2"
)

// Info is the information that a token gives about itself. Only a node that has the key can verify
// it.
type Info struct {
	ID       string    `json:"id"`               // 32 hex digits, shared by all tokens attenuated from one
	Branch   string    `json:"branch,omitempty"` // 32 hex digits, shared by all tokens attenuated from this one
	KeyID    uint32    `json:"key_id"`           // number of the root key
	Issued   time.Time `json:"issued"`
	Expires  time.Time `json:"expires,omitzero"`  // zero: no expiry, so every node rejects the token
	Ops      []string  `json:"ops,omitempty"`     // none: any
	Object   string    `json:"obj,omitempty"`     // prefix of the address; empty: any
	Name     string    `json:"name,omitempty"`    // prefix of the name; empty: any
	Methods  []string  `json:"methods,omitempty"` // none: any
	MaxBytes int64     `json:"max_bytes"`         // most bytes that one request stores; −1: no bound
	Rate     int64     `json:"rate,omitempty"`    // requests a second; 0: no bound
	Node     string    `json:"aud,omitempty"`     // the only node that accepts it; empty: any that has the key
	Label    string    `json:"label,omitempty"`   // label of pins that it makes and removes; empty: any
	Caveats  []string  `json:"caveats"`           // in order; the fields above summarize them

	// Nothing says why the token allows no request at all; it is empty if the token
	// may allow one.
	Nothing string `json:"allows_nothing,omitempty"`
}

// Inspect decodes a token without the key. It verifies nothing.
func Inspect(token string) (Info, error) {
	t, err := decode(token)
	if err != nil {
		return Info{}, err
	}
	i := Info{ID: t.nonce.String(), KeyID: t.kid, Issued: time.Unix(t.issued,
		0).UTC(), MaxBytes: -1, Caveats: []string{}}
	if names := t.branches(); len(names) > 0 {
		i.Branch = names[len(names)-1].String()
	}
	for _, raw := range t.m.Caveats() {
		i.Caveats = append(i.Caveats, printable(string(raw.Id)))
	}
	i.summarize(t.m.Caveats())
	return i, nil
}

// summarize sets the fields of i from the caveats. Several caveats of one kind give
// the strictest value.
func (i *Info) summarize(caveats []macaroon.Caveat) {
	nothing := func(format string, args ...any) {
		if i.Nothing == "" {
			i.Nothing = fmt.Sprintf(format, args...)
		}
	}
	for _, raw := range caveats {
		c, err := ParseCaveat(string(raw.Id))
		if err != nil {
			nothing("%v", err)
			continue
		}
		ok := true
		switch c.kind {
		case KindOp:
			i.Ops, ok = intersect(i.Ops, c.text)
		case KindMethod:
			i.Methods, ok = intersect(i.Methods, c.text)
		case KindObject:
			i.Object, ok = longerPrefix(i.Object, c.text)
		case KindName:
			i.Name, ok = longerPrefix(i.Name, c.text)
		case KindNode:
			ok = i.Node == "" || i.Node == c.text
			i.Node = c.text
		case KindLabel:
			ok = i.Label == "" || i.Label == c.text
			i.Label = c.text
		case KindBytes:
			if i.MaxBytes < 0 || c.n < i.MaxBytes {
				i.MaxBytes = c.n
			}
		case KindRate:
			if i.Rate == 0 || c.n < i.Rate {
				i.Rate = c.n
			}
		case KindExpiry:
			if i.Expires.IsZero() || c.time().Before(i.Expires) {
				i.Expires = c.time()
			}
		}
		if !ok {
			nothing("%q excludes everything that the caveats before it allow", c)
		}
	}
	if i.Expires.IsZero() {
		nothing("it has no expiry")
	}
}

// intersect returns the words of have that are also in list. A nil have means any
// word. ok is false if no word is left.
func intersect(have []string, list string) (left []string, ok bool) {
	words := strings.Split(list, ",")
	if have == nil {
		return words, true
	}
	left = slices.DeleteFunc(slices.Clone(have), func(w string) bool { return !slices.Contains(words, w) })
	return left, len(left) > 0
}

// longerPrefix returns the longer prefix, if the other is a prefix of it.
func longerPrefix(a, b string) (string, bool) {
	if strings.HasPrefix(a, b) {
		return a, true
	}
	return b, strings.HasPrefix(b, a)
}

// printable returns s, quoted if it has characters that a terminal may interpret.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.ToValidUTF8(s, "") != s {
		return strconv.Quote(s)
	}
	return s
}
