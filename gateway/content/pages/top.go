package pages

import (
	"html/template"
	"strings"

	"allium/gateway/content/qrcode"
	"allium/gateway/exchange"
	"allium/internal/lazyregexp"
)

// Subject says what the page of a directory or file is about, and where it lies.
type Subject struct {
	Root  string   // what the root is called: a name, or a shortened address
	Bare  bool     // Root is an address
	Path  []string // the names below the root, unescaped
	Prove bool     // the host has the page that proves an address
	// Above returns the URL of the directory after so many names of Path, with a slash at its end.
	Above func(names int) string
}

// Top is the beginning of the pages of directories and files. Its fields are the templates' data.
type Top struct {
	exchange.Frame
	Title    string
	Index    template.HTML // a comment for programs in the head of a listing; may be empty
	Bare     bool          // the title is an address
	Provable bool          // the address is shown, at a host that has the page which proves it
	Crumbs   []Crumb       // the directories above, the root first
	Shared
}

// Crumb is one directory on the path from the root.
type Crumb struct{ Name, URL string }

// NewTop returns the top of the page about s.
func NewTop(s Subject, f exchange.Frame, shared Shared) Top {
	t := Top{Frame: f, Title: exchange.EscapeName(s.Root), Bare: s.Bare && len(s.Path) == 0, Shared: shared}
	t.Provable = s.Prove && shared.Address != ""
	for i, n := range s.Path {
		t.Crumbs = append(t.Crumbs, Crumb{t.Title, f.Prefix + s.Above(i)})
		t.Title = exchange.EscapeName(n)
	}
	return t
}

// Folds reports whether a narrow page hides the crumb i: all but the first and the last one.
func (t *Top) Folds(i int) bool { return i > 0 && i < len(t.Crumbs)-1 }

// FoldsAfter reports whether the place of the hidden crumbs is behind the crumb i.
func (t *Top) FoldsAfter(i int) bool { return i == 0 && len(t.Crumbs) > 2 }

// Folded returns the crumbs that a narrow page hides.
func (t *Top) Folded() []Crumb { return t.Crumbs[1 : len(t.Crumbs)-1] }

// Shared holds the address, command and ticket with which somebody else gets the content of a page.
type Shared struct {
	Address string // empty: others are not to know it
	Command string // empty: others cannot get it
	Note    string // a sentence for visitors; empty: none
	Ticket  string // empty: this node has no public address
}

// plainWord matches what every shell takes as it is.
var plainWord = lazyregexp.New(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote quotes a word for a POSIX shell, if it needs that.
func Quote(word string) string {
	if plainWord().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// QR draws the ticket as a QR code. It uses upper case, which takes 5.5 bits a character in place of 8.
func (s Shared) QR() template.HTML {
	return qrcode.Draw(strings.ToUpper(s.Ticket), "QR code of the ticket")
}
