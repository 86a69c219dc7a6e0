package document

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Set returns the document with key = literal, where literal is a value in the syntax of TOML
// on one line. A value that is set already is replaced where it is. Another key goes below the
// line "# key = …" of its table, else behind the last key of its table, else into a new table
// at the end. Comments inside of a list that is replaced go with it.
func (d *Document) Set(key, literal string) (*Document, error) {
	want, err := Parse([]byte("value = " + literal + "\n"))
	if err != nil || len(want.settings) != 1 {
		return nil, fmt.Errorf("%q is not a value: %w", literal, err)
	}
	for propose := range d.proposals(key, literal) {
		next, err := Parse(propose)
		if err == nil && d.differsOnlyIn(key, next) && reflect.DeepEqual(next.values[key], want.values["value"]) {
			return next, nil
		}
	}
	return nil, ErrNoPlace
}

// proposals yields the texts in which key may have a new value, the best first.
func (d *Document) proposals(key, literal string) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		if i := d.find(key); i >= 0 {
			s := d.settings[i]
			yield(d.splice(s.value, s.end, literal))
			return
		}
		parts := strings.Split(key, ".")
		for n := len(parts) - 1; n >= 0; n-- { // from the nearest table to the keys before any
			inside, own := strings.Join(parts[:n], "."), strings.Join(parts[n:], ".")
			for i, t := range d.tables {
				if t.name == inside && (i > 0 || n == 0) && !yield(d.insert(i, own, literal)) {
					return
				}
			}
			if i := d.find(inside); n > 0 && i >= 0 && !yield(d.insertInline(i, own, literal)) {
				return
			}
			if n == len(parts)-1 && n > 0 && !yield(d.newTable(inside, own, literal)) {
				return
			}
		}
	}
}

// splice returns the text with [start, end) replaced.
func (d *Document) splice(start, end int, by string) []byte {
	return slices.Concat(d.text[:start], []byte(by), d.text[end:])
}

// newline is the line break of this text.
func (d *Document) newline() string {
	if bytes.Contains(d.text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// insert returns the text with a new line in a table.
func (d *Document) insert(table int, key, literal string) []byte {
	t := d.tables[table]
	at, like := t.end, -1 // like is where a line with the same indentation begins
	for i, s := range d.settings {
		if s.table == table && s.parent < 0 {
			at, like = d.lineEnd(d.settings[i].end), d.lineStart(s.start)
		}
	}
	if start, end, ok := d.commentedOut(t, key); ok {
		at, like = end, start
	}
	line := key + " = " + literal + d.newline()
	if like >= 0 {
		indent := bytes.TrimLeft(d.text[like:], " \t")
		line = string(d.text[like:len(d.text)-len(indent)]) + line
	}
	if at > 0 && d.text[at-1] != '\n' {
		line = d.newline() + line
	}
	return d.splice(at, at, line)
}

// commentedOut returns the last line "# key = …" of a table.
func (d *Document) commentedOut(t table, key string) (start, end int, ok bool) {
	for at := t.end; at < t.limit; at = d.lineEnd(at) {
		line := bytes.TrimSpace(d.text[at:d.lineEnd(at)])
		comment, is := bytes.CutPrefix(line, []byte("#"))
		name, _, assigns := bytes.Cut(comment, []byte("="))
		if is && assigns && string(bytes.TrimSpace(name)) == key && !d.inValue(at) {
			start, end, ok = at, d.lineEnd(at), true
		}
	}
	return start, end, ok
}

// inValue reports whether an offset lies inside of a value, such as a string of several lines.
func (d *Document) inValue(at int) bool {
	return slices.ContainsFunc(d.settings, func(s setting) bool { return s.value < at && at < s.end })
}

// insertInline returns the text with a key at the end of an inline table.
func (d *Document) insertInline(parent int, key, literal string) []byte {
	at, text := d.settings[parent].value+1, " "+key+" = "+literal+" "
	for _, s := range d.settings {
		if s.parent == parent {
			at, text = s.end, ", "+key+" = "+literal
		}
	}
	return d.splice(at, at, text)
}

// newTable returns the text with a new table at its end.
func (d *Document) newTable(name, key, literal string) []byte {
	nl, text := d.newline(), ""
	if len(d.text) > 0 {
		text = nl
		if d.text[len(d.text)-1] != '\n' {
			text += nl
		}
	}
	text += "[" + name + "]" + nl + key + " = " + literal + nl
	return d.splice(len(d.text), len(d.text), text)
}

// Unset returns the document without a key. A comment behind the value stays, on a line of its
// own. A document that does not set the key is returned as it is.
func (d *Document) Unset(key string) (*Document, error) {
	i := d.find(key)
	if i < 0 {
		return d, nil
	}
	s := d.settings[i]
	var text []byte
	if s.parent >= 0 {
		text = d.removeInline(s)
	} else {
		start, end := d.lineStart(s.start), d.lineEnd(s.end)
		if comment := bytes.TrimLeft(d.text[s.end:end], " \t"); bytes.HasPrefix(comment, []byte("#")) {
			start, end = s.start, end-len(comment)
		}
		text = d.splice(start, end, "")
	}
	next, err := Parse(text)
	if err != nil || !d.differsOnlyIn(key, next) || next.find(key) >= 0 {
		return nil, ErrNoPlace
	}
	return next, nil
}

// removeInline returns the text without a member of an inline table, and without one comma.
func (d *Document) removeInline(s setting) []byte {
	before := -1
	for _, o := range d.settings {
		switch {
		case o.parent != s.parent:
		case o.start < s.start:
			before = o.end
		case o.start > s.start:
			return d.splice(s.start, o.start, "")
		}
	}
	if before >= 0 {
		return d.splice(before, s.end, "")
	}
	return d.splice(s.start, s.end, "")
}
