// Package csvtable turns comma-separated values (RFC 4180), and those with semicolons, tabs or bars between them, into
// the rows of an HTML table. It has no I/O.
//
// Invariants:
//
//   - The content of a cell is text, never markup or a formula: nothing is computed.
//   - A table has at most [MaxRows] rows, [MaxColumns] columns, and [MaxCell] bytes in a cell, so whatever the text,
//     its HTML has at most [MaxHTML] bytes, and some for the end of the row that passes them.
package csvtable

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"

	"allium/gateway/content/mediatype"
	"allium/gateway/exchange"
)

// The bounds of a table.
const (
	MaxRows    = 1_000
	MaxColumns = 64
	MaxCell    = 1_000   // bytes
	MaxHTML    = 1 << 20 // bytes
)

// ErrNoTable reports that a text has no values in rows.
var ErrNoTable = errors.New("the text is no table")

// Table is a table as a page shows it.
type Table struct {
	Rows    template.HTML // thead and tbody
	Count   int           // of rows, with the first one, which has the names of the columns
	Columns int           // shown of the row with most of them
	Short   bool          // rows are left out behind those that are shown
	Narrow  bool          // columns are left out
	Clipped bool          // the ends of cells are left out
}

// Render returns the table of a text, which is UTF-8. cut says that the text is the beginning of a longer one, so its
// last line may be a part of one. tabs says that tabs are between its values; if not, its first line tells. The error
// is [ErrNoTable].
func Render(source []byte, tabs, cut bool) (*Table, error) {
	source = bytes.TrimPrefix(source, []byte("\uFEFF"))
	if cut {
		source = source[:bytes.LastIndexByte(source, '\n')+1]
	}
	r := csv.NewReader(bytes.NewReader(source))
	r.Comma = comma(source, tabs)
	r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = true, -1, true
	t := &Table{Short: cut}
	var out strings.Builder
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // a quote that nothing ends is lazy too, so there is hardly another error
			t.Short = true
			break
		}
		if t.Count == MaxRows || out.Len() > MaxHTML {
			t.Short = true
			break
		}
		t.row(&out, row)
	}
	if t.Count == 0 {
		return nil, ErrNoTable
	}
	out.WriteString("</tbody>\n")
	t.Rows = template.HTML(out.String())
	return t, nil
}

// comma returns what is between the values: of the usual characters the one that the first line has most of.
func comma(source []byte, tabs bool) rune {
	if tabs {
		return '\t'
	}
	line, _, _ := bytes.Cut(source, []byte("\n"))
	best, most := ',', 0
	for _, c := range ",;\t|" {
		if n := bytes.Count(line, []byte(string(c))); n > most {
			best, most = c, n
		}
	}
	return best
}

// row writes a row.
func (t *Table) row(out *strings.Builder, row []string) {
	if len(row) > MaxColumns {
		row, t.Narrow = row[:MaxColumns], true
	}
	t.Columns = max(t.Columns, len(row))
	tag, open, end := "td", "<tr>", "</tr>\n"
	if t.Count == 0 {
		tag, open, end = `th scope="col"`, "<thead><tr>", "</tr></thead>\n<tbody>\n"
	}
	t.Count++
	out.WriteString(open)
	for _, cell := range row {
		text := cell
		if len(text) > MaxCell {
			text, t.Clipped = text[:mediatype.WholeRunes([]byte(text[:MaxCell]))], true
		}
		var lines []string
		for line := range strings.SplitSeq(text, "\n") {
			lines = append(lines, template.HTMLEscapeString(exchange.EscapeText(line)))
		}
		text = strings.Join(lines, "<br>")
		if len(cell) > MaxCell {
			text += "…"
		}
		if tag != "td" && text == "" {
			text = `<span class="hidden">no name</span>`
		}
		fmt.Fprintf(out, "<%s>%s</%.2s>", tag, text, tag)
	}
	out.WriteString(end)
}

// Notice says in a sentence what the table does not show, or nothing.
func (t *Table) Notice() string {
	var not []string
	if t.Short {
		not = append(not, fmt.Sprintf("the first %d rows", t.Count))
	}
	if t.Narrow {
		not = append(not, fmt.Sprintf("the first %d columns", MaxColumns))
	}
	if t.Clipped {
		not = append(not, fmt.Sprintf("the first %d bytes of a cell", MaxCell))
	}
	if len(not) == 0 {
		return ""
	}
	return "The table has " + strings.Join(not, ", ") + " and no more. The file has all."
}
