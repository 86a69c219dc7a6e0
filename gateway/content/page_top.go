package content

import (
	"cmp"
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"unicode"

	"rsc.io/qr"

	"allium/gateway/exchange"
	"allium/protocols/b3"
)

// pageTop is the beginning of the pages of directories and files. Its fields are the templates' data.
type pageTop struct {
	exchange.Frame
	Title  string
	Index  template.HTML // the element title of a listing; empty: it is made of Title
	Bare   bool          // the title is an address
	Crumbs []crumb       // the directories above, the root first
	shared
}

// crumb is one directory on the path from the root.
type crumb struct{ Name, URL string }

// newPageTop returns the top of the page of t.
func newPageTop(t target, f exchange.Frame, s shared) pageTop {
	p := pageTop{Frame: f, Bare: t.name == "" && len(t.names) == 0, shared: s}
	at := target{root: t.root, name: t.name, site: t.site}
	p.Title = cmp.Or(exchange.EscapeName(t.name), shorten(t.root))
	for _, n := range t.names {
		p.Crumbs = append(p.Crumbs, crumb{p.Title, f.Prefix + at.href(true)})
		p.Title, at.names = exchange.EscapeName(n), append(at.names, n)
	}
	return p
}

// Folds reports whether a narrow page hides the crumb i: all but the first and the last one.
func (p *pageTop) Folds(i int) bool { return i > 0 && i < len(p.Crumbs)-1 }

// FoldsAfter reports whether the place of the hidden crumbs is behind the crumb i.
func (p *pageTop) FoldsAfter(i int) bool { return i == 0 && len(p.Crumbs) > 2 }

// Folded returns the crumbs that a narrow page hides.
func (p *pageTop) Folded() []crumb { return p.Crumbs[1 : len(p.Crumbs)-1] }

// shorten returns the first 8 digits of an address: "b3:1a2b3c4d…".
func shorten(r b3.Root) string { return r.String()[:len("b3:")+8] + "…" }

// TicketFor is an object that a page offers a ticket of.
type TicketFor struct {
	Root      b3.Root
	Directory bool
	Size      int64  // bytes of the object; for a directory, of its first manifest
	Name      string // suggested for the output; may be empty
}

// shared holds the address, command and ticket with which somebody else gets the content of a page.
type shared struct {
	Address string
	Command string // empty: others cannot get it
	Ticket  string // empty: this node has no public address
}

// shared returns how to get the object root, which t names. The example is in no store, so no other node gets it from
// this one.
func (g *Handlers) shared(t target, root b3.Root, directory bool, size int64) shared {
	if !g.example.IsZero() && t.root == g.example {
		return shared{Address: root.String()}
	}
	key := cmp.Or(t.name, t.root.String())
	if p := strings.Join(t.names, "/"); p != "" {
		key += "/" + p
	}
	if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = root.String()
	}
	s := shared{Address: root.String(), Command: "allium get " + quote(key)}
	if g.ticket != nil {
		o := TicketFor{Root: root, Directory: directory, Size: size}
		if len(t.names) > 0 {
			o.Name = t.names[len(t.names)-1]
		}
		s.Ticket = g.ticket(o)
	}
	return s
}

// plainWord matches what every shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote quotes a word for a POSIX shell, if it needs that.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// quietZone is the width in modules of the white border that a reader of QR codes needs.
const quietZone = 4

// QR draws the ticket as a QR code, black on white. It uses upper case, which takes 5.5 bits a character in place
// of 8. A ticket that is too long for a code has no drawing.
func (s shared) QR() template.HTML {
	code, err := qr.Encode(strings.ToUpper(s.Ticket), qr.L)
	if err != nil {
		return ""
	}
	var b strings.Builder
	side := code.Size + 2*quietZone
	fmt.Fprintf(&b,
		`<svg class="qr" viewBox="0 0 %d %d" shape-rendering="crispEdges" role="img" aria-label="QR code of `+
			`the ticket"><path fill="#fff" d="M0 0h%[1]dv%[1]dH0z"/><path fill="#000" d="`, side, side)
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			start := x
			for x < code.Size && code.Black(x, y) {
				x++
			}
			if x > start {
				fmt.Fprintf(&b, "M%d %dh%dv1h-%[3]dz", start+quietZone, y+quietZone, x-start)
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String()) //nolint:gosec // numbers only
}
