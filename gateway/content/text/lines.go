// Package text writes texts as lines of HTML pages.
package text

import (
	"bytes"
	"context"
	"html/template"
	"io"
	"iter"
	"strconv"
	"strings"

	"allium/gateway/content/highlight"
	"allium/gateway/content/mediatype"
	"allium/gateway/exchange"
	"allium/protocols/b3"
)

// Lines returns the first n bytes of c, which are UTF-8, as lines of a page, with the colours of a language, which may
// be nil. The line i has the ID "L" and i, and a link to itself. Lines reads the bytes again each time, and holds a few
// KiB of them at once. err becomes the error of the last time.
func Lines(
	ctx context.Context, c b3.Content, n int64, language *highlight.Language, err *error,
) iter.Seq[template.HTML] {
	return func(yield func(template.HTML) bool) {
		w := &lineWriter{yield: yield, scanner: highlight.NewScanner(language), coloured: maxColoured}
		if *err = c.Copy(ctx, w, 0, n); *err == nil {
			*err = w.last()
		}
	}
}

// Escape returns a text as HTML. Carriage returns at the end of a line are left out, and other characters that mislead
// are written as numbers.
func Escape(source []byte) template.HTML {
	var b strings.Builder
	for line := range bytes.Lines(source) {
		whole := bytes.TrimSuffix(line, []byte("\n"))
		b.WriteString(escape(string(bytes.TrimRight(whole, "\r"))))
		if len(whole) < len(line) {
			b.WriteByte('\n')
		}
	}
	return template.HTML(b.String())
}

// escape returns a part of a line as HTML.
func escape(s string) string { return template.HTMLEscapeString(exchange.EscapeText(s)) }

// The bounds of a text's colours.
const (
	maxLine     = 4 << 10 // bytes of a line; a longer one is plain, as those of programs for programs are
	maxColoured = 50_000  // parts of a text; what follows is plain
)

// lineWriter turns a text into lines of a page. Carriage returns at the end of a line are left out, and other
// characters that mislead are written as numbers.
type lineWriter struct {
	yield    func(template.HTML) bool
	scanner  *highlight.Scanner
	out      strings.Builder
	number   int    // of the line
	line     []byte // what is not written of it, at most maxLine bytes
	open     bool   // a part of it was written
	coloured int    // parts that may still have a colour
}

// Write implements io.Writer.
func (l *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n')
		ends := n >= 0
		if !ends {
			n = len(rest)
		}
		if free := maxLine - len(l.line); n > free {
			n, ends = free, false
		}
		l.line = append(l.line, rest[:n]...)
		rest = rest[n:]
		switch {
		case ends:
			rest = rest[1:]
			l.end()
		case len(l.line) == maxLine:
			l.begin()
		}
		if err := l.flush(maxLine); err != nil {
			return len(p) - len(rest), err
		}
	}
	return len(p), nil
}

// begin writes the beginning of a long line, without colours. It keeps back the last bytes if they may be part of a
// character or of the line's end.
func (l *lineWriter) begin() {
	n := len(bytes.TrimRight(l.line[:mediatype.WholeRunes(l.line)], "\r"))
	if n == 0 { // nothing but carriage returns
		n = len(l.line) - 1
	}
	l.start()
	l.out.WriteString(escape(string(l.line[:n])))
	l.line = append(l.line[:0], l.line[n:]...)
}

// start writes the number of the line, unless it was written.
func (l *lineWriter) start() {
	if l.open {
		return
	}
	l.open = true
	l.number++
	n := strconv.Itoa(l.number)
	l.out.WriteString(`<span id="L` + n + `"><a href="#L` + n + `" tabindex="-1" aria-label="Line ` + n + `"></a>`)
}

// end writes the rest of the line.
func (l *lineWriter) end() {
	long := l.open
	l.start()
	line := string(bytes.TrimRight(l.line, "\r"))
	if long {
		l.out.WriteString(escape(line))
	} else {
		l.scanner.Line(line, l.part)
	}
	l.out.WriteString("\n</span>")
	l.line, l.open = l.line[:0], false
}

// classes are the classes of elements by those of parts.
var classes = [...]string{highlight.Comment: "c", highlight.String: "s", highlight.Number: "n", highlight.Keyword: "k"}

// part writes a part of a line.
func (l *lineWriter) part(class highlight.Class, s string) {
	if class == highlight.Plain || l.coloured == 0 {
		l.out.WriteString(escape(s))
		return
	}
	l.coloured--
	l.out.WriteString(`<i class="` + classes[class] + `">` + escape(s) + `</i>`)
}

// last writes a line that the text ends without a line break, and passes on everything.
func (l *lineWriter) last() error {
	if l.open || len(l.line) > 0 {
		l.end()
	}
	return l.flush(1)
}

// flush passes on the text that is written so far, if it has at least that many bytes.
func (l *lineWriter) flush(least int) error {
	if l.out.Len() >= least {
		if !l.yield(template.HTML(l.out.String())) {
			return io.ErrClosedPipe // the template failed
		}
		l.out.Reset()
	}
	return nil
}
