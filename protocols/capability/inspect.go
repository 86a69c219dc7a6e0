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

// Info is what a token says of itself. Whether that is true only a node knows
// that has the key.
type Info struct {
	ID       string    `json:"id"`               // 32 hex digits, of all that was made of the same
	Branch   string    `json:"branch,omitempty"` // 32 hex digits, of this one and all that is made of it
	KeyID    uint32    `json:"key_id"`           // of the root key
	Issued   time.Time `json:"issued"`
	Expires  time.Time `json:"expires,omitzero"` // zero: never, so every node refuses it
	Ops      []string  `json:"ops,omitempty"`    // none: any
	Object   string    `json:"obj,omitempty"`    // how the address must begin
	Name     string    `json:"name,omitempty"`   // how the name must begin
	Methods  []string  `json:"methods,omitempty"`
	MaxBytes int64     `json:"max_bytes"`       // of one request; −1: no bound
	Rate     int64     `json:"rate,omitempty"`  // requests a second; 0: no bound
	Node     string    `json:"aud,omitempty"`   // the node it is for; empty: any that has the key
	Label    string    `json:"label,omitempty"` // of the pins that it makes and removes; empty: any
	Caveats  []string  `json:"caveats"`         // in their order; the above is what they come to

	// Nothing says why no request at all can be allowed by it.
	Nothing string `json:"allows_nothing,omitempty"`
}

// Inspect takes a token apart without the key: nothing of it is verified.
func Inspect(token string) (Info, error) {
	t, err := decode(token)
	if err != nil {
		return Info{}, err
	}
	i := Info{ID: t.nonce.String(), KeyID: t.kid, Issued: time.Unix(t.issued, 0).UTC(), MaxBytes: -1, Caveats: []string{}}
	if names := t.branches(); len(names) > 0 {
		i.Branch = names[len(names)-1].String()
	}
	for _, raw := range t.m.Caveats() {
		i.Caveats = append(i.Caveats, printable(string(raw.Id)))
	}
	i.fold(t.m.Caveats())
	return i, nil
}

// fold brings the caveats of a kind to one.
func (i *Info) fold(caveats []macaroon.Caveat) {
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
			i.Ops, ok = both(i.Ops, c.text)
		case KindMethod:
			i.Methods, ok = both(i.Methods, c.text)
		case KindObject:
			i.Object, ok = longer(i.Object, c.text)
		case KindName:
			i.Name, ok = longer(i.Name, c.text)
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
			nothing("%q leaves nothing of the caveats before it", c)
		}
	}
	if i.Expires.IsZero() {
		nothing("it has no expiry")
	}
}

// both is what of have is in the list, too; nil is everything.
func both(have []string, list string) (left []string, ok bool) {
	words := strings.Split(list, ",")
	if have == nil {
		return words, true
	}
	left = slices.DeleteFunc(slices.Clone(have), func(w string) bool { return !slices.Contains(words, w) })
	return left, len(left) > 0
}

// longer is the prefix that has the other one, too.
func longer(a, b string) (string, bool) {
	if strings.HasPrefix(a, b) {
		return a, true
	}
	return b, strings.HasPrefix(b, a)
}

// printable is s, quoted where a terminal would do something with it.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.ToValidUTF8(s, "") != s {
		return strconv.Quote(s)
	}
	return s
}
