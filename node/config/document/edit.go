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
	for k := range d.values {
		if k != key && isBelow(k, key) {
			return nil, ErrNoPlace // the key is a table
		}
	}
	for propose := range d.proposals(key, literal) {
		next, err := Parse(propose)
		if err == nil && differOnlyIn(key, d, next) && reflect.DeepEqual(next.values[key], want.values["value"]) {
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
			inside, own := strings.Join(parts[:n], "."), keyText(parts[n:])
			for i, t := range d.tables {
				if t.name == inside && (i > 0 || n == 0) && !yield(d.insert(i, own, literal)) {
					return
				}
			}
			if i := d.find(inside); n > 0 && i >= 0 && !yield(d.insertInline(i, own, literal)) {
				return
			}
			if n == len(parts)-1 && n > 0 && !yield(d.newTable(keyText(parts[:n]), own, literal)) {
				return
			}
		}
	}
}

// splice returns the text with [start, end) replaced.
func (t text) splice(start, end int, by string) []byte {
	return slices.Concat(t[:start], []byte(by), t[end:])
}

// newline is the line break of this text.
func (t text) newline() string {
	if bytes.Contains(t, []byte("\r\n")) {
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
func (t text) newTable(name, key, literal string) []byte {
	nl, table := t.newline(), ""
	if len(t) > 0 {
		table = nl
		if t[len(t)-1] != '\n' {
			table += nl
		}
	}
	table += "[" + name + "]" + nl + key + " = " + literal + nl
	return t.splice(len(t), len(t), table)
}

// Unset returns the document without a key. A comment behind the value stays, on a line of its
// own. If the key is that of a table, the table goes with all that is in it. A document that has
// neither is returned as it is.
func (d *Document) Unset(key string) (*Document, error) {
	next := d
	for {
		var text []byte
		if i := next.tableAt(key); i >= 0 {
			text = next.removeTable(next.tables[i])
		} else if i := next.findBelow(key); i >= 0 {
			text = next.remove(next.settings[i])
		} else {
			return next, nil
		}
		shorter, err := Parse(text)
		if err != nil || len(text) >= len(next.text) || !differOnlyIn(key, d, shorter) {
			return nil, ErrNoPlace
		}
		next = shorter
	}
}

// Prune returns the document without the table name, if that has neither a key nor a comment. Otherwise it returns the
// document unchanged.
func (d *Document) Prune(name string) *Document {
	i := d.tableAt(name)
	if i >= 0 && d.isBare(d.tables[i]) || i < 0 && d.find(name) >= 0 {
		if next, err := d.Unset(name); err == nil && reflect.DeepEqual(next.values, d.values) {
			return next
		}
	}
	return d
}

// isBare reports whether a table has neither a key nor a comment. A comment right above the next header is about that
// one, if a blank line stands before it.
func (d *Document) isBare(t table) bool {
	header := bytes.TrimSpace(d.text[t.start:t.end])
	body := d.text[t.end:t.limit]
	if t.limit < len(d.text) {
		if blank := bytes.TrimLeft(body, " \t\r"); bytes.HasPrefix(blank, []byte("\n")) {
			body = d.text[t.end:d.commentsAbove(t.limit)]
		}
	}
	return bytes.HasSuffix(header, []byte("]")) && len(bytes.TrimSpace(body)) == 0
}

// commentsAbove returns where the lines of comments begin that end at an offset.
func (t text) commentsAbove(at int) int {
	for at > 0 {
		start := t.lineStart(at - 1)
		if !isComment(t[start:at]) {
			break
		}
		at = start
	}
	return at
}

func isComment(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("#")) }

// removeTable returns the text without a table, the blank lines before it, and the comments in it. Comments above the
// header stay, and so do those behind the table: from a blank line on, or right above the next header.
func (d *Document) removeTable(t table) []byte {
	start, end := t.start, t.end
	for _, s := range d.settings {
		if t.end <= s.start && s.end <= t.limit {
			end = d.lineEnd(s.end)
		}
	}
	behind := end
	for behind < t.limit && isComment(d.text[behind:d.lineEnd(behind)]) {
		behind = d.lineEnd(behind)
	}
	if behind < t.limit || behind == len(d.text) {
		end = behind
	}
	for start > 0 && len(bytes.TrimSpace(d.text[d.lineStart(start-1):start])) == 0 {
		start = d.lineStart(start - 1)
	}
	return d.splice(start, end, "")
}

// remove returns the text without a setting.
func (d *Document) remove(s setting) []byte {
	if s.parent >= 0 {
		return d.removeInline(s)
	}
	start, end := d.lineStart(s.start), d.lineEnd(s.end)
	if isComment(d.text[s.end:end]) {
		start, end = s.start, s.end+bytes.IndexByte(d.text[s.end:end], '#')
	}
	return d.splice(start, end, "")
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
