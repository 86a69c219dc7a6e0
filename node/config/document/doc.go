// Package document edits the text of a TOML file and leaves the rest of the text as it is: its
// comments, its order and its layout. It also says on which line and in which column a key is.
//
// One edit: `allium config set store.max_bytes 200GiB` parses config.toml. The file has the table
// [store] without max_bytes. [Document.Set] therefore proposes a line below the last line of
// that table, or below the line "# max_bytes = …" if there is one. It parses the result and
// accepts it only if this key has the new value and every other key the old one. If no proposal
// passes, it reports [ErrNoPlace] and the text stays as it was.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knadh/koanf/maps"
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// ErrNoPlace reports that a key cannot be set or removed without a change to others.
var ErrNoPlace = errors.New("the layout of the file has no place for the key")

// Position is a place in a text. Lines and columns begin at 1; a column is one character.
type Position struct{ Line, Column int }

func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

// SyntaxError reports a text that is not TOML.
type SyntaxError struct {
	Position
	Problem string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s: %s", e.Position, e.Problem) }

// Document is a parsed text. It is immutable, and safe for concurrent use.
type Document struct {
	text
	values   map[string]any
	settings []setting // in the order of the text
	tables   []table   // in the order of the text; the first is that of the keys before any header
}

// text is the text of a document.
type text []byte

// setting is a key and its value in the text. Numbers are offsets in bytes.
type setting struct {
	key        string // with the name of its table: store.max_bytes
	start      int    // of the key
	value, end int    // of the value
	table      int    // index in Document.tables
	parent     int    // index in Document.settings of the inline table that holds it; -1: none
}

// table is a [header] and what follows it.
type table struct {
	name  string // empty for the keys before any header
	start int    // of the line of the header
	end   int    // of the header
	limit int    // where the next table begins
}

// Parse reads a text. The error is a [*SyntaxError].
func Parse(text []byte) (*Document, error) {
	d := &Document{text: text}
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		return nil, syntaxError(err)
	}
	d.values, _ = maps.Flatten(tree, nil, ".")
	for key, v := range d.values {
		if t, ok := v.(map[string]any); ok && len(t) == 0 { // a table without keys
			delete(d.values, key)
		}
	}
	d.tables = []table{{limit: len(text)}}
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			name, start, end := keyOf(e.Key())
			line := d.lineStart(start)
			d.tables[len(d.tables)-1].limit = line
			d.tables = append(d.tables, table{name: name, start: line, end: d.lineEnd(end), limit: len(text)})
		case unstable.KeyValue:
			d.add(e, d.tables[len(d.tables)-1].name, -1)
		}
	}
	if err := p.Error(); err != nil {
		return nil, syntaxError(err)
	}
	return d, nil
}

func syntaxError(err error) error {
	var at *toml.DecodeError
	if !errors.As(err, &at) {
		return &SyntaxError{Position{1, 1}, strings.TrimPrefix(err.Error(), "toml: ")}
	}
	line, column := at.Position()
	return &SyntaxError{Position{line, column}, strings.TrimPrefix(at.Error(), "toml: ")}
}

// keyOf joins the parts of a key, and returns where they begin and end in the text.
func keyOf(parts unstable.Iterator) (name string, start, end int) {
	start = -1
	for parts.Next() {
		n := parts.Node()
		if start < 0 {
			start = int(n.Raw.Offset)
		} else {
			name += "."
		}
		name += string(n.Data)
		end = int(n.Raw.Offset + n.Raw.Length)
	}
	return name, start, end
}

// add appends a key and its value, and those in its inline table.
func (d *Document) add(e *unstable.Node, prefix string, parent int) {
	name, start, end := keyOf(e.Key())
	value := end + bytes.IndexByte(d.text[end:], '=') + 1
	for d.text[value] == ' ' || d.text[value] == '\t' {
		value++
	}
	s := setting{
		key: join(prefix, name), start: start, value: value, end: valueEnd(d.text, value),
		table: len(d.tables) - 1, parent: parent,
	}
	d.settings = append(d.settings, s)
	if e.Value().Kind != unstable.InlineTable {
		return
	}
	own := len(d.settings) - 1
	for members := e.Value().Children(); members.Next(); {
		if m := members.Node(); m.Kind == unstable.KeyValue {
			d.add(m, s.key, own)
		}
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// Text returns the text. The caller must not change it.
func (d *Document) Text() []byte { return d.text }

// Values returns the values by dotted key. The caller must not change the map.
func (d *Document) Values() map[string]any { return d.values }

// EmptyTables lists the headers with nothing below them, neither a key nor another table.
func EmptyTables(d *Document) (names []string) {
	full := map[string]bool{"": true} // the names with something below them
	above := func(key string) {
		for i := strings.LastIndexByte(key, '.'); i >= 0 && !full[key[:i]]; i = strings.LastIndexByte(key[:i], '.') {
			full[key[:i]] = true
		}
	}
	for _, s := range d.settings {
		full[s.key] = true
		above(s.key)
	}
	for _, t := range d.tables {
		above(t.name)
	}
	for _, t := range d.tables {
		if !full[t.name] {
			names = append(names, t.name)
		}
	}
	return names
}

// Position returns where a key begins, or a table and what else is below the key. It returns false
// if the text has none of them.
func (d *Document) Position(key string) (Position, bool) {
	if i := d.find(key); i >= 0 {
		return d.position(d.settings[i].start), true
	}
	if i := d.tableAt(key); i >= 0 {
		return d.position(d.tables[i].start), true
	}
	if i := d.findBelow(key); i >= 0 {
		return d.position(d.settings[i].start), true
	}
	return Position{}, false
}

// find returns the setting of a key, and -1 if there is none.
func (d *Document) find(key string) int {
	return slices.IndexFunc(d.settings, func(s setting) bool { return s.key == key })
}

// findBelow returns the first setting of a key or below it, and -1 if there is none.
func (d *Document) findBelow(key string) int {
	return slices.IndexFunc(d.settings, func(s setting) bool { return isBelow(s.key, key) })
}

// tableAt returns the first table with the name or below it, and -1 if there is none.
func (d *Document) tableAt(name string) int {
	return slices.IndexFunc(d.tables, func(t table) bool { return t.end > 0 && isBelow(t.name, name) })
}

// isBelow reports whether a key is the other one, or one in its table.
func isBelow(key, other string) bool { return key == other || strings.HasPrefix(key, other+".") }

func (t text) position(offset int) Position {
	start := t.lineStart(offset)
	return Position{
		Line:   1 + bytes.Count(t[:start], []byte("\n")),
		Column: 1 + utf8.RuneCount(t[start:offset]),
	}
}

// lineStart returns where the line of an offset begins.
func (t text) lineStart(offset int) int { return bytes.LastIndexByte(t[:offset], '\n') + 1 }

// lineEnd returns where the line of an offset ends, behind its line break.
func (t text) lineEnd(offset int) int {
	if i := bytes.IndexByte(t[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(t)
}

// differOnlyIn reports whether the values of two documents are the same except for key and those below it.
func differOnlyIn(key string, d, other *Document) bool {
	same := func(a, b map[string]any) bool {
		for k, v := range a {
			if w, ok := b[k]; !isBelow(k, key) && (!ok || !reflect.DeepEqual(v, w)) {
				return false
			}
		}
		return true
	}
	return same(d.values, other.values) && same(other.values, d.values)
}
