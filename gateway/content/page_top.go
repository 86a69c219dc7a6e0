package content

import (
	"cmp"
	"html/template"
	"regexp"
	"strings"
	"unicode"

	"allium/gateway/content/qrcode"
	"allium/gateway/exchange"
	"allium/protocols/b3"
)

// pageTop is the beginning of the pages of directories and files. Its fields are the templates' data.
type pageTop struct {
	exchange.Frame
	Title    string
	Index    template.HTML // the element title of a listing; empty: it is made of Title
	Bare     bool          // the title is an address
	Provable bool          // the address is shown, at a host that has the page which proves it
	Crumbs   []crumb       // the directories above, the root first
	shared
}

// crumb is one directory on the path from the root.
type crumb struct{ Name, URL string }

// newPageTop returns the top of the page of t.
func newPageTop(t target, f exchange.Frame, s shared) pageTop {
	p := pageTop{Frame: f, Bare: t.name == "" && len(t.names) == 0, shared: s}
	p.Provable = s.Address != "" && t.site == nil
	at := target{root: t.root, name: t.name, site: t.site, mount: t.mount}
	p.Title = cmp.Or(exchange.EscapeName(t.name), shorten(t.root))
	if t.mount != nil {
		p.Title, p.Bare = exchange.EscapeName(t.mount.Name), false
		p.Base = strings.TrimSuffix(p.Prefix, t.mount.Path)
	}
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
	Address string // empty: others are not to know it
	Command string // empty: others cannot get it
	Note    string // a sentence for visitors; empty: none
	Ticket  string // empty: this node has no public address
}

// shared returns how to get the object root, which t names. The example is in no store, so no other node gets it from
// this one.
func (g *Handlers) shared(t target, root b3.Root, directory bool, size int64) shared {
	if t.mount != nil {
		return shared{Note: t.mount.Note}
	}
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

// QR draws the ticket as a QR code. It uses upper case, which takes 5.5 bits a character in place of 8.
func (s shared) QR() template.HTML {
	return qrcode.Draw(strings.ToUpper(s.Ticket), "QR code of the ticket")
}
